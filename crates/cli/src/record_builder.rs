//! Records for tests, made entry by entry.

use std::borrow::Cow;

use cairn_record::{
    Clock, Epoch, Name,
    encode::Encoder,
    entry::*,
    layout::{Header, PIECE_SEGMENTS, SEGMENT_BYTES, Segment},
};

pub const MIB: u64 = 1 << 20;

/// A record of one thread, built entry by entry, a microsecond apart.
#[derive(Default)]
pub struct Builder {
    encoder: Encoder,
    payload: Vec<u8>,
    time_ns: u64,
}

impl Builder {
    pub fn add(&mut self, site: &'static str, happening: Happening<'_>) -> &mut Builder {
        self.time_ns += 1000;
        let time_ns = 5_000_000 + self.time_ns;
        let thread = if site.is_empty() { 0 } else { 7 };
        let site = Site { entry: site.into(), thread, stack: 0 };
        self.encoder.encode(&Entry { time_ns, thread: 7, site, happening }, &mut self.payload);
        self
    }

    pub fn alloc(
        &mut self,
        site: &'static str,
        kind: MemoryKind,
        address: usize,
        bytes: u64,
    ) -> &mut Builder {
        self.alloc_for(site, kind, address, bytes, Purpose::User, Owner::default())
    }

    pub fn alloc_for(
        &mut self,
        site: &'static str,
        kind: MemoryKind,
        address: usize,
        bytes: u64,
        purpose: Purpose,
        owner: Owner,
    ) -> &mut Builder {
        self.add(site, Happening::Alloc { kind, address, bytes, purpose, owner, stream: None })
    }

    pub fn free(
        &mut self,
        site: &'static str,
        kind: MemoryKind,
        address: usize,
        bytes: u64,
    ) -> &mut Builder {
        self.add(site, Happening::Free { kind, address, bytes, stream: None })
    }

    pub fn task(&mut self, seq: u64, name: &'static str, outcome: Outcome) -> &mut Builder {
        self.submit(seq, name).add("", Happening::Start { stream: 1, seq });
        let began_ns = 5_000_000 + self.time_ns;
        self.add("", Happening::End { stream: 1, seq, began_ns, outcome })
    }

    /// A task of stream 1 that is only submitted.
    pub fn submit(&mut self, seq: u64, name: &'static str) -> &mut Builder {
        let submit = Happening::Submit {
            stream: 1,
            device: 0,
            seq,
            name: Name::from(name),
            task: TaskKind::Work,
            accesses: Cow::Borrowed(&[]),
            ordered: Cow::Owned(Clock::new()),
        };
        self.add(name, submit)
    }

    /// Its end.
    pub fn end_task(&mut self, seq: u64) -> &mut Builder {
        let began_ns = 5_000_000 + self.time_ns;
        self.add("", Happening::End { stream: 1, seq, began_ns, outcome: Outcome::Done })
    }

    pub fn wait(&mut self, site: &'static str, what: SyncObject, ns: u64) -> &mut Builder {
        let began_ns = 5_000_000 + self.time_ns + 1000 - ns;
        self.add(site, Happening::Synchronize { what, known: Cow::Owned(Clock::new()), began_ns })
    }

    pub fn callback(&mut self, request: UserCall, ns: u64) -> &mut Builder {
        let began_ns = 5_000_000 + self.time_ns + 1000 - ns;
        let callback =
            Callback { object: 0xbeef, request, stream: Some(1), answer: Some(1), began_ns };
        self.add("aclnnAdd", Happening::Callback(callback))
    }

    /// Joins a communicator.
    pub fn join(&mut self, id: u64, identity: u128, rank: u32, size: u32) -> &mut Builder {
        let communicator =
            Communicator { id, name: "world".into(), identity, rank, size, device: rank };
        let created = Happening::Communicator(Cow::Owned(communicator), Change::Created);
        self.add("HcclCommInitRootInfo", created)
    }

    /// An operator of a communicator, as task `seq` of stream 1, of 256 elements of fp32.
    pub fn collective(
        &mut self,
        communicator: u64,
        ticket: u64,
        operator: &'static str,
        seq: u64,
        change: impl FnOnce(&mut Collective),
    ) -> &mut Builder {
        let mut collective = Collective {
            communicator,
            ticket,
            operator: operator.into(),
            epoch: Epoch { stream: 1, seq },
            count: 256,
            data_type: 4,
            reduction: None,
            root: None,
            to: Vec::new(),
            from: Vec::new(),
        };
        change(&mut collective);
        self.add(operator, Happening::Collective(Cow::Owned(collective)))
    }

    pub fn bytes(&self) -> Vec<u8> {
        let header = Header {
            pid: 42,
            start_ns: 5_000_000,
            command: "./prog --fast".into(),
            ..Header::default()
        };
        let mut bytes = header.encode();
        let segment = Segment { chain: 0, ordinal: 0, thread: 7, used: self.payload.len() as u32 };
        let begin = bytes.len();
        bytes.extend_from_slice(&segment.encode());
        bytes.extend_from_slice(&self.payload);
        bytes.resize(begin + PIECE_SEGMENTS * SEGMENT_BYTES, 0);
        bytes
    }
}

/// Memory of the program, a pool with two blocks, a user's pool, host memory, tasks, waits and callbacks.
pub fn example() -> Builder {
    let mut record = Builder::default();
    let device = MemoryKind::Device(0);
    let segment = MemoryKind::PoolSegment { device: 0, pool: 1 };
    let block = MemoryKind::PoolBlock { device: 0, pool: 1 };
    let external = MemoryKind::External { device: 0, object: 0xbeef, block: 1 };
    let operator = |name: &'static str| Owner { operator: name.into(), ..Owner::default() };
    let graph = Owner { graph: Some(3), loaded: Some(9), operator: Name::NONE };
    let plan = StepPlan { id: 1, loaded: 9, label: "net".into(), steps: Vec::new() };
    record
        .add(
            "aclrtSetDevice",
            Happening::Device { device: 0, change: Change::Created, capacity: 64 * MIB },
        )
        .alloc("aclrtMalloc", device, 0x10_0000, 2 * MIB)
        .alloc_for("aclnnAdd", segment, 0x100_0000, 8 * MIB, Purpose::PoolSegment, Owner::default())
        .alloc_for("aclnnAdd", block, 0x100_0000, 3 * MIB, Purpose::Workspace, operator("aclnnAdd"))
        .alloc_for("aclmdlLoadFromFile", block, 0x140_0000, MIB, Purpose::Const, graph)
        .add("aclmdlLoadFromFile", Happening::Load(Cow::Owned(plan)))
        .alloc("aclrtMalloc", device, 0x200_0000, 4 * MIB)
        .callback(UserCall::Alloc(1 << 20), 700)
        .alloc_for("aclnnMul", external, 0x200_0000, MIB, Purpose::Workspace, operator("aclnnMul"))
        .add(
            "",
            Happening::Usage { device: 0, used: 15 * MIB, quarantined: MIB, capacity: 64 * MIB },
        )
        .callback(UserCall::Free(1), 300)
        .free("aclnnMul", external, 0x200_0000, MIB)
        .free("aclrtFree", device, 0x200_0000, 4 * MIB)
        .alloc("aclrtMallocHost", MemoryKind::Pinned, 0x7000, 4096)
        .task(1, "aclnnAdd", Outcome::Done)
        .task(2, "aclnnMul", Outcome::Failed)
        .add("aclrtRecordEvent", Happening::Record { event: 4, epoch: Epoch { stream: 1, seq: 3 } })
        .wait("aclrtSynchronizeStream", SyncObject::Stream(1), 900)
        .wait("aclrtSynchronizeStream", SyncObject::Stream(1), 100)
        .free("aclrtFreeHost", MemoryKind::Pinned, 0x7000, 4096)
        .free("aclrtResetDevice", segment, 0x100_0000, 8 * MIB)
        .add("", Happening::Exit);
    record
}
