//! One input or output of a call by name: its description with its buffer.

use crate::data_buffer::Span;
use crate::door::runtime;
use crate::tensor_desc::{Description, copied};
use cairn_ops::Tensor;
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::memory::Located;
use cairn_runtime::record::{Mode, site};
use cairn_tensor::{DType, Dims, Format, Layout, MAX_DIMS};
use std::sync::Arc;

/// The formats whose elements lie in the order of their dimensions.
const PLAIN: [Format; 9] = [
    Format::UNDEFINED,
    Format::NCHW,
    Format::NHWC,
    Format::ND,
    Format::HWCN,
    Format::NDHWC,
    Format::NCDHW,
    Format::NC,
    Format::NCL,
];

/// The layout that a description describes; `None` while sizes are unknown. `what` is for texts.
pub fn layout(desc: &Description, what: &str) -> Result<Option<Layout>> {
    let format = desc.storage_format.unwrap_or(desc.format);
    if !PLAIN.contains(&format) {
        let text = format!("{what} lies in memory as {format}: only plain formats are supported");
        return Err(Error::new(Code::FeatureNotSupport, text));
    }
    if desc.dims.len() > MAX_DIMS {
        let rank = desc.dims.len();
        return Err(Error::invalid(format!("{what} has {rank} dimensions, more than {MAX_DIMS}")));
    }
    desc.size()?;
    let dims: Option<Dims> = match desc.dims.iter().all(|dim| *dim >= 0) {
        true => Some(desc.dims.iter().map(|dim| *dim as usize).collect()),
        false => None,
    };
    Ok(dims.map(|dims| Layout::contiguous(desc.dtype, &dims)))
}

/// An input, with its bytes if they lie on the host. `None` for one that is not there.
pub fn input(desc: &Description, buffer: Option<Span>, what: &str) -> Result<Option<Tensor>> {
    if desc.dtype == DType::Undefined {
        return Ok(None);
    }
    let Some(layout) = layout(desc, what)? else {
        let dims = &desc.dims;
        return Err(Error::invalid(format!(
            "{what} has the shape {dims:?}: it must be known to run"
        )));
    };
    if let Some(bytes) = &desc.constant {
        return constant(layout, bytes.as_slice().into(), what).map(Some);
    }
    let span = buffer.unwrap_or(Span { address: 0, length: 0 });
    fits(&layout, span, what)?;
    if desc.placement == crate::abi::ACL_MEMTYPE_DEVICE || span.address == 0 {
        return Ok(Some(Tensor::new(layout, span.address)));
    }
    host(layout, span, what).map(Some)
}

/// An input of which only host bytes may be looked at: for inference.
pub fn seen(desc: &Description, buffer: Option<Span>, what: &str) -> Result<Option<Tensor>> {
    if desc.dtype == DType::Undefined {
        return Ok(None);
    }
    let Some(layout) = layout(desc, what)? else {
        let dims = &desc.dims;
        return Err(Error::invalid(format!(
            "{what} has the shape {dims:?}: nothing follows from it"
        )));
    };
    if let Some(bytes) = &desc.constant {
        return constant(layout, bytes.as_slice().into(), what).map(Some);
    }
    match buffer {
        Some(span) if span.address != 0 && span.length >= layout.bytes() => {
            match runtime()?.shared.memory.enclosing(span.address) {
                Located::Device(..) => Ok(Some(Tensor::new(layout, span.address))),
                _ => host(layout, span, what).map(Some),
            }
        }
        _ => Ok(Some(Tensor::new(layout, 0))),
    }
}

fn fits(layout: &Layout, span: Span, what: &str) -> Result<()> {
    let wanted = layout.bytes();
    match span.length < wanted && span.address != 0 {
        true => Err(Error::invalid(format!(
            "{what} ({layout}) takes {wanted} bytes, its buffer has {}",
            span.length
        ))),
        false => Ok(()),
    }
}

fn host(layout: Layout, span: Span, what: &str) -> Result<Tensor> {
    // SAFETY: the user says that so many bytes are there; what cannot be read is found out first.
    let bytes = unsafe { copied(span.address as *const u8, layout.bytes(), what) }?;
    let entry = site::current().entry;
    runtime()?.tell_host_access(entry, span.address, layout.bytes(), Mode::Read);
    constant(layout, bytes.into(), what)
}

/// The address stands for the bytes until they are on the device.
fn constant(layout: Layout, bytes: Arc<[u8]>, what: &str) -> Result<Tensor> {
    if bytes.len() < layout.bytes() {
        let (have, wanted) = (bytes.len(), layout.bytes());
        return Err(Error::invalid(format!(
            "{what} ({layout}) takes {wanted} bytes, {have} are given"
        )));
    }
    let address = bytes.as_ptr() as usize;
    Ok(Tensor { layout, address, constant: Some(bytes) })
}
