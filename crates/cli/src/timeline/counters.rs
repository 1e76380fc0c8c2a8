//! The memory of devices over time, by purpose.

use std::{collections::BTreeMap, io::Write};

use cairn_record::entry::Purpose;
use serde_json::{Map, Value};

use super::{Record, trace::Trace};
use crate::history::{BlockLife, History};

/// What changed at a moment: a block was made (more bytes) or freed (fewer).
struct Step<'a> {
    time_ns: u64,
    block: &'a BlockLife,
    is_free: bool,
}

/// Writes two counters for each device: bytes in blocks by purpose, and bytes that were taken from the device. A block
/// that is divided counts by what is inside of it.
pub fn write(record: &Record<'_>, trace: &mut Trace<impl Write>) -> std::io::Result<()> {
    let steps = steps(record.history);
    let mut live: BTreeMap<(u32, Purpose), u64> = BTreeMap::new();
    let mut reserved: BTreeMap<u32, u64> = BTreeMap::new();
    for (index, Step { time_ns, block, is_free }) in steps.iter().enumerate() {
        let Some(device) = block.device() else { continue };
        let add = |total: &mut u64| match is_free {
            true => *total -= block.bytes.min(*total),
            false => *total += block.bytes,
        };
        if !block.is_divided {
            add(live.entry((device, block.purpose)).or_default());
        }
        if block.is_outer() {
            add(reserved.entry(device).or_default());
        }
        let is_last_of_moment = steps
            .get(index + 1)
            .is_none_or(|next| next.time_ns != *time_ns || next.block.device() != Some(device));
        if !is_last_of_moment {
            continue;
        }
        let (process, time) = (record.device_process(device), record.time(*time_ns));
        let of_device = live.range((device, Purpose::User)..(device + 1, Purpose::User));
        let values: Map<String, Value> = of_device
            .map(|((_, purpose), bytes)| (purpose.name().to_owned(), (*bytes).into()))
            .collect();
        trace.counter(process, "memory in blocks", time, &values.into())?;
        let taken = reserved.get(&device).copied().unwrap_or(0);
        trace.counter(process, "memory taken", time, &serde_json::json!({"bytes": taken}))?;
    }
    Ok(())
}

fn steps(history: &History) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    for block in history.lives.blocks() {
        steps.push(Step { time_ns: block.made_ns, block, is_free: false });
        if let Some(time_ns) = block.freed_ns {
            steps.push(Step { time_ns, block, is_free: true });
        }
    }
    steps.sort_by_key(|step| step.time_ns);
    steps
}
