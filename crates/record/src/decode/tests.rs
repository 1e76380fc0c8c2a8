use super::*;
use crate::encode::Encoder;
use proptest::prelude::*;

fn name() -> impl Strategy<Value = Name> {
    prop_oneof![
        Just(Name::NONE),
        Just(Name::from("aclrtMalloc")),
        Just(Name::from("aclnnAdd")),
        "[a-zß]{0,12}".prop_map(Name::from),
    ]
}

fn access() -> impl Strategy<Value = Access> {
    let dims = proptest::collection::vec((any::<u64>(), any::<i64>()), 0..6);
    (any::<usize>(), any::<u64>(), dims, 0..3u8, any::<bool>()).prop_map(
        |(address, element, dims, mode, indexed)| Access {
            address,
            element,
            dims: dims.into(),
            mode: [Mode::Read, Mode::Write, Mode::ReadWrite][usize::from(mode)],
            indexed,
        },
    )
}

fn accesses() -> impl Strategy<Value = Vec<Access>> {
    proptest::collection::vec(access(), 0..4)
}

fn some_clock() -> impl Strategy<Value = Clock> {
    proptest::collection::vec((0u32..9, 1u64..1 << 40), 0..5).prop_map(|epochs| {
        let mut clock = Clock::new();
        epochs.into_iter().for_each(|(stream, seq)| clock.raise(Epoch { stream, seq }));
        clock
    })
}

fn some_epoch() -> impl Strategy<Value = Epoch> {
    (any::<u32>(), any::<u64>()).prop_map(|(stream, seq)| Epoch { stream, seq })
}

fn some_kind() -> impl Strategy<Value = MemoryKind> {
    let number = any::<u32>;
    prop_oneof![
        number().prop_map(MemoryKind::Device),
        Just(MemoryKind::Pinned),
        Just(MemoryKind::Registered),
        (number(), number()).prop_map(|(device, pool)| MemoryKind::PoolSegment { device, pool }),
        (number(), number()).prop_map(|(device, pool)| MemoryKind::PoolBlock { device, pool }),
        number().prop_map(|device| MemoryKind::Mapped { device }),
        (number(), any::<usize>(), any::<usize>())
            .prop_map(|(device, object, block)| MemoryKind::External { device, object, block }),
    ]
}

fn some_change() -> impl Strategy<Value = Change> {
    prop_oneof![Just(Change::Created), Just(Change::Destroyed)]
}

fn object() -> impl Strategy<Value = SyncObject> {
    (0..3u8, any::<u32>()).prop_map(|(which, number)| match which {
        0 => SyncObject::Stream(number),
        1 => SyncObject::Event(number),
        _ => SyncObject::Device(number),
    })
}

fn request() -> impl Strategy<Value = UserCall> {
    (0..4u8, any::<usize>(), any::<usize>()).prop_map(|(which, a, b)| match which {
        0 => UserCall::Alloc(a),
        1 => UserCall::Advise(a, b),
        2 => UserCall::Address(a),
        _ => UserCall::Free(a),
    })
}

fn frame() -> impl Strategy<Value = Frame> {
    prop_oneof![
        (name(), any::<u64>()).prop_map(|(module, offset)| Frame::Native { module, offset }),
        (name(), name(), any::<u32>()).prop_map(|(function, file, line)| Frame::Python {
            function,
            file,
            line
        }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let access =
        (any::<u32>(), access()).prop_map(|(region, access)| StepAccess { region, access });
    ("[a-z]{0,8}", proptest::collection::vec(access, 0..3))
        .prop_map(|(node, accesses)| Step { node, accesses })
}

fn memory_happening() -> impl Strategy<Value = Happening<'static>> {
    let block = || (some_kind(), any::<usize>(), any::<u64>(), any::<Option<u32>>());
    let owner = (any::<Option<u32>>(), any::<Option<u64>>(), name());
    prop_oneof![
        (block(), 0..12usize, owner).prop_map(
            |((kind, address, bytes, stream), purpose, (graph, loaded, operator))| {
                let purpose = Purpose::ALL[purpose];
                let owner = Owner { graph, loaded, operator };
                Happening::Alloc { kind, address, bytes, purpose, owner, stream }
            }
        ),
        block().prop_map(|(kind, address, bytes, stream)| {
            Happening::Free { kind, address, bytes, stream }
        }),
        block().prop_map(|(kind, address, bytes, _)| Happening::Reusable { kind, address, bytes }),
        (any::<u32>(), any::<u64>(), any::<u64>(), any::<u64>()).prop_map(
            |(device, used, quarantined, capacity)| {
                Happening::Usage { device, used, quarantined, capacity }
            }
        ),
        (name(), accesses())
            .prop_map(|(name, accesses)| Happening::Touch { name, accesses: accesses.into() }),
        (any::<usize>(), any::<bool>())
            .prop_map(|(address, writes)| Happening::HostFault { address, writes }),
        (any::<usize>(), request(), any::<Option<u32>>(), any::<Option<usize>>(), any::<u64>())
            .prop_map(|(object, request, stream, answer, began_ns)| {
                Happening::Callback(Callback { object, request, stream, answer, began_ns })
            }),
    ]
}

fn task_happening() -> impl Strategy<Value = Happening<'static>> {
    let kinds = [
        TaskKind::Nothing,
        TaskKind::Work,
        TaskKind::HostFunction,
        TaskKind::Record,
        TaskKind::Wait,
    ];
    let outcomes = [Outcome::Done, Outcome::Failed, Outcome::Dropped];
    prop_oneof![
        (some_epoch(), any::<u32>(), name(), 0..5usize, accesses(), some_clock()).prop_map(
            move |(epoch, device, name, kind, accesses, ordered)| Happening::Submit {
                stream: epoch.stream,
                device,
                seq: epoch.seq,
                name,
                task: kinds[kind],
                accesses: accesses.into(),
                ordered: Cow::Owned(ordered),
            }
        ),
        some_epoch().prop_map(|Epoch { stream, seq }| Happening::Start { stream, seq }),
        (some_epoch(), any::<u64>(), 0..3usize).prop_map(
            move |(Epoch { stream, seq }, began_ns, outcome)| {
                Happening::End { stream, seq, began_ns, outcome: outcomes[outcome] }
            }
        ),
        (any::<u32>(), some_epoch()).prop_map(|(event, epoch)| Happening::Record { event, epoch }),
        (any::<u32>(), proptest::option::of(some_epoch()), some_epoch())
            .prop_map(|(event, record, epoch)| Happening::Wait { event, record, epoch }),
        (object(), some_clock())
            .prop_map(|(what, known)| Happening::Complete { what, known: Cow::Owned(known) }),
        (object(), some_clock(), any::<u64>()).prop_map(|(what, known, began_ns)| {
            Happening::Synchronize { what, known: Cow::Owned(known), began_ns }
        }),
    ]
}

fn communicator() -> impl Strategy<Value = Communicator> {
    (any::<u64>(), "[a-zß]{0,9}", any::<u128>(), any::<[u32; 3]>()).prop_map(
        |(id, name, identity, [rank, size, device])| Communicator {
            id,
            name,
            identity,
            rank,
            size,
            device,
        },
    )
}

fn collective() -> impl Strategy<Value = Collective> {
    let numbers = (any::<[u64; 3]>(), any::<u8>(), any::<Option<u8>>(), any::<Option<u32>>());
    let ranks = || proptest::collection::vec(any::<u32>(), 0..4);
    (name(), some_epoch(), numbers, ranks(), ranks()).prop_map(
        |(
            operator,
            epoch,
            ([communicator, ticket, count], data_type, reduction, root),
            to,
            from,
        )| {
            Collective {
                communicator,
                ticket,
                operator,
                epoch,
                count,
                data_type,
                reduction,
                root,
                to,
                from,
            }
        },
    )
}

fn other_happening() -> impl Strategy<Value = Happening<'static>> {
    prop_oneof![
        (any::<u32>(), any::<u32>(), any::<u64>(), some_change()).prop_map(
            |(stream, device, context, change)| {
                Happening::Stream { stream, device, context, change }
            }
        ),
        (any::<u64>(), any::<u32>(), some_change())
            .prop_map(|(context, device, change)| Happening::Context { context, device, change }),
        (any::<u32>(), some_change(), any::<u64>())
            .prop_map(|(device, change, capacity)| Happening::Device { device, change, capacity }),
        (any::<bool>(), any::<u32>(), any::<usize>(), some_change()).prop_map(
            |(acl, stream, object, change)| {
                let domain = if acl { Domain::Acl } else { Domain::Ge };
                Happening::Register { domain, stream, object, change }
            }
        ),
        (any::<u64>(), any::<u64>(), "[a-z]{0,9}", proptest::collection::vec(step(), 0..3))
            .prop_map(|(id, loaded, label, steps)| {
                Happening::Load(Cow::Owned(StepPlan { id, loaded, label, steps }))
            }),
        (any::<u64>(), any::<u32>(), any::<Option<u64>>(), any::<Vec<usize>>()).prop_map(
            |(plan, stream, seq, regions)| {
                Happening::Run { plan, stream, seq, regions: regions.into() }
            }
        ),
        any::<u64>().prop_map(|loaded| Happening::Unload { loaded }),
        (name(), any::<u64>(), some_change())
            .prop_map(|(kind, handle, change)| Happening::Object { kind, handle, change }),
        (any::<u32>(), proptest::collection::vec(frame(), 0..4))
            .prop_map(|(number, frames)| Happening::Stack { number, frames: frames.into() }),
        Just(Happening::Exit),
        (communicator(), some_change()).prop_map(|(communicator, change)| {
            Happening::Communicator(Cow::Owned(communicator), change)
        }),
        collective().prop_map(|collective| Happening::Collective(Cow::Owned(collective))),
        (any::<usize>(), "[a-zß]{0,20}").prop_map(|(address, reason)| Happening::WrongFree {
            address,
            reason: Cow::Owned(reason),
        }),
        (any::<u32>(), any::<u64>(), any::<u64>(), any::<u32>()).prop_map(
            |(stream, seq, prepared_ns, accesses)| {
                Happening::Prepared { stream, seq, prepared_ns, accesses }
            }
        ),
        (any::<usize>(), any::<usize>(), any::<Option<usize>>()).prop_map(
            |(object, block, other)| Happening::WrongBlock {
                object,
                block,
                fault: other.map_or(BlockFault::FreedBefore, BlockFault::OfAnother),
            }
        ),
    ]
}

/// Any entry of thread 5.
pub(crate) fn entry() -> impl Strategy<Value = Entry<'static>> {
    let site = (name(), any::<u64>(), any::<u32>()).prop_map(|(entry, thread, stack)| Site {
        entry,
        thread,
        stack,
    });
    let happening = prop_oneof![memory_happening(), task_happening(), other_happening()];
    (any::<u64>(), site, happening).prop_map(|(time_ns, site, happening)| Entry {
        time_ns,
        thread: 5,
        site,
        happening,
    })
}

proptest! {
    #[test]
    fn entries_are_read_as_written(entries in proptest::collection::vec(entry(), 1..20)) {
        let (mut encoder, mut bytes) = (Encoder::default(), Vec::new());
        entries.iter().for_each(|entry| encoder.encode(entry, &mut bytes));
        let (mut decoder, mut rest) = (Decoder::new(5), &bytes[..]);
        for entry in &entries {
            let (read, length) = decoder.decode(rest).unwrap();
            prop_assert_eq!(&read, entry);
            rest = &rest[length..];
        }
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn every_prefix_of_an_entry_is_truncated(entry in entry()) {
        let mut bytes = Vec::new();
        Encoder::default().encode(&entry, &mut bytes);
        for length in 0..bytes.len() {
            let read = Decoder::new(5).decode(&bytes[..length]);
            prop_assert_eq!(read, Err(DecodeError::Truncated));
        }
    }

    #[test]
    fn any_bytes_are_entries_or_an_error(bytes in any::<Vec<u8>>()) {
        let (mut decoder, mut rest) = (Decoder::new(1), &bytes[..]);
        while let Ok((_, length)) = decoder.decode(rest) {
            rest = &rest[length..];
        }
    }
}
