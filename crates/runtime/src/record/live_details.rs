//! The figures that `cairn top` asks for: collected by a thread that sleeps until somebody asks.

use crate::live::LivePage;
use crate::live::details::{AllocatorFigures, Details, PoolFigures, StreamFigures};
use crate::shared::Shared;
use crate::sync::{Arc, Weak, now_ns};
use cairn_pool::Figures;

/// Answers whoever asks, for as long as the engine is there.
pub fn serve(page: &LivePage, shared: &Weak<Shared>) {
    let mut seen = 0;
    loop {
        seen = page.wait_until_asked(seen);
        let Some(shared) = shared.upgrade() else { return };
        page.set_details(&collect(&shared));
    }
}

/// The figures of now. Devices have their physical numbers.
fn collect(shared: &Arc<Shared>) -> Details {
    let (progress, visible) = (&shared.progress, &shared.config.visible);
    let physical = |device: u32| visible.get(device as usize).map_or(device, |&id| id as u32);
    let streams: Vec<_> = (progress.queues().iter())
        .map(|queue| {
            let (stream, device) = queue.place();
            let finished = progress.finished(stream);
            let device = physical(device);
            StreamFigures { device, stream, submitted: progress.submitted(stream), finished }
        })
        .collect();
    let pools: Vec<_> = (shared.memory.pools().iter())
        .map(|pool| {
            let Figures { reserved, live, peak, waiting, blocks, .. } = pool.figures();
            let (device, number, built_in) = (physical(pool.device), pool.number, pool.built_in);
            PoolFigures { device, number, built_in, reserved, live, peak, waiting, blocks }
        })
        .collect();
    let allocators: Vec<_> = (shared.memory.outstanding().traffic().into_iter())
        .map(|(object, traffic)| AllocatorFigures {
            object: object as u64,
            device: physical(traffic.device),
            live: traffic.live.bytes as u64,
            peak: traffic.peak as u64,
            blocks: traffic.live.blocks as u64,
            taken: traffic.taken,
            freed: traffic.freed,
        })
        .collect();
    let communicators = shared
        .live()
        .map_or_else(Vec::new, |live| live.communicators().figures(&shared.progress, physical));
    let counts = [streams.len(), pools.len(), allocators.len(), communicators.len()];
    let counts = counts.map(|count| count as u64);
    Details { time_ns: now_ns(), streams, pools, allocators, communicators, counts }
}
