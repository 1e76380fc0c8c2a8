//! The offset allocator against a naive model.

use cairn_pool::tlsf::{GRANULE, Grant, Tlsf};
use proptest::prelude::*;
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;

/// One step of a test. A number that chooses a block or a hole is taken modulo how many there are.
#[derive(Clone, Debug)]
enum Op {
    Grow(u64),
    Alloc(u64, u64),
    Free(usize),
    TakeOut(usize),
    TakeOutHoles(u64),
    TakeOutOf(usize, u64, u64),
    PutBack(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let size = (0u32..22, any::<u64>()).prop_map(|(log, r)| (1 << log) + r % (1 << log));
    let align = prop_oneof![6 => Just(GRANULE), 2 => (9u32..22).prop_map(|log| 1 << log)];
    prop_oneof![
        1 => (0..4 * MIB).prop_map(Op::Grow),
        8 => (size, align).prop_map(|(s, a)| Op::Alloc(s, a)),
        6 => any::<usize>().prop_map(Op::Free),
        2 => any::<usize>().prop_map(Op::TakeOut),
        1 => (0u64..9).prop_map(Op::TakeOutHoles),
        1 => (any::<usize>(), 0u64..99, 1u64..99).prop_map(|(w, a, b)| Op::TakeOutOf(w, a, b)),
        2 => any::<usize>().prop_map(Op::PutBack),
    ]
}

/// A slow reference: holes (size, freed_seq) and live blocks (size, id) by offset, and what was taken out.
#[derive(Default)]
struct Model {
    holes: BTreeMap<u64, (u64, u64)>,
    live: BTreeMap<u64, (u64, u32)>,
    taken_out: Vec<std::ops::Range<u64>>,
    end: u64,
}

impl Model {
    fn add_hole(&mut self, mut offset: u64, mut size: u64, mut freed_seq: u64) {
        if let Some((&left, &(length, other))) = self.holes.range(..offset).next_back()
            && left + length == offset
        {
            self.holes.remove(&left);
            (offset, size, freed_seq) = (left, length + size, freed_seq.max(other));
        }
        if let Some((right, other)) = self.holes.remove(&(offset + size)) {
            (size, freed_seq) = (size + right, freed_seq.max(other));
        }
        self.holes.insert(offset, (size, freed_seq));
    }

    fn can_hold(&self, size: u64, align: u64) -> bool {
        let size = size.max(1).next_multiple_of(GRANULE);
        self.holes
            .iter()
            .any(|(&offset, &(length, _))| offset.next_multiple_of(align) + size <= offset + length)
    }

    fn take(&mut self, grant: Grant) {
        let (&offset, &(length, freed_seq)) =
            self.holes.range(..=grant.offset).next_back().expect("granted outside of holes");
        assert!(grant.offset + grant.size <= offset + length, "overlap: {grant:?}");
        self.holes.remove(&offset);
        if grant.offset > offset {
            self.holes.insert(offset, (grant.offset - offset, freed_seq));
        }
        let end = grant.offset + grant.size;
        if end < offset + length {
            self.holes.insert(end, (offset + length - end, freed_seq));
        }
        self.live.insert(grant.offset, (grant.size, grant.id));
    }

    fn grow(&mut self, bytes: u64) {
        if bytes > 0 {
            self.add_hole(self.end, bytes, 0);
        }
        self.end += bytes;
    }

    fn nth_live(&self, which: usize) -> (u64, u64, u32) {
        let (&offset, &(size, id)) = self.live.iter().nth(which % self.live.len()).unwrap();
        (offset, size, id)
    }
}

/// Panics unless the allocator is in the state of the model.
fn check(tlsf: &Tlsf, model: &Model) {
    assert!(
        tlsf.holes().eq(model.holes.iter().map(|(&o, &(s, freed_seq))| (o, s, freed_seq))),
        "{tlsf:?}\n{:?}",
        model.holes
    );
    assert!(tlsf.live().map(|g| (g.offset, (g.size, g.id))).eq(model.live.clone()));
    let holes: u64 = model.holes.values().map(|h| h.0).sum();
    let live: u64 = model.live.values().map(|b| b.0).sum();
    assert_eq!(tlsf.largest_hole(), model.holes.values().map(|h| h.0).max().unwrap_or(0));
    assert_eq!((tlsf.live_bytes(), tlsf.live_blocks()), (live, model.live.len()));
    assert_eq!((tlsf.total(), tlsf.end()), (holes + live, model.end));
}

proptest! {
    #[test]
    fn agrees_with_the_naive_model(ops in prop::collection::vec(op(), 1..300)) {
        let (mut tlsf, mut model) = (Tlsf::new(), Model::default());
        for (freed_seq, op) in ops.into_iter().enumerate() {
            let freed_seq = freed_seq as u64 * 7 % 11;
            match op {
                Op::Grow(bytes) => {
                    tlsf.grow(bytes);
                    model.grow(bytes / GRANULE * GRANULE);
                }
                Op::Alloc(size, align) => {
                    let growth = tlsf.needed_growth(size, align);
                    prop_assert_eq!(growth == 0, model.can_hold(size, align));
                    let granted = tlsf.alloc(size, align);
                    prop_assert_eq!(granted.is_some(), growth == 0);
                    if let Some(grant) = granted {
                        prop_assert!(grant.offset % align == 0);
                        prop_assert_eq!(grant.size, size.next_multiple_of(GRANULE));
                        prop_assert_eq!(tlsf.get(grant.id), Some(grant));
                        prop_assert_eq!(tlsf.get_mut(grant.id), Some((grant, &mut 0)));
                        model.take(grant);
                    } else if model.end < 64 * MIB {
                        model.grow(growth);
                        tlsf.grow(growth - GRANULE);
                        prop_assert_eq!(tlsf.alloc(size, align), None);
                        tlsf.grow(GRANULE);
                        model.take(tlsf.alloc(size, align).expect("grown enough"));
                    }
                }
                Op::Free(_) | Op::TakeOut(_) if model.live.is_empty() => {
                    for id in 0..4 {
                        prop_assert_eq!(tlsf.free(id, 0), None);
                        prop_assert_eq!(tlsf.take_out(id), None);
                    }
                }
                Op::Free(which) => {
                    let (offset, size, id) = model.nth_live(which);
                    prop_assert_eq!(tlsf.free(id, freed_seq), Some(size));
                    prop_assert_eq!(tlsf.free(id, freed_seq), None);
                    model.live.remove(&offset);
                    model.add_hole(offset, size, freed_seq);
                }
                Op::TakeOut(which) => {
                    let (offset, size, id) = model.nth_live(which);
                    prop_assert_eq!(tlsf.take_out(id), Some(offset..offset + size));
                    prop_assert_eq!(tlsf.take_out(id), None);
                    model.live.remove(&offset);
                    model.taken_out.push(offset..offset + size);
                }
                Op::TakeOutHoles(from) => {
                    let mut taken = tlsf.take_out_holes(|freed_seq| freed_seq >= from);
                    taken.sort_by_key(|range| range.start);
                    let fits = |h: &(&u64, &(u64, u64))| h.1.1 >= from;
                    let expected: Vec<_> =
                        model.holes.iter().filter(fits).map(|(&o, &(s, _))| o..o + s).collect();
                    prop_assert_eq!(&taken, &expected);
                    model.holes.retain(|_, h| h.1 < from);
                    model.taken_out.extend(taken);
                }
                Op::TakeOutOf(..) if model.holes.is_empty() => {}
                Op::TakeOutOf(which, from, granules) => {
                    let mut holes: Vec<_> = tlsf.holes_where(|freed_seq| freed_seq < 99).collect();
                    holes.sort_by_key(|(_, range)| range.start);
                    let expected = model.holes.iter().map(|(&o, &(s, _))| o..o + s);
                    prop_assert!(holes.iter().map(|(_, range)| range.clone()).eq(expected));
                    let (id, hole) = holes[which % holes.len()].clone();
                    let (size, freed_seq) = model.holes[&hole.start];
                    prop_assert_eq!(tlsf.freed_seq(id), Some(freed_seq));
                    let start = hole.start + from % (size / GRANULE) * GRANULE;
                    let part = start..start + granules * GRANULE;
                    let inside = part.end <= hole.end;
                    prop_assert_eq!(tlsf.take_out_of(id, &part), inside);
                    if inside {
                        model.take(Grant { id: 0, offset: start, size: part.end - start });
                        model.live.remove(&start);
                        model.taken_out.push(part);
                    }
                }
                Op::PutBack(_) if model.taken_out.is_empty() => {}
                Op::PutBack(which) => {
                    let range = model.taken_out.swap_remove(which % model.taken_out.len());
                    tlsf.add(range.clone(), freed_seq);
                    model.add_hole(range.start, range.end - range.start, freed_seq);
                }
            }
            check(&tlsf, &model);
        }
        for &(_, id) in model.live.values() {
            tlsf.free(id, 0).unwrap();
        }
        for range in model.taken_out {
            tlsf.add(range, 0);
        }
        prop_assert_eq!(tlsf.live_bytes(), 0);
        let all = tlsf.holes().map(|(o, s, _)| (o, s));
        prop_assert!(all.eq((model.end > 0).then_some((0, model.end))));
    }

    #[test]
    fn alloc_where_gets_a_hole_with_a_fitting_freed_seq(
        sizes in prop::collection::vec((1u64..200, 0u64..5), 1..40), granules_needed in 1u64..200, from in 0u64..6,
    ) {
        let mut tlsf = Tlsf::new();
        let mut at = 0;
        let mut exists = false;
        for &(size, freed_seq) in &sizes {
            tlsf.add(at..at + size * GRANULE, freed_seq);
            at += (size + 1) * GRANULE;
            exists |= size >= granules_needed && freed_seq >= from;
        }
        let before: Vec<_> = tlsf.holes().collect();
        let grant = tlsf.alloc_where(granules_needed * GRANULE, GRANULE, |freed_seq| freed_seq >= from);
        prop_assert_eq!(grant.is_some(), exists);
        if let Some((grant, freed_seq)) = grant {
            prop_assert!(freed_seq >= from);
            let inside = |h: &&(u64, u64, u64)| h.0 <= grant.offset && grant.offset < h.0 + h.1;
            prop_assert!(before.iter().find(inside).is_some_and(|h| h.2 >= from));
        }
    }
}
