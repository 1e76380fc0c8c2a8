//! What counts as an order, and what does not: entries made by hand, as the runtime emits them.

use cairn_check::{Checker, Tool};
use cairn_record::entry::{
    Happening, MemoryKind, Owner, Purpose, Step, StepAccess, StepPlan, SyncObject, TaskKind,
};
use cairn_record::{Access, Clock, Entry, Epoch, Mode, Site};
use std::borrow::Cow;

const MEMORY: usize = 1 << 30;

/// A run of a program, entry by entry.
struct Program {
    checker: Checker,
    time_ns: u64,
    tasks: [u64; 8],
    entry_name: &'static str,
}

impl Program {
    /// A program with 1 MiB of device memory.
    fn new() -> Program {
        let mut program = Program {
            checker: Checker::new(&Tool::ALL),
            time_ns: 0,
            tasks: [0; 8],
            entry_name: "call",
        };
        program.alloc(MemoryKind::Device(0), MEMORY, 1 << 20, None);
        program
    }

    fn happens(&mut self, happening: Happening<'static>) {
        self.time_ns += 1;
        let site = Site { entry: self.entry_name.into(), thread: 1, stack: 0 };
        self.checker.entry(&Entry { time_ns: self.time_ns, thread: 1, site, happening });
    }

    fn alloc(&mut self, kind: MemoryKind, address: usize, bytes: u64, stream: Option<u32>) {
        let purpose = Purpose::User;
        let owner = Owner::default();
        self.happens(Happening::Alloc { kind, address, bytes, purpose, owner, stream });
    }

    fn submit(&mut self, stream: u32, accesses: &[Access], ordered: &[(u32, u64)]) -> u64 {
        self.submit_as(TaskKind::Work, stream, accesses, ordered)
    }

    fn submit_as(
        &mut self,
        task: TaskKind,
        stream: u32,
        accesses: &[Access],
        ordered: &[(u32, u64)],
    ) -> u64 {
        self.tasks[stream as usize] += 1;
        let seq = self.tasks[stream as usize];
        self.happens(Happening::Submit {
            stream,
            device: 0,
            seq,
            name: "task".into(),
            task,
            accesses: accesses.to_vec().into(),
            ordered: Cow::Owned(clock(ordered)),
        });
        seq
    }

    /// Errors, as rule and title.
    fn findings(mut self) -> Vec<(&'static str, u64)> {
        self.checker.finish(false);
        self.checker.findings().list().iter().map(|finding| (finding.rule, finding.count)).collect()
    }
}

/// Orders the next task after the first one of stream 1; what events and synchronization have ordered before it.
type Order = fn(&mut Program) -> Vec<(u32, u64)>;

fn clock(epochs: &[(u32, u64)]) -> Clock {
    let mut clock = Clock::new();
    epochs.iter().for_each(|&(stream, seq)| clock.raise(Epoch { stream, seq }));
    clock
}

fn write(offset: usize, bytes: u64) -> Access {
    Access::range(MEMORY + offset, bytes, Mode::Write)
}

fn read(offset: usize, bytes: u64) -> Access {
    Access::range(MEMORY + offset, bytes, Mode::Read)
}

#[test]
fn a_write_and_a_read_of_two_streams_need_an_order() {
    for (first, second, count) in [
        (write(0, 64), read(0, 64), 1),
        (read(0, 64), write(63, 64), 1),
        (write(0, 64), write(0, 1), 1),
        (read(0, 64), read(0, 64), 0),
        (write(0, 64), read(64, 64), 0),
    ] {
        let mut program = Program::new();
        program.submit(1, &[write(0, 4096)], &[]);
        let before = program.submit(1, std::slice::from_ref(&first), &[]);
        program.submit(2, std::slice::from_ref(&second), &[(1, before - 1)]);
        let expected: &[_] = if count == 1 { &[("order", 1)] } else { &[] };
        assert_eq!(program.findings(), expected, "{first:?} {second:?}");
    }
}

#[test]
fn interleaved_columns_do_not_touch_each_other() {
    let column = |offset: usize| Access {
        address: MEMORY + offset,
        element: 4,
        dims: [(100, 8)].into_iter().collect(),
        mode: Mode::Write,
        indexed: false,
    };
    let mut program = Program::new();
    program.submit(1, &[column(0)], &[]);
    program.submit(2, &[column(4)], &[]);
    assert_eq!(program.findings(), []);
}

#[test]
fn an_event_a_synchronize_and_a_query_are_orders() {
    let orders: [Order; 4] = [
        |_| vec![(1, 1)],
        |program| {
            let known = Cow::Owned(clock(&[(1, 1)]));
            program.happens(Happening::Synchronize {
                what: SyncObject::Stream(1),
                known,
                began_ns: 0,
            });
            vec![]
        },
        |program| {
            let known = Cow::Owned(clock(&[(1, 1)]));
            program.happens(Happening::Complete { what: SyncObject::Event(7), known });
            vec![]
        },
        |program| {
            // A host function after the task starts: what was submitted before it is finished.
            let seq = program.submit_as(TaskKind::HostFunction, 1, &[], &[]);
            program.happens(Happening::Start { stream: 1, seq });
            vec![]
        },
    ];
    for order in orders {
        let mut program = Program::new();
        program.submit(1, &[write(0, 64)], &[]);
        let ordered = order(&mut program);
        program.submit(2, &[read(0, 64)], &ordered);
        assert_eq!(program.findings(), []);
    }
}

#[test]
fn a_task_that_happened_to_be_done_is_no_order() {
    let mut program = Program::new();
    let seq = program.submit(1, &[write(0, 64)], &[]);
    program.happens(Happening::Start { stream: 1, seq });
    program.happens(Happening::End {
        stream: 1,
        seq,
        began_ns: 0,
        outcome: cairn_record::entry::Outcome::Done,
    });
    program.submit(2, &[read(0, 64)], &[]);
    assert_eq!(program.findings(), [("order", 1)]);
}

#[test]
fn accesses_that_may_touch_their_bytes_make_no_finding() {
    let mut scattered = write(0, 4096);
    scattered.indexed = true;
    let mut program = Program::new();
    program.submit(1, &[scattered.clone()], &[]);
    program.submit(2, &[read(0, 64)], &[]);
    program.submit(3, &[scattered], &[]);
    assert_eq!(program.findings(), []);
}

#[test]
fn a_pool_of_cairn_proves_what_it_reuses_and_a_users_pool_does_not() {
    let reuse = |kind: MemoryKind| {
        let mut program = Program::new();
        program.alloc(kind, MEMORY, 4096, Some(1));
        program.submit(1, &[write(0, 4096)], &[]);
        program.happens(Happening::Free { kind, address: MEMORY, bytes: 4096, stream: Some(1) });
        program.alloc(kind, MEMORY, 4096, Some(2));
        program.submit(2, &[write(0, 4096)], &[]);
        program.findings()
    };
    assert_eq!(reuse(MemoryKind::PoolBlock { device: 0, pool: 1 }), []);
    let users = MemoryKind::External { device: 0, object: 5, block: 6 };
    assert_eq!(reuse(users), [("order", 1), ("pool-on-two-streams", 1)]);
}

#[test]
fn memory_that_was_allocated_again_is_new() {
    let mut program = Program::new();
    program.submit(1, &[write(0, 64)], &[]);
    let kind = MemoryKind::Device(0);
    program.happens(Happening::Free { kind, address: MEMORY, bytes: 1 << 20, stream: None });
    program.alloc(kind, MEMORY, 1 << 20, None);
    program.submit(2, &[write(0, 64)], &[]);
    assert_eq!(program.findings(), [("freed-while-pending", 1)]);
}

#[test]
fn steps_of_a_graph_are_seen_one_by_one() {
    let step = |node: &str, offset: usize, mode: Mode| Step {
        node: node.into(),
        accesses: vec![StepAccess { region: 0, access: Access::range(offset, 64, mode) }],
    };
    let plan = StepPlan {
        id: 3,
        loaded: 1,
        label: "graph 1".into(),
        steps: vec![step("first", 0, Mode::Write), step("second", 1024, Mode::Write)],
    };
    for (offset, expected) in [(0, 1), (1024, 1), (512, 0)] {
        let mut program = Program::new();
        program.happens(Happening::Load(Cow::Owned(plan.clone())));
        let regions = Cow::Owned(vec![MEMORY]);
        program.happens(Happening::Run { plan: 3, stream: 1, seq: Some(1), regions });
        program.submit(1, &[write(0, 4096)], &[]);
        program.submit(2, &[read(offset, 64)], &[]);
        let findings = program.findings();
        assert_eq!(findings.iter().filter(|(rule, _)| *rule == "order").count(), expected);
    }
}

#[test]
fn a_thousand_of_a_kind_are_counted() {
    let mut program = Program::new();
    for _ in 0..1000 {
        program.submit(1, &[write(0, 64)], &[]);
        program.submit(2, &[write(0, 64)], &[]);
    }
    assert_eq!(program.findings(), [("order", 1999)]);
}

#[test]
fn runs_of_one_model_need_an_order_of_the_program() {
    let run = |by_event: Option<u32>| {
        let mut program = Program::new();
        program.entry_name = "aclmdlExecuteAsync";
        let label = "the model net".into();
        let plan = StepPlan { id: 3, loaded: 1, label, steps: vec![] };
        program.happens(Happening::Load(Cow::Owned(plan)));
        let regions = || Cow::Owned(vec![]);
        program.happens(Happening::Run { plan: 3, stream: 1, seq: Some(1), regions: regions() });
        program.submit(1, &[], &[]);
        if let Some(event) = by_event {
            let (record, wait) = (Epoch { stream: 1, seq: 2 }, Epoch { stream: 2, seq: 1 });
            program.happens(Happening::Record { event, epoch: record });
            program.submit_as(TaskKind::Record, 1, &[], &[]);
            program.happens(Happening::Wait { event, record: Some(record), epoch: wait });
            program.submit_as(TaskKind::Wait, 2, &[], &[(1, 2)]);
        }
        program.happens(Happening::Run { plan: 3, stream: 2, seq: Some(2), regions: regions() });
        program.submit(2, &[], &[(1, 1)]);
        program.findings()
    };
    assert_eq!(run(None), [("model-on-two-streams", 1)]);
    assert_eq!(run(Some(u32::MAX)), [("model-on-two-streams", 1)], "the engine's own event");
    assert_eq!(run(Some(4)), []);
}

#[test]
fn the_engines_own_event_after_a_synchronize_is_no_run_of_the_model() {
    let mut program = Program::new();
    program.entry_name = "aclmdlExecuteAsync";
    let plan = StepPlan { id: 3, loaded: 1, label: "the model net".into(), steps: vec![] };
    program.happens(Happening::Load(Cow::Owned(plan)));
    let run = |program: &mut Program, stream: u32, seq: u64| {
        let regions = Cow::Owned(vec![]);
        program.happens(Happening::Run { plan: 3, stream, seq: Some(seq), regions });
        program.submit(stream, &[], &[]);
    };
    run(&mut program, 1, 1);
    let known = Cow::Owned(clock(&[(1, 1)]));
    let what = SyncObject::Stream(1);
    program.happens(Happening::Synchronize { what, known, began_ns: 0 });
    // The engine orders the next run after the last one, on the old stream and in the new call.
    let record = Epoch { stream: 1, seq: 2 };
    program.happens(Happening::Record { event: u32::MAX, epoch: record });
    program.submit_as(TaskKind::Record, 1, &[], &[]);
    run(&mut program, 2, 1);
    assert_eq!(program.findings(), []);
}

#[test]
fn a_stream_that_reads_a_result_is_not_served_by_the_allocator() {
    let mut program = Program::new();
    let block = |number: usize| MemoryKind::External { device: 0, object: 5, block: number };
    program.alloc(block(1), MEMORY, 4096, Some(1));
    let first = program.submit(1, &[write(0, 4096)], &[]);
    program.alloc(block(2), MEMORY + 4096, 4096, Some(1));
    program.submit(1, &[write(4096, 4096)], &[]);
    program.submit(2, &[read(0, 4096)], &[(1, first)]);
    assert_eq!(program.findings(), []);
}
