//! What virtual memory refuses, who may touch what, and that what is touched stays.

#![cfg(not(feature = "shuttle"))]

mod support;

use cairn_runtime::Runtime;
use cairn_runtime::error::Code;
use cairn_runtime::memory::vmm::{PAGE, Pages, PhysicalSpec, Place};
use cairn_runtime::task::{Location, Span};
use support::*;

const DEVICE: Place = Place::Device(0);

fn start() -> TestRuntime {
    let runtime = start_runtime(2, |_| ());
    runtime.set_device(0).unwrap();
    runtime
}

fn make(runtime: &Runtime, bytes: u64, place: Place, pages: Pages) -> Result<usize, Code> {
    runtime.make_physical(PhysicalSpec { bytes, place, pages }).map_err(|error| error.code)
}

fn huge(runtime: &Runtime, pages: u64) -> usize {
    make(runtime, pages * PAGE, DEVICE, Pages::Huge).unwrap()
}

fn map(runtime: &Runtime, start: usize, bytes: u64, handle: usize) -> Result<(), Code> {
    map_as(runtime, start, bytes, handle, true)
}

fn map_as(
    runtime: &Runtime,
    start: usize,
    bytes: u64,
    handle: usize,
    is_visible: bool,
) -> Result<(), Code> {
    let physical = runtime.physical(handle).map_err(|error| error.code)?;
    let vmm = runtime.shared.memory.vmm();
    vmm.map(start, bytes, &physical, is_visible).map_err(|error| error.code)
}

fn at(address: usize, bytes: usize) -> Span {
    Span { address, bytes, location: Location::Device(0) }
}

#[test]
fn a_map_that_does_not_fit_is_refused_and_leaves_nothing() {
    let runtime = start();
    let vmm = runtime.shared.memory.vmm();
    let start = vmm.reserve(8 * PAGE, None).unwrap();
    let page = |number: usize| start + number * PAGE as usize;
    let handle = huge(&runtime, 2);
    let references = || vmm.references(&runtime.physical(handle).unwrap());
    for (start, bytes, code) in [
        (page(0), 3 * PAGE, Code::RtParamInvalid),
        (page(0), PAGE + 4096, Code::Driver),
        (page(0) + 4096, PAGE, Code::Driver),
        (page(7), 2 * PAGE, Code::Driver),
        (page(8), PAGE, Code::Driver),
        (page(0) - PAGE as usize, 2 * PAGE, Code::Driver),
    ] {
        assert_eq!(map(&runtime, start, bytes, handle), Err(code), "{bytes} at {start:#x}");
        assert_eq!(references(), Some((1, 0)));
    }
    map(&runtime, page(2), 2 * PAGE, handle).unwrap();
    let other = huge(&runtime, 2);
    // Over the second half of it, over the first one, over the whole and more.
    for start in [page(3), page(1), page(2)] {
        assert_eq!(map(&runtime, start, 2 * PAGE, other), Err(Code::Driver), "{start:#x}");
    }
    let all = huge(&runtime, 4);
    assert_eq!(map(&runtime, page(1), 4 * PAGE, all), Err(Code::Driver));
    // A part of it may be mapped, where there is room for that part.
    map(&runtime, page(1), PAGE, other).unwrap();
    assert_eq!(references(), Some((1, 1)));
    runtime.unmap(page(2)).unwrap();
    assert_eq!(references(), Some((1, 0)));
    assert_eq!(vmm.release(start).unwrap_err().code, Code::Driver, "one piece is left");
    runtime.unmap(page(1)).unwrap();
    vmm.release(start).unwrap();
    assert_eq!(map(&runtime, page(0), PAGE, handle), Err(Code::Driver));
}

#[test]
fn a_reservation_has_memory_of_one_place() {
    let runtime = start();
    let vmm = runtime.shared.memory.vmm();
    let start = vmm.reserve(4 * PAGE, None).unwrap();
    let places = [DEVICE, Place::Device(1), Place::Host];
    let handles = places.map(|place| make(&runtime, PAGE, place, Pages::Huge).unwrap());
    for (number, handle) in handles.into_iter().enumerate() {
        map(&runtime, start, PAGE, handle).unwrap();
        for (other, handle) in handles.into_iter().enumerate() {
            let at = start + 2 * PAGE as usize;
            let beside = map(&runtime, at, PAGE, handle);
            let expected = if other == number { Ok(()) } else { Err(Code::RtParamInvalid) };
            assert_eq!(beside, expected, "{} beside {}", places[other], places[number]);
            if expected.is_ok() {
                runtime.unmap(at).unwrap();
            }
        }
        runtime.unmap(start).unwrap();
    }
}

#[test]
fn physical_memory_comes_in_whole_pages_of_its_kind() {
    let runtime = start();
    let page = rustix::param::page_size() as u64;
    let granularity = PhysicalSpec::granularity;
    for is_minimum in [true, false] {
        assert_eq!(granularity(DEVICE, Pages::Normal, is_minimum), PAGE);
        assert_eq!(granularity(Place::Host, Pages::Huge, is_minimum), PAGE);
        assert_eq!(granularity(DEVICE, Pages::Huge1G, is_minimum), 1 << 30);
    }
    assert_eq!(granularity(Place::Host, Pages::Normal, true), page);
    assert_eq!(granularity(Place::Host, Pages::Normal, false), PAGE);
    for (bytes, place, pages) in [
        (0, DEVICE, Pages::Huge),
        (PAGE + page, DEVICE, Pages::Normal),
        (PAGE / 2, Place::Host, Pages::Huge),
        (page / 2, Place::Host, Pages::Normal),
        (PAGE, DEVICE, Pages::Huge1G),
    ] {
        assert_eq!(make(&runtime, bytes, place, pages), Err(Code::RtParamInvalid), "{bytes}");
    }
    make(&runtime, 3 * page, Place::Host, Pages::Normal).unwrap();
    assert_eq!(runtime.shared.memory.usage(0).live, 0);
}

#[test]
fn a_place_touches_a_piece_when_it_was_given_access() {
    let runtime = start();
    let (vmm, stream) = (runtime.shared.memory.vmm(), runtime.new_stream());
    let start = vmm.reserve(2 * PAGE, None).unwrap();
    let handle = huge(&runtime, 2);
    map_as(&runtime, start, 2 * PAGE, handle, false).unwrap();
    let references = || vmm.references(&runtime.physical(handle).unwrap());
    assert_eq!(references(), Some((1, 1)));
    let places = [DEVICE, Place::Device(1), Place::Host];
    let accesses = || places.map(|place| vmm.access(start + 7, place).unwrap());
    assert_eq!(accesses(), [false; 3]);
    stream.submit(fill(at(start, 64), 5)).unwrap();
    assert!(runtime.synchronize(&stream, None).is_err(), "nobody may touch it yet");
    let set = |start, bytes, places: &[Place]| {
        vmm.set_access(start, bytes, places).map_err(|error| error.code)
    };
    assert_eq!(set(start, PAGE, &[DEVICE]), Err(Code::Driver), "a part of it");
    assert_eq!(set(start + PAGE as usize, PAGE, &[DEVICE]), Err(Code::Driver));
    assert_eq!(set(start, 3 * PAGE, &[DEVICE]), Err(Code::Driver));
    assert_eq!(accesses(), [false; 3]);
    set(start, 2 * PAGE, &[DEVICE]).unwrap();
    assert_eq!(accesses(), [true, false, false]);
    stream.submit(fill(at(start, 64), 5)).unwrap();
    runtime.synchronize(&stream, None).unwrap();
    set(start, 2 * PAGE, &[Place::Host]).unwrap();
    assert_eq!(accesses(), [true, false, true]);
    set(start, 2 * PAGE, &[Place::Device(1)]).unwrap();
    assert_eq!(accesses(), [true; 3]);
    runtime.unmap(start).unwrap();
    assert_eq!((vmm.access(start, DEVICE), references()), (None, Some((1, 0))));
    // What was given belongs to that mapping, not to the memory.
    map(&runtime, start, 2 * PAGE, handle).unwrap();
    assert_eq!(accesses(), [true, false, false]);
    runtime.free_physical(handle).unwrap();
    runtime.unmap(start).unwrap();
    assert_eq!(runtime.shared.memory.usage(0).live, 0);
}

#[test]
fn a_queued_task_may_not_touch_what_it_might_not_when_it_was_submitted() {
    let runtime = start();
    let (vmm, stream) = (runtime.shared.memory.vmm(), runtime.new_stream());
    let start = vmm.reserve(PAGE, None).unwrap();
    map_as(&runtime, start, PAGE, huge(&runtime, 1), false).unwrap();
    let gate = Gate::default();
    stream.submit(gate.task()).unwrap();
    stream.submit(fill(at(start, 64), 5)).unwrap();
    runtime.unmap(start).unwrap();
    gate.open();
    let error = runtime.synchronize(&stream, None).unwrap_err();
    assert!(error.text.contains(&format!("{start:#x}")), "{}", error.text);
}

#[test]
fn nothing_is_mapped_in_a_reservation_that_was_given_back_and_waits() {
    let runtime = start();
    let (vmm, stream) = (runtime.shared.memory.vmm(), runtime.new_stream());
    let start = vmm.reserve(PAGE, None).unwrap();
    let (handle, gate) = (huge(&runtime, 1), Gate::default());
    map(&runtime, start, PAGE, handle).unwrap();
    stream.submit(gate.task()).unwrap();
    stream.submit(fill(at(start, 64), 5)).unwrap();
    runtime.unmap(start).unwrap();
    vmm.release(start).unwrap();
    assert_eq!(map(&runtime, start, PAGE, handle), Err(Code::Driver));
    gate.open();
    runtime.synchronize(&stream, None).unwrap();
}

#[test]
fn what_a_thread_touches_stays_until_it_is_done() {
    let runtime = start();
    let memory = &runtime.shared.memory;
    let start = memory.vmm().reserve(2 * PAGE, None).unwrap();
    let handle = huge(&runtime, 1);
    map(&runtime, start, PAGE, handle).unwrap();
    memory.perform(&fill(at(start, 64), 5)).unwrap();
    // A copy of a thread, which no stream knows.
    let touching = memory.vmm().view(None, &[at(start, 64)], &[]).unwrap();
    runtime.unmap(start).unwrap();
    runtime.free_physical(handle).unwrap();
    memory.vmm().release_unmapped();
    memory.vmm().release_untouched();
    let usage = memory.usage(0);
    assert_eq!((usage.live, usage.waiting), (0, PAGE));
    assert_eq!(bytes(at(start, 64)), [5; 64]);
    drop(touching);
    memory.vmm().release_unmapped();
    assert_eq!(memory.usage(0).waiting, 0);
}

#[test]
fn physical_memory_has_one_key_and_ends_it() {
    let runtime = start();
    let memory = &runtime.shared.memory;
    let handle = huge(&runtime, 1);
    let physical = runtime.physical(handle).unwrap();
    let key = memory.export_physical(&physical, true).unwrap();
    let again = memory.export_physical(&physical, true).unwrap_err();
    assert_eq!(again.code, Code::Driver);
    assert!(again.text.contains("exported before"), "{}", again.text);
    let kind = cairn_runtime::memory::sharing::SharedKind::Physical;
    memory.sharing().allow(key, kind, &[1]).unwrap();
    runtime.free_physical(handle).unwrap();
    assert_eq!(memory.sharing().allow(key, kind, &[2]).unwrap_err().code, Code::Driver);
    assert_eq!(memory.export_physical(&physical, true).unwrap_err().code, Code::InvalidHandle);
}

#[test]
fn a_handle_that_is_retained_ends_with_its_last_reference() {
    let runtime = start();
    let vmm = runtime.shared.memory.vmm();
    let start = vmm.reserve(2 * PAGE, None).unwrap();
    let handle = huge(&runtime, 1);
    map(&runtime, start, PAGE, handle).unwrap();
    assert_eq!(vmm.retain(start + PAGE as usize).err().unwrap().code, Code::Driver);
    assert_eq!(vmm.retain(start + 4096).err().unwrap().code, Code::Driver, "not its start");
    for _ in 0..2 {
        assert_eq!(vmm.retain(start).unwrap().handle(), handle);
    }
    runtime.unmap(start).unwrap();
    for left in [2, 1] {
        runtime.free_physical(handle).unwrap();
        let physical = runtime.physical(handle).unwrap();
        assert_eq!(vmm.references(&physical), Some((left, 0)));
        assert_eq!(runtime.shared.memory.usage(0).live, PAGE);
    }
    runtime.free_physical(handle).unwrap();
    assert!(runtime.physical(handle).is_err());
    assert_eq!(runtime.shared.memory.usage(0).live, 0);
}
