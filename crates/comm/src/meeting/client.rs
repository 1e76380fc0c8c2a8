//! A rank's side of a meeting: it joins, and then has the store of its communicator.

use super::wire::{self, Member, Reply, Request};
use crate::Code;
use crate::engine::{LinkError, LinkErrorKind, Store};
use crate::error::{Error, Result};
use cairn_sync::lock::{Mutex, Rank};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long one request may take besides what it waits for.
const GRACE: Duration = Duration::from_secs(20);
/// How long a rank that fails waits for the meeting point.
const SHORT: Duration = Duration::from_secs(2);
/// Between two attempts to connect.
const RETRY: Duration = Duration::from_millis(20);

/// Where a communicator meets, and the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Addresses to try: the one that takes the key is right.
    pub addresses: Vec<SocketAddr>,
    /// The key.
    pub key: u128,
    /// Whether nobody may be listening yet.
    pub may_be_late: bool,
}

/// What is known of the meeting point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// It is there.
    Open,
    /// It ended in order.
    Ended,
    /// Its process is gone.
    Gone,
}

/// A rank at its meeting point. Any thread may use it; requests use idle connections, or make one.
pub struct Client {
    address: SocketAddr,
    key: u128,
    group: String,
    idle: Mutex<Vec<TcpStream>>,
    /// Stands for the rank; the server notices when it closes.
    presence: Mutex<Presence>,
}

struct Presence {
    stream: TcpStream,
    state: ServerState,
}

impl Client {
    /// Comes to the meeting of `group` and waits for all others.
    pub fn join(
        place: &Place,
        group: &str,
        member: &Member,
        timeout: Duration,
    ) -> Result<(Client, Vec<Member>)> {
        let deadline = Instant::now() + timeout;
        let (mut stream, address) = connect(place, group, deadline)?;
        let reply = ask(&mut stream, &Request::Join(member.clone()), deadline + GRACE);
        let members = match reply
            .map_err(|error| error.of(format!("the meeting point at {address}")))?
        {
            Reply::Roster(members) if members.len() == member.size as usize => members,
            Reply::Refused { code, text } => {
                return Err(Error::new(Code::from_number(code).unwrap_or(Code::Internal), text));
            }
            reply => return Err(unexpected(address, &reply)),
        };
        let client = Client {
            address,
            key: place.key,
            group: group.into(),
            idle: Mutex::new(Rank::Connections, Vec::new()),
            presence: Mutex::new(Rank::Connections, Presence { stream, state: ServerState::Open }),
        };
        Ok((client, members))
    }

    /// The place of this meeting, for others that meet there.
    pub fn place(&self) -> Place {
        Place { addresses: vec![self.address], key: self.key, may_be_late: false }
    }

    /// Leaves a value under a key, unless there is one: gives the value that is there then.
    pub fn set_first(&self, key: &str, value: &[u8]) -> Result<Vec<u8>> {
        let value = &value[..value.len().min(wire::MAX_VALUE)];
        let request = Request::Set { key: key.into(), value: value.into(), or_first: true };
        match self.request(&request, SHORT)? {
            Reply::Done => Ok(value.into()),
            Reply::Value(first) => Ok(first),
            reply => Err(unexpected(self.address, &reply)),
        }
    }

    /// The value under a key, if there is one now.
    pub fn peek(&self, key: &str) -> Result<Option<Vec<u8>>> {
        match self.request(&Request::Get { key: key.into(), timeout_ms: 0 }, SHORT)? {
            Reply::Value(value) => Ok(Some(value)),
            Reply::Nothing => Ok(None),
            reply => Err(unexpected(self.address, &reply)),
        }
    }

    /// Ends this rank's part in order. Waits a short time at most.
    pub fn leave(&self) {
        let mut presence = self.presence.lock();
        let _ = ask(&mut presence.stream, &Request::Leave, Instant::now() + SHORT);
    }

    /// What is known of the meeting point; never waits.
    pub fn server_state(&self) -> ServerState {
        let mut presence = self.presence.lock();
        if presence.state != ServerState::Open || presence.stream.set_nonblocking(true).is_err() {
            return presence.state;
        }
        let mut byte = [0; 16];
        presence.state = match presence.stream.peek(&mut byte) {
            Ok(0) => ServerState::Gone,
            Ok(count) => match wire::first_frame(&byte[..count], wire::MAX_REPLY) {
                Ok(Some((frame, _))) if Reply::decode(frame) == Ok(Reply::Bye) => {
                    ServerState::Ended
                }
                _ => ServerState::Open,
            },
            Err(error) if error.kind() == ErrorKind::WouldBlock => ServerState::Open,
            Err(_) => ServerState::Gone,
        };
        let _ = presence.stream.set_nonblocking(false);
        presence.state
    }

    fn request(&self, request: &Request, limit: Duration) -> Result<Reply> {
        let deadline = Instant::now() + limit;
        let idle = self.idle.lock().pop();
        let mut stream = match idle {
            Some(stream) => stream,
            None => connect(&self.place(), &self.group, deadline)?.0,
        };
        let reply = ask(&mut stream, request, deadline)?;
        self.idle.lock().push(stream);
        Ok(reply)
    }

    fn link_request(
        &self,
        request: &Request,
        limit: Duration,
    ) -> std::result::Result<Reply, LinkError> {
        let failed = |code: Code, text: String| {
            let kind = match code {
                Code::Timeout => LinkErrorKind::Timeout,
                Code::Remote => LinkErrorKind::PeerGone,
                _ => LinkErrorKind::Other,
            };
            LinkError::new(kind, None, text)
        };
        match self.request(request, limit) {
            Ok(Reply::Refused { code, text }) => {
                Err(failed(Code::from_number(code).unwrap_or(Code::Internal), text))
            }
            Ok(reply) => Ok(reply),
            Err(error) => Err(failed(error.code, error.text)),
        }
    }
}

impl Store for Client {
    fn set(&self, key: &str, value: &[u8]) -> std::result::Result<(), LinkError> {
        if value.len() > wire::MAX_VALUE || key.len() > wire::MAX_KEY {
            let text = format!(
                "the value of {key} has {} bytes, more than {}",
                value.len(),
                wire::MAX_VALUE
            );
            return Err(LinkError::new(LinkErrorKind::Other, None, text));
        }
        let request = Request::Set { key: key.into(), value: value.into(), or_first: false };
        self.link_request(&request, GRACE).map(|_| ())
    }

    fn get(&self, key: &str, timeout: Duration) -> std::result::Result<Vec<u8>, LinkError> {
        let timeout_ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX).max(1);
        let request = Request::Get { key: key.into(), timeout_ms };
        match self.link_request(&request, timeout.saturating_add(GRACE))? {
            Reply::Value(value) => Ok(value),
            _ => {
                let text = format!("no rank left {key} at the meeting point within {timeout:?}");
                Err(LinkError::new(LinkErrorKind::Timeout, None, text))
            }
        }
    }
}

fn unexpected(address: SocketAddr, reply: &Reply) -> Error {
    let text = match reply {
        Reply::Refused { text, .. } => text.clone(),
        Reply::Bye => "it has ended".into(),
        _ => "an answer of another kind".into(),
    };
    Error::new(Code::Network, format!("the meeting point at {address}: {text}"))
}

/// Connects to the first of the place's addresses that takes the key.
fn connect(place: &Place, group: &str, deadline: Instant) -> Result<(TcpStream, SocketAddr)> {
    let mut last = Error::new(Code::TcpConnect, "no address to connect to");
    loop {
        for address in &place.addresses {
            match greet(*address, place.key, group, deadline) {
                Ok(stream) => return Ok((stream, *address)),
                Err((error, is_final)) if is_final && !place.may_be_late => return Err(error),
                Err((error, _)) => last = error,
            }
        }
        if Instant::now() + RETRY >= deadline {
            return Err(Error::new(Code::Timeout, last.text));
        }
        std::thread::sleep(RETRY);
    }
}

/// Connects and shows the key. The flag says whether another attempt cannot help where a server was listening.
fn greet(
    address: SocketAddr,
    key: u128,
    group: &str,
    deadline: Instant,
) -> std::result::Result<TcpStream, (Error, bool)> {
    let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    let mut stream = TcpStream::connect_timeout(&address, left).map_err(|error| {
        let is_refused = error.kind() == ErrorKind::ConnectionRefused;
        let text = format!("cannot connect to the meeting point at {address}: {error}");
        (Error::new(Code::TcpConnect, text), is_refused)
    })?;
    let _ = stream.set_nodelay(true);
    let hello = Request::Hello { key, group: group.into() };
    match ask(&mut stream, &hello, deadline) {
        Ok(Reply::Welcome) => Ok(stream),
        Ok(reply) => Err((unexpected(address, &reply), true)),
        Err(error) => {
            let text = format!(
                "the meeting point at {address} did not let this rank in; is the root info of another run? ({})",
                error.text
            );
            Err((Error::new(Code::TcpConnect, text), error.code != Code::Timeout))
        }
    }
}

/// Sends a request and waits for its reply.
fn ask(stream: &mut TcpStream, request: &Request, deadline: Instant) -> Result<Reply> {
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            Error::new(Code::Timeout, "no answer in time")
        }
        _ => Error::new(Code::TcpTransfer, format!("the connection ended: {error}")),
    };
    let left = || {
        let left = deadline.saturating_duration_since(Instant::now());
        Some(left.max(Duration::from_millis(1)))
    };
    stream.set_write_timeout(left()).map_err(failed)?;
    stream.write_all(&request.encode()).map_err(failed)?;
    let mut length = [0; 4];
    read_all(stream, &mut length, deadline).map_err(failed)?;
    let length = u32::from_le_bytes(length) as usize;
    let garbage =
        |what: &str| Error::new(Code::Network, format!("{what} came from the meeting point"));
    if length == 0 || length > wire::MAX_REPLY {
        return Err(garbage("a frame of a wrong length"));
    }
    let mut frame = vec![0; length];
    read_all(stream, &mut frame, deadline).map_err(failed)?;
    Reply::decode(&frame).map_err(|wire::Garbage(what)| garbage(what))
}

fn read_all(stream: &mut TcpStream, mut into: &mut [u8], deadline: Instant) -> std::io::Result<()> {
    while !into.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(into) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => into = &mut into[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
