//! What goes between the ranks and their meeting point, as bytes. Pure functions: anything may come from a network.
//!
//! A frame is its length (4 bytes, without themselves), a tag, and fields; numbers are little endian, texts and byte strings
//! have their length before them.

use std::net::{IpAddr, Ipv6Addr};

/// The longest frame that a rank sends.
pub const MAX_REQUEST: usize = 80 << 10;
/// The longest key.
pub const MAX_KEY: usize = 512;
/// The longest value.
pub const MAX_VALUE: usize = 64 << 10;
/// The most ranks of a communicator.
pub const MAX_RANKS: usize = 16 << 10;
/// The longest frame that the meeting point sends: a roster.
pub const MAX_REPLY: usize = MAX_RANKS * 256;
/// The longest frame of a stranger.
pub const MAX_HELLO: usize = 1 << 10;

const MAGIC: u64 = u64::from_le_bytes(*b"cairnmt1");

/// What a rank says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its number.
    pub rank: u32,
    /// How many ranks it expects.
    pub size: u32,
    /// Its process's number of its device.
    pub device: u32,
    /// Its host: equal for processes that can share memory.
    pub host: u128,
    /// Its process.
    pub pid: u32,
    /// The communicator's name.
    pub name: String,
    /// Bytes of staging.
    pub buffer_bytes: u64,
    /// Where it can be reached.
    pub address: IpAddr,
}

/// What a rank asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The first frame of a connection.
    Hello {
        /// The key of the meeting point.
        key: u128,
        /// Which of its communicators it is about.
        group: String,
    },
    /// Waits for all others; answered by [`Reply::Roster`]. The connection then stands for the rank.
    Join(Member),
    /// Leaves a value under a key. With `or_first`, a key that has a value is no error, and answered by that.
    Set {
        /// The key.
        key: String,
        /// The value.
        value: Vec<u8>,
        /// Whether another value may win.
        or_first: bool,
    },
    /// Waits for the value under a key.
    Get {
        /// The key.
        key: String,
        /// For so long.
        timeout_ms: u32,
    },
    /// The rank of this connection ends its part in order.
    Leave,
}

/// What the meeting point answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The key is right.
    Welcome,
    /// What was asked for cannot be had.
    Refused {
        /// The number of a [`Code`](crate::Code).
        code: i32,
        /// Why.
        text: String,
    },
    /// All have come.
    Roster(Vec<Member>),
    /// Done.
    Done,
    /// The value.
    Value(Vec<u8>),
    /// No value came in time.
    Nothing,
    /// The meeting point ends in order.
    Bye,
}

/// Bytes that are no frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Garbage(pub &'static str);

/// The first frame in `bytes`, and how many bytes it has; `None` if it has not all come.
pub fn first_frame(bytes: &[u8], longest: usize) -> Result<Option<(&[u8], usize)>, Garbage> {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length == 0 || length > longest {
        return Err(Garbage("a frame of a wrong length"));
    }
    Ok(rest.get(..length).map(|frame| (frame, length + 4)))
}

/// Fields of a frame that is read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Garbage> {
        let (taken, rest) =
            self.0.split_at_checked(count).ok_or(Garbage("a frame that ends early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Garbage> {
        Ok(self.take(N)?.try_into().expect("as many as were taken"))
    }

    fn byte(&mut self) -> Result<u8, Garbage> {
        Ok(self.array::<1>()?[0])
    }

    fn u32(&mut self) -> Result<u32, Garbage> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, Garbage> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn u128(&mut self) -> Result<u128, Garbage> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    fn bytes(&mut self, longest: usize) -> Result<&'a [u8], Garbage> {
        let length = self.u32()? as usize;
        match length <= longest {
            true => self.take(length),
            false => Err(Garbage("a field that is too long")),
        }
    }

    fn text(&mut self, longest: usize) -> Result<String, Garbage> {
        let bytes = self.bytes(longest)?.to_vec();
        String::from_utf8(bytes).map_err(|_| Garbage("a text that is none"))
    }

    fn member(&mut self) -> Result<Member, Garbage> {
        let (rank, size, device) = (self.u32()?, self.u32()?, self.u32()?);
        let (host, pid, buffer_bytes) = (self.u128()?, self.u32()?, self.u64()?);
        let family = self.byte()?;
        let address = Ipv6Addr::from(self.array::<16>()?);
        let address = match (family, address.to_ipv4_mapped()) {
            (4, Some(address)) => IpAddr::V4(address),
            (6, _) => IpAddr::V6(address),
            _ => return Err(Garbage("an address that is none")),
        };
        let name = self.text(MAX_KEY)?;
        if size == 0 || size as usize > MAX_RANKS || rank >= size {
            return Err(Garbage("a rank that is none"));
        }
        Ok(Member { rank, size, device, host, pid, name, buffer_bytes, address })
    }

    fn end(self) -> Result<(), Garbage> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(Garbage("a frame with bytes after its end")),
        }
    }
}

/// A frame that is written.
struct Writer(Vec<u8>);

impl Writer {
    fn new(tag: u8) -> Writer {
        Writer(vec![0, 0, 0, 0, tag])
    }

    fn bytes(mut self, bytes: &[u8]) -> Writer {
        self.0.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.0.extend_from_slice(bytes);
        self
    }

    fn plain(mut self, bytes: &[u8]) -> Writer {
        self.0.extend_from_slice(bytes);
        self
    }

    fn member(self, member: &Member) -> Writer {
        let (family, address) = match member.address {
            IpAddr::V4(address) => (4, address.to_ipv6_mapped()),
            IpAddr::V6(address) => (6, address),
        };
        self.plain(&member.rank.to_le_bytes())
            .plain(&member.size.to_le_bytes())
            .plain(&member.device.to_le_bytes())
            .plain(&member.host.to_le_bytes())
            .plain(&member.pid.to_le_bytes())
            .plain(&member.buffer_bytes.to_le_bytes())
            .plain(&[family])
            .plain(&address.octets())
            .bytes(member.name.as_bytes())
    }

    fn finish(mut self) -> Vec<u8> {
        let length = self.0.len() as u32 - 4;
        self.0[..4].copy_from_slice(&length.to_le_bytes());
        self.0
    }
}

impl Request {
    /// The frame.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Request::Hello { key, group } => Writer::new(1)
                .plain(&MAGIC.to_le_bytes())
                .plain(&key.to_le_bytes())
                .bytes(group.as_bytes()),
            Request::Join(member) => Writer::new(2).member(member),
            Request::Set { key, value, or_first } => {
                Writer::new(3).plain(&[u8::from(*or_first)]).bytes(key.as_bytes()).bytes(value)
            }
            Request::Get { key, timeout_ms } => {
                Writer::new(4).plain(&timeout_ms.to_le_bytes()).bytes(key.as_bytes())
            }
            Request::Leave => Writer::new(5),
        }
        .finish()
    }

    /// Reads a frame, without its length.
    pub fn decode(frame: &[u8]) -> Result<Request, Garbage> {
        let mut reader = Reader(frame);
        let request = match reader.byte()? {
            1 => {
                if reader.u64()? != MAGIC {
                    return Err(Garbage("a greeting of another protocol"));
                }
                Request::Hello { key: reader.u128()?, group: reader.text(MAX_KEY)? }
            }
            2 => Request::Join(reader.member()?),
            3 => {
                let or_first = match reader.byte()? {
                    flag @ 0..=1 => flag == 1,
                    _ => return Err(Garbage("a flag that is none")),
                };
                let key = reader.text(MAX_KEY)?;
                Request::Set { key, value: reader.bytes(MAX_VALUE)?.to_vec(), or_first }
            }
            4 => Request::Get { timeout_ms: reader.u32()?, key: reader.text(MAX_KEY)? },
            5 => Request::Leave,
            _ => return Err(Garbage("a request of no known kind")),
        };
        reader.end()?;
        Ok(request)
    }
}

impl Reply {
    /// The frame.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Reply::Welcome => Writer::new(0x81),
            Reply::Refused { code, text } => {
                Writer::new(0x82).plain(&code.to_le_bytes()).bytes(text.as_bytes())
            }
            Reply::Roster(members) => {
                let count = Writer::new(0x83).plain(&(members.len() as u32).to_le_bytes());
                members.iter().fold(count, Writer::member)
            }
            Reply::Done => Writer::new(0x84),
            Reply::Value(value) => Writer::new(0x85).bytes(value),
            Reply::Nothing => Writer::new(0x86),
            Reply::Bye => Writer::new(0x87),
        }
        .finish()
    }

    /// Reads a frame, without its length.
    pub fn decode(frame: &[u8]) -> Result<Reply, Garbage> {
        let mut reader = Reader(frame);
        let reply = match reader.byte()? {
            0x81 => Reply::Welcome,
            0x82 => {
                let code = i32::from_le_bytes(reader.array()?);
                Reply::Refused { code, text: reader.text(MAX_VALUE)? }
            }
            0x83 => {
                let count = reader.u32()? as usize;
                if count > MAX_RANKS {
                    return Err(Garbage("a roster of too many ranks"));
                }
                Reply::Roster((0..count).map(|_| reader.member()).collect::<Result<_, _>>()?)
            }
            0x84 => Reply::Done,
            0x85 => Reply::Value(reader.bytes(MAX_VALUE)?.to_vec()),
            0x86 => Reply::Nothing,
            0x87 => Reply::Bye,
            _ => return Err(Garbage("a reply of no known kind")),
        };
        reader.end()?;
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn member() -> impl Strategy<Value = Member> {
        let numbers = (1..5000u32, any::<u32>(), any::<u128>(), any::<u32>(), any::<u64>());
        (numbers, "[a-z0-9_]{0,40}", any::<[u8; 4]>(), any::<bool>()).prop_map(
            |((size, device, host, pid, buffer_bytes), name, octets, v6)| Member {
                rank: device % size,
                size,
                device,
                host,
                pid,
                name,
                buffer_bytes,
                address: if v6 { "fe80::7".parse().unwrap() } else { IpAddr::from(octets) },
            },
        )
    }

    fn request() -> impl Strategy<Value = Request> {
        let bytes = prop::collection::vec(any::<u8>(), 0..300);
        prop_oneof![
            (any::<u128>(), "[a-z/]{0,30}").prop_map(|(key, group)| Request::Hello { key, group }),
            member().prop_map(Request::Join),
            ("[a-z/]{0,30}", bytes, any::<bool>())
                .prop_map(|(key, value, or_first)| Request::Set { key, value, or_first }),
            ("[a-z/]{0,30}", any::<u32>())
                .prop_map(|(key, timeout_ms)| Request::Get { key, timeout_ms }),
            Just(Request::Leave),
        ]
    }

    fn reply() -> impl Strategy<Value = Reply> {
        prop_oneof![
            Just(Reply::Welcome),
            (any::<i32>(), ".{0,40}").prop_map(|(code, text)| Reply::Refused { code, text }),
            prop::collection::vec(member(), 0..5).prop_map(Reply::Roster),
            Just(Reply::Done),
            prop::collection::vec(any::<u8>(), 0..300).prop_map(Reply::Value),
            Just(Reply::Nothing),
            Just(Reply::Bye),
        ]
    }

    proptest! {
        #[test]
        fn frames_come_back_and_half_of_one_is_waited_for(request in request(), reply in reply(), cut in any::<prop::sample::Index>()) {
            let bytes = request.encode();
            let (frame, used) = first_frame(&bytes, MAX_REQUEST).unwrap().unwrap();
            prop_assert_eq!(used, bytes.len());
            prop_assert_eq!(Request::decode(frame).unwrap(), request);
            prop_assert_eq!(first_frame(&bytes[..cut.index(bytes.len())], MAX_REQUEST).unwrap(), None);
            let bytes = reply.encode();
            let (frame, _) = first_frame(&bytes, MAX_REPLY).unwrap().unwrap();
            prop_assert_eq!(Reply::decode(frame).unwrap(), reply);
        }

        #[test]
        fn garbage_is_refused_or_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(request) = Request::decode(&bytes) {
                let again = request.encode();
                prop_assert_eq!(Request::decode(&again[4..]).unwrap(), request);
            }
            let _ = Reply::decode(&bytes);
            let _ = first_frame(&bytes, MAX_HELLO);
        }
    }

    #[test]
    fn a_frame_that_is_too_long_is_refused_before_it_has_come() {
        assert!(first_frame(&u32::MAX.to_le_bytes(), MAX_REQUEST).is_err());
        assert!(first_frame(&[0; 4], MAX_REQUEST).is_err());
        assert_eq!(first_frame(&[1, 0], MAX_REQUEST), Ok(None));
    }
}
