//! Virtual memory: addresses, physical memory, and what is mapped where.

use crate::abi;
use crate::door::{self, Handle, entry, out_entry, runtime, write};
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::memory::raw;
use cairn_runtime::memory::system_limits::has_numa_node;
use cairn_runtime::memory::vmm::{PAGE, Pages, PhysicalSpec, Place};

/// The most locations of one call.
const MAX_LOCATIONS: usize = 1024;

/// The pages that an attribute asks for; fails for one that physical memory does not have there.
fn pages(attribute: u32, place: Place) -> Result<Pages> {
    let is_host = place == Place::Host;
    match attribute {
        abi::ACL_HBM_MEM_NORMAL | abi::ACL_MEM_NORMAL | abi::ACL_MEM_P2P_NORMAL => {
            Ok(Pages::Normal)
        }
        abi::ACL_HBM_MEM_HUGE | abi::ACL_MEM_HUGE | abi::ACL_MEM_P2P_HUGE => Ok(Pages::Huge),
        abi::ACL_HBM_MEM_HUGE1G | abi::ACL_MEM_HUGE1G | abi::ACL_MEM_P2P_HUGE1G => {
            Ok(Pages::Huge1G)
        }
        abi::ACL_DDR_MEM_NORMAL | abi::ACL_DDR_MEM_P2P_NORMAL if is_host => Ok(Pages::Normal),
        abi::ACL_DDR_MEM_HUGE | abi::ACL_DDR_MEM_P2P_HUGE if is_host => Ok(Pages::Huge),
        _ => Err(Error::invalid(format!(
            "memAttr {attribute}: physical memory of {place} takes 4, 5, 10 and 12 to 17{}",
            if is_host { ", 2, 3, 6 and 7" } else { "" }
        ))),
    }
}

/// The attribute that is reported for such memory.
fn attribute(spec: &PhysicalSpec) -> u32 {
    match (spec.place, spec.pages) {
        (Place::Device(_), Pages::Normal) => abi::ACL_HBM_MEM_NORMAL,
        (Place::Device(_), Pages::Huge) => abi::ACL_HBM_MEM_HUGE,
        (Place::Device(_), Pages::Huge1G) => abi::ACL_HBM_MEM_HUGE1G,
        (Place::Host, Pages::Normal) => abi::ACL_MEM_NORMAL,
        (Place::Host, Pages::Huge) => abi::ACL_MEM_HUGE,
        (Place::Host, Pages::Huge1G) => abi::ACL_MEM_HUGE1G,
    }
}

fn place(location: &abi::aclrtMemLocation) -> Result<Place> {
    match location.type_ {
        abi::ACL_MEM_LOCATION_TYPE_DEVICE => {
            Ok(Place::Device(runtime()?.device(i64::from(location.id))?.id))
        }
        abi::ACL_MEM_LOCATION_TYPE_HOST if location.id == 0 => Ok(Place::Host),
        abi::ACL_MEM_LOCATION_TYPE_HOST => {
            Err(Error::refused(format!("location id {}: it must be 0 on the host", location.id)))
        }
        abi::ACL_MEM_LOCATION_TYPE_HOST_NUMA if has_numa_node(location.id) => Ok(Place::Host),
        abi::ACL_MEM_LOCATION_TYPE_HOST_NUMA => {
            Err(Error::refused(format!("location id {}: the host has no such node", location.id)))
        }
        other => Err(Error::invalid(format!(
            "location type {other}: expected 0 (host), 1 (device) or 4 (a node of the host)"
        ))),
    }
}

fn location(place: Place) -> abi::aclrtMemLocation {
    match place {
        Place::Device(id) => abi::aclrtMemLocation { id, type_: abi::ACL_MEM_LOCATION_TYPE_DEVICE },
        Place::Host => abi::aclrtMemLocation { id: 0, type_: abi::ACL_MEM_LOCATION_TYPE_HOST },
    }
}

/// What physical memory is to be; without a size.
///
/// # Safety
/// `properties` is null or points to the struct.
unsafe fn spec(properties: *const abi::aclrtPhysicalMemProp) -> Result<PhysicalSpec> {
    door::not_null(properties, "prop")?;
    // SAFETY: not null; the user passes this struct.
    let properties = unsafe { properties.read_unaligned() };
    if properties.handleType != abi::ACL_MEM_HANDLE_TYPE_NONE {
        return Err(Error::invalid(format!(
            "handleType {}: it must be 0 (none)",
            properties.handleType
        )));
    }
    if properties.allocationType != abi::ACL_MEM_ALLOCATION_TYPE_PINNED {
        return Err(Error::invalid(format!(
            "allocationType {}: it must be 0 (pinned)",
            properties.allocationType
        )));
    }
    let place = place(&properties.location)?;
    let pages = pages(properties.memAttr, place)?;
    if properties.reserve != 0 {
        return Err(Error::refused(format!("prop.reserve {}: it must be 0", properties.reserve)));
    }
    Ok(PhysicalSpec { bytes: 0, place, pages })
}

fn reserve(size: usize, alignment: usize, expected: Handle, flags: u64) -> Result<usize> {
    if size == 0 {
        return Err(Error::invalid("size 0: it must be positive"));
    }
    if flags > 1 {
        return Err(Error::invalid(format!("flags {flags}: expected 0 or 1")));
    }
    if alignment != 0 {
        return Err(Error::refused(format!("alignment {alignment}: it must be 0")));
    }
    let expected = Some(expected as usize).filter(|&address| address != 0);
    if let Some(address) = expected.filter(|address| !address.is_multiple_of(PAGE as usize)) {
        return Err(Error::refused(format!(
            "expectPtr {address:#x}: it must be a multiple of {PAGE}"
        )));
    }
    runtime()?.shared.memory.vmm().reserve(size as u64, expected)
}

fn map(
    address: Handle,
    size: usize,
    offset: usize,
    handle: Handle,
    flags: u64,
    is_visible: bool,
) -> Result<()> {
    door::not_null(address, "virPtr")?;
    door::not_null(handle, "handle")?;
    if size == 0 {
        return Err(Error::invalid("size 0: it must be positive"));
    }
    if flags != 0 {
        return Err(Error::invalid(format!("flags {flags}: it must be 0")));
    }
    if offset != 0 {
        return Err(Error::refused(format!("offset {offset}: it must be 0")));
    }
    let runtime = runtime()?;
    let physical = runtime.physical(handle as usize)?;
    runtime.shared.memory.vmm().map(address as usize, size as u64, &physical, is_visible)
}

out_entry! {
    /// Reserves addresses. They are no device's, so the thread needs none.
    fn aclrtReserveMemAddress(address = "virPtr", size: usize, alignment: usize, expected: Handle, flags: u64) {
        reserve(size, alignment, expected, flags)
    }

    /// Addresses without uncached memory; A3 only.
    fn aclrtReserveMemAddressNoUCMemory(address = "virPtr", size: usize, alignment: usize, expected: Handle, flags: u64) {
        let _ = (size, alignment, expected, flags);
        Err(Error::new(Code::FeatureNotSupport, "Cairn has no such addresses: only Atlas A3 has; use aclrtReserveMemAddress"))
    }

    /// Physical memory.
    fn aclrtMallocPhysical(handle = "handle", size: usize, properties: *const abi::aclrtPhysicalMemProp, flags: u64) {
        if size == 0 {
            return Err(Error::invalid("size 0: it must be positive"));
        }
        if flags != 0 {
            return Err(Error::invalid(format!("flags {flags}: it must be 0")));
        }
        let spec = spec(properties)?;
        let runtime = runtime()?;
        runtime.current_context()?;
        runtime.make_physical(PhysicalSpec { bytes: size as u64, ..spec })
    }
}

entry! {
    /// Gives a reservation back.
    fn aclrtReleaseMemAddress(address: Handle) {
        door::not_null(address, "virPtr")?;
        runtime()?.shared.memory.vmm().release(address as usize)
    }

    /// Gives one reference to physical memory back.
    fn aclrtFreePhysical(handle: Handle) {
        door::not_null(handle, "handle")?;
        runtime()?.free_physical(handle as usize)
    }

    /// Puts physical memory at an address.
    fn aclrtMapMem(address: Handle, size: usize, offset: usize, handle: Handle, flags: u64) {
        map(address, size, offset, handle, flags, true)
    }

    /// The same; no device may touch it yet.
    fn aclrtMemMapNoAccess(address: Handle, size: usize, offset: usize, handle: Handle, flags: u64) {
        map(address, size, offset, handle, flags, false)
    }

    /// Takes physical memory from an address.
    fn aclrtUnmapMem(address: Handle) {
        door::not_null(address, "virPtr")?;
        runtime()?.unmap(address as usize)
    }

    /// Lets devices, or the host, touch a mapped piece.
    fn aclrtMemSetAccess(address: Handle, size: usize, descriptions: *mut abi::aclrtMemAccessDesc, count: usize) {
        door::not_null(address, "virPtr")?;
        door::not_null(descriptions, "desc")?;
        if size == 0 {
            return Err(Error::invalid("size 0: it must be positive"));
        }
        if count == 0 || count > MAX_LOCATIONS {
            return Err(Error::refused(format!("count {count}: expected 1 to {MAX_LOCATIONS}")));
        }
        // SAFETY: the user says that so many structs are there.
        let descriptions = unsafe { raw::copy_array(descriptions, count, "desc")? };
        let mut places = Vec::with_capacity(count);
        for (index, description) in descriptions.iter().enumerate() {
            if description.flags != abi::ACL_RT_MEM_ACCESS_FLAGS_READWRITE {
                let text = format!("desc[{index}].flags {}: only 3 (read and write) is supported", description.flags);
                return Err(Error::new(Code::FeatureNotSupport, text));
            }
            let place = place(&description.location)?;
            if places.contains(&place) {
                return Err(Error::refused(format!("desc[{index}] names {place} a second time")));
            }
            places.push(place);
        }
        runtime()?.shared.memory.vmm().set_access(address as usize, size as u64, &places)
    }

    /// Whether a device, or the host, may touch a mapped piece.
    fn aclrtMemGetAccess(address: Handle, at: *mut abi::aclrtMemLocation, flag: *mut u64) {
        door::not_null(address, "virPtr")?;
        door::not_null(at, "location")?;
        door::not_null(flag, "flag")?;
        // SAFETY: not null; the user passes this struct.
        let place = place(&unsafe { at.read_unaligned() })?;
        let access = runtime()?.shared.memory.vmm().access(address as usize, place);
        let access = access.ok_or_else(|| {
            Error::new(Code::Driver, format!("nothing is mapped at {address:p}"))
        })?;
        let answer = if access { abi::ACL_RT_MEM_ACCESS_FLAGS_READWRITE } else { abi::ACL_RT_MEM_ACCESS_FLAGS_NONE };
        // SAFETY: not null; valid for writes of the flag.
        unsafe { write(flag, "flag", u64::from(answer)) }
    }

    /// Sizes of physical memory are multiples of this.
    fn aclrtMemGetAllocationGranularity(properties: *mut abi::aclrtPhysicalMemProp, option: abi::aclrtMemGranularityOptions, granularity: *mut usize) {
        door::not_null(granularity, "granularity")?;
        // SAFETY: null or the user's struct.
        let spec = unsafe { spec(properties)? };
        let is_minimum = match option {
            abi::ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM => true,
            abi::ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED => false,
            other => return Err(Error::new(Code::FeatureNotSupport, format!("option {other}: expected 0 (minimum) or 1 (recommended)"))),
        };
        let bytes = PhysicalSpec::granularity(spec.place, spec.pages, is_minimum);
        // SAFETY: not null; valid for writes of the size.
        unsafe { write(granularity, "granularity", bytes as usize) }
    }

    /// The handle of what is mapped at an address.
    fn aclrtMemRetainAllocationHandle(address: Handle, handle: *mut Handle) {
        door::not_null(address, "virPtr")?;
        door::not_null(handle, "handle")?;
        let physical = runtime()?.shared.memory.vmm().retain(address as usize)?;
        // SAFETY: not null; valid for writes of the handle.
        unsafe { write(handle, "handle", physical.handle() as Handle) }
    }

    /// What physical memory was made as.
    fn aclrtMemGetAllocationPropertiesFromHandle(handle: Handle, properties: *mut abi::aclrtPhysicalMemProp) {
        door::not_null(handle, "handle")?;
        door::not_null(properties, "prop")?;
        let physical = runtime()?.physical(handle as usize)?;
        if !physical.has_properties {
            return Err(Error::new(Code::FeatureNotSupport, format!("{handle:p} was imported: its properties are those of another process")));
        }
        let answer = abi::aclrtPhysicalMemProp {
            handleType: abi::ACL_MEM_HANDLE_TYPE_NONE,
            allocationType: abi::ACL_MEM_ALLOCATION_TYPE_PINNED,
            memAttr: attribute(&physical.spec),
            location: location(physical.spec.place),
            reserve: 0,
        };
        // SAFETY: not null; valid for writes of the struct.
        unsafe { write(properties, "prop", answer) }
    }

    /// First byte and size of what an address lies in.
    fn aclrtMemGetAddressRange(ptr: Handle, base: *mut Handle, size: *mut usize) {
        door::not_null(ptr, "ptr")?;
        door::not_null(base, "pbase")?;
        door::not_null(size, "psize")?;
        let (start, bytes) = runtime()?.address_range(ptr as usize)?;
        // SAFETY: not null; valid for writes of address and size.
        unsafe {
            write(base, "pbase", start as Handle)?;
            write(size, "psize", bytes as usize)
        }
    }
}
