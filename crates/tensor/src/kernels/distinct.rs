//! What the numbers of groups say: where each group is first, how large it is, and another order of them.

use super::access::OffsetAccessMut;
use super::order::Overwritten;
use crate::{DType, ViewMut};

/// Memory of groups: contiguous 64-bit integers, as many as there are elements.
#[derive(Clone, Copy)]
pub struct Groups<'a> {
    /// The number of the group of each element. Every group up to the last has an element.
    pub inverse: ViewMut<'a>,
    /// Where each group is first, once they are counted.
    pub firsts: ViewMut<'a>,
    /// How many elements each group has, once they are counted.
    pub counts: ViewMut<'a>,
}

impl Groups<'_> {
    /// Finds the first element of each of `total` groups and counts them.
    ///
    /// With `numbers`, memory as the others, groups are numbered anew, in the order in which they come; `inverse` says
    /// so afterwards. Fails where a number is of no group: the memory changed since it was written.
    ///
    /// # Panics
    /// If there are more groups than elements.
    pub fn count(&self, total: usize, numbers: Option<ViewMut<'_>>) -> Result<(), Overwritten> {
        let count = self.inverse.count();
        let access = |view: ViewMut<'_>| {
            assert!(view.is_contiguous() && view.dtype() == DType::Int64 && view.count() == count);
        };
        [Some(self.inverse), Some(self.firsts), Some(self.counts), numbers]
            .into_iter()
            .flatten()
            .for_each(access);
        assert!(total <= count, "{total} groups of {count} elements");
        let [inverse, firsts, counts] =
            [self.inverse, self.firsts, self.counts].map(OffsetAccessMut::<i64>::new);
        let numbers = numbers.map(OffsetAccessMut::<i64>::new);
        for group in 0..total as isize {
            counts.set(group, 0);
            if let Some(numbers) = &numbers {
                numbers.set(group, -1);
            }
        }
        let mut next = 0;
        for element in 0..count as isize {
            let mut group = inverse.get(element);
            let is_group = |number: i64| (0..total as i64).contains(&number);
            if !is_group(group) {
                return Err(Overwritten);
            }
            if let Some(numbers) = &numbers {
                let mut number = numbers.get(group as isize);
                if number < 0 {
                    number = next;
                    numbers.set(group as isize, number);
                    next += 1;
                }
                if !is_group(number) {
                    return Err(Overwritten);
                }
                group = number;
                inverse.set(element, group);
            }
            let size = counts.get(group as isize);
            if size == 0 {
                firsts.set(group as isize, element as i64);
            }
            counts.set(group as isize, size.wrapping_add(1));
        }
        Ok(())
    }
}
