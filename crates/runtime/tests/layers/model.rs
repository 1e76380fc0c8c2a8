//! A naive model of the layers.

use cairn_runtime::memory::layer::Figures;
use cairn_runtime::memory::layer::fault_spec::Trigger;
use cairn_runtime::memory::layer::spec::{Choice, Spec};
use std::collections::BTreeMap;

/// One layer.
pub enum NaiveLayer {
    /// With the number of live blocks of each size.
    Stats(Figures, BTreeMap<u64, u64>),
    Guard,
    Limit {
        limit: u64,
        live_sizes: Vec<u64>,
    },
    Fault {
        trigger: Option<Trigger>,
        requests: u64,
    },
}

/// Who refused a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Limit { live: u64 },
    Fault { request: u64 },
    Source,
}

impl Refusal {
    /// What the error message contains.
    pub fn message_parts(&self, requested: u64) -> Vec<String> {
        match self {
            Refusal::Limit { live } => {
                vec![
                    "by limit:".into(),
                    format!("asked {requested} bytes"),
                    format!("live {live},"),
                ]
            }
            Refusal::Fault { request } => {
                vec!["injected fault".into(), format!("request {request}, of")]
            }
            Refusal::Source => Vec::new(),
        }
    }
}

/// The model of the layers of a spec.
pub fn naive_layers(spec: &Spec) -> Vec<NaiveLayer> {
    spec.layers
        .iter()
        .map(|choice| match choice {
            Choice::Stats => NaiveLayer::Stats(Figures::default(), BTreeMap::new()),
            Choice::Guard { .. } => NaiveLayer::Guard,
            Choice::Limit(limit) => NaiveLayer::Limit { limit: *limit, live_sizes: Vec::new() },
            Choice::Fault(fault) => NaiveLayer::Fault { trigger: fault.trigger, requests: 0 },
            Choice::NoHostAccess => unreachable!("it is no layer"),
        })
        .collect()
}

/// Allocates `bytes` through these layers, outermost first; the source has `available` bytes.
pub fn allocate(layers: &mut [NaiveLayer], bytes: u64, available: u64) -> Result<(), Refusal> {
    let Some((first, below)) = layers.split_first_mut() else {
        return if bytes <= available { Ok(()) } else { Err(Refusal::Source) };
    };
    match first {
        NaiveLayer::Guard => allocate(below, bytes, available),
        NaiveLayer::Fault { trigger, requests } => {
            *requests += 1;
            let fails = match trigger {
                Some(Trigger::Nth(nth)) => requests == nth,
                Some(Trigger::Every(every)) => *requests % *every == 0,
                Some(Trigger::Chance { .. }) | None => false,
            };
            if fails {
                Err(Refusal::Fault { request: *requests })
            } else {
                allocate(below, bytes, available)
            }
        }
        NaiveLayer::Limit { limit, live_sizes } => {
            let live = live_sizes.iter().sum::<u64>();
            if u128::from(live) + u128::from(bytes) > u128::from(*limit) {
                return Err(Refusal::Limit { live });
            }
            allocate(below, bytes, available)?;
            live_sizes.push(bytes);
            Ok(())
        }
        NaiveLayer::Stats(figures, sizes) => {
            let result = allocate(below, bytes, available);
            match result {
                Ok(()) => {
                    *sizes.entry(bytes).or_default() += 1;
                    figures.takes += 1;
                    figures.requested += bytes;
                    figures.largest = figures.largest.max(bytes);
                }
                Err(_) => figures.failures += 1,
            }
            count(figures, sizes);
            result
        }
    }
}

/// Frees a block of `bytes`.
pub fn free(layers: &mut [NaiveLayer], bytes: u64) {
    for layer in layers {
        match layer {
            NaiveLayer::Guard | NaiveLayer::Fault { .. } => {}
            NaiveLayer::Limit { live_sizes, .. } => {
                let index = live_sizes.iter().position(|&size| size == bytes).expect("it is out");
                live_sizes.remove(index);
            }
            NaiveLayer::Stats(figures, sizes) => {
                *sizes.get_mut(&bytes).expect("it is out") -= 1;
                figures.gives += 1;
                count(figures, sizes);
            }
        }
    }
}

/// Computes live bytes, blocks and peak from the sizes of live blocks.
fn count(figures: &mut Figures, sizes: &BTreeMap<u64, u64>) {
    figures.live = sizes.iter().map(|(size, count)| size * count).sum();
    figures.blocks = sizes.values().sum();
    figures.peak = figures.peak.max(figures.live);
}
