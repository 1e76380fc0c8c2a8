//! How communicators are made, found and ended; groups; what is recorded.

mod support;

use cairn_comm::communicator::Status;
use cairn_comm::environment::Determinism;
use cairn_comm::table::{StatePhase, SubSpec};
use cairn_comm::{Code, CommConfig, DataType, Environment, Operator, group};
use cairn_runtime::memory::purpose::Purpose;
use cairn_runtime::record::{Event, Kind, Sink, Stamp};
use std::sync::{Arc, Mutex};
use support::{RankThread, quick_environment, read, world, world_with};

const INT: i32 = DataType::Int32 as i32;

fn sum(rank: &RankThread<'_>, value: i32) -> i32 {
    let buffer = rank.put(&value.to_le_bytes());
    rank.run(Operator::AllReduce {
        send: buffer,
        receive: buffer,
        count: 1,
        data_type: INT,
        reduction: 0,
    });
    i32::from_le_bytes(read(buffer, 4).try_into().unwrap())
}

fn named(name: &str) -> CommConfig {
    CommConfig { name: Some(name.into()), ..CommConfig::default() }
}

#[test]
fn names_are_taken_found_and_free_again() {
    let world = world();
    let info = world.communicators.open_meeting().unwrap();
    let config = named("one");
    let ranks =
        world.on_ranks(2, |rank| world.communicators.join(rank, 2, &info, rank, &config).unwrap());
    for (rank, communicator) in (0..).zip(&ranks) {
        let found = world.communicators.find(rank, "one").unwrap();
        assert!(Arc::ptr_eq(&found, communicator));
        assert_eq!(
            (found.rank(), found.size(), found.name(), found.device()),
            (rank, 2, "one", rank)
        );
        assert_eq!(found.members().len(), 2);
    }
    assert_eq!(ranks[0].identity(), ranks[1].identity());
    assert_ne!(ranks[0].id(), ranks[1].id());
    assert_eq!(world.communicators.find(2, "one").err().unwrap().code, Code::Parameter);
    let other = world.communicators.open_meeting().unwrap();
    let error = world.communicators.join(0, 1, &other, 0, &config).err().unwrap();
    assert_eq!(error.code, Code::Parameter);
    assert!(error.text.contains("\"one\" already"), "{}", error.text);
    ranks.iter().for_each(|communicator| world.communicators.destroy(communicator).unwrap());
    let again = world.communicators.join(0, 1, &other, 0, &config).unwrap();
    let figures = world.communicators.list();
    assert_eq!(figures.len(), 1);
    assert_eq!(
        (figures[0].name.as_str(), figures[0].operators, figures[0].status),
        ("one", 0, Status::Ready)
    );
    world.communicators.destroy(&again).unwrap();
    for (config, expected) in
        [(named(""), "has 0 bytes"), (named(&"x".repeat(128)), "has 128 bytes")]
    {
        let error = world.communicators.join(0, 1, &other, 0, &config).err().unwrap();
        assert!(error.text.contains(expected), "{}", error.text);
    }
}

#[test]
fn wrong_numbers_of_ranks_are_refused() {
    let world = world_with(quick_environment());
    let info = world.communicators.open_meeting().unwrap();
    let join = |size, rank| {
        world.communicators.join(0, size, &info, rank, &CommConfig::default()).err().unwrap()
    };
    assert_eq!(join(0, 0).code, Code::Parameter);
    assert_eq!(join(2, 2).code, Code::Parameter);
    let error = join(2, 1);
    assert_eq!(error.code, Code::Timeout);
    assert!(error.text.contains("rank 0 of 2 did not come within 0.3 s"), "{}", error.text);
    assert!(world.communicators.list().is_empty());
    let none =
        world.communicators.join_scalable(0, 2, &[], 0, &CommConfig::default()).err().unwrap();
    assert!(none.text.contains("nRoot is 0"), "{}", none.text);
}

#[test]
fn several_root_infos_make_one_communicator() {
    let world = world();
    let infos = [0, 1, 2].map(|_| world.communicators.open_meeting().unwrap());
    world.on_ranks(4, |rank| {
        let config = CommConfig::default();
        let communicator =
            world.communicators.join_scalable(rank, 4, &infos, rank, &config).unwrap();
        let thread = world.thread(communicator);
        assert_eq!(sum(&thread, 1), 4);
        world.communicators.destroy(&thread.communicator).unwrap();
    });
}

#[test]
fn all_devices_of_a_process() {
    let world = world();
    let error = world.communicators.join_all(&[0, 3, 0]).err().unwrap();
    assert_eq!(
        (error.code, error.text.as_str()),
        (Code::Parameter, "device 0 is in the list twice")
    );
    assert_eq!(world.communicators.join_all(&[]).err().unwrap().code, Code::Parameter);
    let communicators = world.communicators.join_all(&[3, 0, 5]).unwrap();
    let positions: Vec<_> = communicators.iter().map(|one| (one.rank(), one.device())).collect();
    assert_eq!(positions, [(0, 3), (1, 0), (2, 5)]);
    // One thread serves all ranks.
    let threads: Vec<_> = communicators
        .into_iter()
        .map(|communicator| {
            world.runtime.set_device(i64::from(communicator.device())).unwrap();
            let thread = world.thread(communicator);
            let buffer = thread.put(&(1i32 << thread.rank()).to_le_bytes());
            let operator = Operator::AllReduce {
                send: buffer,
                receive: buffer,
                count: 1,
                data_type: INT,
                reduction: 0,
            };
            thread.submit(operator).unwrap();
            (thread, buffer)
        })
        .collect();
    for (thread, buffer) in &threads {
        thread.synchronize().unwrap();
        assert_eq!(read(*buffer, 4), 7i32.to_le_bytes());
    }
    threads
        .iter()
        .for_each(|(thread, _)| world.communicators.destroy(&thread.communicator).unwrap());
}

#[test]
fn parts_of_a_communicator() {
    let world = world();
    world.run(4, |rank| {
        let parent = &rank.communicator;
        let spec = |ranks: &[u32], id: u64| SubSpec {
            ranks: ranks.to_vec(),
            id,
            rank: ranks.iter().position(|one| *one == rank.rank()).unwrap_or(0) as u32,
        };
        let config = CommConfig::default();
        // Two halves with the same number, one of them in reverse order; made twice.
        let half: &[u32] = if rank.rank() % 2 == 0 { &[2, 0] } else { &[1, 3] };
        for _ in 0..2 {
            let sub = world.communicators.join_sub(parent, &spec(half, 9), &config).unwrap();
            assert_eq!(sub.name(), format!("{}_sub_9", parent.name()));
            assert!(sub.is_sub() && sub.identity() != parent.identity());
            assert_eq!(
                sub.rank() as usize,
                half.iter().position(|one| *one == rank.rank()).unwrap()
            );
            let error =
                world.communicators.join_sub(&sub, &spec(&[0, 1], 1), &config).err().unwrap();
            assert_eq!(error.code, Code::NotSupported);
            let thread = world.thread(sub);
            assert_eq!(
                sum(&thread, 10 + rank.rank() as i32),
                if rank.rank() % 2 == 0 { 22 } else { 24 }
            );
            assert_eq!(sum(rank, 1), 4);
            world.communicators.destroy(&thread.communicator).unwrap();
        }
        let alone =
            world.communicators.join_sub(parent, &spec(&[rank.rank()], 3), &config).unwrap();
        world.communicators.destroy(&alone).unwrap();
        for (ranks, own, expected) in [
            (vec![], 0, "rankNum is 0"),
            (vec![0, 0], 0, "rankIds has 0 at 1"),
            (vec![0, 4], 0, "rankIds has 4 at 1"),
            (vec![(rank.rank() + 1) % 4], 0, "this rank is"),
            (vec![rank.rank()], 1, "is none of 1 ranks"),
        ] {
            let wrong = SubSpec { ranks, id: 1, rank: own };
            let error = world.communicators.join_sub(parent, &wrong, &config).err().unwrap();
            assert_eq!(error.code, Code::Parameter);
            assert!(error.text.contains(expected), "{}", error.text);
        }
    });
}

#[test]
fn ranks_of_a_table_meet() {
    let base = 23000 + (std::process::id() % 1000) as u16 * 32;
    let world = world_with(Environment { base_port: base, ..Environment::default() });
    let path = std::env::temp_dir().join(format!("cairn-rank-table-{}.json", std::process::id()));
    let device = |rank: u32| format!(r#"{{"device_id": "{rank}", "rank_id": "{rank}"}}"#);
    let devices: Vec<String> = (0..3).map(device).collect();
    let table = format!(
        r#"{{"status": "completed", "version": "1.0", "server_count": "1",
            "server_list": [{{"server_id": "here", "device": [{}]}}]}}"#,
        devices.join(",")
    );
    std::fs::write(&path, table).unwrap();
    world.on_ranks(3, |rank| {
        let config = CommConfig::default();
        let communicator = world.communicators.join_rank_table(rank, &path, rank, &config).unwrap();
        assert_eq!(communicator.name(), "hccl_world_group");
        if rank > 0 {
            let error =
                world.communicators.join_rank_table(rank, &path, rank, &config).err().unwrap();
            assert!(error.text.contains("already"), "{}", error.text);
        }
        let thread = world.thread(communicator);
        assert_eq!(sum(&thread, 2), 6);
        world.communicators.destroy(&thread.communicator).unwrap();
    });
    let error =
        world.communicators.join_rank_table(0, &path, 3, &CommConfig::default()).err().unwrap();
    assert!(error.text.contains("rank 3 is none of the 3 ranks"), "{}", error.text);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_suspended_communicator_refuses_operators() {
    let world = world();
    let phases = Arc::new(Mutex::new(Vec::new()));
    let seen = phases.clone();
    world
        .communicators
        .on_state("test", Some(Arc::new(move |_, phase| seen.lock().unwrap().push(phase))));
    world.run(1, |rank| {
        rank.communicator.suspend().unwrap();
        assert_eq!(rank.communicator.status(), Status::Suspending);
        let buffer = rank.put(&[0; 4]);
        let operator = Operator::Broadcast { buffer, count: 1, data_type: INT, root: 0 };
        assert_eq!(rank.submit(operator.clone()).unwrap_err().code, Code::Suspending);
        world.communicators.resume(&rank.communicator).unwrap();
        rank.run(operator);
    });
    let expected = [
        StatePhase::BeforeResume,
        StatePhase::AfterResume,
        StatePhase::BeforeDestroy,
        StatePhase::AfterDestroy,
    ];
    assert_eq!(*phases.lock().unwrap(), expected);
}

#[test]
fn the_environment_wins_over_what_was_set() {
    let world = world();
    assert_eq!(world.communicators.determinism(), Determinism::Off);
    world.communicators.set_determinism(Determinism::Strict);
    assert_eq!(world.communicators.determinism(), Determinism::Strict);
    let set =
        world_with(Environment { determinism: Some(Determinism::On), ..Environment::default() });
    set.communicators.set_determinism(Determinism::Off);
    assert_eq!(set.communicators.determinism(), Determinism::On);
}

#[test]
fn operators_are_checked_in_the_order_of_hccl() {
    let world = world();
    world.run(2, |rank| {
        let good = rank.put(&[0; 64]);
        let all_reduce = |send, receive, count, data_type, reduction| {
            rank.submit(Operator::AllReduce { send, receive, count, data_type, reduction })
        };
        let code = |result: cairn_comm::Result<()>| result.unwrap_err().code;
        assert!(all_reduce(0, 0, 0, 99, 99).is_ok());
        assert_eq!(code(all_reduce(0, good, 1 << 40, 99, 99)), Code::Null);
        assert_eq!(code(all_reduce(good, 0, 1, INT, 0)), Code::Null);
        assert_eq!(code(all_reduce(good, good, 0x8_0000_0000, 99, 99)), Code::Parameter);
        assert_eq!(code(all_reduce(good, good, 1, 13, 0)), Code::NotSupported);
        assert_eq!(code(all_reduce(good, good, 1, 255, 0)), Code::NotSupported);
        assert_eq!(code(all_reduce(good, good, 1, INT, 4)), Code::NotSupported);
        for data_type in [DataType::Int16, DataType::Bfloat16, DataType::Hif8] {
            assert_eq!(code(all_reduce(good, good, 1, data_type as i32, 1)), Code::NotSupported);
        }
        let root = 2;
        let broadcast = Operator::Broadcast { buffer: good, count: 1, data_type: INT, root };
        assert_eq!(code(rank.submit(broadcast)), Code::Parameter);
        let send = |peer| Operator::Send { buffer: good, count: 1, data_type: INT, peer };
        assert_eq!(code(rank.submit(send(2))), Code::Parameter);
        let to_itself = rank.submit(send(rank.rank())).unwrap_err();
        assert!(to_itself.code == Code::Parameter && to_itself.text.contains("to itself"));
        assert!(rank.submit(Operator::Batch { items: vec![] }).is_ok());
        let all_to_all = |send, receive, send_count, receive_type| {
            rank.submit(Operator::AllToAll {
                send,
                send_count,
                send_type: INT,
                receive,
                receive_count: 1,
                receive_type,
            })
        };
        assert_eq!(code(all_to_all(good, good, 1, INT)), Code::Parameter);
        assert_eq!(code(all_to_all(good, good + 32, 2, INT)), Code::Parameter);
        assert_eq!(code(all_to_all(good, good + 32, 1, INT + 1)), Code::Parameter);
        let gather_v = |send_count, counts: Vec<u64>| {
            rank.submit(Operator::AllGatherV {
                send: good,
                send_count,
                receive: good + 16,
                displacements: vec![0; counts.len()],
                counts,
                data_type: INT,
            })
        };
        assert_eq!(code(gather_v(2, vec![1, 1])), Code::Parameter);
        assert_eq!(code(gather_v(1, vec![1])), Code::Parameter);
        assert!(gather_v(0, vec![0, 0]).is_ok());
        let far = rank.submit(Operator::AllGatherV {
            send: good,
            send_count: 1,
            receive: good + 16,
            counts: vec![1, 1],
            displacements: vec![0x7_ffff_ffff, 0x7_ffff_ffff],
            data_type: INT,
        });
        drop(far);
        let scatter = Operator::Scatter {
            send: 0,
            receive: good,
            count: 1,
            data_type: INT,
            root: rank.rank(),
        };
        assert_eq!(code(rank.submit(scatter)), Code::Null);
        assert_eq!(rank.communicator.figures().operators, 0);
    });
}

#[test]
fn sends_and_receives_of_a_group_become_one_batch() {
    let world = world();
    world.run(3, |rank| {
        let (me, n) = (rank.rank(), rank.size());
        assert_eq!(group::end().unwrap_err().code, Code::NotSupported);
        assert!(!group::is_active());
        group::start();
        let mut expected = Vec::new();
        for peer in 0..n {
            // Each in a group of its own, as torch does it, all sends first: alone this would hang.
            group::start();
            let buffer = rank.put(&(100 * me + peer).to_le_bytes());
            rank.submit(Operator::Send { buffer, count: 1, data_type: INT, peer }).unwrap();
            group::end().unwrap();
        }
        for peer in 0..n {
            let buffer = rank.put(&[0; 4]);
            rank.submit(Operator::Receive { buffer, count: 1, data_type: INT, peer }).unwrap();
            expected.push((buffer, 100 * peer + me));
        }
        assert_eq!(rank.communicator.figures().operators, 0);
        let wrong = Operator::Send { buffer: 0, count: 1, data_type: INT, peer: 0 };
        assert_eq!(rank.submit(wrong).unwrap_err().code, Code::Null);
        let batch = Operator::Batch {
            items: vec![cairn_comm::BatchItem {
                receives: true,
                buffer: 1,
                count: 1,
                data_type: INT,
                peer: 0,
            }],
        };
        assert_eq!(rank.submit(batch).unwrap_err().code, Code::NotSupported);
        assert_eq!(group::create(|| Ok(())).unwrap_err().code, Code::NotSupported);
        group::end().unwrap();
        rank.synchronize().unwrap();
        assert_eq!(rank.communicator.figures().operators, 1);
        for (buffer, value) in expected {
            assert_eq!(read(buffer, 4), value.to_le_bytes());
        }
    });
}

#[test]
fn one_thread_creates_all_ranks_in_a_group() {
    let world = Arc::new(world());
    let info = world.communicators.open_meeting().unwrap();
    let made = Arc::new(Mutex::new(Vec::new()));
    group::start();
    for rank in 0..3 {
        let (world, made) = (world.clone(), made.clone());
        group::create(move || {
            let communicator =
                world.communicators.join(rank, 3, &info, rank, &CommConfig::default())?;
            made.lock().unwrap().push(communicator);
            Ok(())
        })
        .unwrap();
    }
    assert!(made.lock().unwrap().is_empty());
    group::end().unwrap();
    let mut made = std::mem::take(&mut *made.lock().unwrap());
    assert_eq!(made.len(), 3);
    made.sort_by_key(|communicator| communicator.rank());
    // Collectives of all ranks in one group of one thread.
    let threads: Vec<_> = made
        .into_iter()
        .map(|communicator| {
            world.runtime.set_device(i64::from(communicator.device())).unwrap();
            world.thread(communicator)
        })
        .collect();
    group::start();
    let buffers: Vec<usize> = threads
        .iter()
        .map(|thread| {
            let buffer = thread.put(&5i32.to_le_bytes());
            let operator = Operator::AllReduce {
                send: buffer,
                receive: buffer,
                count: 1,
                data_type: INT,
                reduction: 0,
            };
            thread.submit(operator).unwrap();
            buffer
        })
        .collect();
    group::end().unwrap();
    for (thread, buffer) in threads.iter().zip(buffers) {
        thread.synchronize().unwrap();
        assert_eq!(read(buffer, 4), 15i32.to_le_bytes());
        world.communicators.destroy(&thread.communicator).unwrap();
    }
    group::start();
    let failing = || Err(cairn_comm::Error::parameter("the first"));
    group::create(failing).unwrap();
    assert_eq!(group::end().unwrap_err().text, "the first");
}

/// Keeps what is recorded of collectives.
#[derive(Default)]
struct Seen(Mutex<Vec<String>>);

impl Sink for Seen {
    fn event(&self, _: &Stamp, event: &Event<'_>) {
        let text = match event {
            Event::Communicator(one, change) => {
                format!("{} {}/{} {change:?}", one.name, one.rank, one.size)
            }
            Event::Collective(one) => format!(
                "{} {} count {} type {} {:?} {:?} to {:?} from {:?}",
                one.ticket,
                one.operator,
                one.count,
                one.data_type,
                one.reduction,
                one.root,
                one.to,
                one.from
            ),
            Event::Alloc { purpose: Purpose::Collective, bytes, owner, .. } => {
                format!("scratch {bytes} {}", owner.operator.unwrap_or(""))
            }
            _ => return,
        };
        self.0.lock().unwrap().push(text);
    }
}

#[test]
fn operators_are_recorded_and_scratch_has_its_purpose() {
    let world = world();
    let seen = Arc::new(Seen::default());
    let kinds = [Kind::Communicator, Kind::Collective, Kind::Alloc];
    world.runtime.shared.spine.subscribe(seen.clone(), &kinds).unwrap();
    world.run_with(2, &named("seen"), |rank| {
        let buffer = rank.put(&vec![0; 40_000]);
        rank.run(Operator::AllReduce {
            send: buffer,
            receive: buffer,
            count: 10_000,
            data_type: INT,
            reduction: 2,
        });
        let operator = match rank.rank() {
            0 => Operator::Send { buffer, count: 3, data_type: INT, peer: 1 },
            _ => Operator::Receive { buffer, count: 3, data_type: INT, peer: 0 },
        };
        rank.run(operator);
        rank.run(Operator::Broadcast { buffer, count: 7, data_type: INT, root: 1 });
    });
    let seen = seen.0.lock().unwrap();
    let count = |text: &str| seen.iter().filter(|one| *one == text).count();
    for rank in 0..2 {
        assert_eq!(count(&format!("seen {rank}/2 Created")), 1, "{seen:?}");
        assert_eq!(count(&format!("seen {rank}/2 Destroyed")), 1, "{seen:?}");
    }
    assert_eq!(
        count("1 HcclAllReduce count 10000 type 2 Some(2) None to [] from []"),
        2,
        "{seen:?}"
    );
    assert_eq!(count("1 HcclSend count 3 type 2 None None to [1] from []"), 1, "{seen:?}");
    assert_eq!(count("1 HcclRecv count 3 type 2 None None to [] from [0]"), 1, "{seen:?}");
    assert_eq!(count("2 HcclBroadcast count 7 type 2 None Some(1) to [] from []"), 2, "{seen:?}");
    assert_eq!(count("scratch 20032 HcclAllReduce"), 2, "{seen:?}");
}
