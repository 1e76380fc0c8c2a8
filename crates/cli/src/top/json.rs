//! A frame as JSON. Sizes are bytes.

use cairn_runtime::live::details::Details;
use serde_json::{Value, json};

use super::frame::{DeviceTotal, Frame, Process};

/// One object.
pub fn render(frame: &Frame) -> String {
    let value = json!({
        "devices": frame.devices().iter().map(device).collect::<Vec<_>>(),
        "processes": frame.processes.iter().map(process).collect::<Vec<_>>(),
    });
    format!("{value:#}\n")
}

fn device(device: &DeviceTotal) -> Value {
    json!({
        "device": device.device,
        "capacity": device.capacity,
        "used": device.used,
        "waiting": device.waiting,
        "streams": device.streams,
        "processes": device.processes,
    })
}

fn process(process: &Process) -> Value {
    let devices = process.snapshot.devices.iter().enumerate().filter(|(_, device)| device.active);
    let devices = devices.map(|(device, figures)| {
        json!({
            "device": device,
            "used": figures.used,
            "waiting": figures.waiting,
            "streams": figures.streams,
        })
    });
    json!({
        "pid": process.snapshot.pid,
        "command": process.snapshot.name,
        "devices": devices.collect::<Vec<_>>(),
        "answered": process.details.is_some(),
        "details": process.details.as_ref().map(details),
    })
}

fn details(details: &Details) -> Value {
    let streams = details.streams.iter().map(|stream| {
        json!({
            "stream": stream.stream,
            "device": stream.device,
            "submitted": stream.submitted,
            "finished": stream.finished,
        })
    });
    let pools = details.pools.iter().map(|pool| {
        json!({
            "pool": pool.number,
            "device": pool.device,
            "built_in": pool.built_in,
            "reserved": pool.reserved,
            "live": pool.live,
            "peak": pool.peak,
            "waiting": pool.waiting,
            "blocks": pool.blocks,
        })
    });
    let allocators = details.allocators.iter().map(|allocator| {
        json!({
            "object": format!("{:#x}", allocator.object),
            "device": allocator.device,
            "live": allocator.live,
            "peak": allocator.peak,
            "blocks": allocator.blocks,
            "taken": allocator.taken,
            "given_back": allocator.freed,
        })
    });
    let communicators = details.communicators.iter().map(|communicator| {
        json!({
            "name": communicator.name,
            "rank": communicator.rank,
            "size": communicator.size,
            "device": communicator.device,
            "submitted": communicator.submitted,
            "finished": communicator.finished,
        })
    });
    json!({
        "streams": streams.collect::<Vec<_>>(),
        "pools": pools.collect::<Vec<_>>(),
        "allocators": allocators.collect::<Vec<_>>(),
        "communicators": communicators.collect::<Vec<_>>(),
    })
}
