//! The message for a request that found no memory: why, and what to do.

use crate::devices::Device;
use crate::streams::{self, FreePath, StreamSlot};
use crate::text::bytes;
use cairn_pool::{Outcome, Owner};

/// Explains a request that the pool refused.
pub fn explain(
    device: &Device,
    size: u64,
    stream: &StreamSlot,
    free_path: FreePath,
    outcome: &Outcome,
) -> String {
    let (id, pool) = (device.id, &device.pool);
    let figures = pool.figures();
    let budget = Some(pool.budget()).filter(|&budget| budget < u64::MAX);
    let as_signed = match i64::try_from(size) {
        Ok(_) => String::new(),
        Err(_) => format!(", {} as a signed number", size as i64),
    };
    let mut text = format!(
        "no memory on device {id} for {} ({size} bytes{as_signed}) on stream {:?}: ",
        bytes(size),
        stream.handle()
    );
    let mut add = |part: String| text.push_str(&part);
    let capacity = device.capacity();
    let capacity_bytes = capacity.as_ref().map_or(u64::MAX, |&(total, _)| total);
    match capacity {
        Ok((total, free)) => {
            add(format!("capacity {}, of which {} free, ", bytes(total), bytes(free)))
        }
        Err(reason) => add(format!("capacity unknown ({reason}), ")),
    }
    add(budget.map_or("no budget".into(), |budget| format!("budget {}", bytes(budget))));
    add(format!(
        "; the pool has reserved {}, {} live, {} waiting for streams, largest hole {}{}",
        bytes(figures.reserved),
        bytes(figures.live),
        bytes(figures.waiting),
        bytes(figures.largest_hole),
        if figures.largest_hole >= size { ", which this stream may not have yet" } else { "" }
    ));
    let owner = |owner: &Owner| {
        let (stream, _) = streams::by_index(owner.stream);
        let (count, s) = (owner.blocks, if owner.blocks == 1 { "" } else { "s" });
        format!("stream {:?} {} in {count} block{s}", stream.handle(), bytes(owner.live))
    };
    let owners: Vec<String> = pool.owners().iter().take(3).map(owner).collect();
    if !owners.is_empty() {
        add(format!("; largest owners: {}", owners.join(", ")));
    }
    match outcome {
        Outcome::Exhausted(reason) => add(format!("; {reason}")),
        Outcome::OverBudget if budget.is_some() => add("; the budget has no room".into()),
        Outcome::OverBudget => {}
        Outcome::Wait(_) => add("; what was freed waits for streams".into()),
        Outcome::Ready { .. } => {}
    }
    add(". ".into());
    add(match outcome {
        _ if size > capacity_bytes || (budget.is_none() && *outcome == Outcome::OverBudget) => {
            "What to do: ask for less; no device has so much".into()
        }
        Outcome::Wait(_) if free_path == FreePath::Queued => format!(
            "What to do: call torch.npu.synchronize() and then cairn_pool_synchronized({id}), or \
             start with TASK_QUEUE_ENABLE=0"
        ),
        Outcome::Wait(_) => format!(
            "What to do: synchronize the streams that freed memory and try again, after \
             cairn_pool_synchronized({id}) if some of them are gone"
        ),
        Outcome::OverBudget => format!(
            "What to do: free blocks, or raise the budget with cairn_pool_set_fraction(.., {id})"
        ),
        _ if figures.reserved - figures.live >= size => format!(
            "What to do: the free memory is in pieces; call cairn_pool_trim({id}, 0) after a \
             synchronize, and take large blocks first"
        ),
        _ => "What to do: free blocks, use smaller batches, or look for who else uses the device"
            .into(),
    });
    text
}
