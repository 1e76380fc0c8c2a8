//! What goes wrong: every failure ends in an error with ranks, operator and reason, and nobody hangs.

mod support;

use cairn_comm::config::ExecTimeout;
use cairn_comm::{Code, CommConfig, DataType, Environment, Operator};
use cairn_runtime::error as runtime;
use std::sync::Barrier;
use std::time::Duration;
use support::{RankThread, World, read, world, world_with};

const INT: i32 = DataType::Int32 as i32;

fn all_reduce(rank: &RankThread<'_>, count: u64) -> Operator {
    let buffer = rank.put(&vec![1; count as usize * 4]);
    Operator::AllReduce { send: buffer, receive: buffer, count, data_type: INT, reduction: 0 }
}

/// Two ranks of a world; the communicators are not destroyed.
fn pair<R: Send>(
    world: &World,
    config: &CommConfig,
    body: impl Fn(&RankThread<'_>) -> R + Sync,
) -> Vec<R> {
    let info = world.communicators.open_meeting().unwrap();
    world.on_ranks(2, |rank| {
        let communicator = world.communicators.join(rank, 2, &info, rank, config).unwrap();
        body(&world.thread(communicator))
    })
}

#[test]
fn a_dead_peer_ends_operators_with_its_rank() {
    let world = world();
    let started = Barrier::new(2);
    let errors = pair(&world, &CommConfig::default(), |rank| {
        rank.run(all_reduce(rank, 3));
        if rank.rank() == 1 {
            started.wait();
            world.engine.drop_rank(0, 1);
            return None;
        }
        rank.submit(all_reduce(rank, 5000)).unwrap();
        started.wait();
        let task = rank.synchronize().unwrap_err();
        assert_eq!(task.code, runtime::Code::SuspectRemote);
        let latched = rank.communicator.async_error().unwrap();
        assert_eq!(latched.code, Code::Remote);
        assert_eq!(latched.text, task.text);
        let later = rank.submit(all_reduce(rank, 1)).unwrap_err();
        assert_eq!(later.code, Code::Remote);
        assert!(later.text.contains(&latched.text), "{}", later.text);
        Some(latched.text)
    });
    let text = errors[0].as_ref().unwrap();
    for part in ["HcclAllReduce of 5000 int32, sum (number 2)", "rank 0 of 2", "rank 1 is gone"] {
        assert!(text.contains(part), "{text}");
    }
    world.run_with(2, &CommConfig { name: Some("next".into()), ..CommConfig::default() }, |rank| {
        rank.run(all_reduce(rank, 10));
    });
}

#[test]
fn the_first_reason_reaches_the_other_ranks() {
    let world = world();
    let info = world.communicators.open_meeting().unwrap();
    let joined = Barrier::new(3);
    let texts = world.on_ranks(3, |rank| {
        let communicator =
            world.communicators.join(rank, 3, &info, rank, &CommConfig::default()).unwrap();
        let thread = world.thread(communicator);
        joined.wait();
        if rank == 2 {
            world.engine.drop_rank(0, 2);
            return String::new();
        }
        thread.submit(all_reduce(&thread, 100)).unwrap();
        let error = thread.synchronize().unwrap_err();
        assert_eq!(error.code, runtime::Code::SuspectRemote);
        error.text
    });
    assert!(texts[..2].iter().any(|text| text.contains("rank 2 is gone")), "{texts:?}");
    let told: Vec<_> = texts[..2].iter().filter(|text| text.contains("failed first")).collect();
    assert!(told.len() <= 1 && texts[..2].iter().all(|text| text.contains("rank 2")), "{texts:?}");
}

#[test]
fn an_operator_that_a_peer_never_calls_times_out() {
    let world = world();
    let limit = ExecTimeout::After(Duration::from_millis(60));
    let config = CommConfig { exec_timeout: Some(limit), ..CommConfig::default() };
    let failed = Barrier::new(2);
    let texts = pair(&world, &config, |rank| {
        if rank.rank() == 1 {
            failed.wait();
            let error = match rank.submit(all_reduce(rank, 2)) {
                Ok(()) => rank.synchronize().unwrap_err().text,
                Err(error) => error.text,
            };
            return error;
        }
        rank.submit(all_reduce(rank, 2)).unwrap();
        let error = rank.synchronize().unwrap_err();
        assert_eq!(error.code, runtime::Code::WaitTimeout);
        assert_eq!(rank.communicator.async_error().unwrap().code, Code::Timeout);
        failed.wait();
        error.text
    });
    assert!(texts[0].contains("rank 1 did not answer within HCCL_EXEC_TIMEOUT"), "{}", texts[0]);
    assert!(
        texts[1].contains("rank 0 failed first") && texts[1].contains("did not answer"),
        "{}",
        texts[1]
    );
}

#[test]
fn a_barrier_waits_for_a_late_peer_without_limit() {
    let world = world();
    // So short that whatever has a limit fails as soon as it waits.
    let limit = ExecTimeout::After(Duration::from_nanos(1));
    let config = CommConfig { exec_timeout: Some(limit), ..CommConfig::default() };
    let made = Barrier::new(2);
    world.run_with(2, &config, |rank| {
        if rank.rank() == 0 {
            world.engine.hold(0, 1, 0);
        }
        made.wait();
        rank.submit(Operator::Barrier).unwrap();
        if rank.rank() == 1 {
            rank.synchronize().unwrap();
            world.engine.release(0, 1, 0);
        }
        rank.synchronize().unwrap();
    });
}

/// What two ranks call, and what both have to say.
fn mismatch(calls: [fn(&RankThread<'_>) -> Operator; 2], expected: [&str; 2]) {
    let world = world();
    let texts = pair(&world, &CommConfig::default(), |rank| {
        rank.run(all_reduce(rank, 1));
        rank.submit(calls[rank.rank() as usize](rank)).unwrap();
        rank.synchronize().err().map(|error| error.text)
    });
    let failed: Vec<&String> = texts.iter().flatten().collect();
    assert!(!failed.is_empty());
    for text in failed {
        for (rank, expected) in expected.iter().enumerate() {
            assert!(text.contains(&format!("rank {rank} called {expected}")), "{text}");
        }
    }
}

#[test]
fn ranks_that_call_different_operators_are_named() {
    let broadcast = |rank: &RankThread<'_>| {
        let buffer = rank.put(&[0; 64]);
        Operator::Broadcast { buffer, count: 16, data_type: INT, root: 0 }
    };
    mismatch(
        [|rank| all_reduce(rank, 16), |rank| all_reduce(rank, 17)],
        ["HcclAllReduce of 16 int32, sum (number 2)", "HcclAllReduce of 17 int32, sum (number 2)"],
    );
    mismatch(
        [|rank| all_reduce(rank, 16), |rank| all_reduce(rank, 100_000)],
        ["HcclAllReduce of 16 int32", "HcclAllReduce of 100000 int32"],
    );
    mismatch(
        [|rank| all_reduce(rank, 16), broadcast],
        ["HcclAllReduce of 16 int32", "HcclBroadcast of 16 int32, root 0"],
    );
    mismatch(
        [
            |rank| all_reduce(rank, 8),
            |rank| match all_reduce(rank, 8) {
                Operator::AllReduce { send, receive, count, data_type, .. } => {
                    Operator::AllReduce { send, receive, count, data_type, reduction: 2 }
                }
                other => other,
            },
        ],
        ["HcclAllReduce of 8 int32, sum", "HcclAllReduce of 8 int32, max"],
    );
    mismatch(
        [
            |rank| Operator::Send {
                buffer: rank.put(&[0; 40]),
                count: 10,
                data_type: INT,
                peer: 1,
            },
            |rank| Operator::Receive {
                buffer: rank.put(&[0; 80]),
                count: 20,
                data_type: INT,
                peer: 0,
            },
        ],
        ["HcclSend of 10 int32 (number 1)", "HcclSend of 20 int32 (number 1)"],
    );
}

#[test]
fn a_difference_that_no_message_showed_is_found_at_the_next_operator() {
    let world = world();
    let texts = pair(&world, &CommConfig::default(), |rank| {
        let buffer = rank.put(&[0; 4]);
        let root = rank.rank();
        rank.run(Operator::Broadcast { buffer, count: 1, data_type: INT, root });
        rank.submit(all_reduce(rank, 1)).unwrap();
        rank.synchronize().unwrap_err().text
    });
    assert!(
        texts.iter().any(|text| text.contains("an operator before this one differed")),
        "{texts:?}"
    );
}

#[test]
fn idle_ranks_notice_a_dead_peer_but_not_one_that_left_in_order() {
    let world = world();
    let info = world.communicators.open_meeting().unwrap();
    let (joined, left) = (Barrier::new(3), Barrier::new(3));
    world.on_ranks(3, |rank| {
        let communicator =
            world.communicators.join(rank, 3, &info, rank, &CommConfig::default()).unwrap();
        joined.wait();
        assert_eq!(communicator.async_error(), None);
        if rank == 2 {
            world.communicators.destroy(&communicator).unwrap();
        }
        left.wait();
        if rank < 2 {
            assert_eq!(communicator.async_error(), None);
            let thread = world.thread(communicator.clone());
            if rank == 0 {
                thread.submit(all_reduce(&thread, 1)).unwrap();
                let text = thread.synchronize().unwrap_err().text;
                assert!(text.contains("rank 2 has destroyed the communicator"), "{text}");
            }
        }
        left.wait();
        if rank == 1 {
            let error = communicator.async_error();
            assert!(
                error.is_some_and(
                    |error| error.code == Code::Remote && error.text.contains("rank 0")
                )
            );
        }
    });
    // The root's process ends its communicator, and with it the meeting point.
    let config = CommConfig { name: Some("other".into()), ..CommConfig::default() };
    let info = world.communicators.open_meeting().unwrap();
    let communicators =
        world.on_ranks(2, |rank| world.communicators.join(rank, 2, &info, rank, &config).unwrap());
    world.communicators.destroy(&communicators[0]).unwrap();
    assert_eq!(communicators[1].async_error(), None);
    world.communicators.destroy(&communicators[1]).unwrap();
}

#[test]
fn destroy_works_while_operators_hang() {
    let world = world();
    let info = world.communicators.open_meeting().unwrap();
    let config = CommConfig { name: Some("hangs".into()), ..CommConfig::default() };
    let communicators =
        world.on_ranks(2, |rank| world.communicators.join(rank, 2, &info, rank, &config).unwrap());
    world.runtime.set_device(0).unwrap();
    let thread = world.thread(communicators[0].clone());
    thread.submit(all_reduce(&thread, 4)).unwrap();
    thread.submit(all_reduce(&thread, 4)).unwrap();
    world.communicators.destroy(&thread.communicator).unwrap();
    let error = thread.synchronize().unwrap_err();
    assert!(error.text.contains("was destroyed"), "{}", error.text);
    let again = world.communicators.destroy(&thread.communicator).unwrap_err();
    assert_eq!(again.code, Code::Parameter);
    assert!(world.communicators.find(0, "hangs").is_err());
    assert!(thread.submit(all_reduce(&thread, 4)).unwrap_err().text.contains("was destroyed"));
    world.communicators.destroy(&communicators[1]).unwrap();
    world.run_with(2, &config, |rank| rank.run(all_reduce(rank, 10)));
}

#[test]
fn a_task_on_wrong_memory_fails_alone() {
    let world = world();
    let limit = ExecTimeout::After(Duration::from_millis(60));
    let config = CommConfig { exec_timeout: Some(limit), ..CommConfig::default() };
    pair(&world, &config, |rank| {
        let good = rank.put(&[0; 4]);
        let send = if rank.rank() == 0 { 0x1000 } else { good };
        rank.submit(Operator::AllReduce {
            send,
            receive: good,
            count: 1,
            data_type: INT,
            reduction: 0,
        })
        .unwrap();
        let error = rank.synchronize().unwrap_err();
        match rank.rank() {
            0 => assert!(
                error.text.contains("sendBuf") && error.text.contains("0x1000"),
                "{}",
                error.text
            ),
            _ => assert_eq!(error.code, runtime::Code::WaitTimeout),
        }
    });
}

#[test]
fn a_stream_of_another_device_is_refused() {
    let world = world();
    world.run(2, |rank| {
        world.runtime.set_device(i64::from(3)).unwrap();
        let error = rank.communicator.submit(&world.stream(), all_reduce(rank, 1)).unwrap_err();
        assert_eq!(error.code, Code::Parameter);
        assert!(error.text.contains("belongs to device 3"), "{}", error.text);
        world.runtime.set_device(i64::from(rank.rank())).unwrap();
    });
}

#[test]
fn an_engine_that_is_missing_is_named_and_one_rank_needs_none() {
    let world = world_with(Environment::default());
    let missing = || Err(cairn_comm::Error::unsupported("libcairn_comm.so is not there"));
    let communicators = cairn_comm::Communicators::new(
        world.runtime.shared.clone(),
        Environment::default(),
        Box::new(missing),
    );
    world.runtime.set_device(0).unwrap();
    let info = communicators.open_meeting().unwrap();
    let error = communicators.join(0, 2, &info, 0, &CommConfig::default()).err().unwrap();
    assert_eq!(error.code, Code::NotSupported);
    assert!(error.text.contains("libcairn_comm.so"), "{}", error.text);
    let alone = communicators.join(0, 1, &info, 0, &CommConfig::default()).unwrap();
    let thread = world.thread(alone);
    let (send, receive) = (thread.put(&[7; 40]), thread.put(&[0; 40]));
    thread.run(Operator::AllReduce { send, receive, count: 10, data_type: INT, reduction: 0 });
    assert_eq!(read(receive, 40), [7; 40]);
    communicators.destroy(&thread.communicator).unwrap();
}
