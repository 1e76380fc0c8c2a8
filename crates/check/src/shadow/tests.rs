use super::*;
use crate::moment::Task;
use cairn_record::{Access, Epoch, Mode, Name, Site};
use proptest::prelude::*;

fn touch(stream: StreamIndex, seq: u64, access: Access) -> Rc<Touch> {
    let task = Rc::new(Task {
        epoch: Epoch { stream, seq },
        name: Name::NONE,
        site: Site::default(),
        thread: 1,
        time_ns: 0,
        graph: None,
        preparation: None,
    });
    Rc::new(Touch { task, access, step: None })
}

/// A dense or a strided access.
fn access() -> impl Strategy<Value = Access> {
    (0..60usize, 1..20u64, 1..4u64, any::<bool>(), any::<bool>()).prop_map(
        |(address, element, rows, writes, is_dense)| {
            let mode = if writes { Mode::Write } else { Mode::Read };
            let stride = if is_dense { element } else { element + 3 };
            Access {
                address,
                element,
                dims: [(rows, stride as i64)].into_iter().collect(),
                mode,
                indexed: false,
            }
        },
    )
}

proptest! {
    /// Against a list of everything: what the map reports is a conflict, and where the list has one, the map reports one of the
    /// accesses that an ordered program would have to wait for.
    #[test]
    fn conflicts_are_those_of_a_list(
        accesses in proptest::collection::vec((0..3u32, access()), 1..25),
        probe in access(),
    ) {
        let mut shadow = Shadow::default();
        let mut list: Vec<Rc<Touch>> = Vec::new();
        for (index, (stream, access)) in accesses.into_iter().enumerate() {
            let touch = touch(stream, index as u64 + 1, access);
            shadow.remember(&touch, &Clock::new());
            // A dense write stands for all before it in its bytes.
            list.push(touch);
        }
        let probe = touch(9, 1, probe);
        let conflicts = |earlier: &Touch| {
            (earlier.access.mode.writes() || probe.access.mode.writes())
                && earlier.access.overlap(&probe.access) == Overlap::Yes
        };
        let mut reported = Vec::new();
        shadow.conflicts(&probe, |earlier| reported.push(earlier.task.epoch));
        for epoch in &reported {
            let earlier = list.iter().find(|touch| touch.task.epoch == *epoch).unwrap();
            prop_assert!(conflicts(earlier), "{earlier:?}");
        }
        let last = list.iter().rev().find(|earlier| conflicts(earlier));
        prop_assert_eq!(last.is_some(), !reported.is_empty());
        // The last write that conflicts is never forgotten.
        if let Some(last) = last.filter(|last| last.access.mode.writes()) {
            prop_assert!(reported.contains(&last.task.epoch), "{last:?} of {reported:?}");
        }
    }

    #[test]
    fn what_is_forgotten_does_not_conflict(
        accesses in proptest::collection::vec(access(), 1..20),
        from in 0..80usize,
        bytes in 1..40usize,
    ) {
        let mut shadow = Shadow::default();
        for (index, access) in accesses.into_iter().enumerate() {
            shadow.remember(&touch(0, index as u64 + 1, access), &Clock::new());
        }
        shadow.forget(from, from + bytes);
        let probe = touch(9, 1, Access::range(from, bytes as u64, Mode::Write));
        shadow.conflicts(&probe, |earlier| panic!("{earlier:?}"));
    }
}

/// Touches of separate bytes, one a task.
fn touch_separately(shadow: &mut Shadow, tasks: std::ops::Range<u64>, known: &Clock) {
    for task in tasks {
        let access = Access::range(task as usize * 64, 32, Mode::Write);
        shadow.remember(&touch(1, task + 1, access), known);
    }
}

fn conflicts(shadow: &Shadow, task: u64) -> usize {
    let mut count = 0;
    let probe = touch(2, 1, Access::range(task as usize * 64, 1, Mode::Read));
    shadow.conflicts(&probe, |_| count += 1);
    count
}

#[test]
fn what_is_finished_is_forgotten_first() {
    let mut shadow = Shadow::default();
    shadow.limit(1 << 20);
    // All but the last ten tasks are finished.
    let mut known = Clock::new();
    for task in 0..100_000 {
        if task > 10 {
            known.raise(Epoch { stream: 1, seq: task - 9 });
        }
        touch_separately(&mut shadow, task..task + 1, &known);
        assert!(shadow.bytes() <= 1 << 20);
    }
    assert!((99_991..100_000).all(|task| conflicts(&shadow, task) == 1));
}

#[test]
fn beyond_its_bound_it_says_nothing_of_what_was_before() {
    let mut shadow = Shadow::default();
    shadow.limit(1 << 20);
    for task in 0..100_000 {
        touch_separately(&mut shadow, task..task + 1, &Clock::new());
        assert!(shadow.bytes() <= 1 << 20, "{} bytes", shadow.bytes());
        assert_eq!(conflicts(&shadow, task), usize::from(shadow.bytes() > 0), "the last one");
    }
    assert_eq!(conflicts(&shadow, 0), 0);
    shadow.forget(0, usize::MAX);
    assert_eq!(shadow.bytes(), 0);
}
