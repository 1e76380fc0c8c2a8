//! The figures of two records side by side.

use std::collections::BTreeMap;

use super::Threshold;
use crate::summary::figures::{Breakdown, Place, Pool, Shares, Summary};

/// A figure before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pair {
    pub before: u64,
    pub after: u64,
}

impl Pair {
    /// How much it grew; less than 0 if it shrank.
    pub fn growth(self) -> i128 {
        i128::from(self.after) - i128::from(self.before)
    }

    pub fn is_changed(self) -> bool {
        self.before != self.after
    }
}

/// Names with figures.
pub type Pairs = Vec<(String, Pair)>;

/// The memory of a device, or of the host.
#[derive(Debug, Default)]
pub struct PlaceChanges {
    /// `None` for the host.
    pub device: Option<u32>,
    pub peak: Pair,
    pub live_at_end: Pair,
    /// Bytes at the peak, by purpose; the most first.
    pub purposes: Pairs,
    /// Bytes at the peak by graph and operator, where they changed; what grew most first.
    pub owners: Pairs,
    /// The same by call.
    pub sites: Pairs,
}

/// What changed between two records.
#[derive(Debug, Default)]
pub struct Changes {
    pub before: String,
    pub after: String,
    pub threshold: Option<Threshold>,
    pub places: Vec<PlaceChanges>,
    /// The most that pools had reserved.
    pub pools: Pairs,
    /// Allocations by memory.
    pub allocations: Pairs,
    /// Bytes of those.
    pub allocated_bytes: Pairs,
    /// Tasks by name, where their number changed.
    pub tasks: Pairs,
    /// Everything else that is counted, where it changed.
    pub counts: Pairs,
}

impl Changes {
    /// Compares two summaries.
    pub fn between(before: &Summary, after: &Summary) -> Changes {
        let of_both = |count: &dyn Fn(&Summary) -> BTreeMap<String, u64>| {
            pairs(&count(before), &count(after))
        };
        let traffic = |summary: &Summary, figure: fn(&crate::summary::counts::Traffic) -> u64| {
            let all = summary.counts.traffic.iter();
            all.map(|(name, traffic)| ((*name).to_owned(), figure(traffic))).collect()
        };
        Changes {
            places: places(before, after),
            pools: of_both(&pools),
            allocations: of_both(&|summary| traffic(summary, |traffic| traffic.allocations)),
            allocated_bytes: of_both(&|summary| traffic(summary, |traffic| traffic.bytes)),
            tasks: changed(of_both(&|summary| {
                let tasks = summary.counts.tasks.iter();
                tasks.map(|(name, tasks)| (name.to_string(), tasks.submitted)).collect()
            })),
            counts: changed(of_both(&|summary| {
                let counts = summary.counts.happenings.iter();
                counts.map(|(name, count)| ((*name).to_owned(), *count)).collect()
            })),
            ..Changes::default()
        }
    }

    /// The devices whose peak is too high.
    pub fn exceeding(&self) -> impl Iterator<Item = &PlaceChanges> {
        self.places.iter().filter(|place| {
            let Pair { before, after } = place.peak;
            place.device.is_some()
                && self.threshold.is_some_and(|threshold| threshold.is_exceeded(before, after))
        })
    }
}

fn places(before: &Summary, after: &Summary) -> Vec<PlaceChanges> {
    let nowhere = Place::default();
    let mut both: BTreeMap<Option<u32>, [&Place; 2]> = BTreeMap::new();
    for (index, summary) in [before, after].into_iter().enumerate() {
        for place in &summary.places {
            both.entry(place.device).or_insert([&nowhere; 2])[index] = place;
        }
    }
    let changes = both.into_iter().map(|(device, [before, after])| {
        let at_peak = |shares: fn(&Breakdown) -> &Shares| {
            pairs(&bytes(shares(&before.at_peak)), &bytes(shares(&after.at_peak)))
        };
        let mut purposes = at_peak(|breakdown| &breakdown.by_purpose);
        purposes.sort_by_key(|(_, pair)| std::cmp::Reverse(pair.before.max(pair.after)));
        PlaceChanges {
            device,
            peak: Pair { before: before.peak, after: after.peak },
            live_at_end: Pair { before: before.live_at_end, after: after.live_at_end },
            purposes,
            owners: changed(at_peak(|breakdown| &breakdown.by_owner)),
            sites: changed(at_peak(|breakdown| &breakdown.by_site)),
        }
    });
    changes.filter(|place| place.peak != Pair::default()).collect()
}

fn bytes(shares: &Shares) -> BTreeMap<String, u64> {
    shares.iter().map(|(name, share)| (name.clone(), share.bytes)).collect()
}

/// The most that each pool had reserved. Objects of users have other addresses in every run: they are counted together.
fn pools(summary: &Summary) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for (pool, reserve) in &summary.pools {
        let name = match pool {
            Pool::Own(device, number) => format!("pool {number} of device {device}"),
            Pool::User(_) => "the program's allocators".into(),
        };
        *all.entry(name).or_default() += reserve.peak_reserved;
    }
    all
}

/// Both figures of every name.
fn pairs(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> Pairs {
    let mut all: BTreeMap<&String, Pair> = BTreeMap::new();
    for (name, value) in before {
        all.entry(name).or_default().before = *value;
    }
    for (name, value) in after {
        all.entry(name).or_default().after = *value;
    }
    all.into_iter().map(|(name, pair)| (name.clone(), pair)).collect()
}

/// Those that changed; what grew most first.
fn changed(mut pairs: Pairs) -> Pairs {
    pairs.retain(|(_, pair)| pair.is_changed());
    pairs.sort_by_key(|(_, pair)| std::cmp::Reverse(pair.growth()));
    pairs
}
