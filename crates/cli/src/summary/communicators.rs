//! What a process did on its communicators, and how long it waited there for other ranks.

use std::collections::BTreeMap;

use cairn_record::{
    Access, Entry,
    entry::{Change, Communicator, Happening, Outcome},
};
use rustc_hash::FxHashMap;

/// One rank's end of a communicator.
#[derive(Debug)]
pub struct CommunicatorFigures {
    pub communicator: Communicator,
    pub operators: u64,
    /// Of each operator what it reads, else what it writes.
    pub bytes: u64,
    /// How long its tasks ran, waiting for others included.
    pub inside_ns: u64,
    /// How much of that the rank waited for one that came later; `None` where the others are not seen.
    pub waited_ns: Option<u64>,
    /// When its collectives ran, by their numbers, on the clock of the machine.
    spans: Vec<Option<(u64, u64)>>,
}

/// The communicators of a process, by their ids.
#[derive(Default)]
pub struct Communicators {
    all: BTreeMap<u64, CommunicatorFigures>,
    /// Tasks that have not ended: the communicator, and the number of a collective.
    pending: FxHashMap<(u32, u64), (u64, Option<usize>)>,
}

impl Communicators {
    /// Takes an entry into account.
    pub fn add(&mut self, entry: &Entry<'_>) {
        match &entry.happening {
            Happening::Communicator(communicator, Change::Created) => {
                let figures = CommunicatorFigures {
                    communicator: (**communicator).clone(),
                    operators: 0,
                    bytes: 0,
                    inside_ns: 0,
                    waited_ns: None,
                    spans: Vec::new(),
                };
                self.all.insert(communicator.id, figures);
            }
            Happening::Collective(call) => {
                let Some(figures) = self.all.get_mut(&call.communicator) else { return };
                figures.operators += 1;
                let is_collective = call.to.is_empty() && call.from.is_empty();
                let number = is_collective.then_some(figures.spans.len());
                figures.spans.extend(number.map(|_| None));
                let place = (call.epoch.stream, call.epoch.seq);
                self.pending.insert(place, (call.communicator, number));
            }
            Happening::Submit { stream, seq, accesses, .. } => {
                if let Some((id, _)) = self.pending.get(&(*stream, *seq))
                    && let Some(figures) = self.all.get_mut(id)
                {
                    figures.bytes += moved(accesses);
                }
            }
            Happening::End { stream, seq, began_ns, outcome } => {
                let Some((id, number)) = self.pending.remove(&(*stream, *seq)) else { return };
                let Some(figures) = self.all.get_mut(&id) else { return };
                if *outcome != Outcome::Dropped {
                    figures.inside_ns += entry.time_ns.saturating_sub(*began_ns);
                    if let Some(number) = number {
                        figures.spans[number] = Some((*began_ns, entry.time_ns));
                    }
                }
            }
            _ => {}
        }
    }

    /// Every one, by its id.
    pub fn into_figures(self) -> Vec<CommunicatorFigures> {
        self.all.into_values().collect()
    }
}

/// What is read; of an operator that reads nothing, what is written. Scratch memory, which is written too, does not count.
fn moved(accesses: &[Access]) -> u64 {
    let bytes = |is_counted: &dyn Fn(&Access) -> bool| -> u64 {
        let counted = accesses.iter().filter(|access| is_counted(access));
        counted.map(|access| access.bounds()).map(|(start, end)| end.saturating_sub(start)).sum()
    };
    match bytes(&|access| access.mode.reads()) {
        0 => bytes(&|access| access.mode.writes()),
        read => read,
    }
}

/// Finds out how long each rank waited for others, where at least two ranks of a communicator are seen on the clock of one machine.
pub fn find_waits(ranks: &mut [(&str, &mut CommunicatorFigures)]) {
    let mut groups: BTreeMap<(u128, &str), Vec<usize>> = BTreeMap::new();
    for (at, (machine, figures)) in ranks.iter().enumerate() {
        groups.entry((figures.communicator.identity, *machine)).or_default().push(at);
    }
    for group in groups.into_values().filter(|group| group.len() > 1) {
        let span = |at: usize, number: usize| ranks[at].1.spans.get(number).copied().flatten();
        let waited = |at: usize| -> u64 {
            let of_number = |number: usize| {
                let (began, ended) = span(at, number)?;
                let last = group.iter().filter_map(|it| span(*it, number)).map(|it| it.0).max()?;
                Some(last.min(ended).saturating_sub(began))
            };
            (0..ranks[at].1.spans.len()).filter_map(of_number).sum()
        };
        let all: Vec<(usize, u64)> = group.iter().map(|at| (*at, waited(*at))).collect();
        for (at, ns) in all {
            ranks[at].1.waited_ns = Some(ns);
        }
    }
}
