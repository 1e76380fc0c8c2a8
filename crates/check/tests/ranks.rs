//! Rules across ranks, on entries made here.

use cairn_check::report::{self, NoStacks};
use cairn_check::{Checker, RankChecker, Tool};
use cairn_record::entry::{Change, Collective, Communicator, Happening};
use cairn_record::{Entry, Epoch, Site};
use proptest::prelude::*;
use std::borrow::Cow;

/// A process with one communicator.
struct Process {
    entries: Vec<Entry<'static>>,
    tickets: u64,
}

const FP32: u8 = 4;

impl Process {
    fn new(rank: u32, size: u32) -> Process {
        let mut process = Process { entries: Vec::new(), tickets: 0 };
        process.add("HcclCommInitRootInfo", communicator(rank, size, Change::Created));
        process
    }

    fn add(&mut self, call: &'static str, happening: Happening<'static>) -> &mut Process {
        let site = Site { entry: call.into(), thread: 7, stack: 0 };
        let time_ns = self.entries.len() as u64;
        self.entries.push(Entry { time_ns, thread: 7, site, happening });
        self
    }

    fn collective(&mut self, call: &'static str, count: u64) -> &mut Process {
        let collective = self.call(call, count);
        self.add(call, Happening::Collective(Cow::Owned(collective)))
    }

    fn broadcast(&mut self, count: u64, root: u32) -> &mut Process {
        let collective = Collective { root: Some(root), ..self.call("HcclBroadcast", count) };
        self.add("HcclBroadcast", Happening::Collective(Cow::Owned(collective)))
    }

    fn send(&mut self, to: u32, count: u64) -> &mut Process {
        let collective = Collective { to: vec![to], ..self.call("HcclSend", count) };
        self.add("HcclSend", Happening::Collective(Cow::Owned(collective)))
    }

    fn receive(&mut self, from: u32, count: u64) -> &mut Process {
        let collective = Collective { from: vec![from], ..self.call("HcclRecv", count) };
        self.add("HcclRecv", Happening::Collective(Cow::Owned(collective)))
    }

    fn call(&mut self, operator: &'static str, count: u64) -> Collective {
        self.tickets += 1;
        Collective {
            communicator: 1,
            ticket: self.tickets,
            operator: operator.into(),
            epoch: Epoch { stream: 1, seq: self.tickets },
            count,
            data_type: FP32,
            reduction: None,
            root: None,
            to: Vec::new(),
            from: Vec::new(),
        }
    }

    fn exit(&mut self) {
        self.add("", Happening::Exit);
    }
}

fn communicator(rank: u32, size: u32, change: Change) -> Happening<'static> {
    let communicator =
        Communicator { id: 1, name: "world".into(), identity: 77, rank, size, device: rank };
    Happening::Communicator(Cow::Owned(communicator), change)
}

/// Feeds the processes to a checker, the next entry from the process that `next` says.
fn check_in_order(processes: &[Process], mut next: impl FnMut(usize) -> usize) -> String {
    let mut checker = RankChecker::default();
    let mut rest: Vec<(usize, std::slice::Iter<'_, Entry<'static>>)> = processes
        .iter()
        .enumerate()
        .map(|(number, process)| {
            (checker.add_process(&format!("process {}", 100 + number)), process.entries.iter())
        })
        .collect();
    while !rest.is_empty() {
        let at = next(rest.len()) % rest.len();
        let (process, entries) = &mut rest[at];
        match entries.next() {
            Some(entry) => checker.entry(*process, entry),
            None => _ = rest.remove(at),
        }
    }
    checker.finish();
    report::text(checker.findings(), &NoStacks)
}

fn check(processes: &[Process]) -> String {
    check_in_order(processes, |_| 0)
}

#[test]
fn different_operators_are_named_with_their_ranks() {
    let mut all: Vec<Process> = (0..4).map(|rank| Process::new(rank, 4)).collect();
    for (rank, process) in all.iter_mut().enumerate() {
        process.collective("HcclAllReduce", 8);
        match rank {
            2 => process.broadcast(8, 0),
            _ => process.collective("HcclAllReduce", 8),
        };
        process.collective("HcclAllGather", rank as u64 + 1).exit();
    }
    assert_eq!(
        check(&all),
        "error[different-collectives]: ranks 0, 1, 2 and 3 of communicator world call different operators
  (1) ranks 0, 1 and 3, collective 2: HcclAllReduce of 8 fp32
      in HcclAllReduce, thread 7
  (2) rank 2, collective 2: HcclBroadcast of 8 fp32, root 0
      in HcclBroadcast, thread 7
  collective 1 was the same on all of them
  rank 0 is process 100, rank 2 is process 102
  help: all ranks of a communicator call the same operators in the same order, with the same count, type, reduction and root

cairn check: 1 error, 0 notes
"
    );
}

#[test]
fn different_counts_and_roots_too() {
    let mut all = [Process::new(0, 2), Process::new(1, 2)];
    all[0].broadcast(8, 0).exit();
    all[1].broadcast(8, 1).exit();
    let text = check(&all);
    assert!(
        text.contains("ranks 0 and 1 of communicator world do not agree on HcclBroadcast"),
        "{text}"
    );
    let mut all = [Process::new(0, 2), Process::new(1, 2)];
    all[0].collective("HcclAllReduce", 8).exit();
    all[1].collective("HcclAllReduce", 9).exit();
    assert!(check(&all).contains("rank 1, collective 1: HcclAllReduce of 9 fp32"));
}

#[test]
fn a_rank_that_stops_early_is_named() {
    let mut all = [Process::new(0, 2), Process::new(1, 2)];
    all[0].collective("HcclAllReduce", 8).collective("HcclAllGather", 8);
    all[1].collective("HcclAllReduce", 8).exit();
    assert_eq!(
        check(&all),
        "error[missing-collective]: rank 1 of communicator world ends without a collective that rank 0 calls
  (1) rank 0, collective 2: HcclAllGather of 8 fp32
      in HcclAllGather, thread 7
  (2) rank 1, its last collective, 1: HcclAllReduce of 8 fp32
      in HcclAllReduce, thread 7
  rank 1 calls 1 collective in all, rank 0 more
  rank 0 is process 100, rank 1 is process 101
  help: call HcclAllGather on every rank, or on none: the ranks that call it wait for those that do not

cairn check: 1 error, 0 notes
"
    );
}

#[test]
fn a_rank_that_was_killed_or_not_seen_is_not_blamed() {
    let mut all = [Process::new(0, 2), Process::new(1, 2)];
    all[0].collective("HcclAllReduce", 8).collective("HcclAllReduce", 8).exit();
    all[1].collective("HcclAllReduce", 8);
    assert_eq!(check(&all), "cairn check: no findings\n");
    assert_eq!(check(&all[..1]), "cairn check: no findings\n");
}

#[test]
fn one_that_left_the_communicator_has_ended() {
    let mut all = [Process::new(0, 2), Process::new(1, 2)];
    all[0].collective("HcclAllReduce", 8);
    all[1].add("HcclCommDestroy", communicator(1, 2, Change::Destroyed));
    assert!(check(&all).contains("rank 1 of communicator world ends without a collective"));
}

#[test]
fn a_communicator_of_the_same_identity_is_a_new_one() {
    let mut all = [Process::new(0, 2), Process::new(1, 2)];
    for (rank, process) in all.iter_mut().enumerate() {
        process.collective("HcclAllReduce", 8);
        process.add("HcclCommDestroy", communicator(rank as u32, 2, Change::Destroyed));
        process.add("HcclCommInitClusterInfo", communicator(rank as u32, 2, Change::Created));
        process.collective("HcclAllReduce", 8 + rank as u64).exit();
    }
    assert!(check(&all).contains("rank 1, collective 1: HcclAllReduce of 9 fp32"));
}

#[test]
fn messages_pair_up_whatever_comes_between() {
    let mut all = [Process::new(0, 2), Process::new(1, 2)];
    all[0].send(1, 8).collective("HcclAllReduce", 4).send(1, 9).receive(1, 5).exit();
    all[1].receive(0, 8).send(0, 5).receive(0, 9).collective("HcclAllReduce", 4).exit();
    assert_eq!(check(&all), "cairn check: no findings\n");
}

#[test]
fn unpaired_messages_are_named() {
    let mut all = [Process::new(0, 2), Process::new(1, 2)];
    all[0].send(1, 8).send(1, 9).exit();
    all[1].receive(0, 7).exit();
    assert_eq!(
        check(&all),
        "error[unpaired-message]: rank 0 of communicator world sends 8 fp32 to rank 1, which receives 7 fp32
  (1) rank 0, message 1: HcclSend of 8 fp32 to rank 1
      in HcclSend, thread 7
  (2) rank 1, message 1: HcclRecv of 7 fp32 from rank 0
      in HcclRecv, thread 7
  rank 0 is process 100, rank 1 is process 101
  help: a receive has the count and the type of its send

error[unpaired-message]: rank 0 of communicator world sends to rank 1 what that one does not receive
  (1) rank 0, message 2: HcclSend of 9 fp32 to rank 1
      in HcclSend, thread 7
  rank 0 sends 2 messages to rank 1, which receives 1
  help: every send has a receive on the other rank, and every receive a send

cairn check: 2 errors, 0 notes
"
    );
}

#[test]
fn a_damaged_record_says_nothing_of_its_ranks() {
    let mut all = [Process::new(0, 2), Process::new(1, 2)];
    all[0].collective("HcclAllReduce", 8).collective("HcclAllReduce", 8).exit();
    all[1].collective("HcclAllReduce", 8).exit();
    let mut checker = RankChecker::default();
    for process in &all {
        let number = checker.add_process("a process");
        process.entries.iter().for_each(|entry| checker.entry(number, entry));
    }
    checker.set_incomplete(1);
    checker.finish();
    assert!(checker.findings().list().is_empty());
}

#[test]
fn a_communicator_that_is_never_destroyed() {
    let text = |destroys: bool| {
        let mut process = Process::new(0, 1);
        process.collective("HcclAllReduce", 8);
        if destroys {
            process.add("HcclCommDestroy", communicator(0, 1, Change::Destroyed));
        }
        process.exit();
        let mut checker = Checker::new(&Tool::DEFAULT);
        process.entries.iter().for_each(|entry| checker.entry(entry));
        checker.finish(true);
        report::text(checker.findings(), &NoStacks)
    };
    assert_eq!(text(true), "cairn check: no findings\n");
    assert_eq!(
        text(false),
        "error[leak]: never given back: communicator, 1 in all
  (1) thread 7: made in HcclCommInitRootInfo
      in HcclCommInitRootInfo, thread 7
  it is called world
  help: call HcclCommDestroy on every rank before the program ends (torch: destroy_process_group)

cairn check: 1 error, 0 notes
"
    );
}

proptest! {
    /// What is found does not depend on whose entries are read first.
    #[test]
    fn reports_do_not_depend_on_who_comes_first(
        calls in proptest::collection::vec(proptest::collection::vec(0..40u32, 0..12), 3),
        turns in proptest::collection::vec(0..3usize, 1..64),
    ) {
        let all: Vec<Process> = calls.iter().enumerate().map(|(rank, calls)| {
            let mut process = Process::new(rank as u32, 3);
            let rank = rank as u32;
            for call in calls {
                // Mostly the same, so that all kinds of findings come up.
                match call {
                    0 => process.broadcast(4, 1),
                    1 => process.collective("HcclAllReduce", 5),
                    2..5 => process.send((rank + 1) % 3, u64::from(*call)),
                    5..8 => process.receive((rank + 2) % 3, 4),
                    _ => process.collective("HcclAllReduce", 4),
                };
            }
            process.exit();
            process
        }).collect();
        let mut at = 0;
        let mixed = check_in_order(&all, |_| { at += 1; turns[at % turns.len()] });
        // The same findings; which of two communicators or channels came first may differ in time only.
        let lines = |text: &str| { let mut lines: Vec<_> = text.lines().map(str::to_owned).collect(); lines.sort(); lines };
        prop_assert_eq!(lines(&check(&all)), lines(&mixed));
    }
}
