//! The offset allocator against a naive model.

use cairn_pool::tlsf::{GRANULE, Grant, Tlsf};
use proptest::prelude::*;
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;

#[derive(Clone, Debug)]
enum Op {
    Grow(u64),
    Alloc(u64, u64),
    Free(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let size = (0u32..22, any::<u64>()).prop_map(|(log, r)| (1 << log) + r % (1 << log));
    let align = prop_oneof![6 => Just(GRANULE), 2 => (9u32..22).prop_map(|log| 1 << log)];
    prop_oneof![
        1 => (0..4 * MIB).prop_map(Op::Grow),
        8 => (size, align).prop_map(|(s, a)| Op::Alloc(s, a)),
        6 => any::<usize>().prop_map(Op::Free),
    ]
}

/// The truth, slowly: holes and live blocks by offset.
#[derive(Default)]
struct Model {
    holes: BTreeMap<u64, u64>,
    live: BTreeMap<u64, u64>,
    len: u64,
}

impl Model {
    fn add_hole(&mut self, mut offset: u64, mut size: u64) {
        if let Some((&left, &have)) = self.holes.range(..offset).next_back()
            && left + have == offset
        {
            self.holes.remove(&left);
            (offset, size) = (left, have + size);
        }
        if let Some(right) = self.holes.remove(&(offset + size)) {
            size += right;
        }
        self.holes.insert(offset, size);
    }

    fn can_hold(&self, size: u64, align: u64) -> bool {
        let size = size.max(1).next_multiple_of(GRANULE);
        self.holes
            .iter()
            .any(|(&offset, &have)| offset.next_multiple_of(align) + size <= offset + have)
    }

    fn take(&mut self, grant: Grant) {
        let (&offset, &have) =
            self.holes.range(..=grant.offset).next_back().expect("granted outside of holes");
        assert!(grant.offset + grant.size <= offset + have, "overlap: {grant:?}");
        self.holes.remove(&offset);
        if grant.offset > offset {
            self.holes.insert(offset, grant.offset - offset);
        }
        if grant.offset + grant.size < offset + have {
            self.holes.insert(grant.offset + grant.size, offset + have - grant.offset - grant.size);
        }
        self.live.insert(grant.offset, grant.size);
    }
}

fn agree(tlsf: &Tlsf, model: &Model) {
    assert!(
        tlsf.holes().eq(model.holes.iter().map(|(&o, &s)| (o, s))),
        "{tlsf:?}\n{:?}",
        model.holes
    );
    assert_eq!(tlsf.largest_hole(), model.holes.values().copied().max().unwrap_or(0));
    assert_eq!(tlsf.live_bytes(), model.live.values().sum::<u64>());
    assert_eq!(tlsf.live_blocks(), model.live.len());
    assert_eq!(tlsf.len(), model.len);
}

proptest! {
    #[test]
    fn agrees_with_the_naive_model(ops in prop::collection::vec(op(), 1..300)) {
        let (mut tlsf, mut model) = (Tlsf::new(), Model::default());
        for op in ops {
            match op {
                Op::Grow(bytes) => {
                    let bytes = bytes / GRANULE * GRANULE;
                    tlsf.grow(bytes);
                    if bytes > 0 {
                        model.add_hole(model.len, bytes);
                    }
                    model.len += bytes;
                }
                Op::Alloc(size, align) => {
                    let growth = tlsf.needed_growth(size, align);
                    prop_assert_eq!(growth == 0, model.can_hold(size, align));
                    let granted = tlsf.alloc(size, align);
                    prop_assert_eq!(granted.is_some(), growth == 0);
                    if let Some(grant) = granted {
                        prop_assert!(grant.offset % align == 0);
                        prop_assert_eq!(grant.size, size.next_multiple_of(GRANULE));
                        prop_assert_eq!(tlsf.size_of(grant.offset), Some(grant.size));
                        model.take(grant);
                    } else if model.len < 64 * MIB {
                        model.add_hole(model.len, growth);
                        model.len += growth;
                        tlsf.grow(growth - GRANULE);
                        prop_assert_eq!(tlsf.alloc(size, align), None);
                        tlsf.grow(GRANULE);
                        model.take(tlsf.alloc(size, align).expect("grown enough"));
                    }
                }
                Op::Free(which) if model.live.is_empty() => prop_assert_eq!(tlsf.free(which as u64), None),
                Op::Free(which) => {
                    let (&offset, &size) = model.live.iter().nth(which % model.live.len()).unwrap();
                    prop_assert_eq!(tlsf.free(offset + 1), None);
                    prop_assert_eq!(tlsf.free(offset), Some(size));
                    prop_assert_eq!(tlsf.free(offset), None);
                    model.live.remove(&offset);
                    model.add_hole(offset, size);
                }
            }
            agree(&tlsf, &model);
        }
        for &offset in model.live.keys() {
            tlsf.free(offset).unwrap();
        }
        prop_assert_eq!(tlsf.live_bytes(), 0);
        prop_assert!(tlsf.holes().eq((model.len > 0).then_some((0, model.len))));
    }
}
