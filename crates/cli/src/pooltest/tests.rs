use super::*;
use crate::replay::{figures::Figures, times::Times};

/// A pool that keeps, breaks and cannot be checked.
fn findings() -> Findings {
    let find = |id: &str| clause::ALL.iter().find(|clause| clause.id == id).unwrap();
    let note = "a block of 2 bytes begins at 0x20, which is a multiple of 32 and not of 64";
    let noted = ClauseResult { details: vec![note.into()], ..ClauseResult::plain(Verdict::Noted) };
    let blocked =
        ClauseResult { of: Some("zero".into()), ..ClauseResult::broken("it crashed".into()) };
    let broken =
        || ClauseResult::broken("the process crashed (SIGABRT); it printed: size > 0".into());
    let mut clauses = vec![
        (find("load"), ClauseResult::plain(Verdict::Kept)),
        (find("zero"), broken()),
        (find("alignment"), noted),
        (find("random"), blocked),
        (find("faults"), ClauseResult { of: Some("load".into()), ..broken() }),
    ];
    settle(&mut clauses);
    let times = Some(Times { median_ns: 50, p99_ns: 2000 });
    let figures = Figures {
        peak_reserved: 3 << 20,
        peak_live: 2 << 20,
        alloc: times,
        free: times,
        ..Figures::default()
    };
    let spec: AllocatorSpec = "so:/opt/libpool.so".parse().unwrap();
    let beside = [(spec.clone(), Ok(figures.clone())), (AllocatorSpec::Cairn, Ok(figures))];
    Findings { spec, clauses, traces: vec![("gpt_train".into(), beside)] }
}

#[test]
fn what_a_workload_meets_of_another_clause_breaks_that_one() {
    let find = |id: &str| clause::ALL.iter().find(|clause| clause.id == id).unwrap();
    let met =
        |of: &str| ClauseResult { of: Some(of.into()), ..ClauseResult::broken("short".into()) };
    let settled = |clauses: Vec<(&str, ClauseResult)>| {
        let mut results: Vec<_> =
            clauses.into_iter().map(|(id, result)| (find(id), result)).collect();
        settle(&mut results);
        results.into_iter().map(|(_, result)| result).collect::<Vec<_>>()
    };
    let kept = || ClauseResult::plain(Verdict::Kept);
    let all = settled(vec![
        ("sizes", kept()),
        ("alignment", met("sizes")),
        ("contents", met("sizes")),
        ("threads", met("sizes")),
    ]);
    assert_eq!(all[0].details, ["short", "while `alignment` was checked"]);
    assert_eq!(all[0].verdict, Verdict::Broken);
    assert!(all[1..].iter().all(|result| result.verdict == Verdict::NotTried), "{all:?}");
    // Threads are circumstances, in which anything is theirs; and a lesson of its own stays.
    let refused = ClauseResult { lesson: Some("make room".into()), ..met("out-of-memory") };
    let all = settled(vec![
        ("overlap", kept()),
        ("threads", met("overlap")),
        ("pending", refused),
        ("contents", met("sizes")),
        ("out-of-memory", kept()),
    ]);
    let verdicts = all.iter().map(|result| result.verdict).collect::<Vec<_>>();
    let expected =
        [Verdict::Kept, Verdict::Broken, Verdict::Broken, Verdict::Broken, Verdict::Kept];
    assert_eq!(verdicts, expected);
    assert_eq!(all[1].lesson, None);
    assert_eq!(all[2].lesson.as_deref(), Some("make room"));
    assert_eq!(all[3].lesson.as_deref(), Some(find("sizes").lesson));
}

#[test]
fn verdicts_as_text() {
    let text = text::render(&findings(), Some(text::WIDTH));
    assert_eq!(text, include_str!("golden.txt"), "\n{text}");
}

#[test]
fn verdicts_as_json() {
    let text = json::render(&findings());
    assert_eq!(text, include_str!("golden.json"), "\n{text}");
}

#[test]
fn verdicts_as_junit() {
    let text = junit::render(&findings());
    assert_eq!(text, include_str!("golden.xml"), "\n{text}");
}

#[test]
fn clauses_have_names_of_their_own_and_our_traces_are_traces() {
    let mut ids: Vec<_> = clause::ALL.iter().map(|clause| clause.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), clause::ALL.len());
    let documented = include_str!("../../../../docs/pooltest.md");
    for id in ids {
        assert!(
            documented.contains(&format!("| `{id}` |")),
            "docs/pooltest.md has no row for {id}"
        );
    }
    assert!(traces(&[]).unwrap().iter().all(|(_, trace)| trace.blocks() > 1000));
}
