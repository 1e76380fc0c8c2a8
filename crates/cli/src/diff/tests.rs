use super::*;
use crate::record_builder::{Builder, MIB, example};
use crate::summary::figures::Summary;
use cairn_record::Reader;
use cairn_record::entry::*;

fn summary(record: &Builder) -> Summary {
    let bytes = record.bytes();
    summarize(|| Ok(Reader::new(&bytes[..])?)).unwrap()
}

/// The example against one that takes more for aclnnAdd, and has another task and another device.
fn changes(threshold: Option<Threshold>) -> Changes {
    let mut after = example();
    let owner = Owner { operator: "aclnnAdd".into(), ..Owner::default() };
    let device = MemoryKind::Device(0);
    after
        .alloc_for("aclnnAdd", device, 0x500_0000, 20 * MIB, Purpose::Workspace, owner)
        .task(3, "aclnnMul", Outcome::Done)
        .alloc("aclrtMalloc", MemoryKind::Device(1), 0x900_0000, MIB)
        .free("aclrtFree", MemoryKind::Device(1), 0x900_0000, MIB);
    Changes {
        before: "a.cairn".into(),
        after: "b.cairn".into(),
        threshold,
        ..Changes::between(&summary(&example()), &summary(&after))
    }
}

#[test]
fn changes_as_text() {
    let text = text::render(&changes(Some(Threshold::Percent(5.0))));
    assert_eq!(text, include_str!("golden.txt"), "\n{text}");
}

#[test]
fn changes_as_json() {
    let text = json::render(&changes(Some(Threshold::Bytes(8 * MIB))));
    assert_eq!(text, include_str!("golden.json"), "\n{text}");
}

#[test]
fn nothing_changed() {
    let (before, after) = (summary(&example()), summary(&example()));
    let same =
        Changes { threshold: Some(Threshold::Bytes(0)), ..Changes::between(&before, &after) };
    assert_eq!(same.exceeding().count(), 0);
    assert!(text::render(&same).contains("Device 0: peak 14.00 MiB -> 14.00 MiB, as before"));
    assert!(same.tasks.is_empty() && same.counts.is_empty());
    let empty = summary(&Builder::default());
    assert_eq!(Changes::between(&empty, &empty).places.len(), 0);
}

#[test]
fn thresholds() {
    assert_eq!("5%".parse(), Ok(Threshold::Percent(5.0)));
    assert_eq!(" 0.5 %".parse(), Ok(Threshold::Percent(0.5)));
    assert_eq!("64mib".parse(), Ok(Threshold::Bytes(64 * MIB)));
    for text in ["-1%", "many", "%", "nan%", ""] {
        let error = text.parse::<Threshold>().unwrap_err();
        assert!(error.starts_with(&format!("`{text}` is neither")), "{error}");
    }
    assert!(!Threshold::Percent(10.0).is_exceeded(100, 110));
    assert!(Threshold::Percent(10.0).is_exceeded(100, 111));
    assert!(Threshold::Percent(10.0).is_exceeded(0, 1));
    assert!(!Threshold::Bytes(8).is_exceeded(100, 50));
    assert!(!Threshold::Bytes(8).is_exceeded(100, 108));
}
