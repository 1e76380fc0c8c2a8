//! The meeting point: a small key-value server in a thread of the root's process.

use super::REASON;
use super::roster::Gathering;
use super::wire::{self, Garbage, Member, Reply, Request};
use crate::Code;
use crate::environment::Environment;
use crate::error::{Error, Result};
use cairn_runtime::signals::with_blocked_signals;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Connections at a time.
const MAX_CONNECTIONS: usize = 8192;
/// Connections that have not shown the key.
const MAX_STRANGERS: usize = 64;
/// How long a connection may go without showing it.
const STRANGER_LIMIT: Duration = Duration::from_secs(5);
/// How much longer than its ranks a meeting point waits.
const LATE: Duration = Duration::from_secs(20);
/// How long nobody is taken in when the process has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Bytes of all keys and values.
const MAX_STORED: usize = 64 << 20;
/// Bytes that wait to be sent to one rank.
const MAX_OUTPUT: usize = 2 * wire::MAX_REPLY;

/// What a meeting point is opened with.
pub struct ServerSpec {
    /// The address to listen on.
    pub address: IpAddr,
    /// Ports to try in this order; none: any that is free.
    pub ports: Vec<u16>,
    /// Who has it may come in.
    pub key: u128,
    /// How long ranks wait for each other, from the first that comes on.
    pub timeout: Duration,
    /// How long the server waits for the first of its communicators.
    pub lifetime: Duration,
    /// Addresses that may connect; `None`: all.
    pub whitelist: Option<Vec<IpAddr>>,
}

impl ServerSpec {
    /// A meeting point as the environment has it.
    pub fn of(environment: &Environment, address: IpAddr, key: u128) -> ServerSpec {
        ServerSpec {
            address,
            ports: environment.ports.iter().cloned().flatten().collect(),
            key,
            timeout: environment.connect_timeout,
            lifetime: environment.connect_timeout + LATE,
            whitelist: environment.whitelist.clone(),
        }
    }
}

/// A meeting point that is open. It ends when this is dropped, or when its first communicator was not complete in time; ranks
/// that are connected then learn that it ended in order.
pub struct Server {
    address: SocketAddr,
    wake: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens, and starts the thread.
    pub fn open(spec: ServerSpec) -> Result<Server> {
        let listener = listen(spec.address, &spec.ports)?;
        let failed = |what: &str, error: std::io::Error| {
            Error::new(Code::SystemCall, format!("the meeting point: {what}: {error}"))
        };
        let address = listener.local_addr().map_err(|error| failed("no local address", error))?;
        listener.set_nonblocking(true).map_err(|error| failed("a socket", error))?;
        let (wake, woken) =
            UnixStream::pair().map_err(|error| failed("a pair of sockets", error))?;
        let service = Service::new(spec, listener, woken);
        let thread = std::thread::Builder::new().name("cairn-meeting".into());
        let thread = with_blocked_signals(|| thread.spawn(move || service.run()))
            .map_err(|error| failed("a thread", error))?;
        log::info!("a meeting point for ranks is open at {address}");
        Ok(Server { address, wake, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it still serves.
    pub fn is_open(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.wake.write_all(&[1]);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the thread of the meeting point at {} panicked", self.address);
        }
    }
}

fn listen(address: IpAddr, ports: &[u16]) -> Result<TcpListener> {
    let any = [0];
    let ports = if ports.is_empty() { &any[..] } else { ports };
    let mut last = None;
    for port in ports {
        match TcpListener::bind(SocketAddr::new(address, *port)) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = Some(error),
        }
    }
    let reason = last.map(|error| error.to_string()).unwrap_or_default();
    let tried = match ports {
        [] | [0] => "any port".into(),
        [one] => format!("port {one}"),
        [first, .., last] => format!("the {} ports from {first} to {last}", ports.len()),
    };
    Err(Error::new(Code::Network, format!("cannot listen on {address} at {tried}: {reason}")))
}

/// A connection.
struct Connection {
    stream: TcpStream,
    peer: SocketAddr,
    since: Instant,
    input: Vec<u8>,
    output: Vec<u8>,
    /// The communicator, once the key was shown.
    group: Option<String>,
    /// The rank that it stands for.
    rank: Option<u32>,
    /// The key whose value it waits for, and until when.
    waits: Option<(String, Instant)>,
    /// Closed once all is sent.
    closing: bool,
}

/// A communicator that meets here.
struct Group {
    since: Instant,
    gathering: Gathering,
    values: BTreeMap<String, Vec<u8>>,
    outcome: Option<std::result::Result<(), String>>,
    /// Its ranks do not agree: those that are still to come learn it too.
    disagrees: bool,
    /// A rank that went without leaving.
    lost: Option<u32>,
}

struct Service {
    spec: ServerSpec,
    listener: TcpListener,
    woken: UnixStream,
    opened: Instant,
    connections: Vec<Connection>,
    groups: BTreeMap<String, Group>,
    stored: usize,
    /// Whether a communicator has ever been complete.
    served: bool,
}

impl Service {
    fn new(spec: ServerSpec, listener: TcpListener, woken: UnixStream) -> Service {
        Service {
            spec,
            listener,
            woken,
            opened: Instant::now(),
            connections: Vec::new(),
            groups: BTreeMap::new(),
            stored: 0,
            served: false,
        }
    }

    fn run(mut self) {
        loop {
            let (is_woken, accepts, ready) = self.wait();
            if is_woken {
                break;
            }
            for at in ready {
                self.serve(at);
            }
            if accepts {
                self.accept();
            }
            self.end_late();
            self.remove_closed();
            if self.own_deadline().is_some_and(|at| at <= Instant::now()) && self.is_quiet() {
                log::warn!("the meeting point ends: no communicator was complete in time");
                break;
            }
        }
        // A group that failed, or lost a rank, does not end in order.
        let ends_in_order =
            |group: &Group| group.lost.is_none() && !group.values.contains_key(REASON);
        for connection in &mut self.connections {
            let group = connection.group.as_ref().and_then(|name| self.groups.get(name));
            if group.is_some_and(ends_in_order) {
                connection.output.extend(Reply::Bye.encode());
                connection.flush();
            }
        }
    }

    /// Whether nobody is owed an answer.
    fn is_quiet(&self) -> bool {
        self.connections.iter().all(|connection| connection.output.is_empty())
    }

    /// Sleeps until something comes: whether the server has to end, whether somebody connects, which connections are ready.
    fn wait(&self) -> (bool, bool, Vec<usize>) {
        let now = Instant::now();
        let left = self.next_deadline().map(|deadline| deadline.saturating_duration_since(now));
        let limit = left.map(|left| Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: i64::from(left.subsec_nanos()) + 1_000_000,
        });
        let limit = limit.map(|limit| match limit.tv_nsec >= 1_000_000_000 {
            true => Timespec { tv_sec: limit.tv_sec + 1, tv_nsec: limit.tv_nsec - 1_000_000_000 },
            false => limit,
        });
        let mut fds = vec![
            PollFd::new(&self.woken, PollFlags::IN),
            PollFd::new(&self.listener, PollFlags::IN),
        ];
        for connection in &self.connections {
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, !connection.output.is_empty());
            fds.push(PollFd::new(&connection.stream, flags));
        }
        if poll(&mut fds, limit.as_ref()).is_err() {
            return (false, false, Vec::new());
        }
        let happened = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let ready = (0..self.connections.len()).filter(|at| happened(&fds[at + 2])).collect();
        (happened(&fds[0]), happened(&fds[1]), ready)
    }

    /// When the server ends by itself: nobody has ever been complete here, and nobody gathers.
    fn own_deadline(&self) -> Option<Instant> {
        let gathers = self.groups.values().any(|group| group.outcome.is_none());
        (!self.served && !gathers).then(|| self.opened + self.spec.lifetime)
    }

    fn next_deadline(&self) -> Option<Instant> {
        let own = self.own_deadline();
        let groups = self.groups.values().filter(|group| group.outcome.is_none());
        let groups = groups.map(|group| group.since + self.spec.timeout);
        let connections =
            self.connections.iter().filter_map(|connection| match &connection.waits {
                Some((_, until)) => Some(*until),
                None if connection.group.is_none() => Some(connection.since + STRANGER_LIMIT),
                None => None,
            });
        own.into_iter().chain(groups).chain(connections).min()
    }

    fn accept(&mut self) {
        loop {
            let (stream, peer) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => {
                    // Out of descriptors: whoever waits stays in the listener's queue, and asking again at once gives the same answer.
                    log::warn!("the meeting point cannot take a connection: {error}");
                    std::thread::sleep(ACCEPT_PAUSE);
                    return;
                }
            };
            let is_allowed = self
                .spec
                .whitelist
                .as_ref()
                .is_none_or(|list| list.contains(&peer.ip().to_canonical()));
            if !is_allowed {
                log::warn!(
                    "the meeting point refused {peer}, which HCCL_WHITELIST_FILE does not have"
                );
                continue;
            }
            let strangers = self.connections.iter().filter(|c| c.group.is_none() && !c.closing);
            if strangers.count() >= MAX_STRANGERS
                && let Some(oldest) =
                    self.connections.iter_mut().find(|c| c.group.is_none() && !c.closing)
            {
                oldest.closing = true;
                oldest.output.clear();
            }
            if self.connections.len() >= MAX_CONNECTIONS || stream.set_nonblocking(true).is_err() {
                continue;
            }
            let _ = stream.set_nodelay(true);
            self.connections.push(Connection {
                stream,
                peer,
                since: Instant::now(),
                input: Vec::new(),
                output: Vec::new(),
                group: None,
                rank: None,
                waits: None,
                closing: false,
            });
        }
    }

    /// Reads what a connection has sent, answers every whole frame, and sends what it can.
    fn serve(&mut self, at: usize) {
        let ended = self.connections[at].fill();
        loop {
            let connection = &self.connections[at];
            if connection.closing {
                break;
            }
            let longest =
                if connection.group.is_none() { wire::MAX_HELLO } else { wire::MAX_REQUEST };
            let request = match wire::first_frame(&connection.input, longest) {
                Ok(Some((frame, used))) => Request::decode(frame).map(|request| (request, used)),
                Ok(None) => break,
                Err(garbage) => Err(garbage),
            };
            match request {
                Ok((request, used)) => {
                    self.connections[at].input.drain(..used);
                    self.answer(at, request);
                }
                Err(Garbage(what)) => {
                    log::warn!("the meeting point dropped {}: {what}", self.connections[at].peer);
                    self.connections[at].drop_now();
                }
            }
        }
        if ended {
            self.connections[at].drop_now();
        }
        self.connections[at].flush();
    }

    fn answer(&mut self, at: usize, request: Request) {
        let Some(name) = self.connections[at].group.clone() else {
            match request {
                Request::Hello { key, group } if key == self.spec.key => {
                    self.connections[at].group = Some(group);
                    self.connections[at].send(&Reply::Welcome);
                }
                _ => {
                    log::warn!(
                        "the meeting point dropped {}: a wrong key",
                        self.connections[at].peer
                    );
                    self.connections[at].drop_now();
                }
            }
            return;
        };
        let group = self.groups.entry(name.clone()).or_insert_with(|| Group {
            since: Instant::now(),
            gathering: Gathering::default(),
            values: BTreeMap::new(),
            outcome: None,
            disagrees: false,
            lost: None,
        });
        match request {
            Request::Hello { .. } => self.connections[at].drop_now(),
            Request::Join(member) => self.join(at, &name, member),
            Request::Set { key, value, or_first } => {
                let bytes = key.len() + value.len();
                if let Some(first) = group.values.get(&key) {
                    let reply = match or_first {
                        true => Reply::Value(first.clone()),
                        false => refused(Code::Again, format!("the key {key} has a value")),
                    };
                    self.connections[at].send(&reply);
                } else if self.stored + bytes > MAX_STORED {
                    let text = format!("the meeting point keeps no more than {MAX_STORED} bytes");
                    self.connections[at].send(&refused(Code::Memory, text));
                } else {
                    self.stored += bytes;
                    group.values.insert(key.clone(), value.clone());
                    self.connections[at].send(&Reply::Done);
                    for connection in &mut self.connections {
                        let waits =
                            connection.waits.as_ref().is_some_and(|(waited, _)| *waited == key);
                        if waits && connection.group.as_ref() == Some(&name) {
                            connection.waits = None;
                            connection.send(&Reply::Value(value.clone()));
                            connection.flush();
                        }
                    }
                }
            }
            Request::Get { key, timeout_ms } => match group.values.get(&key) {
                Some(value) => self.connections[at].send(&Reply::Value(value.clone())),
                None if timeout_ms > 0 && group.lost.is_some() => {
                    let reply = gone(group.lost.unwrap_or_default());
                    self.connections[at].send(&reply);
                }
                None if timeout_ms == 0 => self.connections[at].send(&Reply::Nothing),
                None => {
                    let until = Instant::now() + Duration::from_millis(u64::from(timeout_ms));
                    self.connections[at].waits = Some((key, until));
                }
            },
            Request::Leave => {
                self.connections[at].rank = None;
                self.connections[at].send(&Reply::Done);
            }
        }
    }

    fn join(&mut self, at: usize, name: &str, member: Member) {
        let Some(group) = self.groups.get_mut(name) else { return };
        let rank = member.rank;
        match &group.outcome {
            Some(Err(text)) => {
                let reply = refused(Code::Timeout, text.clone());
                return self.connections[at].send(&reply);
            }
            Some(Ok(())) => {
                let text = format!("rank {rank} came to a communicator that is complete");
                return self.connections[at].send(&refused(Code::Parameter, text));
            }
            None => {}
        }
        self.connections[at].rank = Some(rank);
        match group.gathering.add(member) {
            Ok(false) => {}
            Ok(true) => {
                group.outcome = Some(Ok(()));
                self.served = true;
                let roster = Reply::Roster(group.gathering.all());
                self.tell_members(name, &roster);
            }
            Err(text) => {
                group.disagrees = true;
                self.fail(name, Code::Parameter, text);
            }
        }
    }

    /// Ends a meeting for all that have come.
    fn fail(&mut self, name: &str, code: Code, text: String) {
        if let Some(group) = self.groups.get_mut(name) {
            group.outcome = Some(Err(text.clone()));
        }
        self.tell_members(name, &refused(code, text));
    }

    fn tell_members(&mut self, name: &str, reply: &Reply) {
        for connection in &mut self.connections {
            if connection.rank.is_some() && connection.group.as_deref() == Some(name) {
                connection.send(reply);
                connection.flush();
            }
        }
    }

    /// Ends waits and meetings whose time has passed, and connections that never showed the key.
    fn end_late(&mut self) {
        let now = Instant::now();
        for connection in &mut self.connections {
            if connection.waits.as_ref().is_some_and(|(_, until)| *until <= now) {
                connection.waits = None;
                connection.send(&Reply::Nothing);
                connection.flush();
            }
            if connection.group.is_none() && connection.since + STRANGER_LIMIT <= now {
                connection.drop_now();
            }
        }
        let timeout = self.spec.timeout;
        let is_late = |group: &Group| group.outcome.is_none() && group.since + timeout <= now;
        let late = self.groups.iter().filter(|(_, group)| is_late(group));
        let late: Vec<_> =
            late.map(|(name, group)| (name.clone(), group.gathering.missing(timeout))).collect();
        for (name, text) in late {
            self.fail(&name, Code::Timeout, text);
        }
    }

    /// Removes connections that have ended; a rank that goes without leaving ends what its communicator waits for. A
    /// communicator without connections is forgotten; one whose ranks do not agree when they have had their time to come.
    fn remove_closed(&mut self) {
        let is_closed =
            |connection: &mut Connection| connection.closing && connection.output.is_empty();
        let closed: Vec<Connection> = self.connections.extract_if(.., is_closed).collect();
        for connection in &closed {
            let (Some(rank), Some(name)) = (connection.rank, &connection.group) else { continue };
            let Some(group) = self.groups.get_mut(name) else { continue };
            group.lost = Some(rank);
            if group.outcome.is_none() {
                let text = format!("rank {rank} left before all ranks had come");
                self.fail(name, Code::Remote, text);
            }
            for other in &mut self.connections {
                if other.waits.is_some() && other.group.as_ref() == Some(name) {
                    other.waits = None;
                    other.send(&gone(rank));
                    other.flush();
                }
            }
        }
        if closed.is_empty() {
            return;
        }
        let connections = &self.connections;
        let is_left = |name: &String| !connections.iter().any(|c| c.group.as_ref() == Some(name));
        let (now, timeout) = (Instant::now(), self.spec.timeout);
        let left = self.groups.extract_if(.., |name, group| {
            is_left(name) && !(group.disagrees && now < group.since + timeout)
        });
        for (_, group) in left {
            self.stored -=
                group.values.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
        }
    }
}

fn gone(rank: u32) -> Reply {
    refused(Code::Remote, format!("rank {rank} is gone"))
}

fn refused(code: Code, text: String) -> Reply {
    Reply::Refused { code: code as i32, text }
}

impl Connection {
    /// Reads what is there; true if the other side has ended.
    fn fill(&mut self) -> bool {
        let longest = if self.group.is_none() { wire::MAX_HELLO } else { wire::MAX_REQUEST } + 4;
        let mut buffer = [0; 4096];
        while self.input.len() < longest {
            match self.stream.read(&mut buffer) {
                Ok(0) => return true,
                Ok(count) => self.input.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() != ErrorKind::WouldBlock,
            }
        }
        false
    }

    fn send(&mut self, reply: &Reply) {
        if !self.closing {
            self.output.extend(reply.encode());
        }
        if self.output.len() > MAX_OUTPUT {
            self.drop_now();
        }
    }

    /// Sends as much as goes without waiting.
    fn flush(&mut self) {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(count) if count > 0 => drop(self.output.drain(..count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                _ => return self.drop_now(),
            }
        }
    }

    fn drop_now(&mut self) {
        self.closing = true;
        self.output.clear();
    }
}
