use super::*;
use cairn_record::{
    Clock, Epoch, Name,
    encode::Encoder,
    entry::*,
    layout::{Header, PIECE_SEGMENTS, SEGMENT_BYTES, Segment},
};
use std::borrow::Cow;

const MIB: u64 = 1 << 20;

/// A record of one thread, built entry by entry, a microsecond apart.
#[derive(Default)]
struct Builder {
    encoder: Encoder,
    payload: Vec<u8>,
    time_ns: u64,
}

impl Builder {
    fn add(&mut self, site: &'static str, happening: Happening<'_>) -> &mut Builder {
        self.time_ns += 1000;
        let time_ns = 5_000_000 + self.time_ns;
        let thread = if site.is_empty() { 0 } else { 7 };
        let site = Site { entry: site.into(), thread, stack: 0 };
        self.encoder.encode(&Entry { time_ns, thread: 7, site, happening }, &mut self.payload);
        self
    }

    fn alloc(
        &mut self,
        site: &'static str,
        kind: MemoryKind,
        address: usize,
        bytes: u64,
    ) -> &mut Builder {
        self.alloc_for(site, kind, address, bytes, Purpose::User, Owner::default())
    }

    fn alloc_for(
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

    fn free(
        &mut self,
        site: &'static str,
        kind: MemoryKind,
        address: usize,
        bytes: u64,
    ) -> &mut Builder {
        self.add(site, Happening::Free { kind, address, bytes, stream: None })
    }

    fn task(&mut self, seq: u64, name: &'static str, outcome: Outcome) -> &mut Builder {
        let submit = Happening::Submit {
            stream: 1,
            device: 0,
            seq,
            name: Name::from(name),
            task: TaskKind::Work,
            accesses: Cow::Borrowed(&[]),
            ordered: Cow::Owned(Clock::new()),
        };
        self.add(name, submit).add("", Happening::Start { stream: 1, seq });
        let began_ns = 5_000_000 + self.time_ns;
        self.add("", Happening::End { stream: 1, seq, began_ns, outcome })
    }

    fn wait(&mut self, site: &'static str, what: SyncObject, ns: u64) -> &mut Builder {
        let began_ns = 5_000_000 + self.time_ns + 1000 - ns;
        self.add(site, Happening::Synchronize { what, known: Cow::Owned(Clock::new()), began_ns })
    }

    fn callback(&mut self, request: UserCall, ns: u64) -> &mut Builder {
        let began_ns = 5_000_000 + self.time_ns + 1000 - ns;
        let callback =
            Callback { object: 0xbeef, request, stream: Some(1), answer: Some(1), began_ns };
        self.add("aclnnAdd", Happening::Callback(callback))
    }

    fn bytes(&self) -> Vec<u8> {
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

fn summarize(bytes: &[u8]) -> figures::Summary {
    figures::summarize(|| Ok(Reader::new(bytes)?)).unwrap()
}

/// Memory of the program, a pool with two blocks, a user's pool, host memory, tasks, waits and callbacks.
fn example() -> Builder {
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

#[test]
fn a_record_as_text() {
    let text = text::render(&summarize(&example().bytes()));
    assert_eq!(text, include_str!("golden.txt"), "\n{text}");
}

#[test]
fn a_record_as_json() {
    let text = json::render(&summarize(&example().bytes()));
    assert_eq!(text, include_str!("golden.json"), "\n{text}");
}

#[test]
fn blocks_end_with_their_segment_and_their_device() {
    let summary = summarize(&example().bytes());
    let pool = summary.pools[&figures::Pool::Own(0, 1)];
    assert_eq!((pool.peak_live, pool.live, pool.reserved), (4 * MIB, 0, 0));
    let device = summary.places.iter().find(|place| place.device == Some(0)).unwrap();
    assert_eq!((device.peak, device.live_at_end), (14 * MIB, 2 * MIB));
    let mut record = example();
    record.add("", Happening::Device { device: 0, change: Change::Destroyed, capacity: 0 });
    let summary = summarize(&record.bytes());
    assert!(summary.places.iter().all(|place| place.live_at_end == 0));
}

#[test]
fn an_address_that_is_allocated_again_is_counted_once() {
    let mut record = Builder::default();
    for _ in 0..3 {
        record.alloc("aclrtMalloc", MemoryKind::Device(1), 0x1000, 512);
    }
    let summary = summarize(&record.bytes());
    assert_eq!((summary.places[0].peak, summary.places[0].live_at_end), (512, 512));
    assert!(!summary.counts.ended_in_order);
}

#[test]
fn an_empty_record_has_a_summary() {
    let summary = summarize(&Builder::default().bytes());
    assert!(text::render(&summary).starts_with("./prog --fast (process 42): 0 entries in 0 ns"));
}
