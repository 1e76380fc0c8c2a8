use super::*;
use crate::record_builder::{Builder, example};
use cairn_record::Reader;
use serde_json::Value;
use std::collections::BTreeMap;

fn events(histories: &[History], titles: &[String]) -> Vec<Value> {
    let mut out = Vec::new();
    let meetings = meetings::find(histories);
    let shifts = clocks::align(histories, &meetings).shifts;
    let count = write(&mut out, histories, titles, &meetings, &shifts).unwrap();
    let value: Value = serde_json::from_slice(&out).unwrap();
    let events = value["traceEvents"].as_array().unwrap().clone();
    assert_eq!(events.len() as u64, count);
    events
}

fn history() -> History {
    let bytes = example().bytes();
    History::read(Reader::new(&bytes[..]).unwrap())
}

#[test]
fn a_record_as_a_trace() {
    let mut text = String::new();
    for event in events(&[history()], &[String::new()]) {
        text += &format!("{event}\n");
    }
    assert_eq!(text, include_str!("golden.jsonl"), "\n{text}");
}

/// What Perfetto asks of slices on one track: one ends before the next begins, or contains it.
#[test]
fn slices_of_a_track_do_not_overlap() {
    let mut tracks: BTreeMap<(u64, u64), Vec<(f64, f64)>> = BTreeMap::new();
    for event in events(&[history()], &[String::new()]).iter().filter(|event| event["ph"] == "X") {
        let key = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
        let begin = event["ts"].as_f64().unwrap();
        tracks.entry(key).or_default().push((begin, begin + event["dur"].as_f64().unwrap()));
    }
    assert!(tracks.len() >= 2);
    for slices in tracks.values_mut() {
        slices.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
        let mut open: Vec<f64> = Vec::new();
        for (begin, end) in slices {
            open.retain(|other| *other > *begin + 1e-6);
            assert!(open.iter().all(|other| *end <= *other + 1e-6), "a slice ends in another");
            open.push(*end);
        }
    }
}

#[test]
fn records_of_ranks_have_one_clock_and_processes_of_their_own() {
    let (first, mut second) = (history(), history());
    second.header.start_unix_ns = first.header.start_unix_ns + 1_000_000;
    let alone = events(&[history()], &[String::new()]);
    let both = events(&[first, second], &["a: ".into(), "b: ".into()]);
    let names: Vec<_> = both
        .iter()
        .filter(|event| event["name"] == "process_name")
        .map(|event| event["args"]["name"].as_str().unwrap())
        .collect();
    assert!(names[0].starts_with("a: host") && names.contains(&"b: device 0"), "{names:?}");
    let time =
        |events: &[Value]| events.iter().rfind(|e| e["ph"] == "X").unwrap()["ts"].as_f64().unwrap();
    assert!((time(&both) - time(&alone) - 1000.0).abs() < 1e-3);
}

/// A rank of two, whose process began at `start_ns` on its machine's clock: two collectives and a message from rank 0 to rank 1.
fn rank(rank: u32, start_ns: u64, machine: &str) -> History {
    let mut record = Builder::default();
    record.join(1, 77, rank, 2);
    for _ in 0..rank {
        // Rank 1 comes later.
        record.task(9, "aclnnAdd", Outcome::Done);
    }
    for seq in 1..3 {
        record.collective(1, seq, "HcclAllReduce", seq, |_| {});
        record.task(seq, "HcclAllReduce", Outcome::Done);
    }
    record.collective(1, 3, "HcclSend", 3, |call| match rank {
        0 => call.to = vec![1],
        _ => call.from = vec![0],
    });
    record.task(3, if rank == 0 { "HcclSend" } else { "HcclRecv" }, Outcome::Done);
    let bytes = record.bytes();
    let mut history = History::read(Reader::new(&bytes[..]).unwrap());
    history.header.start_ns = start_ns;
    history.header.machine = machine.into();
    history
}

/// The arrows between ranks: track and time of both ends.
fn arrows(events: &[Value]) -> Vec<[(u64, f64); 2]> {
    let ends = |phase: &str| -> Vec<(u64, f64)> {
        let is_end = |event: &&Value| event["cat"] == "collective" && event["ph"] == phase;
        let place = |event: &Value| (event["pid"].as_u64().unwrap(), event["ts"].as_f64().unwrap());
        events.iter().filter(is_end).map(place).collect()
    };
    ends("s").into_iter().zip(ends("f")).map(|(from, to)| [from, to]).collect()
}

#[test]
fn arrows_lead_from_the_rank_that_came_last_to_the_others() {
    let ends = |start_ns| {
        let both = [rank(0, 5_000_000, "m"), rank(1, start_ns, "m")];
        arrows(&events(&both, &["rank 0: ".into(), "rank 1: ".into()]))
    };
    // Rank 1 begins each collective half a microsecond after rank 0 and before that one's end.
    let of_collectives = ends(4_997_500);
    let tracks: Vec<_> = of_collectives.iter().map(|[from, to]| (from.0, to.0)).collect();
    assert_eq!(tracks, [(1002, 2), (1002, 2), (2, 1002)], "and the message of rank 0 to rank 1");
    assert!(of_collectives.iter().all(|[from, to]| from.1 < to.1), "{of_collectives:?}");
    // Rank 0 ends each collective before rank 1 begins it, as the root of a broadcast may: no arrow leads back in time.
    let of_message: Vec<_> = ends(5_001_000).iter().map(|[from, to]| (from.0, to.0)).collect();
    assert_eq!(of_message, [(2, 1002)]);
}

#[test]
fn other_machines_are_aligned_by_the_ends_of_collectives() {
    let all = [rank(0, 5_000_000, "m"), rank(1, 900_000_000_000, "n")];
    let meetings = meetings::find(&all);
    let clocks = clocks::align(&all, &meetings);
    assert_eq!(clocks.notes, ["machine 2 is aligned by the ends of 2 collectives"]);
    let end = |at: usize| {
        let task = all[at].runs.get(Epoch { stream: 1, seq: 2 }).unwrap();
        clocks.shifts[at] + task.ended_ns.unwrap()
    };
    assert_eq!(end(0), end(1));
    let mut other = history();
    other.header = all[1].header.clone();
    let alone = [rank(0, 5_000_000, "m"), other];
    assert!(clocks::align(&alone, &[]).notes[0].contains("time of day"));
}

#[test]
fn titles_name_ranks() {
    let files = ["a/x.rank0.cairn".into(), "a/x.rank1.cairn".into()];
    let histories = [rank(0, 0, "m"), rank(1, 0, "m")];
    assert_eq!(titles(&files, &histories), ["rank 0, x.rank0.cairn: ", "rank 1, x.rank1.cairn: "]);
    assert_eq!(titles(&files[..1], &histories[..1]), [""]);
}
