//! Attributes of loaded models: the priority of their own stream.

use super::table;
use crate::abi::*;
use crate::door::{entry, not_null, write};
use cairn_runtime::error::{Error, Result};
use cairn_runtime::worker::PRIORITIES;

fn expect_known(attr: aclmdlAttr) -> Result<()> {
    match attr {
        ACL_MDL_ATTR_PRIORITY_INT32 => Ok(()),
        _ => Err(Error::invalid(format!("attr = {attr}: only the priority (0) is supported"))),
    }
}

entry! {
    /// Sets the priority of later runs.
    fn aclmdlSetAttribute(id: u32, attr: aclmdlAttr, value: *mut aclmdlAttrValue_t) {
        not_null(value, "attrValue")?;
        expect_known(attr)?;
        // SAFETY: not null; the caller passes a value, whose first number this attribute is.
        let priority = unsafe { value.cast::<u32>().read_unaligned() };
        if priority as usize >= PRIORITIES {
            return Err(Error::invalid(format!("mdlPriority = {priority} is outside 0 to 7")));
        }
        table::find(id)?.set_priority(priority);
        Ok(())
    }

    /// The priority.
    fn aclmdlGetAttribute(id: u32, attr: aclmdlAttr, value: *mut aclmdlAttrValue_t) {
        not_null(value, "attrValue")?;
        expect_known(attr)?;
        let mut filled = aclmdlAttrValue_t { reserved: [0; 8] };
        filled.mdlPriority = table::find(id)?.priority();
        // SAFETY: not null; the caller passes room for a value.
        unsafe { write(value, "attrValue", filled) }
    }
}
