//! What the program itself has ordered: by its events and what it waited for, without what the engine orders for it.

use cairn_record::entry::Happening;
use cairn_record::{Clock, Entry, Epoch, StreamIndex};
use std::collections::HashMap;

/// The id of events of the engine itself.
const INTERNAL: u32 = u32::MAX;

/// The least number of records that are kept.
const MIN_LIMIT: usize = 1 << 16;

/// For each stream, what the program has ordered before its next task.
#[derive(Default)]
pub struct ProgramOrder {
    streams: HashMap<StreamIndex, Clock>,
    /// What each record of an event stands for.
    records: HashMap<(StreamIndex, u64), Clock>,
    /// How many records there may be before finished ones are forgotten.
    limit: usize,
}

impl ProgramOrder {
    /// Takes the events of an entry into account. Records that the program knows to be finished may be forgotten.
    pub fn advance(&mut self, entry: &Entry<'_>, known: &Clock) {
        if self.records.len() >= self.limit.max(MIN_LIMIT) {
            self.records.retain(|&(stream, seq), _| !known.covers(Epoch { stream, seq }));
            self.limit = 2 * self.records.len();
        }
        match &entry.happening {
            Happening::Record { event, epoch } if *event != INTERNAL => {
                let mut clock = self.streams.get(&epoch.stream).cloned().unwrap_or_default();
                clock.raise(*epoch);
                self.records.insert((epoch.stream, epoch.seq), clock);
            }
            Happening::Wait { event, record: Some(record), epoch } if *event != INTERNAL => {
                if let Some(clock) = self.records.get(&(record.stream, record.seq)) {
                    self.streams.entry(epoch.stream).or_default().join(clock);
                }
            }
            _ => {}
        }
    }

    /// Whether the program has ordered the next task of a stream after an epoch.
    pub fn covers(&self, stream: StreamIndex, epoch: Epoch) -> bool {
        stream == epoch.stream || self.streams.get(&stream).is_some_and(|clock| clock.covers(epoch))
    }
}
