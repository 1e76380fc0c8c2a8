//! Memory: allocate, free, copy, fill, query.

use crate::abi;
use crate::door::{self, Handle, entry, out_entry, runtime, write};
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::memory::raw::{Use, is_accessible};
use cairn_runtime::memory::request::{HugePageRequest, Request};
use cairn_runtime::memory::tlsf::GRANULE;
use cairn_runtime::memory::{AddressInfo, describe};
use cairn_runtime::soc;
use cairn_runtime::task::{Location, Span, Task};
use std::ffi::c_void;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// The most attributes of an allocation: one of each kind.
const MAX_ATTRIBUTES: usize = 4;
/// Bits of a policy that choose a kind of memory; there is one kind here.
const KIND_BITS: u32 = abi::ACL_MEM_TYPE_LOW_BAND_WIDTH
    | abi::ACL_MEM_TYPE_HIGH_BAND_WIDTH
    | abi::ACL_MEM_ACCESS_USER_SPACE_READONLY;

/// How an allocation function pads what the user asks.
#[derive(Clone, Copy, PartialEq)]
enum Padding {
    /// To a multiple of 32, and 32 more.
    Full,
    /// To a multiple of 32.
    To32,
    /// Not at all.
    Exact,
}

/// What a size and a policy ask of the arena. Unknown policies are as HUGE_FIRST. A size that overflows asks for more
/// than there is, padded or not.
fn request(size: u64, policy: u32, padding: Padding) -> Request<'static> {
    let policy = policy & !KIND_BITS;
    let (bytes, align, huge) =
        placement(size, policy, padding).unwrap_or((size, GRANULE, HugePageRequest::No));
    Request { align, huge, ..Request::bytes(bytes) }
}

/// Bytes, alignment and pages; `None` if the size overflows.
fn placement(size: u64, policy: u32, padding: Padding) -> Option<(u64, u64, HugePageRequest)> {
    let padded = match padding {
        Padding::Full if !is_1g(policy) => soc::padded(size)?,
        Padding::Exact => size,
        _ => soc::rounded(size)?,
    };
    Some(match policy {
        abi::ACL_MEM_MALLOC_NORMAL_ONLY | abi::ACL_MEM_MALLOC_NORMAL_ONLY_P2P => {
            (padded, GRANULE, HugePageRequest::No)
        }
        abi::ACL_MEM_MALLOC_HUGE_ONLY | abi::ACL_MEM_MALLOC_HUGE_ONLY_P2P => {
            (padded.checked_next_multiple_of(2 * MIB)?, 2 * MIB, HugePageRequest::Required)
        }
        _ if is_1g(policy) => {
            (padded.checked_next_multiple_of(GIB)?, GIB, HugePageRequest::Required)
        }
        _ if size >= 2 * MIB => (padded, 2 * MIB, HugePageRequest::Preferred),
        _ => (padded, GRANULE, HugePageRequest::No),
    })
}

fn is_1g(policy: u32) -> bool {
    matches!(policy, abi::ACL_MEM_MALLOC_HUGE1G_ONLY | abi::ACL_MEM_MALLOC_HUGE1G_ONLY_P2P)
}

fn allocate(
    size: usize,
    policy: u32,
    padding: Padding,
    config: *const abi::aclrtMallocConfig,
) -> Result<usize> {
    refuse_empty(size as u64)?;
    check_config(config)?;
    let runtime = runtime()?;
    let device = runtime.current_device()?;
    let address = runtime.shared.memory.allocate(device, request(size as u64, policy, padding))?;
    log::debug!("device {device} gave {size} bytes at {address:#x}");
    Ok(address)
}

/// Device memory as by `aclrtMalloc`, for an output without memory; the user frees it.
pub fn allocate_output(device: u32, size: usize) -> Result<usize> {
    let request = request(size as u64, abi::ACL_MEM_MALLOC_HUGE_FIRST, Padding::Full);
    runtime()?.shared.memory.allocate(device, request)
}

fn allocate_host(size: u64, config: *const abi::aclrtMallocConfig) -> Result<usize> {
    refuse_empty(size)?;
    check_config(config)?;
    let address = runtime()?.shared.memory.allocate_host(size)?;
    log::debug!("pinned memory gave {size} bytes at {address:#x}");
    Ok(address)
}

fn free(address: Handle) -> Result<()> {
    runtime()?.shared.memory.free(address as usize)?;
    log::debug!("device memory took back {address:p}");
    Ok(())
}

fn free_host(address: Handle) -> Result<()> {
    runtime()?.shared.memory.free_host(address as usize)?;
    log::debug!("pinned memory took back {address:p}");
    Ok(())
}

fn refuse_empty(size: u64) -> Result<()> {
    match size {
        0 => Err(Error::invalid("size 0: it must be positive")),
        _ => Ok(()),
    }
}

/// Checks the attributes of an allocation. They steer placement and statistics of real devices and
/// have no effect here.
fn check_config(config: *const abi::aclrtMallocConfig) -> Result<()> {
    if config.is_null() {
        return Ok(());
    }
    // SAFETY: not null; the user passes this struct.
    let config = unsafe { config.read() };
    if config.numAttrs > MAX_ATTRIBUTES {
        return Err(Error::invalid(format!(
            "cfg has {} attributes: there are {MAX_ATTRIBUTES} kinds",
            config.numAttrs
        )));
    }
    if config.numAttrs > 0 && config.attrs.is_null() {
        return Err(Error::invalid(format!(
            "cfg has {} attributes at a null address",
            config.numAttrs
        )));
    }
    for at in 0..config.numAttrs {
        // SAFETY: the user says that this many attributes are there.
        let kind = unsafe { config.attrs.add(at).read() }.attr;
        if kind > abi::ACL_RT_MEM_ATTR_VA_FLAG {
            return Err(Error::invalid(format!("attribute {kind} in cfg: expected 0 to 3")));
        }
    }
    Ok(())
}

out_entry! {
    /// Device memory.
    fn aclrtMalloc(dev_ptr = "devPtr", size: usize, policy: abi::aclrtMemMallocPolicy) {
        allocate(size, policy, Padding::Full, std::ptr::null())
    }

    /// Device memory, padded to 32 bytes only.
    fn aclrtMallocAlign32(dev_ptr = "devPtr", size: usize, policy: abi::aclrtMemMallocPolicy) {
        allocate(size, policy, Padding::To32, std::ptr::null())
    }

    /// Device memory that is cached, as all of it is here.
    fn aclrtMallocCached(dev_ptr = "devPtr", size: usize, policy: abi::aclrtMemMallocPolicy) {
        allocate(size, policy, Padding::Full, std::ptr::null())
    }

    /// Device memory, not padded.
    fn aclrtMallocWithCfg(
        dev_ptr = "devPtr", size: usize, policy: abi::aclrtMemMallocPolicy, cfg: *mut abi::aclrtMallocConfig,
    ) {
        allocate(size, policy, Padding::Exact, cfg)
    }

    /// Pinned host memory.
    fn aclrtMallocHost(host_ptr = "hostPtr", size: usize) {
        allocate_host(size as u64, std::ptr::null())
    }

    /// Pinned host memory.
    fn aclrtMallocHostWithCfg(ptr = "ptr", size: u64, cfg: *mut abi::aclrtMallocConfig) {
        allocate_host(size, cfg)
    }
}

entry! {
    /// Frees device memory. Does not wait.
    fn aclrtFree(dev_ptr: Handle) {
        door::not_null(dev_ptr, "devPtr")?;
        free(dev_ptr)
    }

    /// Frees device memory after all work of its device.
    fn aclrtFreeWithDevSync(dev_ptr: Handle) {
        door::not_null(dev_ptr, "devPtr")?;
        let runtime = runtime()?;
        if let AddressInfo::Device(id, _) = runtime.shared.memory.enclosing(dev_ptr as usize) {
            runtime.synchronize_device(runtime.device(i64::from(id))?, None)?;
        }
        free(dev_ptr)
    }

    /// Frees pinned host memory. Does not wait.
    fn aclrtFreeHost(host_ptr: Handle) {
        door::not_null(host_ptr, "hostPtr")?;
        free_host(host_ptr)
    }

    /// Frees pinned host memory after all work of the calling thread's device.
    fn aclrtFreeHostWithDevSync(host_ptr: Handle) {
        door::not_null(host_ptr, "hostPtr")?;
        let runtime = runtime()?;
        runtime.synchronize_device(runtime.device(i64::from(runtime.current_device()?))?, None)?;
        free_host(host_ptr)
    }

    /// Registers host memory of the user; devices see it at the same address.
    fn aclrtHostRegister(ptr: Handle, size: u64, kind: abi::aclrtHostRegisterType, dev_ptr: *mut Handle) {
        // SAFETY: null or valid for writes of the address.
        unsafe { write(dev_ptr, "devPtr", std::ptr::null_mut())? };
        if !matches!(kind, abi::ACL_HOST_REGISTER_MAPPED | abi::ACL_HOST_REGISTER_IOMEMORY | abi::ACL_HOST_REGISTER_READONLY) {
            let text = format!("register type {kind}: expected 0 (mapped), 4 (io memory) or 8 (read only)");
            return Err(Error::new(Code::FeatureNotSupport, text));
        }
        register(ptr, size, false)?;
        // SAFETY: not null; valid for writes of the address.
        unsafe { write(dev_ptr, "devPtr", ptr) }
    }

    /// Registers host memory of the user.
    fn aclrtHostRegisterV2(ptr: Handle, size: u64, flags: u32) {
        let known = abi::ACL_HOST_REG_MAPPED | abi::ACL_HOST_REG_IOMEMORY | abi::ACL_HOST_REG_READONLY | abi::ACL_HOST_REG_PINNED;
        if flags == 0 || flags & !known != 0 {
            return Err(Error::refused(format!("register flag {flags:#x}: expected a combination of {known:#x}")));
        }
        register(ptr, size, flags & abi::ACL_HOST_REG_PINNED != 0)
    }

    /// Ends a registration after the work that was queued before.
    fn aclrtHostUnregister(ptr: Handle) {
        door::not_null(ptr, "ptr")?;
        let runtime = runtime()?;
        if runtime.shared.memory.registered().find(ptr as usize).is_some_and(|(start, _)| start == ptr as usize) {
            runtime.drain(None);
        }
        runtime.shared.memory.registered().remove(ptr as usize)
    }

    /// Where devices see registered or pinned host memory: at the same address.
    fn aclrtHostGetDevicePointer(host: Handle, device: *mut Handle, flag: u32) {
        door::not_null(host, "pHost")?;
        door::not_null(device, "pDevice")?;
        if flag != 0 {
            return Err(Error::refused(format!("flag {flag}: it must be 0")));
        }
        match runtime()?.shared.memory.enclosing(host as usize) {
            AddressInfo::Registered(_) => {}
            AddressInfo::Pinned(Some(block)) if block.live => {}
            _ => {
                let what = describe(host as usize, &runtime()?.shared.memory.locate(host as usize));
                return Err(Error::new(Code::HostNotRegistered, format!("{host:p} is not registered: it is {what}")));
            }
        }
        // SAFETY: not null; valid for writes of the address.
        unsafe { write(device, "pDevice", host) }
    }

    /// Sets bytes, at once.
    fn aclrtMemset(ptr: Handle, max: usize, value: i32, count: usize) {
        if let Some(task) = fill("aclrtMemset", ptr, max, value, count)? {
            let runtime = runtime()?;
            runtime.current_context()?;
            runtime.perform(&task)?;
        }
        Ok(())
    }

    /// Sets bytes in stream order.
    fn aclrtMemsetAsync(ptr: Handle, max: usize, value: i32, count: usize, stream: Handle) {
        let runtime = runtime()?;
        let stream = runtime.stream(stream as usize)?;
        if let Some(task) = fill("aclrtMemsetAsync", ptr, max, value, count)? {
            stream.submit(task)?;
        }
        Ok(())
    }

    /// Copies, at once.
    fn aclrtMemcpy(dst: Handle, max: usize, src: *const c_void, count: usize, kind: abi::aclrtMemcpyKind) {
        if !checked_copy(dst, max, src, count, kind, abi::ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE)? {
            return Ok(());
        }
        let runtime = runtime()?;
        if kind != abi::ACL_MEMCPY_HOST_TO_HOST {
            runtime.current_context()?;
        }
        let (from, to) = spans(dst, src, count, (Location::Any, Location::Any));
        refuse_overlap(&from, &to)?;
        runtime.perform(&Task::copy("aclrtMemcpy", from, to))
    }

    /// Copies in stream order. With pageable host memory the copy is done on return.
    fn aclrtMemcpyAsync(dst: Handle, max: usize, src: *const c_void, count: usize, kind: abi::aclrtMemcpyKind, stream: Handle) {
        copy_async("aclrtMemcpyAsync", (dst, max), (src, count), kind, stream)
    }

    /// What an address is.
    fn aclrtPointerGetAttributes(ptr: *const c_void, attributes: *mut abi::aclrtPtrAttributes) {
        door::not_null(ptr, "ptr")?;
        let (id, kind, page) = match runtime()?.shared.memory.enclosing(ptr as usize) {
            AddressInfo::Device(id, Some(block)) if block.live => {
                (id, abi::ACL_MEM_LOCATION_TYPE_DEVICE, if block.huge { 2 << 20 } else { 4096 })
            }
            AddressInfo::Pinned(Some(block)) if block.live => (0, abi::ACL_MEM_LOCATION_TYPE_HOST, 4096),
            AddressInfo::Registered(_) => (0, abi::ACL_MEM_LOCATION_TYPE_HOST, 4096),
            _ => (0, abi::ACL_MEM_LOCATION_TYPE_UNREGISTERED, 0),
        };
        let answer = abi::aclrtPtrAttributes {
            location: abi::aclrtMemLocation { id, type_: kind },
            pageSize: page,
            rsv: [0; 4],
        };
        // SAFETY: null or valid for writes of the attributes.
        unsafe { write(attributes, "attributes", answer) }
    }
}

/// Copies in stream order: to an address with room for so many bytes, from an address so many. With pageable host memory the
/// copy is done on return.
pub fn copy_async(
    name: &'static str,
    (dst, max): (Handle, usize),
    (src, count): (*const c_void, usize),
    kind: u32,
    stream: Handle,
) -> Result<()> {
    let runtime = runtime()?;
    let stream = runtime.stream(stream as usize)?;
    if !checked_copy(dst, max, src, count, kind, abi::ACL_MEMCPY_INTER_DEVICE_TO_DEVICE)? {
        return Ok(());
    }
    let memory = &runtime.shared.memory;
    let stream_device = Location::Device(stream.spec.device);
    let locations = match kind {
        abi::ACL_MEMCPY_HOST_TO_HOST => (Location::Host, Location::Host),
        abi::ACL_MEMCPY_HOST_TO_DEVICE | abi::ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE => {
            (Location::Host, Location::AnyDevice)
        }
        abi::ACL_MEMCPY_DEVICE_TO_HOST => (Location::AnyDevice, Location::Host),
        abi::ACL_MEMCPY_DEFAULT => (Location::Any, Location::Any),
        _ => (stream_device, stream_device),
    };
    let (from, to) = spans(dst, src, count, locations);
    refuse_overlap(&from, &to)?;
    let (src_info, dst_info) = (memory.enclosing(from.address), memory.enclosing(to.address));
    for (argument, span, info) in [("src", &from, &src_info), ("dst", &to, &dst_info)] {
        refuse_wrong_side(kind, argument, span, info)?;
    }
    let pageable = src_info == AddressInfo::Foreign || dst_info == AddressInfo::Foreign;
    let task = Task::copy(name, from, to);
    if pageable { stream.submit_and_wait(task) } else { stream.submit(task).map(drop) }
}

/// Registers host memory of the user: ordinary memory, or a part of a block that is pinned, unless it is to be pinned by this.
fn register(ptr: Handle, size: u64, pins: bool) -> Result<()> {
    if ptr.is_null() {
        return Err(Error::refused("ptr is null"));
    }
    if size == 0 {
        return Err(Error::refused("size 0: it must be positive"));
    }
    let runtime = runtime()?;
    match runtime.shared.memory.enclosing(ptr as usize) {
        AddressInfo::Foreign if !is_accessible(ptr as usize, size as usize, Use::Read) => {
            Err(Error::refused(format!(
                "the range {ptr:p} of {size} bytes cannot be registered: no memory is there"
            )))
        }
        AddressInfo::Foreign | AddressInfo::Registered(_) => {
            runtime.shared.memory.registered().insert(ptr as usize, size as usize, false)
        }
        AddressInfo::Pinned(Some(block)) if block.live && pins => Err(Error::new(
            Code::HostAlreadyRegistered,
            format!("{ptr:p} is pinned already: register it without ACL_HOST_REG_PINNED"),
        )),
        AddressInfo::Pinned(Some(block))
            if block.live && size <= block.bytes - (ptr as usize - block.start) as u64 =>
        {
            runtime.shared.memory.registered().insert(ptr as usize, size as usize, true)
        }
        _ => {
            let what = describe(ptr as usize, &runtime.shared.memory.locate(ptr as usize));
            Err(Error::refused(format!("{ptr:p} cannot be registered: it is {what}")))
        }
    }
}

/// The task that fills memory; `None` when there is nothing to do.
fn fill(
    name: &'static str,
    ptr: Handle,
    max: usize,
    value: i32,
    count: usize,
) -> Result<Option<Task>> {
    if count == 0 {
        return Ok(None);
    }
    door::not_null(ptr, "devPtr")?;
    if count > max {
        return Err(Error::refused(format!("count {count} is more than maxCount {max}")));
    }
    let to = Span { address: ptr as usize, bytes: count, location: Location::Any };
    Ok(Some(Task::fill(name, to, value as u8)))
}

/// Checks the numbers of a copy; false when there is nothing to do.
pub fn checked_copy(
    dst: Handle,
    max: usize,
    src: *const c_void,
    count: usize,
    kind: u32,
    last: u32,
) -> Result<bool> {
    if count == 0 {
        return Ok(false);
    }
    door::not_null(dst, "dst")?;
    door::not_null(src, "src")?;
    if kind > last {
        return Err(Error::invalid(format!("copy kind {kind}: expected 0 to {last}")));
    }
    if count > max {
        return Err(Error::refused(format!("count {count} is more than destMax {max}")));
    }
    Ok(dst.cast_const() != src)
}

/// The ranges of a copy: source, destination.
fn spans(
    dst: Handle,
    src: *const c_void,
    count: usize,
    (from, to): (Location, Location),
) -> (Span, Span) {
    (
        Span { address: src as usize, bytes: count, location: from },
        Span { address: dst as usize, bytes: count, location: to },
    )
}

/// Fails for ranges that overlap.
fn refuse_overlap(from: &Span, to: &Span) -> Result<()> {
    let is_disjoint = from.address.abs_diff(to.address) >= from.bytes;
    match is_disjoint {
        true => Ok(()),
        false => Err(Error::refused(format!("source {from} and destination {to} overlap"))),
    }
}

/// Fails for an address on the other side than the copy kind says.
fn refuse_wrong_side(kind: u32, argument: &str, span: &Span, info: &AddressInfo) -> Result<()> {
    let wrong = match (span.location, info) {
        (Location::Host, AddressInfo::Device(..)) => "device memory, and the copy kind says host",
        (
            Location::Device(_) | Location::AnyDevice,
            AddressInfo::Pinned(_) | AddressInfo::Foreign,
        ) => "host memory, and the copy kind says device",
        _ => return Ok(()),
    };
    Err(Error::new(
        Code::RtParamInvalid,
        format!("{argument} {:#x} is {wrong} (kind {kind})", span.address),
    ))
}
