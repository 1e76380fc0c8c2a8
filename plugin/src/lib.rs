//! `libcairn_pool.so`: Cairn's pool over whichever `libascendcl.so` a program has.
//!
//! ```text
//! torch_npu           cairn_malloc, cairn_free ──┐ door.rs  FreePath::Queued, or Direct if queue.rs finds no queue
//! ge::Allocator       cairn_pool_malloc, free  ──┤ door.rs  FreePath::Direct
//! aclrtAllocatorDesc  callbacks                ──┤ desc.rs  FreePath::Direct
//!                                                ▼
//!                   blocks.rs ── devices.rs, streams.rs
//!                                                ▼
//!                                 cairn_pool::Pool (crates/pool), one a device
//!                       │ Progress             │ SegmentSource
//!                    events.rs              memory.rs: mapped.rs or segments.rs
//!                       └──────── acl.rs ──────┘  documented functions only, by dlsym
//! ```
//!
//! The hot path calls no function of ACL. Whoever calls one first enters the context of the stream or device, and
//! goes back afterwards (`visit.rs`). A reset of a device empties its pool, which stays in use; blocks that were
//! held then are remembered (`retired.rs`).

mod acl;
mod alive;
mod blocks;
mod desc;
mod devices;
mod door;
mod events;
mod json;
mod mapped;
mod memory;
mod process;
mod queue;
mod refusal;
mod report;
mod retired;
mod segments;
mod settings;
mod streams;
mod text;
mod visit;
