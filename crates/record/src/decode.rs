//! Entries from bytes, the other side of [`crate::encode`]. What it builds is bounded by the bytes it is given.

use crate::access::{Access, Mode};
use crate::entry::*;
use crate::name::Name;
use crate::wire::Bytes;
use cairn_pool::clock::{Clock, Epoch, StreamIndex};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt;

/// How many dimensions an access may have.
const MAX_DIMS: u64 = 128;

/// Why bytes are no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// They end inside of one.
    Truncated,
    /// They say something impossible.
    Invalid(&'static str),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Truncated => f.write_str("it ends inside of an entry"),
            DecodeError::Invalid(what) => write!(f, "{what}"),
        }
    }
}

type Result<T> = std::result::Result<T, DecodeError>;

/// Reads the entries of one chain, in their order.
#[derive(Default)]
pub struct Decoder {
    thread: u64,
    time_ns: u64,
    address: usize,
    texts: Vec<Name>,
    sites: Vec<Site>,
}

impl Decoder {
    /// For a chain that this thread wrote.
    pub fn new(thread: u64) -> Decoder {
        Decoder { thread, ..Decoder::default() }
    }

    /// Reads the entry at the front of `bytes`; the second number is how many bytes it takes. After an error the decoder
    /// is as it was before, so that an entry that was cut off can be read again with more bytes.
    pub fn decode(&mut self, bytes: &[u8]) -> Result<(Entry<'static>, usize)> {
        let before = (self.time_ns, self.address, self.texts.len(), self.sites.len());
        self.decode_or_spoil(bytes).inspect_err(|_| {
            (self.time_ns, self.address) = (before.0, before.1);
            self.texts.truncate(before.2);
            self.sites.truncate(before.3);
        })
    }

    fn decode_or_spoil(&mut self, bytes: &[u8]) -> Result<(Entry<'static>, usize)> {
        let mut rest = Bytes { rest: bytes };
        let tag = rest.byte()?;
        self.time_ns = self.time_ns.wrapping_add(rest.signed()? as u64);
        let site = self.site(&mut rest)?;
        let happening = self.happening(tag, &mut rest)?;
        let entry = Entry { time_ns: self.time_ns, thread: self.thread, site, happening };
        Ok((entry, bytes.len() - rest.rest.len()))
    }

    fn site(&mut self, bytes: &mut Bytes<'_>) -> Result<Site> {
        match bytes.number()? {
            0 => {
                let entry = self.name(bytes)?;
                let site = Site { entry, thread: bytes.number()?, stack: bytes.small()? };
                self.sites.push(site.clone());
                Ok(site)
            }
            number => find(&self.sites, number, "a site that was not defined"),
        }
    }

    fn name(&mut self, bytes: &mut Bytes<'_>) -> Result<Name> {
        match bytes.number()? {
            0 => {
                let name = Name::from(bytes.text()?.to_owned());
                self.texts.push(name.clone());
                Ok(name)
            }
            number => find(&self.texts, number, "a name that was not defined"),
        }
    }

    fn address(&mut self, bytes: &mut Bytes<'_>) -> Result<usize> {
        self.address = self.address.wrapping_add(bytes.signed()? as usize);
        Ok(self.address)
    }

    fn happening(&mut self, tag: u8, bytes: &mut Bytes<'_>) -> Result<Happening<'static>> {
        Ok(match tag {
            1 => Happening::Alloc {
                kind: kind(bytes)?,
                address: self.address(bytes)?,
                bytes: bytes.number()?,
                purpose: purpose(bytes)?,
                owner: Owner {
                    graph: small_option(bytes)?,
                    loaded: option(bytes)?,
                    operator: self.name(bytes)?,
                },
                stream: small_option(bytes)?,
            },
            2 => Happening::Free {
                kind: kind(bytes)?,
                address: self.address(bytes)?,
                bytes: bytes.number()?,
                stream: small_option(bytes)?,
            },
            3 => Happening::Reusable {
                kind: kind(bytes)?,
                address: self.address(bytes)?,
                bytes: bytes.number()?,
            },
            4 => Happening::Usage {
                device: bytes.small()?,
                used: bytes.number()?,
                quarantined: bytes.number()?,
                capacity: bytes.number()?,
            },
            5 => {
                let epoch = epoch(bytes)?;
                Happening::Submit {
                    stream: epoch.stream,
                    seq: epoch.seq,
                    device: bytes.small()?,
                    name: self.name(bytes)?,
                    task: task_kind(bytes)?,
                    accesses: self.accesses(bytes)?,
                    ordered: clock(bytes)?,
                }
            }
            6 => {
                let Epoch { stream, seq } = epoch(bytes)?;
                Happening::Start { stream, seq }
            }
            7 => {
                let Epoch { stream, seq } = epoch(bytes)?;
                let began_ns = self.time_ns.wrapping_sub(bytes.signed()? as u64);
                Happening::End { stream, seq, began_ns, outcome: outcome(bytes)? }
            }
            8 => Happening::Record { event: bytes.small()?, epoch: epoch(bytes)? },
            9 => Happening::Wait {
                event: bytes.small()?,
                record: flag(bytes)?.then(|| epoch(bytes)).transpose()?,
                epoch: epoch(bytes)?,
            },
            10 => Happening::Complete { what: sync_object(bytes)?, known: clock(bytes)? },
            11 => Happening::Synchronize {
                what: sync_object(bytes)?,
                known: clock(bytes)?,
                began_ns: self.time_ns.wrapping_sub(bytes.signed()? as u64),
            },
            12 => Happening::Stream {
                stream: bytes.small()?,
                device: bytes.small()?,
                context: bytes.number()?,
                change: change(bytes)?,
            },
            13 => Happening::Context {
                context: bytes.number()?,
                device: bytes.small()?,
                change: change(bytes)?,
            },
            14 => Happening::Device {
                device: bytes.small()?,
                change: change(bytes)?,
                capacity: bytes.number()?,
            },
            15 => Happening::Register {
                domain: match bytes.byte()? {
                    0 => Domain::Acl,
                    1 => Domain::Ge,
                    _ => {
                        return Err(DecodeError::Invalid(
                            "an interface of allocators that does not exist",
                        ));
                    }
                },
                stream: bytes.small()?,
                object: bytes.number()? as usize,
                change: change(bytes)?,
            },
            16 => Happening::Callback(self.callback(bytes)?),
            17 => Happening::Load(Cow::Owned(self.plan(bytes)?)),
            18 => Happening::Run {
                plan: bytes.number()?,
                stream: bytes.small()?,
                seq: option(bytes)?,
                regions: {
                    let count = bytes.count()?;
                    (0..count).map(|_| self.address(bytes)).collect::<Result<_>>()?
                },
            },
            19 => Happening::Unload { loaded: bytes.number()? },
            20 => Happening::Touch { name: self.name(bytes)?, accesses: self.accesses(bytes)? },
            21 => Happening::HostFault { address: self.address(bytes)?, writes: flag(bytes)? },
            22 => Happening::Object {
                kind: self.name(bytes)?,
                handle: bytes.number()?,
                change: change(bytes)?,
            },
            23 => Happening::Stack {
                number: bytes.small()?,
                frames: {
                    let count = bytes.count()?;
                    (0..count).map(|_| self.frame(bytes)).collect::<Result<_>>()?
                },
            },
            24 => Happening::Exit,
            25 => Happening::WrongFree {
                address: self.address(bytes)?,
                reason: Cow::Owned(bytes.text()?.to_owned()),
            },
            26 => {
                let Epoch { stream, seq } = epoch(bytes)?;
                let prepared_ns = self.time_ns.wrapping_sub(bytes.signed()? as u64);
                Happening::Prepared { stream, seq, prepared_ns, accesses: bytes.small()? }
            }
            27 => Happening::WrongBlock {
                object: bytes.number()? as usize,
                block: bytes.number()? as usize,
                fault: match bytes.byte()? {
                    0 => BlockFault::FreedBefore,
                    1 => BlockFault::OfAnother(bytes.number()? as usize),
                    _ => {
                        return Err(DecodeError::Invalid("a fault of a block that does not exist"));
                    }
                },
            },
            28 => Happening::Region {
                device: bytes.small()?,
                address: self.address(bytes)?,
                bytes: bytes.number()?,
                domain: self.name(bytes)?,
                change: change(bytes)?,
            },
            29 => Happening::Mark {
                range: bytes.number()?,
                text: Cow::Owned(bytes.text()?.to_owned()),
                change: change(bytes)?,
            },
            30 => {
                let communicator = communicator(bytes)?;
                Happening::Communicator(Cow::Owned(communicator), change(bytes)?)
            }
            31 => Happening::Collective(Cow::Owned(self.collective(bytes)?)),
            _ => return Err(DecodeError::Invalid("an entry of a kind that does not exist")),
        })
    }

    fn accesses(&mut self, bytes: &mut Bytes<'_>) -> Result<Cow<'static, [Access]>> {
        let count = bytes.count()?;
        (0..count).map(|_| self.access(bytes)).collect()
    }

    fn access(&mut self, bytes: &mut Bytes<'_>) -> Result<Access> {
        let first = bytes.number()?;
        let mode = match first & 3 {
            0 => Mode::Read,
            1 => Mode::Write,
            2 => Mode::ReadWrite,
            _ => return Err(DecodeError::Invalid("an access of a kind that does not exist")),
        };
        if first >> 3 > MAX_DIMS {
            return Err(DecodeError::Invalid("an access of more than 128 dimensions"));
        }
        let (address, element) = (self.address(bytes)?, bytes.number()?);
        let dims = (0..first >> 3)
            .map(|_| Ok((bytes.number()?, bytes.signed()?)))
            .collect::<Result<SmallVec<_>>>()?;
        Ok(Access { address, element, dims, mode, indexed: first & 4 != 0 })
    }

    fn callback(&mut self, bytes: &mut Bytes<'_>) -> Result<Callback> {
        let object = bytes.number()? as usize;
        let tag = bytes.byte()?;
        let mut number = || bytes.number().map(|number| number as usize);
        let request = match tag {
            0 => UserCall::Alloc(number()?),
            1 => UserCall::Advise(number()?, number()?),
            2 => UserCall::Address(number()?),
            3 => UserCall::Free(number()?),
            _ => return Err(DecodeError::Invalid("a callback that does not exist")),
        };
        Ok(Callback {
            object,
            request,
            stream: small_option(bytes)?,
            answer: option(bytes)?.map(|answer| answer as usize),
            began_ns: self.time_ns.wrapping_sub(bytes.signed()? as u64),
        })
    }

    fn collective(&mut self, bytes: &mut Bytes<'_>) -> Result<Collective> {
        Ok(Collective {
            communicator: bytes.number()?,
            ticket: bytes.number()?,
            operator: self.name(bytes)?,
            epoch: epoch(bytes)?,
            count: bytes.number()?,
            data_type: bytes.byte()?,
            reduction: match small_option(bytes)? {
                None => None,
                Some(number) => {
                    Some(u8::try_from(number).map_err(|_| {
                        DecodeError::Invalid("a reduction whose number is above 255")
                    })?)
                }
            },
            root: small_option(bytes)?,
            to: ranks(bytes)?,
            from: ranks(bytes)?,
        })
    }

    fn plan(&mut self, bytes: &mut Bytes<'_>) -> Result<StepPlan> {
        let (id, loaded) = (bytes.number()?, bytes.number()?);
        let label = bytes.text()?.to_owned();
        let count = bytes.count()?;
        let steps = (0..count).map(|_| self.step(bytes)).collect::<Result<_>>()?;
        Ok(StepPlan { id, loaded, label, steps })
    }

    fn step(&mut self, bytes: &mut Bytes<'_>) -> Result<Step> {
        let node = bytes.text()?.to_owned();
        let count = bytes.count()?;
        let mut step_access =
            || Ok(StepAccess { region: bytes.small()?, access: self.access(bytes)? });
        Ok(Step { node, accesses: (0..count).map(|_| step_access()).collect::<Result<_>>()? })
    }

    fn frame(&mut self, bytes: &mut Bytes<'_>) -> Result<Frame> {
        match bytes.byte()? {
            0 => Ok(Frame::Native { module: self.name(bytes)?, offset: bytes.number()? }),
            1 => Ok(Frame::Python {
                function: self.name(bytes)?,
                file: self.name(bytes)?,
                line: bytes.small()?,
            }),
            _ => Err(DecodeError::Invalid("a frame of a kind that does not exist")),
        }
    }
}

fn communicator(bytes: &mut Bytes<'_>) -> Result<Communicator> {
    Ok(Communicator {
        id: bytes.number()?,
        name: bytes.text()?.to_owned(),
        identity: u128::from(bytes.number()?) << 64 | u128::from(bytes.number()?),
        rank: bytes.small()?,
        size: bytes.small()?,
        device: bytes.small()?,
    })
}

fn ranks(bytes: &mut Bytes<'_>) -> Result<Vec<u32>> {
    let count = bytes.count()?;
    (0..count).map(|_| bytes.small()).collect()
}

/// The entry of a table by its number, which counts from 1.
fn find<T: Clone>(table: &[T], number: u64, error: &'static str) -> Result<T> {
    let index = usize::try_from(number - 1).ok();
    index.and_then(|index| table.get(index)).cloned().ok_or(DecodeError::Invalid(error))
}

fn flag(bytes: &mut Bytes<'_>) -> Result<bool> {
    match bytes.byte()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::Invalid("a flag that is neither 0 nor 1")),
    }
}

fn option(bytes: &mut Bytes<'_>) -> Result<Option<u64>> {
    flag(bytes)?.then(|| bytes.number()).transpose()
}

fn small_option(bytes: &mut Bytes<'_>) -> Result<Option<u32>> {
    flag(bytes)?.then(|| bytes.small()).transpose()
}

fn epoch(bytes: &mut Bytes<'_>) -> Result<Epoch> {
    Ok(Epoch { stream: bytes.small()?, seq: bytes.number()? })
}

fn clock(bytes: &mut Bytes<'_>) -> Result<Cow<'static, Clock>> {
    let count = bytes.count()?;
    let mut clock = Clock::new();
    let mut last: Option<StreamIndex> = None;
    for _ in 0..count {
        let epoch = epoch(bytes)?;
        // In order, so that raising one appends.
        if last.is_some_and(|last| last >= epoch.stream) {
            return Err(DecodeError::Invalid("a clock whose streams are not in order"));
        }
        last = Some(epoch.stream);
        clock.raise(epoch);
    }
    Ok(Cow::Owned(clock))
}

fn kind(bytes: &mut Bytes<'_>) -> Result<MemoryKind> {
    Ok(match bytes.byte()? {
        0 => MemoryKind::Device(bytes.small()?),
        1 => MemoryKind::Pinned,
        2 => MemoryKind::Registered,
        3 => MemoryKind::PoolSegment { device: bytes.small()?, pool: bytes.small()? },
        4 => MemoryKind::PoolBlock { device: bytes.small()?, pool: bytes.small()? },
        5 => MemoryKind::External {
            device: bytes.small()?,
            object: bytes.number()? as usize,
            block: bytes.number()? as usize,
        },
        6 => MemoryKind::Mapped { device: bytes.small()? },
        _ => return Err(DecodeError::Invalid("memory of a kind that does not exist")),
    })
}

fn purpose(bytes: &mut Bytes<'_>) -> Result<Purpose> {
    let number = usize::try_from(bytes.number()?).ok();
    let purpose = number.and_then(|number| Purpose::ALL.get(number));
    purpose.copied().ok_or(DecodeError::Invalid("a purpose that does not exist"))
}

fn change(bytes: &mut Bytes<'_>) -> Result<Change> {
    Ok(if flag(bytes)? { Change::Destroyed } else { Change::Created })
}

fn task_kind(bytes: &mut Bytes<'_>) -> Result<TaskKind> {
    Ok(match bytes.byte()? {
        0 => TaskKind::Nothing,
        1 => TaskKind::Work,
        2 => TaskKind::HostFunction,
        3 => TaskKind::Record,
        4 => TaskKind::Wait,
        _ => return Err(DecodeError::Invalid("a task of a kind that does not exist")),
    })
}

fn outcome(bytes: &mut Bytes<'_>) -> Result<Outcome> {
    Ok(match bytes.byte()? {
        0 => Outcome::Done,
        1 => Outcome::Failed,
        2 => Outcome::Dropped,
        _ => return Err(DecodeError::Invalid("an outcome that does not exist")),
    })
}

fn sync_object(bytes: &mut Bytes<'_>) -> Result<SyncObject> {
    Ok(match bytes.byte()? {
        0 => SyncObject::Stream(bytes.small()?),
        1 => SyncObject::Event(bytes.small()?),
        2 => SyncObject::Device(bytes.small()?),
        _ => return Err(DecodeError::Invalid("a thing to wait for that does not exist")),
    })
}

#[cfg(test)]
pub(crate) mod tests;
