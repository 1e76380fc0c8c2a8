//! Operators on one rank against plain ones.

use super::reference::{elements, equal, noise, reduce};
use super::{RankThread, read};
use cairn_comm::{BatchItem, CommConfig, DataType, Operator, Reduction};

/// So little staging that everything larger than a few kilobytes goes in rounds.
pub fn small_buffer() -> CommConfig {
    CommConfig { buffer_bytes: Some(16 << 10), ..CommConfig::default() }
}

fn inputs(rank: &RankThread<'_>, data_type: DataType, seed: u64, count: usize) -> Vec<Vec<u8>> {
    (0..rank.size()).map(|one| elements(data_type, seed, one, count)).collect()
}

/// Every operator that reduces, also in place.
pub fn check_reductions(
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

/// Operators that only move bytes.
pub fn check_moves(rank: &RankThread<'_>, data_type: DataType, count: usize) {
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
                super::write(receive + me * bytes, &all[me]);
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

/// Operators with lists of counts.
pub fn check_lists(rank: &RankThread<'_>) {
    let (n, me) = (rank.size() as usize, rank.rank() as usize);
    for seed in 0..4u64 {
        let large = seed == 3;
        let count = |from: usize, to: usize| match noise(seed, from as u32, to as u64) % 5 {
            0 => 0,
            small => small * if large { 3001 } else { 17 },
        };
        let value =
            |from: usize, to: usize, at: u64| noise(seed + 10, (from * n + to) as u32, at) as i32;
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
        let (send_displacements, receive_displacements) = (reversed(&sends), reversed(&receives));
        let room = |counts: &[u64]| counts.iter().map(|count| count + 3).sum::<u64>() as usize * 4;
        let mut data = vec![0u8; room(&sends)];
        for to in 0..n {
            let bytes = part(me, to);
            data[send_displacements[to] as usize * 4..][..bytes.len()].copy_from_slice(&bytes);
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
        assert!(read(receive, expected.len()) == expected, "all-to-all-v {seed} on {me} of {n}");
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
        assert!(read(receive, expected.len()) == expected, "all-to-all-vc {seed} on {me} of {n}");
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
            expected[displacements[from] as usize * 4..][..bytes.len()].copy_from_slice(&bytes);
        }
        assert!(read(receive, room) == expected, "all-gather-v {seed} on {me} of {n}");
        // Reduced and scattered.
        let all: Vec<Vec<u8>> =
            (0..n as u32).map(|one| elements(DataType::Int32, seed, one, room / 4)).collect();
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
}

/// Single messages and batches of them, and a collective operator after those.
pub fn check_messages(rank: &RankThread<'_>) {
    let (n, me) = (rank.size(), rank.rank());
    let text = |from: u32, to: u32, number: u32, bytes: usize| -> Vec<u8> {
        (0..bytes as u64).map(|at| noise(u64::from(number), from * n + to, at) as u8).collect()
    };
    // A ring of batches, itself included, two messages each, of which one is large.
    let (next, previous) = ((me + 1) % n, (me + n - 1) % n);
    let mut items = Vec::new();
    let mut expected = Vec::new();
    for (number, bytes) in [(0, 3usize), (1, 20_000)] {
        let send = rank.put(&text(me, next, number, bytes));
        let receive = rank.put(&vec![0; bytes]);
        let (count, data_type) = (bytes as u64, DataType::Uint8 as i32);
        items.push(BatchItem { receives: false, buffer: send, count, data_type, peer: next });
        items.push(BatchItem { receives: true, buffer: receive, count, data_type, peer: previous });
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
            let buffer = rank.put(&if sends { text(me, partner, number, 72) } else { vec![0; 72] });
            rank.run(match sends {
                true => Operator::Send { buffer, count, data_type, peer: partner },
                false => Operator::Receive { buffer, count, data_type, peer: partner },
            });
            let (from, to) = if sends { (me, partner) } else { (partner, me) };
            assert!(read(buffer, 72) == text(from, to, number, 72), "{number} on {me} of {n}");
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
}
