use super::*;
use crate::record_builder::example;
use cairn_record::Reader;
use serde_json::Value;
use std::collections::BTreeMap;

fn events(histories: &[History], titles: &[String]) -> Vec<Value> {
    let mut out = Vec::new();
    let count = write(&mut out, histories, titles).unwrap();
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
