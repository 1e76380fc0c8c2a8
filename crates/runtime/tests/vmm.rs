//! Virtual memory against a model of references, contents and overlap; and against queued tasks.

#![cfg(not(feature = "shuttle"))]

mod support;

use cairn_runtime::Runtime;
use cairn_runtime::error::Code;
use cairn_runtime::memory::vmm::{PAGE, Pages, PhysicalSpec, Place};
use cairn_runtime::memory::{AddressInfo, BlockKind};
use cairn_runtime::task::{Location, Span};
use proptest::prelude::*;
use std::collections::BTreeMap;
use support::*;

const DEVICE: Place = Place::Device(0);

fn spec(pages: u64) -> PhysicalSpec {
    PhysicalSpec { bytes: pages * PAGE, place: DEVICE, pages: Pages::Huge }
}

fn at(address: usize, bytes: usize) -> Span {
    Span { address, bytes, location: Location::Device(0) }
}

fn write(runtime: &Runtime, address: usize, value: u8) {
    runtime.shared.memory.perform(&fill(at(address, 64), value)).unwrap();
}

fn map(runtime: &Runtime, address: usize, bytes: u64, handle: usize) -> Result<(), Code> {
    let physical = runtime.physical(handle).map_err(|error| error.code)?;
    let vmm = runtime.shared.memory.vmm();
    vmm.map(address, bytes, &physical, true).map_err(|error| error.code)
}

#[derive(Clone, Debug)]
enum Step {
    Reserve(u64),
    Release(usize),
    Make(u64),
    Free(usize),
    /// Reservation, page in it, handle.
    Map(usize, u64, usize),
    Unmap(usize),
    Retain(usize),
    Write(usize, u8),
}

fn step() -> impl Strategy<Value = Step> {
    let any = any::<usize>;
    prop_oneof![
        2 => (1u64..5).prop_map(Step::Reserve),
        1 => any().prop_map(Step::Release),
        3 => (1u64..4).prop_map(Step::Make),
        2 => any().prop_map(Step::Free),
        5 => (any(), 0u64..5, any()).prop_map(|(r, page, h)| Step::Map(r, page, h)),
        3 => any().prop_map(Step::Unmap),
        1 => any().prop_map(Step::Retain),
        4 => (any(), 1u8..).prop_map(|(piece, value)| Step::Write(piece, value)),
    ]
}

/// What the program has, in the plainest way.
#[derive(Default)]
struct Model {
    /// Start to pages.
    reservations: BTreeMap<usize, u64>,
    /// Start to handle.
    pieces: BTreeMap<usize, usize>,
    /// Handle to pages, references of the program, and the first byte.
    physicals: BTreeMap<usize, (u64, u32, u8)>,
}

impl Model {
    fn maps(&self, handle: usize) -> usize {
        self.pieces.values().filter(|&&other| other == handle).count()
    }

    fn pages(&self, start: usize) -> u64 {
        self.physicals[&self.pieces[&start]].0
    }

    fn forget_unused(&mut self, handle: usize) {
        if self.physicals[&handle].1 == 0 && self.maps(handle) == 0 {
            self.physicals.remove(&handle);
        }
    }

    fn used(&self) -> u64 {
        self.physicals.values().map(|&(pages, ..)| pages * PAGE).sum()
    }

    fn overlaps(&self, start: usize, pages: u64) -> bool {
        let end = start + (pages * PAGE) as usize;
        self.pieces
            .keys()
            .any(|&other| start < other + (self.pages(other) * PAGE) as usize && other < end)
    }
}

fn pick<K: Copy, V>(map: &BTreeMap<K, V>, number: usize) -> Option<K> {
    map.keys().nth(number.checked_rem(map.len())?).copied()
}

fn run(runtime: &Runtime, model: &mut Model, step: &Step) {
    let vmm = runtime.shared.memory.vmm();
    match *step {
        Step::Reserve(pages) => {
            let start = vmm.reserve(pages * PAGE, None).unwrap();
            assert!((start as u64).is_multiple_of(PAGE));
            let end = start + (pages * PAGE) as usize;
            let clash = model
                .reservations
                .iter()
                .any(|(&other, &others)| start < other + (others * PAGE) as usize && other < end);
            assert!(!clash, "two reservations overlap");
            model.reservations.insert(start, pages);
        }
        Step::Release(number) => {
            let Some(start) = pick(&model.reservations, number) else { return };
            let end = start + (model.reservations[&start] * PAGE) as usize;
            let is_mapped = model.pieces.range(start..end).next().is_some();
            let released = vmm.release(start).map_err(|error| error.code);
            assert_eq!(released, if is_mapped { Err(Code::Driver) } else { Ok(()) });
            if !is_mapped {
                model.reservations.remove(&start);
                assert_eq!(vmm.release(start).unwrap_err().code, Code::RtParamInvalid);
            }
        }
        Step::Make(pages) => match runtime.make_physical(spec(pages)) {
            Ok(handle) => {
                assert!(model.physicals.insert(handle, (pages, 1, 0)).is_none());
            }
            Err(error) => {
                assert_eq!(error.code, Code::MemoryAllocation);
                assert!(model.used() + pages * PAGE > 64 * MIB, "{}", error.text);
            }
        },
        Step::Free(number) => {
            let Some(handle) = pick(&model.physicals, number) else { return };
            let holds = model.physicals[&handle].1;
            let freed = runtime.free_physical(handle).map_err(|error| error.code);
            assert_eq!(freed, if holds == 0 { Err(Code::InvalidHandle) } else { Ok(()) });
            if holds > 0 {
                model.physicals.get_mut(&handle).unwrap().1 -= 1;
                model.forget_unused(handle);
            }
        }
        Step::Map(reservation, page, number) => {
            let (Some(reservation), Some(handle)) =
                (pick(&model.reservations, reservation), pick(&model.physicals, number))
            else {
                return;
            };
            let (pages, holds, value) = model.physicals[&handle];
            let start = reservation + (page * PAGE) as usize;
            let end = start + (pages * PAGE) as usize;
            let fits = model
                .reservations
                .iter()
                .any(|(&first, &count)| first <= start && end <= first + (count * PAGE) as usize);
            let expected = match (holds, fits && !model.overlaps(start, pages)) {
                (0, _) => Err(Code::InvalidHandle),
                (_, false) => Err(Code::Driver),
                (_, true) => Ok(()),
            };
            assert_eq!(map(runtime, start, pages * PAGE, handle), expected);
            if expected.is_ok() {
                model.pieces.insert(start, handle);
                assert_eq!(bytes(at(start, 1))[0], value, "contents move with the handle");
            }
        }
        Step::Unmap(number) => {
            let Some(start) = pick(&model.pieces, number) else { return };
            if model.pages(start) > 1 {
                let inside = runtime.unmap(start + PAGE as usize).unwrap_err();
                assert_eq!(inside.code, Code::Driver);
            }
            let handle = model.pieces[&start];
            runtime.unmap(start).unwrap();
            model.pieces.remove(&start);
            model.forget_unused(handle);
            assert_eq!(runtime.unmap(start).unwrap_err().code, Code::Driver);
        }
        Step::Retain(number) => {
            let Some(start) = pick(&model.pieces, number) else { return };
            let handle = vmm.retain(start).unwrap().handle();
            assert_eq!(handle, model.pieces[&start]);
            model.physicals.get_mut(&handle).unwrap().1 += 1;
        }
        Step::Write(number, value) => {
            let Some(start) = pick(&model.pieces, number) else { return };
            write(runtime, start, value);
            model.physicals.get_mut(&model.pieces[&start]).unwrap().2 = value;
        }
    }
}

fn check(runtime: &Runtime, model: &Model) {
    let memory = &runtime.shared.memory;
    assert_eq!(memory.usage(0).live, model.used());
    assert_eq!(memory.usage(0).waiting, 0);
    for (&start, &handle) in &model.pieces {
        let (pages, holds, value) = model.physicals[&handle];
        assert_eq!(bytes(at(start, 1))[0], value);
        let piece = memory.vmm().piece(start + 7).unwrap();
        assert_eq!((piece.start, piece.bytes), (start, pages * PAGE));
        let physical = runtime.physical(handle).unwrap();
        let maps = model.maps(handle) as u32;
        assert_eq!(memory.vmm().references(&physical), Some((holds, maps)));
        let AddressInfo::Device(0, Some(run)) = memory.enclosing(start) else { panic!() };
        assert!(run.start <= start && run.kind == BlockKind::Mapped && run.live);
        assert!(run.start + run.bytes as usize >= start + (pages * PAGE) as usize);
    }
    for (&start, &pages) in &model.reservations {
        for page in 0..pages {
            let address = start + (page * PAGE) as usize;
            let is_mapped = model.overlaps(address, 1);
            assert_eq!(memory.enclosing(address) == AddressInfo::Unmapped, !is_mapped);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn virtual_memory_is_as_the_model_says(steps in proptest::collection::vec(step(), 1..60)) {
        let runtime = start_runtime(1, |_| ());
        runtime.set_device(0).unwrap();
        let mut model = Model::default();
        for step in &steps {
            run(&runtime, &mut model, step);
            check(&runtime, &model);
        }
        for start in model.pieces.keys().copied().collect::<Vec<_>>() {
            runtime.unmap(start).unwrap();
        }
        for (&handle, &(_, holds, _)) in &model.physicals {
            (0..holds).for_each(|_| runtime.free_physical(handle).unwrap());
            prop_assert!(runtime.physical(handle).is_err());
        }
        prop_assert_eq!(runtime.shared.memory.usage(0).live, 0);
    }
}

#[test]
fn an_unmap_keeps_the_memory_for_tasks_that_were_submitted_before() {
    let runtime = start_runtime(2, |_| ());
    runtime.set_device(0).unwrap();
    let (vmm, stream) = (runtime.shared.memory.vmm(), runtime.new_stream());
    let start = vmm.reserve(4 * PAGE, None).unwrap();
    let handle = runtime.make_physical(spec(2)).unwrap();
    map(&runtime, start, 2 * PAGE, handle).unwrap();
    write(&runtime, start, 7);
    let target = runtime.alloc(0, 64);
    let gate = Gate::default();
    stream.submit(gate.task()).unwrap();
    stream.submit(copy(at(start, 64), target)).unwrap();

    let (before, total) = runtime.shared.memory.info(0);
    runtime.unmap(start).unwrap();
    runtime.free_physical(handle).unwrap();
    assert_eq!(runtime.shared.memory.info(0), (before + 2 * PAGE, total), "free at once");
    assert_eq!(runtime.shared.memory.usage(0).waiting, 2 * PAGE);
    assert!(runtime.physical(handle).is_err() && vmm.piece(start).is_none());
    vmm.release(start).unwrap();
    assert_eq!(vmm.release(start).unwrap_err().code, Code::RtParamInvalid);
    let elsewhere = vmm.reserve(4 * PAGE, None).unwrap();
    assert_ne!(elsewhere, start, "its addresses wait with it");

    gate.open();
    stream.synchronize(None).unwrap();
    assert_eq!(bytes(target), [7; 64]);
    vmm.release_unmapped();
    assert_eq!(runtime.shared.memory.usage(0).waiting, 0);
    assert_eq!(vmm.reserve(PAGE, Some(start)).unwrap(), start, "its addresses are free again");
}

#[test]
fn a_map_waits_for_tasks_that_touch_what_was_there() {
    let runtime = start_runtime(2, |_| ());
    runtime.set_device(0).unwrap();
    let (vmm, stream) = (runtime.shared.memory.vmm(), runtime.new_stream());
    let start = vmm.reserve(2 * PAGE, None).unwrap();
    let handles = [0, 1].map(|_| runtime.make_physical(spec(1)).unwrap());
    map(&runtime, start, PAGE, handles[0]).unwrap();
    write(&runtime, start, 1);
    let target = runtime.alloc(0, 64);
    let gate = Gate::default();
    stream.submit(gate.task()).unwrap();
    stream.submit(copy(at(start, 64), target)).unwrap();
    runtime.unmap(start).unwrap();
    map(&runtime, start + PAGE as usize, PAGE, handles[1]).unwrap();
    std::thread::scope(|scope| {
        let mapping = scope.spawn(|| {
            map(&runtime, start, PAGE, handles[0]).unwrap();
            runtime.shared.memory.perform(&fill(at(start, 64), 9)).unwrap();
        });
        gate.open();
        mapping.join().unwrap();
    });
    stream.synchronize(None).unwrap();
    assert_eq!(bytes(target), [1; 64]);
    assert_eq!(bytes(at(start, 1)), [9]);
}

#[test]
fn a_task_may_touch_neighbouring_pieces_and_no_more() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let (vmm, stream) = (runtime.shared.memory.vmm(), runtime.new_stream());
    let start = vmm.reserve(8 * PAGE, None).unwrap();
    let handles = [0; 3].map(|_| runtime.make_physical(spec(1)).unwrap());
    for (page, handle) in [0usize, 2, 1].into_iter().zip(handles) {
        map(&runtime, start + page * PAGE as usize, PAGE, handle).unwrap();
    }
    stream.submit(fill(at(start, 3 * PAGE as usize), 5)).unwrap();
    runtime.synchronize(&stream, None).unwrap();
    assert_eq!(bytes(at(start + 3 * PAGE as usize - 1, 1)), [5]);
    stream.submit(fill(at(start, 3 * PAGE as usize + 1), 5)).unwrap();
    let error = runtime.synchronize(&stream, None).unwrap_err();
    assert!(error.text.contains("it leaves the mapped memory"), "{}", error.text);
    runtime.unmap(start + PAGE as usize).unwrap();
    stream.submit(fill(at(start + PAGE as usize, 8), 5)).unwrap();
    let error = runtime.synchronize(&stream, None).unwrap_err();
    assert!(error.text.contains("nothing is mapped there"), "{}", error.text);
    stream.submit(fill(at(start, PAGE as usize), 6)).unwrap();
    stream.submit(fill(at(start + 2 * PAGE as usize, PAGE as usize), 6)).unwrap();
    runtime.synchronize(&stream, None).unwrap();
}

#[test]
fn the_reset_of_a_device_ends_what_it_has() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let vmm = runtime.shared.memory.vmm();
    let start = vmm.reserve(2 * PAGE, None).unwrap();
    let (mapped, loose) =
        (runtime.make_physical(spec(1)).unwrap(), runtime.make_physical(spec(1)).unwrap());
    map(&runtime, start, PAGE, mapped).unwrap();
    runtime.reset_device(0, true).unwrap();
    assert_eq!(runtime.shared.memory.usage(0).live, 0);
    assert!(vmm.piece(start).is_none());
    for handle in [mapped, loose] {
        assert_eq!(runtime.free_physical(handle).unwrap_err().code, Code::InvalidHandle);
    }
    vmm.release(start).unwrap();
}

#[test]
fn reservations_may_be_larger_than_the_machine() {
    let runtime = start_runtime(1, |_| ());
    let vmm = runtime.shared.memory.vmm();
    let starts: Vec<_> = (0..40).map(|_| vmm.reserve(72 << 30, None).unwrap()).collect();
    assert!(starts.iter().all(|start| start % (1 << 30) == 0));
    let error = vmm.reserve(7 << 40, None).unwrap_err();
    assert_eq!(error.code, Code::MemoryAllocation);
    assert!(error.text.contains("8 TiB"), "{}", error.text);
    starts.into_iter().for_each(|start| vmm.release(start).unwrap());
}

/// Maps of the process that belong to virtual memory, and the kibibytes of shared memory it has resident.
fn footprint() -> (usize, u64) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let window = |line: &&str| {
        let start = usize::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
        cairn_runtime::memory::vmm::WINDOW.contains(&start)
    };
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let shared = status.lines().find_map(|line| line.strip_prefix("RssShmem:")).unwrap();
    let shared = shared.trim().trim_end_matches("kB").trim().parse().unwrap();
    (maps.lines().filter(window).count(), shared)
}

/// Numbers without order, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 8) as usize
    }
}

/// Reservations, memory, maps and unmaps in any order, with tasks queued on what is unmapped: in the end the process has
/// what it had.
#[test]
fn many_steps_leave_nothing_behind() {
    let is_deep = std::env::var("CAIRN_TESTS").is_ok_and(|depth| depth == "deep");
    let steps = if is_deep { 1_000_000 } else { 20_000 };
    let runtime = start_runtime(2, |_| ());
    runtime.set_device(0).unwrap();
    let (stream, before) = (runtime.new_stream(), footprint());
    let (mut model, mut numbers) = (Model::default(), Numbers(0x9e37_79b9_7f4a_7c15));
    for number in 0..steps {
        let any = numbers.next();
        let choice = match numbers.next() % 16 {
            0..2 if model.reservations.len() < 32 => Step::Reserve(any as u64 % 4 + 1),
            0..3 => Step::Release(any),
            3..6 if model.physicals.len() < 16 => Step::Make(any as u64 % 3 + 1),
            3..7 => Step::Free(any),
            7..11 => Step::Map(numbers.next(), any as u64 % 5, any >> 8),
            11..14 => Step::Unmap(any),
            14 => Step::Retain(any),
            _ => {
                let Some(start) = pick(&model.pieces, any) else { continue };
                let value = any as u8;
                stream.submit(fill(at(start, 64), value)).unwrap();
                model.physicals.get_mut(&model.pieces[&start]).unwrap().2 = value;
                continue;
            }
        };
        if matches!(choice, Step::Map(..)) {
            stream.synchronize(None).unwrap();
        }
        run(&runtime, &mut model, &choice);
        if number % 997 == 0 {
            stream.synchronize(None).unwrap();
            runtime.shared.memory.vmm().release_unmapped();
            check(&runtime, &model);
        }
    }
    for start in model.pieces.keys().copied().collect::<Vec<_>>() {
        runtime.unmap(start).unwrap();
    }
    for (&handle, &(_, holds, _)) in &model.physicals {
        (0..holds).for_each(|_| runtime.free_physical(handle).unwrap());
    }
    let vmm = runtime.shared.memory.vmm();
    model.reservations.keys().for_each(|&start| vmm.release(start).unwrap());
    runtime.synchronize(&stream, None).unwrap();
    vmm.release_unmapped();
    let usage = runtime.shared.memory.usage(0);
    assert_eq!((usage.live, usage.waiting), (0, 0));
    let after = footprint();
    // Other tests of this file run beside this one, and have memory of their own.
    assert!(after.0 <= before.0 + 256, "{before:?} became {after:?}");
    assert!(after.1 <= before.1 + (512 << 10), "{before:?} became {after:?}");
}
