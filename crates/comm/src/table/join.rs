//! How communicators are made: by root infos, by a rank table, of all devices of a process, of a part of another one.

use super::{Communicators, SubSpec};
use crate::Code;
use crate::communicator::{Communicator, Parts};
use crate::config::{CommConfig, MAX_NAME};
use crate::engine::{LinkError, LinkErrorKind, MeshSpec, Store, Transport};
use crate::environment::BASE_PORTS;
use crate::error::{Error, Result};
use crate::header::{hash, wide_hash};
use crate::meeting::address;
use crate::meeting::client::{Client, Place};
use crate::meeting::root_info::RootInfo;
use crate::meeting::server::{Server, ServerSpec};
use crate::meeting::wire::{MAX_RANKS, Member};
use crate::rank_table::RankTable;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The name of the communicator of a rank table.
pub const WORLD_GROUP: &str = "hccl_world_group";

/// A communicator that is to be made, seen from one rank.
struct Joining<'a> {
    device: u32,
    rank: u32,
    size: u32,
    name: String,
    identity: u128,
    is_sub: bool,
    config: &'a CommConfig,
    /// Where ranks meet, and under which name there.
    place: Place,
    group: String,
    server: Option<Arc<Server>>,
    /// The address of this rank, where a table has it.
    address: Option<IpAddr>,
}

/// What the engine sees of a communicator's keys.
struct EngineStore(Arc<Client>);

impl Store for EngineStore {
    fn set(&self, key: &str, value: &[u8]) -> std::result::Result<(), LinkError> {
        self.0.set(&format!("engine/{key}"), value)
    }

    fn get(&self, key: &str, timeout: Duration) -> std::result::Result<Vec<u8>, LinkError> {
        self.0.get(&format!("engine/{key}"), timeout)
    }
}

fn check_rank(rank: u32, size: u32) -> Result<()> {
    if size == 0 || size as usize > MAX_RANKS {
        return Err(Error::parameter(format!("nRanks is {size}: expected 1 to {MAX_RANKS}")));
    }
    if rank >= size {
        return Err(Error::parameter(format!("rank {rank} is none of {size} ranks")));
    }
    Ok(())
}

impl Communicators {
    /// A communicator of `size` ranks that meet by a root info; `device` is this process's number of the rank's device.
    pub fn join(
        &self,
        device: u32,
        size: u32,
        info: &RootInfo,
        rank: u32,
        config: &CommConfig,
    ) -> Result<Arc<Communicator>> {
        check_rank(rank, size)?;
        let joined = self.make(Joining {
            device,
            rank,
            size,
            name: config.name.clone().unwrap_or_else(|| default_name(info)),
            identity: info.identity,
            is_sub: false,
            config,
            place: Place { addresses: vec![info.address], key: info.key, may_be_late: false },
            group: String::new(),
            // A single rank meets nobody.
            server: self.meeting(info.key).filter(|_| size > 1),
            address: None,
        });
        if joined.is_ok() {
            self.release_meeting(info.key);
        }
        joined
    }

    /// The same with several root infos, equal on all ranks: all meet at the first, which serves any number; the others
    /// are closed by the processes that opened them. No info, or more than ranks: code 1.
    pub fn join_scalable(
        &self,
        device: u32,
        size: u32,
        infos: &[RootInfo],
        rank: u32,
        config: &CommConfig,
    ) -> Result<Arc<Communicator>> {
        check_rank(rank, size)?;
        let (first, others) = match infos {
            [first, others @ ..] if infos.len() <= size as usize => (first, others),
            _ => {
                return Err(Error::parameter(format!(
                    "nRoot is {}: expected 1 to {size}, the number of ranks",
                    infos.len()
                )));
            }
        };
        let joined = self.join(device, size, first, rank, config);
        others.iter().for_each(|info| self.release_meeting(info.key));
        joined
    }

    /// The communicator of a rank table file. Its name is that of the world group unless the configuration has one.
    pub fn join_rank_table(
        &self,
        device: u32,
        path: &Path,
        rank: u32,
        config: &CommConfig,
    ) -> Result<Arc<Communicator>> {
        let table = RankTable::read(path)?;
        let size = table.ranks.len() as u32;
        if rank >= size {
            return Err(Error::parameter(format!(
                "rank {rank} is none of the {size} ranks of {}",
                path.display()
            )));
        }
        let environment = &self.environment;
        let first = &table.ranks[0];
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let meets_at = match table.servers {
            1 => environment.address.unwrap_or(loopback),
            _ => first.address.unwrap_or(loopback),
        };
        let base = environment.base_port;
        let ports: Vec<u16> = match first.port {
            Some(port) => vec![port],
            None => (base..=base + (BASE_PORTS - 1)).collect(),
        };
        let addresses: Vec<SocketAddr> =
            ports.iter().map(|port| SocketAddr::new(meets_at, *port)).collect();
        let server = match rank {
            0 if size > 1 => {
                let spec = ServerSpec::of(environment, meets_at, table.digest);
                Some(Arc::new(Server::open(ServerSpec { ports, ..spec })?))
            }
            _ => None,
        };
        let addresses = match &server {
            Some(server) => vec![server.address()],
            None => addresses,
        };
        self.make(Joining {
            device,
            rank,
            size,
            name: config.name.clone().unwrap_or_else(|| WORLD_GROUP.into()),
            identity: table.digest,
            is_sub: false,
            config,
            place: Place { addresses, key: table.digest, may_be_late: true },
            group: String::new(),
            server,
            address: (table.servers > 1).then_some(table.ranks[rank as usize].address).flatten(),
        })
    }

    /// A communicator of these devices of this process, one rank each, in the order of ranks.
    pub fn join_all(&self, devices: &[u32]) -> Result<Vec<Arc<Communicator>>> {
        let size = devices.len() as u32;
        check_rank(0, size)?;
        for (at, device) in devices.iter().enumerate() {
            if devices[..at].contains(device) {
                return Err(Error::parameter(format!("device {device} is in the list twice")));
            }
        }
        let info = self.open_meeting()?;
        let config = CommConfig::default();
        let joined: Vec<Result<Arc<Communicator>>> = std::thread::scope(|scope| {
            let start = |(rank, device): (u32, &u32)| {
                let (info, config, device) = (&info, &config, *device);
                scope.spawn(move || self.join(device, size, info, rank, config))
            };
            let threads: Vec<_> = (0..size).zip(devices).map(start).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|_| {
                    Err(Error::new(Code::Internal, "a thread that made a communicator panicked"))
                })
            };
            threads.into_iter().map(join).collect()
        });
        self.release_meeting(info.key);
        if joined.iter().all(Result::is_ok) {
            return Ok(joined.into_iter().flatten().collect());
        }
        let mut first_failure = None;
        for one in joined {
            match one {
                Ok(communicator) => drop(self.destroy(&communicator)),
                Err(error) => drop(first_failure.get_or_insert(error)),
            }
        }
        Err(first_failure.expect("one has failed"))
    }

    /// A communicator of some ranks of another, called by its members only.
    pub fn join_sub(
        &self,
        parent: &Arc<Communicator>,
        spec: &SubSpec,
        config: &CommConfig,
    ) -> Result<Arc<Communicator>> {
        if parent.is_sub() {
            return Err(Error::unsupported(format!(
                "\"{}\" is a sub-communicator: those have none of their own",
                parent.name()
            )));
        }
        if let Some(error) = parent.async_error() {
            return Err(error);
        }
        let size = spec.ranks.len() as u32;
        if size == 0 || size > parent.size() {
            let text = format!("rankNum is {size}: expected 1 to {}", parent.size());
            return Err(Error::parameter(text));
        }
        check_rank(spec.rank, size)?;
        for (at, rank) in spec.ranks.iter().enumerate() {
            if *rank >= parent.size() || spec.ranks[..at].contains(rank) {
                return Err(Error::parameter(format!(
                    "rankIds has {rank} at {at}: expected each once, below {}",
                    parent.size()
                )));
            }
        }
        if spec.ranks[spec.rank as usize] != parent.rank() {
            return Err(Error::parameter(format!(
                "subCommRankId {} is rank {} of \"{}\", this rank is {}",
                spec.rank,
                spec.ranks[spec.rank as usize],
                parent.name(),
                parent.rank()
            )));
        }
        let mut bytes = parent.identity().to_le_bytes().to_vec();
        bytes.extend(spec.id.to_le_bytes());
        bytes.extend(spec.ranks.iter().flat_map(|rank| rank.to_le_bytes()));
        let key = (spec.id, hash(&bytes));
        let generation = parent.sub_generation(key);
        bytes.extend(generation.to_le_bytes());
        let (client, server) = parent.meeting();
        let nowhere = Place { addresses: Vec::new(), key: 0, may_be_late: false };
        let joined = self.make(Joining {
            device: parent.device(),
            rank: spec.rank,
            size,
            name: match &config.name {
                Some(name) => name.clone(),
                None => format!("{}_sub_{}", parent.name(), spec.id),
            },
            identity: wide_hash(&bytes),
            is_sub: true,
            config,
            place: client.map_or(nowhere, |client| client.place()),
            group: format!("sub/{}/{:x}/{generation}", spec.id, key.1),
            server: server.cloned(),
            address: None,
        })?;
        parent.count_sub(key);
        Ok(joined)
    }

    /// Makes a communicator: takes its name, meets the other ranks, connects with them.
    fn make(&self, joining: Joining<'_>) -> Result<Arc<Communicator>> {
        let Joining { device, rank, size, ref name, config, .. } = joining;
        if name.is_empty() || name.len() > MAX_NAME || name.contains('\0') {
            return Err(Error::parameter(format!(
                "the name \"{name}\" has {} bytes: expected 1 to {MAX_NAME}",
                name.len()
            )));
        }
        let reserved = self.reserve_name(device, name)?;
        let environment = &self.environment;
        let mut buffer_bytes = config.buffer_bytes.unwrap_or(environment.buffer_bytes);
        let (mut connection, mut members) = (None, Vec::new());
        if size > 1 {
            let describe = |error: Error| {
                error.of(format!("rank {rank} of {size} of the communicator \"{name}\""))
            };
            let engine = self.engine().map_err(describe)?;
            let deadline = Instant::now() + environment.connect_timeout;
            let own_address = joining.address.map_or_else(|| address::choose(environment), Ok)?;
            let member = Member {
                rank,
                size,
                device,
                host: address::host_identity(),
                pid: std::process::id(),
                name: name.clone(),
                buffer_bytes,
                address: own_address,
            };
            let timeout = environment.connect_timeout;
            let (client, all) =
                Client::join(&joining.place, &joining.group, &member, timeout).map_err(describe)?;
            buffer_bytes =
                all.iter().map(|member| member.buffer_bytes).min().unwrap_or(buffer_bytes);
            let spec = MeshSpec {
                rank,
                size,
                name: name.clone(),
                transport: match environment.tcp_only {
                    true => Transport::Tcp { address: own_address },
                    false => transport(&all, own_address).map_err(describe)?,
                },
                buffer_bytes,
                timeout: deadline
                    .saturating_duration_since(Instant::now())
                    .max(Duration::from_secs(1)),
            };
            let client = Arc::new(client);
            let mesh = engine.connect(&spec, Arc::new(EngineStore(client.clone())));
            let mesh = mesh.map_err(|error| describe(connect_error(error)))?;
            (connection, members) = (Some((mesh, client)), all);
        }
        let communicator = Communicator::new(Parts {
            shared: self.shared.clone(),
            rank,
            size,
            device,
            name: joining.name,
            description: config.description.clone(),
            identity: joining.identity,
            is_sub: joining.is_sub,
            buffer_bytes,
            determinism: config.determinism.unwrap_or_else(|| self.determinism()),
            exec_timeout: config.exec_timeout.unwrap_or(environment.exec_timeout),
            entry_log: environment.entry_log,
            connection,
            members,
            server: joining.server,
        });
        reserved.set(&communicator);
        Ok(communicator)
    }
}

/// The name of a communicator that got none.
fn default_name(info: &RootInfo) -> String {
    format!("hccl_{:032x}", info.identity)
}

/// Shared memory where all ranks are on one host, else TCP.
fn transport(members: &[Member], own_address: IpAddr) -> Result<Transport> {
    let hosts = |member: &Member| member.host != members[0].host;
    let Some(other) = members.iter().find(|member| hosts(member)) else {
        return Ok(Transport::Shared);
    };
    match members.iter().find(|member| member.address.is_loopback()) {
        None => Ok(Transport::Tcp { address: own_address }),
        Some(unreachable) => Err(Error::new(
            Code::Network,
            format!(
                "ranks 0 and {} are on two hosts, but rank {} has only the address {}: set HCCL_IF_IP or HCCL_SOCKET_IFNAME on every host",
                other.rank, unreachable.rank, unreachable.address
            ),
        )),
    }
}

fn connect_error(error: LinkError) -> Error {
    let code = match error.kind {
        LinkErrorKind::Timeout => Code::Timeout,
        LinkErrorKind::PeerGone => Code::Remote,
        _ => Code::TcpConnect,
    };
    let peer = error.peer.map(|peer| format!(" to rank {peer}")).unwrap_or_default();
    Error::new(code, format!("no link{peer}: {}", error.text))
}
