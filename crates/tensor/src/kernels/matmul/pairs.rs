//! Products of `bf16` by instructions that multiply pairs of them: both sides are read as 32-bit words of two
//! neighbours along the depth.

use super::{Matrix, Real, Task};
use crate::kernels::small_product::{Left, Rows, Shape, multiplies_pairs, product_of_pairs};
use crate::kernels::transpose::transpose;
use crate::{DType, View};

/// Columns that are multiplied at a time.
const PANEL: usize = 32;

/// Whether sides of these types can be read as pairs, on a processor that multiplies those.
pub fn may_take(a: DType, b: DType) -> bool {
    a == DType::Bf16 && b == DType::Bf16
}

/// Whether both sides are `bf16`, and this processor multiplies pairs of those.
pub fn takes<C: Real>(task: &Task<'_, C>) -> bool {
    may_take(task.a.dtype(), task.b.dtype()) && multiplies_pairs()
}

/// The product of `shape` into `sums`, of `depth` elements and `columns` columns before padding. `parts` are the parts of
/// both sides; the scratch has room for their pairs, each in a word.
#[inline(always)]
pub fn product<C: Real>(
    task: &Task<'_, C>,
    shape: Shape,
    parts: (Matrix, Matrix),
    depth: usize,
    columns: usize,
    [scratch_a, scratch_b, sums]: [&mut [C]; 3],
) {
    let (part_a, part_b) = parts;
    let left = match in_place(&task.a, part_a, depth) {
        Some(left) => left,
        None => {
            let to = scratch_a.as_mut_ptr().cast::<f32>();
            let pitch = shape.rows;
            // SAFETY: the rows are inside the matrix, and the scratch holds their pairs.
            unsafe { pack_pairs(&task.a, part_a.transposed(), (depth, shape.rows), to, pitch) };
            Left { first: to, row: 1, column: pitch as isize }
        }
    };
    let pairs = scratch_b.as_mut_ptr().cast::<f32>();
    for first in (0..shape.columns).step_by(PANEL) {
        let width = (shape.columns - first).min(PANEL);
        let part = Matrix { offset: part_b.at(0, first), ..part_b };
        // SAFETY: the columns are inside the matrix; pairs of a panel fit the scratch, which has as many columns as the
        // sums; what is computed of columns beyond is never read.
        unsafe {
            pack_pairs(&task.b, part, (depth, width.min(columns - first)), pairs, width);
            let out = sums.as_mut_ptr().cast::<f32>().add(first);
            let out = Rows { first: out, pitch: shape.columns };
            let right = Rows { first: pairs.cast_const(), pitch: width };
            product_of_pairs(Shape { columns: width, ..shape }, left, right, out);
        }
    }
}

/// The left side as words without a copy, if its strides and address allow that.
fn in_place(view: &View<'_>, matrix: Matrix, depth: usize) -> Option<Left> {
    let first = view.first().wrapping_offset(matrix.offset * 2).cast::<f32>();
    let fits =
        matrix.column == 1 && matrix.row % 2 == 0 && depth.is_multiple_of(2) && first.is_aligned();
    fits.then_some(Left { first, row: matrix.row / 2, column: 1 })
}

/// Packs two rows of a matrix into one row of words; rows of words are `pitch` apart. A last row alone is paired with
/// zeros.
///
/// # Safety
/// The matrix has these sizes (depth, columns), and the words are writable.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2"))]
unsafe fn pack_pairs(
    view: &View<'_>,
    matrix: Matrix,
    (depth, columns): (usize, usize),
    to: *mut f32,
    pitch: usize,
) {
    // SAFETY: as the caller guarantees.
    unsafe {
        let first = view.first().cast::<u16>().offset(matrix.offset);
        let as_words = matrix.row == 1
            && matrix.column % 2 == 0
            && matrix.column > 0
            && first.cast::<f32>().is_aligned();
        let pairs = depth / 2;
        if as_words {
            transpose(to, pitch, first.cast(), matrix.column as usize / 2, pairs, columns);
        }
        for pair in if as_words { pairs } else { 0 }..depth.div_ceil(2) {
            let upper = first.offset(2 * pair as isize * matrix.row);
            let lower = upper.wrapping_offset(matrix.row);
            let (to, both) = (to.cast::<u32>().add(pair * pitch), 2 * pair + 1 < depth);
            if matrix.column == 1 && both {
                for at in 0..columns {
                    let word = u32::from(upper.add(at).read_unaligned())
                        | u32::from(lower.add(at).read_unaligned()) << 16;
                    to.add(at).write(word);
                }
                continue;
            }
            for at in 0..columns {
                let offset = at as isize * matrix.column;
                let low = upper.offset(offset).read_unaligned();
                let high = if both { lower.offset(offset).read_unaligned() } else { 0 };
                to.add(at).write(u32::from(low) | u32::from(high) << 16);
            }
        }
    }
}
