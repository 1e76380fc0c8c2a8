//! The cases: what each rank does. A rank that fails panics.

use crate::{
    ranks::{LONG, Rank, Run, Wire},
    store::MemoryStore,
};
use cairn_comm::engine::{Incoming, LinkError, LinkErrorKind, Mesh, Outgoing, Store};
use std::{
    cell::Cell,
    fs,
    sync::{
        Arc, Barrier,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// A case, with how many ranks and on which of the ways to run them.
pub struct Case {
    pub name: &'static str,
    pub ranks: u32,
    pub on: &'static [Run],
    /// A rank whose process does not end well.
    pub dies: Option<u32>,
    pub body: fn(&Rank),
}

const BOTH: &[Run] = &[Run::Threads, Run::Processes];

pub const ALL: &[Case] = &[
    Case { name: "sizes", ranks: 3, on: BOTH, dies: None, body: sizes },
    Case { name: "slots", ranks: 2, on: BOTH, dies: None, body: slots },
    Case { name: "early", ranks: 2, on: BOTH, dies: None, body: early },
    Case { name: "itself", ranks: 2, on: &[Run::Threads], dies: None, body: itself },
    Case { name: "killed", ranks: 3, on: &[Run::Processes], dies: Some(1), body: killed },
    Case { name: "midway", ranks: 2, on: &[Run::Processes], dies: Some(1), body: midway },
    Case { name: "late", ranks: 2, on: BOTH, dies: None, body: late },
    Case { name: "closed", ranks: 2, on: BOTH, dies: None, body: closed },
    Case { name: "lengths", ranks: 2, on: BOTH, dies: None, body: lengths },
    Case { name: "farewell", ranks: 3, on: BOTH, dies: None, body: farewell },
    Case { name: "alone", ranks: 2, on: &[Run::Threads], dies: None, body: alone },
    Case { name: "again", ranks: 2, on: &[Run::Threads], dies: None, body: again },
];

fn exchange(
    mesh: &dyn Mesh,
    sends: &mut [(u32, u64, Vec<u8>)],
    receives: &mut [(u32, u64, Vec<u8>)],
    time: Duration,
) -> Result<(), LinkError> {
    fn cells(bytes: &mut [u8]) -> &[Cell<u8>] {
        Cell::from_mut(bytes).as_slice_of_cells()
    }
    let outgoing: Vec<Outgoing> = sends
        .iter_mut()
        .map(|(peer, slot, bytes)| Outgoing { peer: *peer, slot: *slot, bytes: cells(bytes) })
        .collect();
    let incoming: Vec<Incoming> = receives
        .iter_mut()
        .map(|(peer, slot, bytes)| Incoming { peer: *peer, slot: *slot, bytes: cells(bytes) })
        .collect();
    mesh.exchange(&outgoing, &incoming, Some(Instant::now() + time))
}

/// A message that says from whom to whom it is, and where each of its bytes belongs.
fn message(from: u32, to: u32, slot: u64, bytes: usize) -> Vec<u8> {
    let seed = u64::from(from) * 31 + u64::from(to) * 17 + slot * 7;
    (0..bytes as u64)
        .map(|i| (seed.wrapping_add(i).wrapping_mul(0x9e37_79b9) >> 11) as u8)
        .collect()
}

fn send(mesh: &dyn Mesh, peer: u32, slot: u64, bytes: Vec<u8>) -> Result<(), LinkError> {
    exchange(mesh, &mut [(peer, slot, bytes)], &mut [], LONG)
}

fn receive(mesh: &dyn Mesh, peer: u32, slot: u64, bytes: usize) -> Result<Vec<u8>, LinkError> {
    let mut receives = [(peer, slot, vec![0; bytes])];
    exchange(mesh, &mut [], &mut receives, LONG)?;
    let [(_, _, bytes)] = receives;
    Ok(bytes)
}

/// Everybody with everybody, from nothing to more than any ring holds.
fn sizes(rank: &Rank) {
    let mesh = rank.connect();
    for (slot, bytes) in (10..).zip([0, 1, 7, 1016, 1017, 4096, 4097, 65_537, 16 << 20]) {
        let mut sends: Vec<_> =
            rank.peers().map(|peer| (peer, slot, message(rank.rank, peer, slot, bytes))).collect();
        let mut receives: Vec<_> = rank.peers().map(|peer| (peer, slot, vec![0; bytes])).collect();
        exchange(&*mesh, &mut sends, &mut receives, LONG).unwrap();
        for (peer, slot, got) in receives {
            assert!(got == message(peer, rank.rank, slot, bytes), "{bytes} bytes of {peer}");
        }
    }
    mesh.check().unwrap();
}

/// Several threads on one mesh, each with many messages in flight, in another order on each side.
fn slots(rank: &Rank) {
    const THREADS: u64 = 4;
    let rounds = if rank.is_deep { 50 } else { 5 };
    let mesh = rank.connect();
    let bytes_of = |slot: u64| [3, 900, 5_000, 70_001, 300_000][slot as usize % 5];
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let mesh = &mesh;
            scope.spawn(move || {
                for round in 0..rounds {
                    // Rank 0 goes through the blocks upwards, rank 1 downwards.
                    let thread = if rank.rank == 0 { thread } else { THREADS - 1 - thread };
                    let first = (round * THREADS + thread) * 24;
                    let peer = 1 - rank.rank;
                    let mut slots: Vec<u64> = (first..first + 24).collect();
                    let mut sends: Vec<_> = slots
                        .iter()
                        .map(|&slot| (peer, slot, message(rank.rank, peer, slot, bytes_of(slot))))
                        .collect();
                    if rank.rank == 1 {
                        slots.reverse();
                    }
                    let mut receives: Vec<_> =
                        slots.iter().map(|&slot| (peer, slot, vec![0; bytes_of(slot)])).collect();
                    exchange(&**mesh, &mut sends, &mut receives, LONG).unwrap();
                    for (peer, slot, got) in receives {
                        assert!(
                            got == message(peer, rank.rank, slot, bytes_of(slot)),
                            "slot {slot}"
                        );
                    }
                }
            });
        }
    });
}

/// Messages that nobody waits for yet, more than are moved aside, hold nobody up.
fn early(rank: &Rank) {
    let mesh = rank.connect();
    let bytes_of = |slot: u64| if slot.is_multiple_of(10) { 500_000 } else { 1_000 };
    let count = 300;
    if rank.rank == 0 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut sends: Vec<_> =
                    (0..count).map(|slot| (1, slot, message(0, 1, slot, bytes_of(slot)))).collect();
                exchange(&*mesh, &mut sends, &mut [], LONG).unwrap();
            });
            scope.spawn(|| {
                let got = receive(&*mesh, 1, 1_000_000, 5).unwrap();
                send(&*mesh, 1, 1_000_001, got).unwrap();
            });
        });
    } else {
        // Another message passes all of them, there and back.
        send(&*mesh, 0, 1_000_000, vec![1, 2, 3, 4, 5]).unwrap();
        assert_eq!(receive(&*mesh, 0, 1_000_001, 5).unwrap(), [1, 2, 3, 4, 5]);
        for slot in (0..count).rev() {
            let got = receive(&*mesh, 0, slot, bytes_of(slot)).unwrap();
            assert!(got == message(0, 1, slot, bytes_of(slot)), "slot {slot}");
        }
    }
}

/// A rank that sends to itself, and one that does so without another side.
fn itself(rank: &Rank) {
    let mesh = rank.connect();
    let (me, peer) = (rank.rank, 1 - rank.rank);
    let mut sends = [(me, 1, vec![9; 3]), (peer, 1, vec![8; 2])];
    let mut receives = [(peer, 1, vec![0; 2]), (me, 1, vec![0; 3])];
    exchange(&*mesh, &mut sends, &mut receives, LONG).unwrap();
    assert_eq!((&*receives[0].2, &*receives[1].2), (&[8, 8][..], &[9, 9, 9][..]));
    let error = receive(&*mesh, me, 2, 3).unwrap_err();
    assert!(error.text.contains("no other side"), "{error}");
}

/// Ends this process at once, without any goodbye.
fn die() -> ! {
    let _ =
        std::process::Command::new("kill").args(["-9", &std::process::id().to_string()]).status();
    unreachable!("the process was killed")
}

/// A rank is killed: one that waits for it hears of it, and one that only asks.
fn killed(rank: &Rank) {
    let mesh = rank.connect();
    match rank.rank {
        0 => {
            send(&*mesh, 1, 1, vec![1]).unwrap();
            let error = receive(&*mesh, 1, 2, 10).unwrap_err();
            assert_eq!((error.kind, error.peer), (LinkErrorKind::PeerGone, Some(1)), "{error}");
            let error = receive(&*mesh, 2, 3, 10).unwrap_err();
            assert_eq!(error.peer, Some(1), "the mesh has ended with the first failure: {error}");
        }
        1 => {
            receive(&*mesh, 0, 1, 1).unwrap();
            die();
        }
        _ => {
            let end = Instant::now() + LONG;
            let error = loop {
                match mesh.check() {
                    Err(error) => break error,
                    Ok(()) => assert!(Instant::now() < end, "nobody noticed"),
                }
                std::thread::yield_now();
            };
            assert_eq!(error.kind, LinkErrorKind::PeerGone, "{error}");
        }
    }
}

/// A rank is killed in the middle of long messages in both directions.
fn midway(rank: &Rank) {
    let mesh = rank.connect();
    let done = AtomicU64::new(0);
    let peer = 1 - rank.rank;
    let stream = || -> LinkError {
        for slot in 0.. {
            let mut receives = [(peer, slot, vec![0; 4 << 20])];
            if let Err(error) =
                exchange(&*mesh, &mut [(peer, slot, vec![1; 4 << 20])], &mut receives, LONG)
            {
                return error;
            }
            done.fetch_add(1, Ordering::SeqCst);
        }
        unreachable!()
    };
    if rank.rank == 0 {
        let error = stream();
        assert_eq!((error.kind, error.peer), (LinkErrorKind::PeerGone, Some(1)), "{error}");
        return;
    }
    std::thread::scope(|scope| {
        scope.spawn(stream);
        while done.load(Ordering::SeqCst) < 3 {
            std::thread::yield_now();
        }
        die();
    });
}

/// A message that does not come in time, and what its sender hears then.
fn late(rank: &Rank) {
    let mesh = rank.connect();
    if rank.rank == 0 {
        let mut receives = [(1, 5, vec![0; 10])];
        let time = Duration::from_millis(50);
        let error = exchange(&*mesh, &mut [], &mut receives, time).unwrap_err();
        assert_eq!((error.kind, error.peer), (LinkErrorKind::Timeout, Some(1)), "{error}");
        assert!(error.text.contains("message 5 of 10 bytes"), "{error}");
        assert_eq!(mesh.check().unwrap_err().kind, LinkErrorKind::Timeout);
        // Nothing touches the bytes afterwards.
        assert_eq!(receives[0].2, [0; 10]);
    } else {
        let error = receive(&*mesh, 0, 6, 10).unwrap_err();
        assert_eq!((error.kind, error.peer), (LinkErrorKind::PeerGone, Some(0)), "{error}");
    }
}

/// A close while others wait.
fn closed(rank: &Rank) {
    let mesh = rank.connect();
    if rank.rank == 1 {
        let error = receive(&*mesh, 0, 1, 100_000).unwrap_err();
        assert_eq!((error.kind, error.peer), (LinkErrorKind::PeerGone, Some(0)), "{error}");
        return;
    }
    let started = Barrier::new(3);
    std::thread::scope(|scope| {
        for slot in [2, 3] {
            let (mesh, started) = (&mesh, &started);
            scope.spawn(move || {
                started.wait();
                let error = match slot {
                    2 => receive(&**mesh, 1, slot, 10).unwrap_err(),
                    _ => send(&**mesh, 1, slot, vec![0; 1 << 20]).unwrap_err(),
                };
                assert_eq!(error.kind, LinkErrorKind::Closed, "{error}");
            });
        }
        started.wait();
        mesh.close();
    });
    mesh.close();
    assert_eq!(mesh.check().unwrap_err().kind, LinkErrorKind::Closed);
    assert_eq!(send(&*mesh, 1, 9, vec![]).unwrap_err().kind, LinkErrorKind::Closed);
}

/// Lengths that differ, short and long.
fn lengths(rank: &Rank) {
    for (slot, bytes) in (0..).zip([[10, 11], [100_000, 10], [10, 100_000], [100_000, 100_001]]) {
        let store = rank.store(slot);
        let mesh = rank.try_connect(&store, LONG).unwrap();
        let error = match rank.rank {
            0 => send(&*mesh, 1, 7, vec![0; bytes[0]]).err(),
            _ => receive(&*mesh, 0, 7, bytes[1]).err(),
        };
        // A short message is sent before anybody compares.
        if rank.rank == 1 || bytes[0] > 4096 {
            let error = error.expect("the lengths differ");
            let is_known = [LinkErrorKind::TooLong, LinkErrorKind::PeerGone].contains(&error.kind);
            assert!(is_known, "{error}");
            if rank.rank == 1 && bytes[0] <= 4096 {
                assert_eq!(error.kind, LinkErrorKind::TooLong, "{error}");
                assert!(error.text.contains(&bytes[1].to_string()), "{error}");
            }
        }
    }
}

/// Ranks that are done leave, and those who stay are not disturbed.
fn farewell(rank: &Rank) {
    let mesh = rank.connect();
    match rank.rank {
        0 => {
            send(&*mesh, 1, 1, message(0, 1, 1, 2_000)).unwrap();
            send(&*mesh, 2, 1, message(0, 2, 1, 2_000)).unwrap();
        }
        me => {
            let peer = 3 - me;
            assert!(receive(&*mesh, 0, 1, 2_000).unwrap() == message(0, me, 1, 2_000));
            for slot in 10..200 {
                let mut receives = [(peer, slot, vec![0; 20_000])];
                exchange(&*mesh, &mut [(peer, slot, vec![5; 20_000])], &mut receives, LONG)
                    .unwrap();
                // After the last one the peer may be at the failure below.
                if slot < 199 {
                    mesh.check().unwrap();
                }
            }
            // Who needs a rank that left is told so.
            let error = receive(&*mesh, 0, 2, 1).unwrap_err();
            assert_eq!((error.kind, error.peer), (LinkErrorKind::PeerGone, Some(0)), "{error}");
        }
    }
}

/// A rank that never comes: the store's own error.
fn alone(rank: &Rank) {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let time = Duration::from_millis(30);
    let Err(error) = rank.try_connect(&store, time) else { panic!("there is nobody") };
    assert_eq!(error.kind, LinkErrorKind::Timeout, "{error}");
    assert!(error.text.contains("nobody wrote"), "{error}");
}

/// Meshes come and go, and leave nothing.
fn again(rank: &Rank) {
    let rounds = match (rank.wire, rank.is_deep) {
        (Wire::Shared, _) => 1_000,
        (Wire::Tcp, true) => 1_000,
        (Wire::Tcp, false) => 60,
    };
    let count = |folder: &str| fs::read_dir(folder).unwrap().count();
    let maps = || fs::read_to_string("/proc/self/maps").unwrap().matches("cairn-comm").count();
    let state = || [count("/proc/self/fd"), count("/proc/self/task"), maps()];
    let peer = 1 - rank.rank;
    let mut before = None;
    for round in 0..rounds + 3 {
        let store = rank.store(round);
        let mesh = rank.try_connect(&store, LONG).unwrap();
        let mut receives = [(peer, 1, vec![0; 8_000])];
        exchange(&*mesh, &mut [(peer, 1, vec![3; 8_000])], &mut receives, LONG).unwrap();
        assert_eq!(receives[0].2, [3; 8_000]);
        drop(mesh);
        if round == 2 {
            before = Some(state());
        }
    }
    let before = before.expect("the first rounds are over");
    // The other rank, and other tests, may have a few more open than then.
    let after = state();
    let grew = after.iter().zip(before).any(|(after, before)| *after >= before + 40);
    assert!(!grew, "{before:?}, then {after:?}");
}
