//! `libascendcl.so`: every function of the C interface, translated to the runtime and nothing more.
//!
//! A file per group of functions. `door` says how a call enters and leaves; `abi` is generated from
//! the headers and pins every definition to its declaration.

#[allow(
    non_camel_case_types,
    non_upper_case_globals,
    non_snake_case,
    dead_code,
    missing_docs,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]
mod abi;
mod code;
mod door;

mod aclnn;
mod aclop;
mod allocator;
mod app_log;
mod built_in_tasks;
mod cache_hints;
mod callable;
mod capture;
mod compile_option;
mod context;
mod copies;
mod copy_forms;
mod core_limits;
mod data_buffer;
mod device;
mod device_reports;
mod event;
mod faults;
mod ge;
mod hal;
mod hccl;
mod host_func;
mod init;
mod ipc;
mod mdl;
mod memory;
mod memory_pool;
mod message;
mod mstx;
mod op_limit;
mod overflow;
mod probe;
mod process;
mod reason;
mod shareable;
mod signal_chain;
mod stacks;
mod stream;
mod tensor_desc;
mod trampoline;
mod types;
mod unsupported;
mod version;
mod virtual_memory;
