//! Without addresses for its own tables (`ulimit -v`) the engine says so, and goes on.
#![cfg(not(feature = "shuttle"))]

use cairn_runtime::error::Code;
use cairn_runtime::memory::request::Request;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::process::Command;

mod support;
use support::*;

#[test]
fn tables_without_memory_are_an_error() {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--ignored", "--exact", "without_addresses"]);
    let output = program.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{errors}");
}

/// Bytes of addresses that this process has.
fn addresses() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').next().unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

#[test]
#[ignore = "run by tables_without_memory_are_an_error"]
fn without_addresses() {
    let runtime = start_runtime(1, |config| {
        config.device_memory = 32 << 30;
        config.budget = 64 << 30;
        config.shared.bytes = 64 << 30;
    });
    runtime.set_device(0).unwrap();
    let memory = &runtime.shared.memory;
    let mut blocks = vec![memory.allocate(0, Request::bytes(8 * MIB)).unwrap()];
    blocks.reserve(4096);
    let before = getrlimit(Resource::As);
    let limit = addresses() + MIB;
    setrlimit(Resource::As, Rlimit { current: Some(limit), ..getrlimit(Resource::As) }).unwrap();
    // Each block lies in a part of the table of its own, of 128 KiB.
    let error = loop {
        match memory.allocate(0, Request::bytes(8 * MIB)) {
            Ok(block) => blocks.push(block),
            Err(error) => break error,
        }
    };
    assert_eq!(error.code, Code::MemoryAllocation, "{}", error.text);
    assert!(error.text.contains("there is no memory for the table of blocks"), "{}", error.text);
    assert!(error.text.contains("ulimit -v"), "{}", error.text);
    let live = memory.usage(0).live;
    assert_eq!(live, blocks.len() as u64 * 8 * MIB, "a refused block is not counted");
    setrlimit(Resource::As, before).unwrap();
    let next = memory.allocate(0, Request::bytes(8 * MIB)).unwrap();
    assert_eq!(next, blocks.last().unwrap() + (8 << 20), "its addresses are free again");
}
