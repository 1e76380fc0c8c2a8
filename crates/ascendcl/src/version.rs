//! Versions, the name of the SoC, the run mode.

use crate::abi::{self, aclCANNPackageVersion};
use crate::door::{self, entry, value_entry, write};
use crate::process;
use cairn_runtime::error::{Error, Result};
use std::ffi::{CString, c_char};
use std::sync::OnceLock;

/// The release of CANN that this stands in for, and of its driver.
const CANN: &str = "9.0.0";
const DRIVER: &str = "25.5.0";
/// The release of ACL: `aclrtGetVersion`.
const ACL: (i32, i32, i32) = (1, 17, 0);

/// Names by which packages are asked for.
const PACKAGES: [&str; 8] =
    ["cann", "runtime", "compiler", "hccl", "toolkit", "opp", "opp_kernel", "driver"];

fn version_of(package: usize) -> &'static str {
    if package == abi::ACL_PKG_NAME_DRIVER as usize { DRIVER } else { CANN }
}

fn package(name: &str) -> Result<usize> {
    let lowercase = name.to_ascii_lowercase();
    PACKAGES.iter().position(|p| *p == lowercase).ok_or_else(|| {
        Error::invalid(format!("no package is named {name}: there are {}", PACKAGES.join(", ")))
    })
}

/// A text in a field of C, cut off where it is too long.
fn fill<const N: usize>(text: &str) -> [c_char; N] {
    let mut field = [0; N];
    for (slot, byte) in field.iter_mut().zip(text.bytes().take(N - 1)) {
        *slot = byte as c_char;
    }
    field
}

entry! {
    /// The version of ACL.
    fn aclrtGetVersion(major: *mut i32, minor: *mut i32, patch: *mut i32) {
        // SAFETY: null or valid for writes of the numbers, as the header asks.
        unsafe {
            door::not_null(minor, "minorVersion")?;
            door::not_null(patch, "patchVersion")?;
            write(major, "majorVersion", ACL.0)?;
            write(minor, "minorVersion", ACL.1)?;
            write(patch, "patchVersion", ACL.2)
        }
    }

    /// The version of a package, in parts.
    fn aclsysGetCANNVersion(name: abi::aclCANNPackageName, version: *mut aclCANNPackageVersion) {
        if name as usize >= PACKAGES.len() {
            return Err(Error::invalid(format!("package {name}: expected 0 (CANN) to 7 (driver)")));
        }
        let text = version_of(name as usize);
        let mut parts = text.split('.');
        let filled = aclCANNPackageVersion {
            version: fill(text),
            majorVersion: fill(parts.next().unwrap_or("0")),
            minorVersion: fill(parts.next().unwrap_or("0")),
            releaseVersion: fill(parts.next().unwrap_or("0")),
            patchVersion: fill("0"),
            ..Default::default()
        };
        // SAFETY: null or valid for writes of the struct, as the header asks.
        unsafe { write(version, "version", filled) }
    }

    /// The version of a package as text, by name.
    fn aclsysGetVersionStr(pkg_name: *mut c_char, version: *mut c_char) {
        // SAFETY: null or a C string.
        let at = package(&unsafe { door::string(pkg_name, "pkgName") }?)?;
        door::not_null(version, "versionStr")?;
        let text: [c_char; 16] = fill(version_of(at));
        // SAFETY: the header asks for room for 128 bytes.
        unsafe { version.copy_from_nonoverlapping(text.as_ptr(), text.len()) };
        Ok(())
    }

    /// The version of a package as one number, by name: 90000000 is 9.0.0.
    fn aclsysGetVersionNum(pkg_name: *mut c_char, version: *mut i32) {
        // SAFETY: null or a C string.
        let at = package(&unsafe { door::string(pkg_name, "pkgName") }?)?;
        let parts = version_of(at).split('.').map(|part| part.parse().unwrap_or(0));
        let number = parts.zip([10_000_000, 100_000, 1000]).map(|(part, weight): (i32, i32)| part * weight).sum();
        // SAFETY: null or valid for writes of the number.
        unsafe { write(version, "versionNum", number) }
    }

    /// Where the program runs: on the host.
    fn aclrtGetRunMode(mode: *mut abi::aclrtRunMode) {
        // SAFETY: null or valid for writes of the mode.
        unsafe { write(mode, "runMode", abi::ACL_HOST) }
    }

    /// Whether the SoC has a feature.
    fn aclGetCannAttribute(attribute: abi::aclCannAttr, value: *mut i32) {
        if !ATTRIBUTES.contains(&attribute) {
            return Err(Error::invalid(format!("attribute {attribute}: expected 0 (INF_NAN) to 2 (JIT_COMPILE)")));
        }
        // SAFETY: null or valid for writes of the value.
        unsafe { write(value, "value", 1) }
    }

    /// The attributes that `aclGetCannAttribute` knows.
    fn aclGetCannAttributeList(list: *mut *const abi::aclCannAttr, count: *mut usize) {
        door::not_null(count, "num")?;
        // SAFETY: null or valid for writes of list and count.
        unsafe {
            write(list, "cannAttrList", ATTRIBUTES.as_ptr())?;
            write(count, "num", ATTRIBUTES.len())
        }
    }
}

static ATTRIBUTES: [abi::aclCannAttr; 3] =
    [abi::ACL_CANN_ATTR_INF_NAN, abi::ACL_CANN_ATTR_BF16, abi::ACL_CANN_ATTR_JIT_COMPILE];

value_entry! {
    /// The name of the SoC.
    fn aclrtGetSocName() -> *const c_char, else std::ptr::null(), {
        static NAME: OnceLock<CString> = OnceLock::new();
        let soc = process::config()?.soc.replace('\0', "");
        Ok(NAME.get_or_init(|| CString::new(soc).unwrap_or_default()).as_ptr())
    }
}
