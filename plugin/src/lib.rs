//! `libcairn_pool.so`: Cairn's pool over whichever `libascendcl.so` a program has.
//!
//! ```text
//! torch_npu           cairn_malloc, cairn_free ──┐ free_path.rs  frees pass a queue: the stream's own use
//! ge::Allocator       cairn_pool_malloc, free  ──┤ free_path.rs  frees follow the last task: events
//! aclrtAllocatorDesc  callbacks                ──┤ desc.rs
//!                                                ▼
//!                   blocks.rs ── devices.rs, streams.rs
//!                                                ▼
//!                                 cairn_pool::Pool (crates/pool), one a device
//!                       │ Progress             │ SegmentSource
//!                    events.rs              memory.rs: mapped.rs or segments.rs
//!                       └──────── acl.rs ──────┘  documented functions only, by dlsym
//! ```
//!
//! The hot path calls nothing of ACL. Whoever calls it goes to the stream's or device's context and
//! back (`visit.rs`). A reset of a device empties its pool, which goes on; blocks that were out are
//! remembered (`retired.rs`).

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
