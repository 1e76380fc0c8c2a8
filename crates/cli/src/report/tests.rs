use super::*;
use crate::record_builder::example;
use cairn_record::Reader;
use serde_json::Value;

fn page() -> String {
    let bytes = example().bytes();
    let open = || Ok(Reader::new(&bytes[..])?);
    let history = History::read(open().unwrap());
    let summary = summary::of(open).unwrap();
    let findings = findings::of(open().unwrap(), &history);
    page::render(&data::collect(&history), &summary, &findings)
}

fn facts(page: &str) -> Value {
    let (_, rest) = page.split_once("<script id=\"facts\" type=\"application/json\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn a_page_needs_no_network() {
    let page = page();
    for attribute in ["src=", "href=", "@import", "url(h", "fetch(", "XMLHttpRequest"] {
        assert!(!page.contains(attribute), "the page has {attribute}");
    }
    assert!(!page.contains("{{"), "a mark was not filled");
}

#[test]
fn columns_of_one_kind_have_one_length() {
    let facts = facts(&page());
    let mut lengths: std::collections::BTreeMap<String, u64> = Default::default();
    for column in facts["columns"].as_array().unwrap() {
        let (kind, _) = column["name"].as_str().unwrap().split_once('.').unwrap();
        if kind == "changes" {
            continue;
        }
        let count = column["count"].as_u64().unwrap();
        assert_eq!(*lengths.entry(kind.to_owned()).or_insert(count), count, "{column}");
        assert_eq!(column["offset"].as_u64().unwrap() % 8, 0);
    }
    assert!(lengths["block"] > 0 && lengths["task"] == 2 && lengths["host"] == 4);
}

#[test]
fn facts_are_those_of_the_record() {
    let facts = facts(&page());
    assert_eq!(facts["record"]["command"], "./prog --fast");
    assert_eq!(facts["summary"]["pid"], 42);
    assert_eq!(facts["record"]["places"].as_array().unwrap().len(), 2);
}
