//! What the checker finds in a record, for the page.

use cairn_check::{Checker, Tool, report};
use cairn_record::{Reader, reader::Source};
use serde_json::{Value, json};

use crate::history::History;

/// The findings of the rules that are on without being asked for, with the lines of their text.
pub fn of<S: Source>(reader: Reader<S>, history: &History) -> Value {
    let mut checker = Checker::new(&Tool::DEFAULT);
    reader.for_each(|entry| checker.entry(&entry));
    checker.finish(history.ended_in_order && history.damage.is_empty());
    let findings = checker.findings();
    let mut value = report::json(findings, &report::NoStacks);
    for (finding, list) in
        findings.list().iter().zip(value["findings"].as_array_mut().into_iter().flatten())
    {
        let places = list["places"].as_array_mut().into_iter().flatten();
        for (place, value) in finding.places.iter().zip(places) {
            value["stack"] = json!(place.site.stack);
            if let Some(mark) = &place.mark {
                value["mark"] = json!({
                    "stream": mark.stream,
                    "seq": mark.seq,
                    "time": mark.time_ns.saturating_sub(history.header.start_ns),
                    "label": mark.label,
                });
            }
        }
        let facts = list["facts"].as_array_mut().into_iter().flatten();
        for (fact, value) in finding.facts.iter().zip(facts) {
            value["stack"] = json!(fact.site.as_ref().map_or(0, |site| site.stack));
        }
        list["time"] = json!(finding.time_ns.saturating_sub(history.header.start_ns));
    }
    value
}
