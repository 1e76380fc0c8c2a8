//! What layers do, said as simply as can be.

use cairn_runtime::memory::layer::Figures;
use cairn_runtime::memory::layer::spec::{Choice, Spec, Trigger};
use std::collections::BTreeMap;

/// One layer.
pub enum Naive {
    Stats(Figures, BTreeMap<u64, u64>),
    Guard,
    Limit { most: u64, out: Vec<u64> },
    Fault { trigger: Option<Trigger>, takes: u64 },
}

/// Who refused a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Limit { live: u64 },
    Fault { take: u64 },
    Source,
}

impl Refusal {
    /// What the error says.
    pub fn words(&self, asked: u64) -> Vec<String> {
        match self {
            Refusal::Limit { live } => {
                vec!["by limit:".into(), format!("asked {asked} bytes"), format!("live {live},")]
            }
            Refusal::Fault { take } => vec!["injected fault".into(), format!("request {take}, of")],
            Refusal::Source => Vec::new(),
        }
    }
}

pub fn naive(spec: &Spec) -> Vec<Naive> {
    spec.layers
        .iter()
        .map(|choice| match choice {
            Choice::Stats => Naive::Stats(Figures::default(), BTreeMap::new()),
            Choice::Guard { .. } => Naive::Guard,
            Choice::Limit(most) => Naive::Limit { most: *most, out: Vec::new() },
            Choice::Fault(fault) => Naive::Fault { trigger: fault.trigger, takes: 0 },
        })
        .collect()
}

/// A take of `bytes` from these layers, outermost first; `largest` is what the source has.
pub fn take(layers: &mut [Naive], bytes: u64, largest: u64) -> Result<(), Refusal> {
    let Some((first, below)) = layers.split_first_mut() else {
        return if bytes <= largest { Ok(()) } else { Err(Refusal::Source) };
    };
    match first {
        Naive::Guard => take(below, bytes, largest),
        Naive::Fault { trigger, takes } => {
            *takes += 1;
            let fails = match trigger {
                Some(Trigger::Nth(nth)) => takes == nth,
                Some(Trigger::Every(every)) => *takes % *every == 0,
                Some(Trigger::Chance { .. }) | None => false,
            };
            if fails { Err(Refusal::Fault { take: *takes }) } else { take(below, bytes, largest) }
        }
        Naive::Limit { most, out } => {
            let live = out.iter().sum::<u64>();
            if u128::from(live) + u128::from(bytes) > u128::from(*most) {
                return Err(Refusal::Limit { live });
            }
            take(below, bytes, largest)?;
            out.push(bytes);
            Ok(())
        }
        Naive::Stats(figures, sizes) => {
            let taken = take(below, bytes, largest);
            match taken {
                Ok(()) => {
                    *sizes.entry(bytes).or_default() += 1;
                    figures.takes += 1;
                    figures.requested += bytes;
                    figures.largest = figures.largest.max(bytes);
                }
                Err(_) => figures.failures += 1,
            }
            count(figures, sizes);
            taken
        }
    }
}

/// A give of `bytes`.
pub fn give(layers: &mut [Naive], bytes: u64) {
    for layer in layers {
        match layer {
            Naive::Guard | Naive::Fault { .. } => {}
            Naive::Limit { out, .. } => {
                let at = out.iter().position(|&size| size == bytes).expect("it is out");
                out.remove(at);
            }
            Naive::Stats(figures, sizes) => {
                *sizes.get_mut(&bytes).expect("it is out") -= 1;
                figures.gives += 1;
                count(figures, sizes);
            }
        }
    }
}

fn count(figures: &mut Figures, sizes: &BTreeMap<u64, u64>) {
    figures.live = sizes.iter().map(|(size, count)| size * count).sum();
    figures.blocks = sizes.values().sum();
    figures.peak = figures.peak.max(figures.live);
}
