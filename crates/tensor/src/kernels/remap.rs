//! Elements moved by a map of each dimension, their bits unchanged.

use super::map::SMALL;
use crate::parallel::{Parallel, split};
use crate::{View, ViewMut, with_type_of_size};

/// `out[i, j, ..] = a[maps[0][i], maps[1][j], ..]`; a dimension without a map has the same indices in both. The two
/// share no memory; their elements have one type.
///
/// # Panics
/// If sizes do not fit, or a map leads out of `a`.
pub fn remap(parallel: &dyn Parallel, out: ViewMut<'_>, a: View<'_>, maps: &[Option<&[i64]>]) {
    assert!(out.rank() == a.rank() && maps.len() == a.rank() && out.item() == a.item());
    for (at, map) in maps.iter().enumerate() {
        let (size, limit) = (out.dims()[at], a.dims()[at]);
        match map {
            Some(map) => {
                let inside = |index: &i64| *index >= 0 && *index < limit as i64;
                assert!(map.len() == size && map.iter().all(inside), "a map into the tensor");
            }
            None => assert_eq!(size, limit),
        }
    }
    if out.count() > 0 {
        with_type_of_size!(out.item(), T => typed::<T>(parallel, out, a, maps));
    }
}

/// See [`remap`]; `T` is as large as an element.
fn typed<T: Copy>(parallel: &dyn Parallel, out: ViewMut<'_>, a: View<'_>, maps: &[Option<&[i64]>]) {
    let (dims, rank) = (out.dims(), out.rank());
    let longer_than_one = (0..rank).filter(|at| dims[*at] > 1);
    let inner = { longer_than_one }.min_by_key(|at| out.strides()[*at].unsigned_abs()).unwrap_or(0);
    let length = if rank == 0 { 1 } else { dims[inner] };
    let (to_step, from_step) = match rank {
        0 => (1, 1),
        _ => (out.strides()[inner], a.strides()[inner]),
    };
    let map = if rank == 0 { None } else { maps[inner] };
    split(parallel, out.count() / length, 1, SMALL.div_ceil(length), |range| {
        for unit in range {
            let (mut rest, mut to, mut from) = (unit, 0isize, 0isize);
            for at in (0..rank).rev().filter(|at| *at != inner) {
                let index = rest % dims[at];
                rest /= dims[at];
                let source = maps[at].map_or(index as isize, |map| map[index] as isize);
                to += index as isize * out.strides()[at];
                from += source * a.strides()[at];
            }
            // SAFETY: positions of both tensors, the maps having been checked.
            unsafe {
                let to = out.first_mut().cast::<T>().offset(to);
                let from = a.first().cast::<T>().offset(from);
                match map {
                    Some(map) => {
                        for (at, source) in map.iter().enumerate() {
                            let value = from.offset(*source as isize * from_step).read_unaligned();
                            to.offset(at as isize * to_step).write_unaligned(value);
                        }
                    }
                    None => {
                        for at in 0..length as isize {
                            let value = from.offset(at * from_step).read_unaligned();
                            to.offset(at * to_step).write_unaligned(value);
                        }
                    }
                }
            }
        }
    });
}
