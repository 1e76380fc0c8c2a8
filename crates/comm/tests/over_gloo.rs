//! Every operator over Gloo, through shared memory and through TCP, with ranks as threads. `CAIRN_TOOLKIT` names the toolkit with the
//! engine; without one nothing is tested here (`cargo xtask test` sets it).

mod support;

use cairn_comm::engine::gloo::Gloo;
use cairn_comm::engine::threads::ThreadEngine;
use cairn_comm::{DataType, Environment, Operator, Reduction};
use std::path::PathBuf;
use std::sync::{Arc, Barrier};
use support::checks::{check_lists, check_messages, check_moves, check_reductions, small_buffer};
use support::reference::{REDUCED, is_supported};
use support::{RankThread, World, world_over};

/// A world for each transport; none without the engine.
fn worlds() -> Vec<World> {
    let Some(toolkit) = std::env::var_os("CAIRN_TOOLKIT") else {
        eprintln!("CAIRN_TOOLKIT is not set: nothing is tested over Gloo");
        return Vec::new();
    };
    let folder = PathBuf::from(toolkit).join("lib64");
    if !folder.join("comm/libcairn_comm.so").is_file() {
        eprintln!("the toolkit has no engine: nothing is tested over Gloo");
        return Vec::new();
    }
    let world = |tcp_only| {
        let environment = Environment { tcp_only, ..Environment::default() };
        let gloo = Arc::new(Gloo::open(&folder).unwrap());
        world_over(gloo, Arc::new(ThreadEngine::default()), environment)
    };
    vec![world(false), world(true)]
}

#[test]
fn reductions() {
    for world in worlds() {
        for ranks in [2, 5] {
            world.run_with(ranks, &small_buffer(), |rank| {
                for data_type in REDUCED {
                    for reduction in Reduction::ALL {
                        if is_supported(data_type, reduction) {
                            check_reductions(rank, data_type, reduction, 33);
                        }
                    }
                }
                for count in [57, 1000, 9001] {
                    check_reductions(rank, DataType::Bfloat16, Reduction::Sum, count);
                }
            });
        }
        world.run(2, |rank| check_reductions(rank, DataType::Float32, Reduction::Sum, 1 << 20));
    }
}

#[test]
fn moves_lists_and_messages() {
    for world in worlds() {
        for ranks in [2, 4, 9] {
            world.run_with(ranks, &small_buffer(), |rank| {
                for count in [1, 225, 100_000] {
                    check_moves(rank, DataType::Uint8, count);
                }
                check_lists(rank);
                check_messages(rank);
            });
        }
    }
}

#[test]
fn ranks_that_call_different_operators_are_named_and_destroy_ends_what_hangs() {
    let all_reduce = |rank: &RankThread<'_>, count: u64| {
        let buffer = rank.put(&vec![1; count as usize]);
        Operator::AllReduce {
            send: buffer,
            receive: buffer,
            count,
            data_type: DataType::Int8 as i32,
            reduction: 0,
        }
    };
    for world in worlds() {
        world.run(3, |rank| {
            let count = if rank.rank() == 1 { 9 } else { 20_000 };
            rank.submit(all_reduce(rank, count)).unwrap();
            let text = rank.synchronize().unwrap_err().text;
            assert!(text.contains("rank 1 called HcclAllReduce of 9 int8"), "{text}");
            assert!(text.contains("HcclAllReduce of 20000 int8"), "{text}");
        });
        let both = Barrier::new(2);
        world.run(2, |rank| {
            rank.run(all_reduce(rank, 5));
            if rank.rank() == 0 {
                rank.submit(all_reduce(rank, 5)).unwrap();
                assert_eq!(rank.communicator.async_error(), None);
            }
            both.wait();
        });
    }
}
