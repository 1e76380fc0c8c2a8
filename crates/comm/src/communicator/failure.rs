//! The first failure of a communicator: kept, shared with the other ranks, and the end of its links.

use super::Communicator;
use crate::Code;
use crate::engine::{LinkError, LinkErrorKind};
use crate::error::Error;
use crate::header::Header;
use crate::links::Failure;
use crate::meeting::REASON;
use crate::meeting::client::{Client, ServerState};
use cairn_runtime::error as runtime;

impl Communicator {
    /// The failure that ended it, if one did; also notices a peer that is gone while nothing runs. Any thread; never waits
    /// but for the answer of the meeting point, once a peer is gone.
    pub fn async_error(&self) -> Option<Error> {
        {
            let state = self.state.lock();
            if state.failure.is_some() || state.destroyed {
                return state.failure.clone();
            }
        }
        let (mesh, client) = self.parts.connection.as_ref()?;
        if client.server_state() == ServerState::Open
            && let Ok(Some(reason)) = client.peek(REASON)
            && let Some((code, rank, text)) = read_reason(&reason)
        {
            return Some(
                self.fail(
                    "no operator",
                    Failure::Peer(code, format!("rank {rank} failed: {text}")),
                ),
            );
        }
        let error = mesh.check().err()?;
        if error.kind == LinkErrorKind::PeerGone && has_left(client, error.peer) {
            return None;
        }
        Some(self.fail("no operator", Failure::Link(error)))
    }

    /// Handles the failure of an operator, or of idle links: the first one stays, all later ones are told it.
    pub(super) fn fail(&self, operator: &str, failure: Failure) -> Error {
        {
            let state = self.state.lock();
            if let Some(error) = &state.failure {
                return error.clone();
            }
            if state.destroyed {
                let name = self.name();
                let text =
                    format!("{operator}: the communicator \"{name}\" was destroyed meanwhile");
                return Error::new(Code::Unavailable, text);
            }
        }
        let error = self.share_reason(self.describe(operator, failure));
        let mut state = self.state.lock();
        let first = state.failure.get_or_insert(error).clone();
        drop(state);
        log::error!("{}", first.text);
        if let Some((mesh, _)) = &self.parts.connection {
            mesh.close();
        }
        first
    }

    /// A task of this rank failed by itself, and does not communicate as the other ranks expect.
    pub(super) fn abandon(&self, operator: &str, reason: &str) {
        if self.parts.connection.is_some() {
            let text = format!("this rank's part of {operator} failed: {reason}");
            self.fail(operator, Failure::OwnPart(text));
        }
    }

    fn describe(&self, operator: &str, failure: Failure) -> Error {
        let (rank, size, name) = (self.rank(), self.size(), self.name());
        let context = format!("{operator} on rank {rank} of {size} of the communicator \"{name}\"");
        let (code, reason) = match failure {
            Failure::Mismatch { peer, called, expected } => {
                let code = Code::TcpTransfer;
                let mut text = format!(
                    "the ranks called different operators: rank {rank} called {expected}, rank {peer} called {called}"
                );
                if (Header { history: expected.history, ..called }) == expected {
                    text.push_str("; an operator before this one differed already");
                }
                (code, text)
            }
            Failure::OwnPart(text) => (Code::Internal, text),
            Failure::Peer(code, text) => (code, text),
            Failure::Link(LinkError { kind, peer, text }) => {
                let who = peer.map_or("a peer".into(), |peer| format!("rank {peer}"));
                match kind {
                    LinkErrorKind::PeerGone => {
                        let (_, client) =
                            self.parts.connection.as_ref().expect("a link has failed");
                        let how = match has_left(client, peer) {
                            true => "has destroyed the communicator",
                            false => "is gone",
                        };
                        (Code::Remote, format!("{who} {how} ({text})"))
                    }
                    LinkErrorKind::Timeout => (
                        Code::Timeout,
                        format!(
                            "{who} did not answer within HCCL_EXEC_TIMEOUT: it is late, or called no such operator ({text})"
                        ),
                    ),
                    LinkErrorKind::TooLong => (
                        Code::TcpTransfer,
                        format!("{who} called an operator of another size ({text})"),
                    ),
                    LinkErrorKind::Closed | LinkErrorKind::Other => {
                        (Code::TcpTransfer, format!("a transfer with {who} failed: {text}"))
                    }
                }
            }
        };
        Error::new(code, format!("{context}: {reason}"))
    }

    /// Leaves the reason where other ranks find it; where one of them was first, adds its reason.
    fn share_reason(&self, own: Error) -> Error {
        let Some((_, client)) = &self.parts.connection else { return own };
        let rank = self.rank();
        let reason = format!("{}\n{rank}\n{}", own.code as i32, own.text);
        let Ok(first) = client.set_first(REASON, reason.as_bytes()) else { return own };
        let Some((code, first_rank, text)) = read_reason(&first) else { return own };
        match first_rank == rank {
            true => own,
            false => {
                Error::new(code, format!("{}; rank {first_rank} failed first: {text}", own.text))
            }
        }
    }

    /// Tells the other ranks that this one ends in order; after a failure it does not.
    pub(super) fn leave(&self, client: &Client) {
        let has_failed = self.state.lock().failure.is_some();
        if !has_failed && client.server_state() == ServerState::Open {
            let _ = client.set_first(&left_key(self.rank()), &[]);
            client.leave();
        }
    }
}

/// What a rank left as the reason: its code, the rank, the text.
fn read_reason(bytes: &[u8]) -> Option<(Code, u32, String)> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.splitn(3, '\n');
    let code = Code::from_number(lines.next()?.parse().ok()?)?;
    let rank = lines.next()?.parse().ok()?;
    Some((code, rank, lines.next().unwrap_or_default().to_owned()))
}

fn left_key(rank: u32) -> String {
    format!("left/{rank}")
}

/// Whether a peer whose links are closed has destroyed the communicator in order.
fn has_left(client: &Client, peer: Option<u32>) -> bool {
    match (client.server_state(), peer) {
        (ServerState::Ended, _) => true,
        (ServerState::Gone, _) | (_, None) => false,
        (ServerState::Open, Some(peer)) => {
            matches!(client.peek(&left_key(peer)), Ok(Some(_)))
        }
    }
}

/// A failure of a communicator as its task reports it.
pub(super) fn task_error(error: Error) -> runtime::Error {
    let code = match error.code {
        Code::Remote => runtime::Code::SuspectRemote,
        Code::Timeout => runtime::Code::WaitTimeout,
        _ => runtime::Code::OperatorException,
    };
    runtime::Error::new(code, error.text)
}
