//! Rows of a tensor moved to other rows.

use crate::parallel::{Parallel, split};
use crate::{View, ViewMut};

/// Bytes that are worth another thread.
const LEAST: usize = 1 << 16;

/// What becomes of a row of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowSource {
    /// A copy of this row.
    Row(usize),
    /// Zeros.
    Zeros,
    /// It stays as it is.
    Keep,
}

/// Fills the rows of `out` with rows of `from`, both of two dimensions and one type, as `source` says of each. `out` shares no
/// memory with `from`.
///
/// # Panics
/// If a row is none of `from`, or rows differ in length or type.
pub fn place(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    from: View<'_>,
    source: impl Fn(usize) -> RowSource + Sync,
) {
    assert!(out.dtype() == from.dtype() && out.dims()[1] == from.dims()[1]);
    let (rows, columns, item) = (out.dims()[0], out.dims()[1], out.item());
    let packed = columns <= 1 || (out.strides()[1] == 1 && from.strides()[1] == 1);
    let out_packed = columns <= 1 || out.strides()[1] == 1;
    let least = LEAST / (columns * item).max(1) + 1;
    split(parallel, rows, 1, least, |range| {
        for row in range {
            // SAFETY: a row of `out`, which this part alone writes.
            let to =
                unsafe { out.first_mut().offset(row as isize * out.strides()[0] * item as isize) };
            match source(row) {
                RowSource::Keep => {}
                // SAFETY: as many bytes as the row has.
                RowSource::Zeros if out_packed => unsafe {
                    std::ptr::write_bytes(to, 0, columns * item);
                },
                RowSource::Zeros => (0..columns as isize).for_each(|column| {
                    // SAFETY: an element of the row.
                    unsafe {
                        let to = to.offset(column * out.strides()[1] * item as isize);
                        std::ptr::write_bytes(to, 0, item);
                    }
                }),
                RowSource::Row(number) => {
                    assert!(number < from.dims()[0], "row {number} of {:?}", from.dims());
                    // SAFETY: a row of `from`, as was checked.
                    let line = unsafe {
                        from.first().offset(number as isize * from.strides()[0] * item as isize)
                    };
                    if packed {
                        // SAFETY: both rows have these bytes, and share none.
                        unsafe { std::ptr::copy_nonoverlapping(line, to, columns * item) };
                        continue;
                    }
                    for column in 0..columns as isize {
                        // SAFETY: an element of each row.
                        unsafe {
                            let to = to.offset(column * out.strides()[1] * item as isize);
                            let element = line.offset(column * from.strides()[1] * item as isize);
                            std::ptr::copy_nonoverlapping(element, to, item);
                        }
                    }
                }
            }
        }
    });
}
