//! Virtual memory against a model of references, contents and overlap; and against queued tasks.

#![cfg(not(feature = "shuttle"))]

mod support;

use cairn_runtime::Runtime;
use cairn_runtime::error::Code;
use cairn_runtime::memory::vmm::{PAGE, Pages, PhysicalSpec, Place};
use cairn_runtime::memory::{AddressInfo, BlockKind};
use cairn_runtime::stream::Stream;
use cairn_runtime::task::{Body, Location, Span, Task, Work};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
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
    assert_ne!(elsewhere, start, "its addresses wait with it, where others are as good");

    gate.open();
    stream.synchronize(None).unwrap();
    assert_eq!(bytes(target), [7; 64]);
    vmm.release_unmapped();
    assert_eq!(runtime.shared.memory.usage(0).waiting, 0);
    assert_eq!(vmm.reserve(PAGE, Some(start)).unwrap(), start, "its addresses are free again");
}

/// A runtime, a stream, `pages` of addresses, and handles of a page each whose bytes are 1, 2, ..
struct Pieces {
    runtime: TestRuntime,
    stream: Arc<Stream>,
    start: usize,
    handles: Vec<usize>,
}

impl Pieces {
    fn new(pages: u64, handles: u8) -> Pieces {
        Pieces::of(start_runtime(2, |_| ()), pages, handles)
    }

    fn of(runtime: TestRuntime, pages: u64, handles: u8) -> Pieces {
        runtime.set_device(0).unwrap();
        let start = runtime.shared.memory.vmm().reserve(pages * PAGE, None).unwrap();
        let stream = runtime.new_stream();
        let handles = (1..=handles).map(|value| {
            let handle = runtime.make_physical(spec(1)).unwrap();
            map(&runtime, start, PAGE, handle).unwrap();
            runtime.shared.memory.perform(&fill(at(start, PAGE as usize), value)).unwrap();
            runtime.unmap(start).unwrap();
            handle
        });
        let handles = handles.collect();
        Pieces { runtime, stream, start, handles }
    }

    fn page(&self, number: usize) -> usize {
        self.start + number * PAGE as usize
    }

    fn map(&self, page: usize, handle: usize) {
        map(&self.runtime, self.page(page), PAGE, self.handles[handle]).unwrap();
    }

    /// Closes the stream with a gate.
    fn gate(&self) -> Gate {
        let gate = Gate::default();
        self.stream.submit(gate.task()).unwrap();
        gate
    }
}

#[test]
fn a_map_takes_the_place_of_what_queued_tasks_see_without_waiting_for_them() {
    let pieces = Pieces::new(2, 2);
    let (runtime, stream) = (&pieces.runtime, &pieces.stream);
    pieces.map(0, 0);
    let target = runtime.alloc(0, 64);
    let gate = pieces.gate();
    stream.submit(copy(at(pieces.start, 64), target)).unwrap();
    stream.submit(fill(at(pieces.start + 64, 64), 9)).unwrap();
    runtime.unmap(pieces.start).unwrap();
    pieces.map(0, 1);
    assert_eq!(bytes(at(pieces.start, 1)), [2], "at once, on the thread that opens the gate");
    stream.submit(fill(at(pieces.start, 64), 3)).unwrap();
    pieces.map(1, 0);
    gate.open();
    runtime.synchronize(stream, None).unwrap();
    assert_eq!(bytes(target), [1; 64]);
    assert_eq!(bytes(at(pieces.start + 62, 4)), [3, 3, 2, 2]);
    assert_eq!(bytes(at(pieces.page(1) + 62, 4)), [1, 1, 9, 9]);
}

/// A function of the runtime that fills a range.
struct FillWork(Arc<cairn_runtime::shared::Shared>, Span);

impl Work for FillWork {
    fn run(&self) -> cairn_runtime::error::Result<()> {
        self.0.memory.perform(&fill(self.1, 4))
    }
}

#[test]
fn a_queued_function_of_the_runtime_sees_what_was_mapped_when_it_was_submitted() {
    let pieces = Pieces::new(1, 2);
    let (runtime, stream) = (&pieces.runtime, &pieces.stream);
    pieces.map(0, 0);
    let gate = pieces.gate();
    let work = Arc::new(FillWork(runtime.shared.clone(), at(pieces.start, 64)));
    stream.submit(Task::bare("work", Body::Work(work.clone()))).unwrap();
    runtime.unmap(pieces.start).unwrap();
    stream.submit(Task::bare("late work", Body::Work(work))).unwrap();
    pieces.map(0, 1);
    gate.open();
    runtime.synchronize(stream, None).unwrap();
    assert_eq!(bytes(at(pieces.start, 65))[63..], [4, 2], "the late one found the new memory");
    runtime.unmap(pieces.start).unwrap();
    pieces.map(0, 0);
    assert_eq!(bytes(at(pieces.start, 65))[63..], [4, 1]);
}

#[test]
fn a_queued_task_sees_pieces_side_by_side_some_of_which_were_replaced() {
    let pieces = Pieces::new(4, 5);
    let (runtime, stream) = (&pieces.runtime, &pieces.stream);
    (0..4).for_each(|number| pieces.map(number, number));
    let all = runtime.alloc(0, 3 * PAGE);
    let gate = pieces.gate();
    stream.submit(copy(at(pieces.page(0) + PAGE as usize / 2, 3 * PAGE as usize), all)).unwrap();
    let (low, high) = (at(pieces.page(1) - 20, 30), at(pieces.page(1) - 10, 30));
    stream.submit(copy(low, high)).unwrap();
    runtime.unmap(pieces.page(1)).unwrap();
    runtime.unmap(pieces.page(3)).unwrap();
    pieces.map(1, 4);
    gate.open();
    runtime.synchronize(stream, None).unwrap();
    let seen = bytes(all);
    let half = PAGE as usize / 2;
    for (number, value) in [(0, 1), (half, 2), (3 * half, 3), (5 * half, 4)] {
        assert_eq!(seen[number], value);
    }
    runtime.unmap(pieces.page(1)).unwrap();
    pieces.map(1, 1);
    assert_eq!(bytes(at(pieces.page(1) - 12, 24))[..], [[1; 22].as_slice(), &[2; 2]].concat()[..]);
    assert_eq!(bytes(at(pieces.page(1) + 10, 12))[..], [2; 12]);
}

#[test]
fn work_that_is_submitted_after_an_unmap_is_refused_while_older_work_goes_on() {
    let pieces = Pieces::new(2, 2);
    let (runtime, stream) = (&pieces.runtime, &pieces.stream);
    pieces.map(0, 0);
    let (old, new) = (runtime.alloc(0, 64), runtime.alloc(0, 64));
    let other = runtime.new_stream();
    let gate = pieces.gate();
    stream.submit(copy(at(pieces.start, 64), old)).unwrap();
    runtime.unmap(pieces.start).unwrap();
    stream.submit(copy(at(pieces.start, 64), new)).unwrap();
    other.submit(fill(at(pieces.start + 8, 8), 5)).unwrap();
    let error = runtime.synchronize(&other, None).unwrap_err();
    let named = format!("destination range {:#x}", pieces.start + 8);
    assert!(
        error.text.contains(&named) && error.text.contains("nothing is mapped there"),
        "{}",
        error.text
    );
    let of_thread = runtime.shared.memory.perform(&fill(at(pieces.start, 8), 5)).unwrap_err();
    assert!(of_thread.text.contains("nothing is mapped there"), "{}", of_thread.text);
    gate.open();
    let error = runtime.synchronize(stream, None).unwrap_err();
    assert!(error.text.contains(&format!("source range {:#x}", pieces.start)), "{}", error.text);
    assert_eq!(bytes(old), [1; 64]);
}

#[test]
fn a_host_function_maps_where_its_own_stream_has_work_queued() {
    let pieces = Pieces::new(1, 2);
    let (runtime, stream) = (&pieces.runtime, &pieces.stream);
    pieces.map(0, 0);
    let target = runtime.alloc(0, 64);
    let shared = runtime.shared.clone();
    let (start, handle) = (pieces.start, runtime.physical(pieces.handles[1]).unwrap());
    let unmapped = Gate::default();
    let until = unmapped.clone();
    stream
        .submit(host_task(move || {
            until.wait();
            shared.memory.vmm().map(start, PAGE, &handle, true).is_ok()
        }))
        .unwrap();
    stream.submit(copy(at(start, 64), target)).unwrap();
    runtime.unmap(start).unwrap();
    unmapped.open();
    runtime.synchronize(stream, None).unwrap();
    assert_eq!((bytes(target), bytes(at(start, 1))), (vec![1; 64], vec![2]));
}

/// Gates that open when a message with a text is logged.
static LOGGED: Mutex<Vec<(String, Gate)>> = Mutex::new(Vec::new());

fn open_when_logged(text: String, gate: &Gate) {
    struct Opener;
    impl log::Log for Opener {
        fn enabled(&self, _: &log::Metadata<'_>) -> bool {
            true
        }

        fn log(&self, record: &log::Record<'_>) {
            let message = record.args().to_string();
            let gates = LOGGED.lock().unwrap();
            gates
                .iter()
                .filter(|(text, _)| message.contains(text))
                .for_each(|(_, gate)| gate.open());
        }

        fn flush(&self) {}
    }
    LOGGED.lock().unwrap().push((text, gate.clone()));
    if log::set_logger(&Opener).is_ok() {
        log::set_max_level(log::LevelFilter::Warn);
    }
}

#[test]
fn a_map_waits_for_a_task_that_touches_the_place_at_that_moment() {
    // The map says at once that it waits.
    let runtime = start_runtime(2, |config| config.callback_limits.log = Duration::ZERO);
    let pieces = Pieces::of(runtime, 1, 2);
    let (runtime, stream) = (&pieces.runtime, &pieces.stream);
    pieces.map(0, 0);
    let (running, gate) = (Gate::default(), Gate::default());
    let (begun, until) = (running.clone(), gate.clone());
    stream
        .submit(exchange(at(pieces.start, 64), move || {
            begun.open();
            until.wait();
            true
        }))
        .unwrap();
    running.wait();
    runtime.unmap(pieces.start).unwrap();
    open_when_logged(format!("touches what was unmapped at {:#x}", pieces.start), &gate);
    pieces.map(0, 1);
    let has_waited = gate.is_open();
    gate.open();
    runtime.synchronize(stream, None).unwrap();
    assert!(has_waited, "the map did not wait for the task");
    assert_eq!(bytes(at(pieces.start, 64)), [2; 64]);
    runtime.unmap(pieces.start).unwrap();
    pieces.map(0, 0);
    assert_eq!(bytes(at(pieces.start + 63, 2)), [7, 1]);
}

#[test]
fn addresses_that_were_released_are_had_again_while_tasks_see_what_was_there() {
    let pieces = Pieces::new(2, 2);
    let (runtime, stream) = (&pieces.runtime, &pieces.stream);
    let vmm = runtime.shared.memory.vmm();
    pieces.map(0, 0);
    let target = runtime.alloc(0, 64);
    let gate = pieces.gate();
    stream.submit(copy(at(pieces.start, 64), target)).unwrap();
    runtime.unmap(pieces.start).unwrap();
    vmm.release(pieces.start).unwrap();
    assert_eq!(vmm.reserve(PAGE, Some(pieces.start)).unwrap(), pieces.start);
    pieces.map(0, 1);
    gate.open();
    runtime.synchronize(stream, None).unwrap();
    assert_eq!((bytes(target), bytes(at(pieces.start, 1))), (vec![1; 64], vec![2]));
}

#[test]
fn memory_that_no_queued_task_names_is_had_again_while_a_host_function_blocks() {
    let runtime = start_runtime(2, |_| ());
    runtime.set_device(0).unwrap();
    let stream = runtime.new_stream();
    let gate = Gate::default();
    stream.submit(gate.task()).unwrap();
    let start = runtime.shared.memory.vmm().reserve(32 * PAGE, None).unwrap();
    for _ in 0..3 {
        let handle = runtime.make_physical(spec(24)).unwrap();
        map(&runtime, start, 24 * PAGE, handle).unwrap();
        runtime.unmap(start).unwrap();
        runtime.free_physical(handle).unwrap();
    }
    gate.open();
    stream.synchronize(None).unwrap();
}

#[derive(Clone, Debug)]
enum QueuedStep {
    Map(usize, usize),
    Unmap(usize),
    Fill(usize, u8),
    Copy(usize),
    Across(usize),
    Wrong(usize),
    Open,
}

fn queued_step() -> impl Strategy<Value = QueuedStep> {
    let page = 0..5usize;
    prop_oneof![
        4 => (page.clone(), 0..6usize).prop_map(|(page, handle)| QueuedStep::Map(page, handle)),
        3 => page.clone().prop_map(QueuedStep::Unmap),
        2 => (page.clone(), any::<u8>()).prop_map(|(page, value)| QueuedStep::Fill(page, value)),
        3 => page.clone().prop_map(QueuedStep::Copy),
        2 => page.clone().prop_map(QueuedStep::Across),
        1 => page.prop_map(QueuedStep::Wrong),
        1 => Just(QueuedStep::Open),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Each task sees the memory that was mapped when it was submitted, whatever is unmapped and mapped before it runs.
    #[test]
    fn tasks_see_what_was_mapped_when_they_were_submitted(
        steps in proptest::collection::vec(queued_step(), 1..50)
    ) {
        let pieces = Pieces::new(5, 6);
        let (runtime, stream) = (&pieces.runtime, &pieces.stream);
        let mut values: Vec<u8> = (1..=6).collect();
        let mut mapped = [None::<usize>; 5];
        let mut expected: Vec<(Span, Vec<u8>)> = Vec::new();
        let mut gate = pieces.gate();
        for step in steps.into_iter().chain([QueuedStep::Open]) {
            match step {
                QueuedStep::Map(page, handle) => {
                    let free = mapped[page].is_none();
                    let result = map(runtime, pieces.page(page), PAGE, pieces.handles[handle]);
                    prop_assert_eq!(result.is_ok(), free);
                    mapped[page] = mapped[page].or(Some(handle));
                }
                QueuedStep::Unmap(page) => {
                    let unmapped = runtime.unmap(pieces.page(page));
                    prop_assert_eq!(unmapped.is_ok(), mapped[page].take().is_some());
                }
                QueuedStep::Fill(page, value) => {
                    let Some(handle) = mapped[page] else { continue };
                    values[handle] = value;
                    stream.submit(fill(at(pieces.page(page), PAGE as usize), value)).unwrap();
                }
                QueuedStep::Copy(page) => {
                    let Some(handle) = mapped[page] else { continue };
                    let target = runtime.alloc(0, 64);
                    stream.submit(copy(at(pieces.page(page) + 4096, 64), target)).unwrap();
                    expected.push((target, vec![values[handle]; 64]));
                }
                QueuedStep::Across(page) => {
                    let both = (mapped[page], mapped.get(page + 1).copied().flatten());
                    let (Some(first), Some(second)) = both else { continue };
                    let target = runtime.alloc(0, 2);
                    stream.submit(copy(at(pieces.page(page + 1) - 1, 2), target)).unwrap();
                    expected.push((target, vec![values[first], values[second]]));
                }
                QueuedStep::Wrong(page) => {
                    if mapped[page].is_none() {
                        let target = runtime.alloc(0, 64);
                        stream.submit(copy(at(pieces.page(page), 64), target)).unwrap();
                    }
                }
                QueuedStep::Open => {
                    gate.open();
                    let _ = runtime.synchronize(stream, None);
                    for (target, value) in expected.drain(..) {
                        prop_assert_eq!(bytes(target), value);
                    }
                    gate = pieces.gate();
                }
            }
        }
        gate.open();
        stream.synchronize(None).unwrap();
        (0..5).filter(|&page| mapped[page].is_some()).for_each(|page| runtime.unmap(pieces.page(page)).unwrap());
        pieces.handles.iter().for_each(|&handle| runtime.free_physical(handle).unwrap());
        runtime.shared.memory.vmm().release_unmapped();
        prop_assert_eq!(runtime.shared.memory.usage(0).waiting, 0);
    }
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
