//! One clock for several records.
//!
//! Records of one machine have its monotonic clock. Another machine is shifted so that collectives end at the same time there:
//! by the median over all that it has in common with machines that have their place. Where there are none, the clocks of the
//! machines themselves count.

use std::collections::BTreeMap;

use crate::{
    history::History,
    meetings::{Meeting, Part},
};

/// Where records stand on the common clock.
pub struct Clocks {
    /// Nanoseconds between the beginning of the trace and that of each record.
    pub shifts: Vec<u64>,
    /// What to tell the user of it; empty where there is one machine.
    pub notes: Vec<String>,
}

/// Finds the places of records.
pub fn align(histories: &[History], meetings: &[Meeting]) -> Clocks {
    let machines = machines(histories);
    let mut notes = Vec::new();
    // What is added to the monotonic clock of a machine; the first one has its own.
    let mut shift_of: BTreeMap<usize, i128> = BTreeMap::from([(0, 0)]);
    let own = |record: usize| i128::from(histories[record].header.start_ns);
    let end = |part: &Part| {
        let task = histories[part.record].runs.get(part.epoch)?;
        Some(own(part.record) + i128::from(task.ended_ns?))
    };
    let count = machines.iter().max().map_or(0, |last| last + 1);
    while shift_of.len() < count {
        let mut distances: BTreeMap<usize, Vec<i128>> = BTreeMap::new();
        for meeting in meetings {
            let Meeting::Collective(parts) = meeting else { continue };
            let place = |part: &Part| {
                let shift = *shift_of.get(&machines[part.record])?;
                Some(end(part)? + shift)
            };
            let Some(placed) = parts.iter().filter_map(place).max() else { continue };
            for part in parts.iter().filter(|part| !shift_of.contains_key(&machines[part.record])) {
                if let Some(ended) = end(part) {
                    distances.entry(machines[part.record]).or_default().push(placed - ended);
                }
            }
        }
        match distances.into_iter().max_by_key(|(_, all)| all.len()) {
            Some((machine, mut all)) => {
                all.sort_unstable();
                shift_of.insert(machine, all[all.len() / 2]);
                notes.push(format!(
                    "machine {} is aligned by the ends of {} collectives",
                    machine + 1,
                    all.len()
                ));
            }
            None => {
                let first_of = |machine| machines.iter().position(|it| *it == machine);
                let machine = (0..count).find(|machine| !shift_of.contains_key(machine));
                let Some((machine, record)) = machine.and_then(|it| Some((it, first_of(it)?)))
                else {
                    break;
                };
                let wall = |record: usize| {
                    i128::from(histories[record].header.start_unix_ns) - own(record)
                };
                shift_of.insert(machine, wall(record) - wall(0));
                if histories.iter().any(|history| !history.header.machine.is_empty()) {
                    notes.push(format!(
                        "machine {} has no collective in common with another: its own time of day counts",
                        machine + 1
                    ));
                }
            }
        }
    }
    let places: Vec<i128> =
        (0..histories.len()).map(|record| own(record) + shift_of[&machines[record]]).collect();
    let first = places.iter().min().copied().unwrap_or(0);
    Clocks { shifts: places.iter().map(|place| (place - first) as u64).collect(), notes }
}

/// The number of each record's machine, in the order in which they appear. One that is not known is a machine of its own.
fn machines(histories: &[History]) -> Vec<usize> {
    let mut names: Vec<Option<&str>> = Vec::new();
    let mut numbers = Vec::new();
    for history in histories {
        let name = Some(&*history.header.machine).filter(|name| !name.is_empty());
        let known = names.iter().position(|it| it.is_some() && *it == name);
        numbers.push(known.unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        }));
    }
    numbers
}
