//! Arrows between the ranks of a communicator.

use std::io::{self, Write};

use super::{
    Record,
    trace::{Trace, Track},
};
use crate::meetings::{Meeting, Part};

/// A task of a rank on the common clock.
struct Span {
    track: Track,
    began_ns: u64,
    ended_ns: u64,
}

/// Draws every meeting: from the rank that came last to the ends of the others, which waited for it; from a sender to its
/// receiver. No viewer draws an arrow that leads back in time, so a rank that did not wait has none.
pub fn write(
    records: &[Record<'_>],
    meetings: &[Meeting],
    trace: &mut Trace<impl Write>,
) -> io::Result<()> {
    let span = |part: &Part| {
        let record = &records[part.record];
        let task = record.history.runs.get(part.epoch)?;
        Some(Span {
            track: record.stream_track(part.epoch.stream)?,
            began_ns: record.time(task.began_ns?),
            ended_ns: record.time(task.ended_ns?),
        })
    };
    for meeting in meetings {
        let (from, to): (Span, Vec<Span>) = match meeting {
            Meeting::Message { send, receive } => match (span(send), span(receive)) {
                (Some(send), Some(receive)) => (send, vec![receive]),
                _ => continue,
            },
            Meeting::Collective(parts) => {
                let mut spans: Vec<Span> = parts.iter().filter_map(span).collect();
                let last = (0..spans.len()).max_by_key(|at| spans[*at].began_ns);
                let Some(last) = last else { continue };
                (spans.swap_remove(last), spans)
            }
        };
        for end in to {
            // The last moment inside of the slice: at its end a viewer would take the next one.
            let to_ns = end.ended_ns.saturating_sub(1).max(end.began_ns);
            if to_ns >= from.began_ns {
                trace.arrow("collective", (from.track, from.began_ns), (end.track, to_ns))?;
            }
        }
    }
    Ok(())
}
