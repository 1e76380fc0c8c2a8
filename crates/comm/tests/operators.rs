//! Every operator against a plain one, for 1 to 12 ranks.

mod support;

use cairn_comm::{BatchItem, CommConfig, DataType, Operator, Reduction};
use std::sync::Barrier;
use support::reference::{REDUCED, elements, equal, is_supported, noise, reduce};
use support::{RankThread, read, world};

/// So little staging that everything larger than a few kilobytes goes in rounds.
fn small_buffer() -> CommConfig {
    CommConfig { buffer_bytes: Some(16 << 10), ..CommConfig::default() }
}

fn inputs(rank: &RankThread<'_>, data_type: DataType, seed: u64, count: usize) -> Vec<Vec<u8>> {
    (0..rank.size()).map(|one| elements(data_type, seed, one, count)).collect()
}

fn check_reductions(
    rank: &RankThread<'_>,
    data_type: DataType,
    reduction: Reduction,
    count: usize,
) {
    let (n, me) = (rank.size() as usize, rank.rank() as usize);
    let bytes = count * data_type.bytes() as usize;
    let (code, op) = (data_type as i32, reduction as i32);
    let all = inputs(rank, data_type, count as u64, count);
    let expected = reduce(data_type, reduction, &all);
    let what = format!("{data_type:?} {reduction:?} {count} on {me} of {n}");
    for in_place in [false, true] {
        let send = rank.put(&all[me]);
        let receive = if in_place { send } else { rank.put(&vec![0xaa; bytes]) };
        let count = count as u64;
        rank.run(Operator::AllReduce { send, receive, count, data_type: code, reduction: op });
        assert!(equal(data_type, &read(receive, bytes), &expected), "all-reduce {what}");
    }
    let root = (count % n) as u32;
    let (send, receive) = (rank.put(&all[me]), rank.put(&vec![0xaa; bytes]));
    let c = count as u64;
    rank.run(Operator::Reduce { send, receive, count: c, data_type: code, reduction: op, root });
    let is_root = root == rank.rank();
    let expected_there = if is_root { expected.clone() } else { vec![0xaa; bytes] };
    assert!(equal(data_type, &read(receive, bytes), &expected_there), "reduce {what}");
    assert_eq!(read(send, bytes), all[me], "reduce changed its input: {what}");

    let all = inputs(rank, data_type, 7 + count as u64, count * n);
    let expected = reduce(data_type, reduction, &all);
    let own = &expected[me * bytes..][..bytes];
    for in_place in [false, true] {
        let send = rank.put(&all[me]);
        let receive = if in_place { send + me * bytes } else { rank.put(&vec![0; bytes]) };
        rank.run(Operator::ReduceScatter {
            send,
            receive,
            count: c,
            data_type: code,
            reduction: op,
        });
        assert!(equal(data_type, &read(receive, bytes), own), "reduce-scatter {what}");
    }
}

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

/// Operators that only move bytes.
fn check_moves(rank: &RankThread<'_>, data_type: DataType, count: usize) {
    let (n, me) = (rank.size() as usize, rank.rank() as usize);
    let (code, c) = (data_type as i32, count as u64);
    let bytes = count * data_type.bytes() as usize;
    let what = format!("{data_type:?} {count} on {me} of {n}");
    let plain = |seed: u64, one: usize, length: usize| -> Vec<u8> {
        (0..length as u64).map(|at| noise(seed, one as u32, at) as u8).collect()
    };
    let all: Vec<Vec<u8>> = (0..n).map(|one| plain(3, one, bytes)).collect();
    for in_place in [false, true] {
        let receive = rank.put(&vec![0; bytes * n]);
        let send = match in_place {
            true => {
                support::write(receive + me * bytes, &all[me]);
                receive + me * bytes
            }
            false => rank.put(&all[me]),
        };
        rank.run(Operator::AllGather { send, receive, count: c, data_type: code });
        assert!(read(receive, bytes * n) == all.concat(), "all-gather {what}");
    }
    for root in 0..n as u32 {
        let buffer = rank.put(&all[me]);
        rank.run(Operator::Broadcast { buffer, count: c, data_type: code, root });
        assert!(read(buffer, bytes) == all[root as usize], "broadcast {what} from {root}");
        let whole = plain(5, root as usize, bytes * n);
        let send = if root == me as u32 { rank.put(&whole) } else { 0 };
        let receive = rank.put(&vec![0; bytes]);
        rank.run(Operator::Scatter { send, receive, count: c, data_type: code, root });
        assert!(read(receive, bytes) == whole[me * bytes..][..bytes], "scatter {what} from {root}");
    }
    let (send, receive) = (rank.put(&plain(9, me, bytes * n)), rank.put(&vec![0; bytes * n]));
    rank.run(Operator::AllToAll {
        send,
        send_count: c,
        send_type: code,
        receive,
        receive_count: c,
        receive_type: code,
    });
    let expected: Vec<u8> =
        (0..n).flat_map(|one| plain(9, one, bytes * n)[me * bytes..][..bytes].to_vec()).collect();
    assert!(read(receive, bytes * n) == expected, "all-to-all {what}");
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
    for ranks in [1usize, 2, 4, 7, 9] {
        world().run_with(ranks as u32, &small_buffer(), |rank| {
            let (n, me) = (ranks, rank.rank() as usize);
            for seed in 0..4u64 {
                let large = seed == 3;
                let count = |from: usize, to: usize| match noise(seed, from as u32, to as u64) % 5 {
                    0 => 0,
                    small => small * if large { 3001 } else { 17 },
                };
                let value = |from: usize, to: usize, at: u64| {
                    noise(seed + 10, (from * n + to) as u32, at) as i32
                };
                let part = |from: usize, to: usize| -> Vec<u8> {
                    (0..count(from, to)).flat_map(|at| value(from, to, at).to_le_bytes()).collect()
                };
                let code = DataType::Int32 as i32;
                // Between all, with gaps of three elements and in reverse order.
                let sends: Vec<u64> = (0..n).map(|to| count(me, to)).collect();
                let receives: Vec<u64> = (0..n).map(|from| count(from, me)).collect();
                let reversed = |counts: &[u64]| -> Vec<u64> {
                    let total: u64 = counts.iter().map(|count| count + 3).sum();
                    let mut end = total;
                    counts
                        .iter()
                        .map(|count| {
                            end -= count + 3;
                            end
                        })
                        .collect()
                };
                let (send_displacements, receive_displacements) =
                    (reversed(&sends), reversed(&receives));
                let room =
                    |counts: &[u64]| counts.iter().map(|count| count + 3).sum::<u64>() as usize * 4;
                let mut data = vec![0u8; room(&sends)];
                for to in 0..n {
                    let bytes = part(me, to);
                    data[send_displacements[to] as usize * 4..][..bytes.len()]
                        .copy_from_slice(&bytes);
                }
                let (send, receive) = (rank.put(&data), rank.put(&vec![0xee; room(&receives)]));
                rank.run(Operator::AllToAllV {
                    send,
                    send_counts: sends.clone(),
                    send_displacements,
                    send_type: code,
                    receive,
                    receive_counts: receives.clone(),
                    receive_displacements: receive_displacements.clone(),
                    receive_type: code,
                });
                let mut expected = vec![0xee; room(&receives)];
                for from in 0..n {
                    let bytes = part(from, me);
                    expected[receive_displacements[from] as usize * 4..][..bytes.len()]
                        .copy_from_slice(&bytes);
                }
                assert!(
                    read(receive, expected.len()) == expected,
                    "all-to-all-v {seed} on {me} of {n}"
                );
                // The same packed, by the whole matrix.
                let matrix: Vec<u64> = (0..n * n).map(|at| count(at / n, at % n)).collect();
                let data: Vec<u8> = (0..n).flat_map(|to| part(me, to)).collect();
                let expected: Vec<u8> = (0..n).flat_map(|from| part(from, me)).collect();
                let (send, receive) = (rank.put(&data), rank.put(&vec![0; expected.len()]));
                rank.run(Operator::AllToAllVC {
                    send,
                    matrix,
                    send_type: code,
                    receive,
                    receive_type: code,
                });
                assert!(
                    read(receive, expected.len()) == expected,
                    "all-to-all-vc {seed} on {me} of {n}"
                );
                // Gathered, the pieces two elements apart.
                let counts: Vec<u64> = (0..n).map(|from| count(from, 0)).collect();
                let displacements: Vec<u64> = counts
                    .iter()
                    .scan(1, |next, count| {
                        let start = *next;
                        *next += count + 2;
                        Some(start)
                    })
                    .collect();
                let room = (counts.iter().sum::<u64>() as usize + 2 * n + 1) * 4;
                let (send, receive) = (rank.put(&part(me, 0)), rank.put(&vec![0xee; room]));
                rank.run(Operator::AllGatherV {
                    send,
                    send_count: counts[me],
                    receive,
                    counts: counts.clone(),
                    displacements: displacements.clone(),
                    data_type: code,
                });
                let mut expected = vec![0xee; room];
                for from in 0..n {
                    let bytes = part(from, 0);
                    expected[displacements[from] as usize * 4..][..bytes.len()]
                        .copy_from_slice(&bytes);
                }
                assert!(read(receive, room) == expected, "all-gather-v {seed} on {me} of {n}");
                // Reduced and scattered.
                let all: Vec<Vec<u8>> = (0..n as u32)
                    .map(|one| elements(DataType::Int32, seed, one, room / 4))
                    .collect();
                let sum = reduce(DataType::Int32, Reduction::Sum, &all);
                let own = counts[me] as usize * 4;
                let (send, receive) = (rank.put(&all[me]), rank.put(&vec![0; own]));
                rank.run(Operator::ReduceScatterV {
                    send,
                    counts: counts.clone(),
                    displacements: displacements.clone(),
                    receive,
                    receive_count: counts[me],
                    data_type: code,
                    reduction: Reduction::Sum as i32,
                });
                let start = displacements[me] as usize * 4;
                assert!(
                    read(receive, own) == sum[start..start + own],
                    "reduce-scatter-v {seed} on {me} of {n}"
                );
            }
        });
    }
}

#[test]
fn messages_between_pairs_and_in_batches() {
    for ranks in [1u32, 2, 4, 9] {
        world().run(ranks, |rank| {
            let (n, me) = (rank.size(), rank.rank());
            let text = |from: u32, to: u32, number: u32, bytes: usize| -> Vec<u8> {
                (0..bytes as u64)
                    .map(|at| noise(u64::from(number), from * n + to, at) as u8)
                    .collect()
            };
            // A ring of batches, itself included, two messages each, of which one is large.
            let (next, previous) = ((me + 1) % n, (me + n - 1) % n);
            let mut items = Vec::new();
            let mut expected = Vec::new();
            for (number, bytes) in [(0, 3usize), (1, 20_000)] {
                let send = rank.put(&text(me, next, number, bytes));
                let receive = rank.put(&vec![0; bytes]);
                let (count, data_type) = (bytes as u64, DataType::Uint8 as i32);
                items.push(BatchItem {
                    receives: false,
                    buffer: send,
                    count,
                    data_type,
                    peer: next,
                });
                items.push(BatchItem {
                    receives: true,
                    buffer: receive,
                    count,
                    data_type,
                    peer: previous,
                });
                expected.push((receive, text(previous, me, number, bytes)));
            }
            rank.run(Operator::Batch { items });
            for (receive, bytes) in expected {
                assert!(read(receive, bytes.len()) == bytes, "batch on {me} of {n}");
            }
            // Pairs, in a pattern that does not involve all ranks, and a collective after it.
            let partner = me ^ 1;
            if partner < n {
                let (count, data_type) = (9, DataType::Int64 as i32);
                for number in 0..5 {
                    let sends = (me + number) % 2 == 0;
                    let buffer =
                        rank.put(&if sends { text(me, partner, number, 72) } else { vec![0; 72] });
                    rank.run(match sends {
                        true => Operator::Send { buffer, count, data_type, peer: partner },
                        false => Operator::Receive { buffer, count, data_type, peer: partner },
                    });
                    let (from, to) = if sends { (me, partner) } else { (partner, me) };
                    assert!(
                        read(buffer, 72) == text(from, to, number, 72),
                        "{number} on {me} of {n}"
                    );
                }
            }
            let buffer = rank.put(&1i32.to_le_bytes());
            let data_type = DataType::Int32 as i32;
            rank.run(Operator::AllReduce {
                send: buffer,
                receive: buffer,
                count: 1,
                data_type,
                reduction: 0,
            });
            assert_eq!(read(buffer, 4), (n as i32).to_le_bytes());
            rank.run(Operator::Barrier);
        });
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
