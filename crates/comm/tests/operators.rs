//! Every operator against a plain one, for 1 to 12 ranks.

mod support;

use cairn_comm::{CommConfig, DataType, Operator, Reduction};
use std::sync::Barrier;
use support::checks::{check_lists, check_messages, check_moves, check_reductions, small_buffer};
use support::reference::{REDUCED, is_supported};
use support::{read, world};

#[test]
fn every_type_and_reduction() {
    for ranks in [1, 2, 3, 4, 5, 8] {
        world().run(ranks, |rank| {
            for data_type in REDUCED {
                for reduction in Reduction::ALL {
                    if is_supported(data_type, reduction) {
                        check_reductions(rank, data_type, reduction, 61);
                    }
                }
            }
        });
    }
}

#[test]
fn reductions_of_every_length() {
    for ranks in [1, 2, 3, 6, 8, 9, 12] {
        world().run_with(ranks, &small_buffer(), |rank| {
            for count in [1, 2, 13, 56, 57, 128, 129, 1000, 4096, 9001] {
                check_reductions(rank, DataType::Float32, Reduction::Sum, count);
                check_reductions(rank, DataType::Bfloat16, Reduction::Sum, count);
                check_reductions(rank, DataType::Int8, Reduction::Max, count);
            }
        });
    }
}

#[test]
fn moves_of_every_type_and_length() {
    for ranks in [1, 2, 3, 5, 8, 9] {
        world().run_with(ranks, &small_buffer(), |rank| {
            for data_type in DataType::ALL {
                check_moves(rank, *data_type, 5);
            }
            for count in [1, 224, 225, 600, 9000, 100_000] {
                check_moves(rank, DataType::Uint8, count);
            }
        });
    }
}

#[test]
fn lists_of_counts() {
    for ranks in [1, 2, 4, 7, 9] {
        world().run_with(ranks, &small_buffer(), check_lists);
    }
}

#[test]
fn messages_between_pairs_and_in_batches() {
    for ranks in [1, 2, 4, 9] {
        world().run(ranks, check_messages);
    }
}

#[test]
fn a_barrier_waits_for_all() {
    for ranks in [2, 3, 11] {
        let world = world();
        let arrived = std::sync::atomic::AtomicU32::new(0);
        world.run(ranks, |rank| {
            for round in 1..4 {
                arrived.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                rank.run(Operator::Barrier);
                assert!(arrived.load(std::sync::atomic::Ordering::SeqCst) >= round * ranks);
                rank.run(Operator::Barrier);
            }
        });
    }
}

#[test]
fn communicators_crosswise_and_two_streams() {
    let world = world();
    let infos =
        [world.communicators.open_meeting().unwrap(), world.communicators.open_meeting().unwrap()];
    let ready = Barrier::new(4);
    world.on_ranks(4, |device| {
        // The second communicator has the ranks in reverse order.
        let ranks = [device, 3 - device];
        let join = |at: usize| {
            world
                .communicators
                .join(device, 4, &infos[at], ranks[at], &CommConfig::default())
                .unwrap()
        };
        let threads = [join(0), join(1)].map(|communicator| world.thread(communicator));
        ready.wait();
        let mut results = Vec::new();
        for round in 0..20u32 {
            // Streams are used in another order on every device; each communicator has its own order.
            for turn in 0..2 {
                let at = ((device + round + turn) % 2) as usize;
                let thread = &threads[at];
                let count = 1 + u64::from(round) * 700;
                let values = vec![ranks[at] as i32 + 1; count as usize];
                let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                let send = thread.put(&bytes);
                let data_type = DataType::Int32 as i32;
                thread
                    .submit(Operator::AllReduce {
                        send,
                        receive: send,
                        count,
                        data_type,
                        reduction: 0,
                    })
                    .unwrap();
                results.push((send, count));
            }
        }
        threads.iter().for_each(|thread| thread.synchronize().unwrap());
        for (address, count) in results {
            let expected: Vec<u8> =
                vec![10i32; count as usize].iter().flat_map(|v| v.to_le_bytes()).collect();
            assert!(read(address, expected.len()) == expected);
        }
        // One communicator on two streams.
        let other = world.stream();
        let thread = &threads[0];
        let mut results = Vec::new();
        for number in 0..30u64 {
            let stream = if number % 2 == 0 { &thread.stream } else { &other };
            let buffer = thread.put(&vec![if device == 2 { number as u8 + 1 } else { 0 }; 5000]);
            let operator = Operator::Broadcast {
                buffer,
                count: 5000,
                data_type: DataType::Int8 as i32,
                root: 2,
            };
            thread.communicator.submit(stream, operator).unwrap();
            results.push((buffer, number as u8 + 1));
        }
        thread.synchronize().unwrap();
        world.runtime.synchronize(&other, None).unwrap();
        for (buffer, value) in results {
            assert_eq!(read(buffer, 5000), vec![value; 5000]);
        }
        threads
            .iter()
            .for_each(|thread| world.communicators.destroy(&thread.communicator).unwrap());
    });
    assert_eq!([world.engine.undelivered(0), world.engine.undelivered(1)], [0, 0]);
    assert!(world.communicators.list().is_empty());
}
