//! The clauses that a pool is checked against.

use crate::bench::spec::{AllocatorSpec, Door};

/// Which interfaces a clause is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Every pool.
    All,
    /// Malloc and free for PyTorch.
    Torch,
    /// Allocators that the engine calls.
    Engine,
}

/// One promise of a pool.
pub struct Clause {
    /// Its id, in reports and on the command line; a row of `docs/pooltest.md` has this name.
    pub id: &'static str,
    /// The clauses of Cairn's contract that it comes from.
    pub contract: &'static [&'static str],
    /// Which pools make it.
    pub scope: Scope,
    /// What must hold.
    pub rule: &'static str,
    /// What happens otherwise, and what to do.
    pub lesson: &'static str,
    /// Whether it is about circumstances, such as threads: whatever goes wrong in them is its own matter. What other workloads
    /// meet of another clause breaks that one.
    pub is_about_circumstances: bool,
    /// The environments that it is checked in, each in a process of its own.
    pub environments: &'static [Environment],
    /// Rules of the checker whose findings break it.
    pub findings: &'static [&'static str],
    /// Rules of the checker whose findings are worth a note.
    pub notes: &'static [&'static str],
}

/// Variables of a process.
pub type Environment = &'static [(&'static str, &'static str)];

/// Nothing special.
const PLAIN: Environment = &[];
/// A device that is soon full.
const SMALL: Environment = &[("CAIRN_DEVICE_MEMORY", "128mib")];

impl Clause {
    /// Whether a pool with this interface makes the promise.
    pub fn concerns(&self, spec: &AllocatorSpec) -> bool {
        match self.scope {
            Scope::All => true,
            Scope::Engine => matches!(spec, AllocatorSpec::Factory { .. }),
            Scope::Torch => !matches!(spec, AllocatorSpec::Factory { .. }),
        }
    }

    /// The clauses of the contract, for pools with this interface.
    pub fn contract(&self, spec: &AllocatorSpec) -> Vec<&'static str> {
        let prefix = match spec {
            AllocatorSpec::Factory { door: Door::Acl, .. } => "ACL-",
            AllocatorSpec::Factory { door: Door::Ge, .. } => "GE-",
            _ => "TORCH-",
        };
        self.contract.iter().copied().filter(|id| id.starts_with(prefix)).collect()
    }
}

/// The clause that the traces decide.
pub const TRACES: &str = "traces";
/// The clause without which no other is tried.
pub const LOAD: &str = "load";
/// The clause that is about the end of the process.
pub const EXIT: &str = "exit";

/// What a clause has if nothing else is said.
const PLAIN_CLAUSE: Clause = Clause {
    id: "",
    contract: &[],
    scope: Scope::All,
    rule: "",
    lesson: "",
    is_about_circumstances: false,
    environments: &[PLAIN],
    findings: &[],
    notes: &[],
};

/// Every clause, in the order of the report.
pub const ALL: [Clause; 21] = [
    Clause {
        id: LOAD,
        contract: &["TORCH-5", "GE-REG-7", "ACL-REG-1"],
        rule: "the library loads and has its functions",
        lesson: "Link it with what it needs (-lascendcl), and declare its functions extern \"C\".",
        ..PLAIN_CLAUSE
    },
    Clause {
        id: "sizes",
        contract: &["GE-REG-7"],
        rule: "blocks of any size, from one byte to many MiB, are as long as was asked",
        lesson: "A block that is too short lets a kernel write into its neighbour. Round sizes up, never down, and give null rather than less.",
        ..PLAIN_CLAUSE
    },
    Clause {
        id: "zero",
        scope: Scope::Torch,
        rule: "a request for 0 bytes gives null or a block that can be given back",
        lesson: "Empty tensors are common. Give null for them, or an address that no other block has.",
        ..PLAIN_CLAUSE
    },
    Clause {
        id: "alignment",
        rule: "every block begins at a multiple of 32 bytes, better of 64",
        lesson: "Kernels move 32 bytes at a time, and CANN asks for 64 where memory is cut by hand. Round every size up to 512: that is what CANN's own pools do.",
        ..PLAIN_CLAUSE
    },
    Clause {
        id: "overlap",
        contract: &["GE-REG-7"],
        rule: "no byte is in two blocks at a time",
        lesson: "Two tensors would share memory. Mark a block as taken before it is handed out, and as free only in free.",
        ..PLAIN_CLAUSE
    },
    Clause {
        id: "contents",
        rule: "what was written into a block stays until the block is given back",
        lesson: "The pool, or a neighbour, writes into blocks that others hold. Keep the pool's own data on the host, and clear nothing beyond a block's end.",
        ..PLAIN_CLAUSE
    },
    Clause {
        id: "host-access",
        rule: "the pool itself never loads from, or stores to, device memory",
        lesson: "On a CPU it works, on an NPU it is a fault. Keep lists and headers in host memory, by address.",
        environments: &[&[("CAIRN_MEMORY", "no-host-access")]],
        findings: &["host-touch"],
        ..PLAIN_CLAUSE
    },
    Clause {
        id: "give-back",
        rule: "what is given back can be had again: a loop can run for ever",
        lesson: "The pool grows with every round until the device is full. Put blocks that come back where the next request looks for them.",
        environments: &[SMALL],
        ..PLAIN_CLAUSE
    },
    Clause {
        id: "frees-once",
        contract: &["TORCH-5", "GE-REG-7"],
        rule: "memory goes back to ACL once, and only memory that ACL gave",
        lesson: "A second aclrtFree may hit whoever has the address by then. Remove memory from the pool's list before it is freed.",
        environments: &[SMALL],
        findings: &["wrong-free"],
        ..PLAIN_CLAUSE
    },
    Clause {
        id: "devices",
        is_about_circumstances: true,
        scope: Scope::Torch,
        rule: "a block lies on the device that was asked for, and the caller's device stays",
        lesson: "Take memory from ACL, keep a list for each device, and if the pool calls aclrtSetDevice, in malloc or in free, set the former device again.",
        ..PLAIN_CLAUSE
    },
    Clause {
        id: "advise",
        scope: Scope::Engine,
        rule: "a preferred address is a wish: the block is good wherever it lies",
        lesson: "The address may be another block's by now. Ignore it, or check that it is free.",
        ..PLAIN_CLAUSE
    },
    Clause {
        id: "threads",
        is_about_circumstances: true,
        rule: "several threads may take and give back at the same time",
        lesson: "torch calls from every thread that has tensors, and graphs on several streams call their allocators at the same time. Take a lock around the pool's lists.",
        ..PLAIN_CLAUSE
    },
    Clause {
        id: "streams",
        contract: &["GE-REG-5", "ACL-REG-6"],
        rule: "memory that one stream used goes to another only after an event or a synchronize",
        lesson: "The first stream's kernel may still be running. Record an event when a block is given back, and let the other stream wait for it, or ask whether it is complete.",
        findings: &["order"],
        ..PLAIN_CLAUSE
    },
    Clause {
        id: "torch-queue",
        scope: Scope::Torch,
        rule: "memory that was given back reaches no other stream while torch_npu's queue may hold its kernel",
        lesson: "torch_npu frees a tensor before the kernel that reads it has left torch_npu's own queue: an event recorded in free comes too early. Keep the memory for its own stream until the program has synchronized, or run with TASK_QUEUE_ENABLE=0.",
        environments: &[&[("TASK_QUEUE_ENABLE", "1")]],
        findings: &["order"],
        ..PLAIN_CLAUSE
    },
    Clause {
        id: "pending",
        contract: &["GE-REG-6", "ACL-REG-7"],
        rule: "memory goes back to ACL only when no task can touch it any more",
        lesson: "aclrtFree does not wait. Here such memory is kept intact until its tasks are done; an NPU may hand it out at once. Call aclrtSynchronizeStream, or ask an event, before aclrtFree.",
        environments: &[SMALL],
        findings: &["pool-freed-while-pending"],
        notes: &["freed-while-pending"],
        ..PLAIN_CLAUSE
    },
    Clause {
        id: "out-of-memory",
        contract: &["TORCH-6"],
        rule: "when the device is full the pool gives null, and goes on working",
        lesson: "Check the code of every aclrtMalloc, give null when it fails, and leave on every path with the lock released.",
        environments: &[SMALL],
        ..PLAIN_CLAUSE
    },
    Clause {
        id: "recovery",
        rule: "what was given back in small blocks can be had as a large one",
        lesson: "Memory that is cached and free is lost for other sizes. When aclrtMalloc fails, give what is free back to ACL and try once more.",
        environments: &[SMALL],
        ..PLAIN_CLAUSE
    },
    Clause {
        id: "faults",
        is_about_circumstances: true,
        contract: &["TORCH-5", "TORCH-6"],
        rule: "any single call of aclrtMalloc may fail, and only its own request is refused",
        lesson: "Check the code of every aclrtMalloc, also of the first, and forget nothing that was taken before.",
        environments: &[
            &[("CAIRN_MEMORY", "fault:nth=1:purpose=user")],
            &[("CAIRN_MEMORY", "fault:nth=2:purpose=user")],
            &[("CAIRN_MEMORY", "fault:nth=3:purpose=user")],
            &[("CAIRN_MEMORY", "fault:every=2:purpose=user")],
        ],
        ..PLAIN_CLAUSE
    },
    Clause {
        id: "random",
        is_about_circumstances: true,
        rule: "random sequences on three streams agree with a simple model",
        lesson: "Sequences that no one thought of; --seed chooses others, and the same seed the same ones.",
        ..PLAIN_CLAUSE
    },
    Clause {
        id: TRACES,
        is_about_circumstances: true,
        rule: "recorded programs get all their blocks, and no two overlap",
        lesson: "These are the requests of real programs, in their order: `cairn replay` runs them alone.",
        environments: &[],
        ..PLAIN_CLAUSE
    },
    Clause {
        id: EXIT,
        rule: "a process that holds blocks ends in order",
        lesson: "After main, ACL and other libraries may be gone. Let destructors of static objects call nothing of ACL, and end the pool's threads.",
        ..PLAIN_CLAUSE
    },
];
