//! Why there is no memory, and what to do.

use crate::devices::Device;
use crate::streams::{self, Door, Stream};
use crate::text::bytes;
use cairn_pool::{Outcome, Owner};

/// Explains a request that the pool refused.
pub fn explain(
    device: &Device,
    size: u64,
    stream: &Stream,
    door: Door,
    outcome: &Outcome,
) -> String {
    let (id, pool) = (device.id, &device.pool);
    let figures = pool.figures();
    let budget = Some(pool.budget()).filter(|&budget| budget < u64::MAX);
    let mut text = format!(
        "no memory on device {id} for {} ({size} bytes) on stream {:?}: ",
        bytes(size),
        stream.handle()
    );
    let mut say = |part: String| text.push_str(&part);
    match device.capacity() {
        Ok((total, free)) => {
            say(format!("capacity {}, of which {} free, ", bytes(total), bytes(free)))
        }
        Err(why) => say(format!("capacity unknown ({why}), ")),
    }
    say(budget.map_or("no budget".into(), |budget| format!("budget {}", bytes(budget))));
    say(format!(
        "; the pool has reserved {}, {} live, {} waiting for streams, largest hole {}",
        bytes(figures.reserved),
        bytes(figures.live),
        bytes(figures.waiting),
        bytes(figures.largest_hole)
    ));
    let owner = |owner: &Owner| {
        let (of, _) = streams::by_index(owner.stream);
        let (count, s) = (owner.blocks, if owner.blocks == 1 { "" } else { "s" });
        format!("stream {:?} {} in {count} block{s}", of.handle(), bytes(owner.live))
    };
    let owners: Vec<String> = pool.owners().iter().take(3).map(owner).collect();
    if !owners.is_empty() {
        say(format!("; largest owners: {}", owners.join(", ")));
    }
    match outcome {
        Outcome::Exhausted(why) => say(format!("; {why}")),
        Outcome::OverBudget => say("; the budget has no room".into()),
        Outcome::Wait(_) => say("; what was freed waits for streams".into()),
        Outcome::Ready { .. } => {}
    }
    say(". ".into());
    say(match outcome {
        Outcome::Wait(_) if door == Door::Queued => format!(
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
