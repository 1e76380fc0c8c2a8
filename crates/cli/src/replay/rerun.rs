//! In the child: the requests of a trace, once more.

use std::{collections::BTreeMap, time::Instant};

use anyhow::{Context, Result};
use cairn_record::trace::{Request, Trace};
use serde_json::{Value, json};

use super::times::Times;
use crate::bench::{
    pool::{Bench, Block, Stream},
    ranges::LiveRanges,
};

/// A timed rerun repeats a trace until there were this many requests.
const ENOUGH_REQUESTS: usize = 20_000;
/// What malloc has from the system is looked at this often in all: looking is slow.
const LOOKS: usize = 20_000;

/// Blocks and streams of a rerun.
struct Rerun<'a> {
    bench: &'a Bench,
    streams: BTreeMap<(u32, u32), Stream>,
    blocks: Vec<Option<(Block, Stream)>>,
    device: Option<u32>,
}

impl<'a> Rerun<'a> {
    fn new(bench: &'a Bench, trace: &Trace) -> Result<Rerun<'a>> {
        let mut streams = BTreeMap::new();
        for (device, number) in trace.streams() {
            let stream = bench.stream(device);
            let stream = stream.with_context(|| format!("stream {number} of device {device}"))?;
            streams.insert((device, number), stream);
        }
        Ok(Rerun { bench, streams, blocks: vec![None; trace.blocks()], device: None })
    }

    fn enter(&mut self, device: u32) -> Result<()> {
        if self.device != Some(device) {
            self.bench.enter(device)?;
            self.device = Some(device);
        }
        Ok(())
    }

    /// The stream that a block of a device is freed on. A stream that took nothing is the block's own.
    fn free_stream(&self, own: Stream, number: u32) -> Stream {
        self.streams.get(&(own.device, number)).copied().unwrap_or(own)
    }

    /// Gives back what the program never did.
    fn free_rest(&mut self) -> Result<()> {
        for index in 0..self.blocks.len() {
            if let Some((block, stream)) = self.blocks[index].take() {
                self.enter(stream.device)?;
                self.bench.free(&stream, block)?;
            }
        }
        Ok(())
    }
}

/// Which requests fail, whether blocks overlap, how much is live.
pub fn measure_memory(bench: &Bench, trace: &Trace) -> Result<Value> {
    let mut rerun = Rerun::new(bench, trace)?;
    // The heap of malloc would count them.
    let mut ranges = bench.heap().is_none().then(LiveRanges::default);
    let every = (trace.requests().len() / LOOKS).max(1);
    // What this program itself uses of the heap is not the trace's.
    let own = bench.heap().map(|heap| heap.used);
    let (mut live, mut peak_live, mut peak_reserved) = (0, 0, 0);
    let (mut failures, mut first_failure, mut overlap) = (0u64, None, None);
    for (index, request) in trace.requests().iter().enumerate() {
        match *request {
            Request::Take { block, bytes, stream, device } => {
                rerun.enter(device)?;
                let stream = rerun.streams[&(device, stream)];
                match bench.allocate(&stream, bytes) {
                    Ok(taken) => {
                        live += bytes;
                        if let Some(ranges) = &mut ranges
                            && let Err(text) = ranges.insert(taken.address, bytes)
                        {
                            overlap.get_or_insert(text);
                        }
                        rerun.blocks[block] = Some((taken, stream));
                    }
                    // A request for nothing may be answered with null.
                    Err(_) if bytes == 0 => {}
                    Err(refusal) => {
                        failures += 1;
                        first_failure.get_or_insert_with(|| {
                            format!("request {} for {bytes} bytes: {refusal}", index + 1)
                        });
                    }
                }
            }
            Request::Free { block, stream } => {
                if let Some((taken, own)) = rerun.blocks[block].take() {
                    rerun.enter(own.device)?;
                    live -= taken.bytes;
                    if let Some(ranges) = &mut ranges {
                        ranges.remove(taken.address);
                    }
                    bench.free(&rerun.free_stream(own, stream), taken)?;
                }
            }
        }
        let is_new_peak = live > peak_live;
        peak_live = peak_live.max(live);
        if (is_new_peak || index % every == 0)
            && let (Some(heap), Some(own)) = (bench.heap(), own)
        {
            peak_reserved = peak_reserved.max(heap.reserved.saturating_sub(own));
        }
    }
    rerun.free_rest()?;
    Ok(json!({
        "failures": failures,
        "first_failure": first_failure,
        "overlap": overlap,
        "peak_live": peak_live,
        "peak_reserved": own.map(|_| peak_reserved),
    }))
}

/// How long each call takes.
pub fn measure_time(bench: &Bench, trace: &Trace) -> Result<Value> {
    let mut rerun = Rerun::new(bench, trace)?;
    let count = trace.requests().len();
    let rounds = (ENOUGH_REQUESTS / count.max(1)).clamp(1, 20);
    let mut allocs = Vec::with_capacity(trace.blocks() * rounds);
    let mut frees = Vec::with_capacity(trace.blocks() * rounds);
    let overhead = clock_overhead();
    let since = |began: Instant| (began.elapsed().as_nanos() as u64).saturating_sub(overhead);
    for _ in 0..rounds {
        for request in trace.requests() {
            match *request {
                Request::Take { block, bytes, stream, device } => {
                    rerun.enter(device)?;
                    let stream = rerun.streams[&(device, stream)];
                    let began = Instant::now();
                    let taken = bench.allocate(&stream, bytes);
                    allocs.push(since(began));
                    rerun.blocks[block] = taken.ok().map(|taken| (taken, stream));
                }
                Request::Free { block, stream } => {
                    if let Some((taken, own)) = rerun.blocks[block].take() {
                        rerun.enter(own.device)?;
                        let stream = rerun.free_stream(own, stream);
                        let began = Instant::now();
                        let freed = bench.free(&stream, taken);
                        frees.push(since(began));
                        freed?;
                    }
                }
            }
        }
        rerun.free_rest()?;
    }
    let times = |ns: Vec<u64>| Times::of(ns).map(Times::json);
    Ok(json!({"alloc": times(allocs), "free": times(frees)}))
}

/// What reading the clock twice takes.
fn clock_overhead() -> u64 {
    let read = || Instant::now().elapsed().as_nanos() as u64;
    (0..1000).map(|_| read()).min().unwrap_or(0)
}
