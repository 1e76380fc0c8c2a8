//! Operators of communicators that belong together, over the records of several ranks.

use std::collections::BTreeMap;

use cairn_record::Epoch;

use crate::history::History;

/// The task of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The place of the record in the list.
    pub record: usize,
    pub rank: u32,
    pub epoch: Epoch,
}

/// Tasks of different ranks that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meeting {
    /// One task of each rank that was seen, at least two, by rank.
    Collective(Vec<Part>),
    /// A send and its receive.
    Message { send: Part, receive: Part },
}

/// What tells one meeting from all others: the communicator, sender and receiver of a message, and a number.
type Key = (u128, Option<(u32, u32)>, u64);

/// What is counted by itself: what a rank calls on a communicator, messages by sender and receiver.
type Sequence = (u128, u32, Option<(u32, u32)>);

/// All meetings of some records. As the checker does, it counts collectives on each rank, and messages between two ranks.
pub fn find(histories: &[History]) -> Vec<Meeting> {
    let mut collectives: BTreeMap<Key, Vec<Part>> = BTreeMap::new();
    let mut sends: BTreeMap<Key, Part> = BTreeMap::new();
    let mut receives: BTreeMap<Key, Part> = BTreeMap::new();
    let mut counts: BTreeMap<Sequence, u64> = BTreeMap::new();
    for (record, history) in histories.iter().enumerate() {
        for call in &history.collectives {
            let Some(communicator) = history.communicators.get(&call.communicator) else {
                continue;
            };
            let (identity, rank) = (communicator.identity, communicator.rank);
            let part = Part { record, rank, epoch: call.epoch };
            let mut number = |pair: Option<(u32, u32)>| -> Key {
                let count = counts.entry((identity, rank, pair)).or_default();
                *count += 1;
                (identity, pair, *count)
            };
            if call.to.is_empty() && call.from.is_empty() {
                collectives.entry(number(None)).or_default().push(part);
            }
            for peer in &call.to {
                sends.insert(number(Some((rank, *peer))), part);
            }
            for peer in &call.from {
                receives.insert(number(Some((*peer, rank))), part);
            }
        }
    }
    let all = collectives.into_values().filter(|parts| parts.len() > 1).map(|mut parts| {
        parts.sort_by_key(|part| part.rank);
        Meeting::Collective(parts)
    });
    let messages = sends.into_iter().filter_map(|(key, send)| {
        let receive = *receives.get(&key)?;
        Some(Meeting::Message { send, receive })
    });
    all.chain(messages).collect()
}
