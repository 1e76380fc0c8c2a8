//! Rows of a table, scaled down to a maximal norm.

use super::indexed::{BadIndex, IndexedView, integer_at, positions};
use super::strip::{load_one, store_one};
use crate::{View, ViewMut};

/// Scales each row of `table` that `index` names down to a norm of at most `max_norm`. The norm is the `power`-th root of
/// the sum of that power of magnitudes; for an infinite power the greatest magnitude, for 0 the number of elements other
/// than 0. A bad index is reported before anything is written.
pub fn renorm(
    table: ViewMut<'_>,
    index: View<'_>,
    max_norm: f64,
    power: f64,
) -> Result<(), BadIndex> {
    let (rows, columns) = (table.dims()[0], table.dims()[1]);
    let mut all_inside = true;
    positions(index.dims(), |position| {
        all_inside = usize::try_from(integer_at(&index, position)).is_ok_and(|row| row < rows);
        all_inside
    });
    if !all_inside {
        return Err(IndexedView::chosen(table.view(), 0, index, false).first_bad_index(index));
    }
    let item = table.item() as isize;
    let (row_stride, column_stride) = (table.strides()[0] * item, table.strides()[1] * item);
    positions(index.dims(), |position| {
        let row = integer_at(&index, position);
        if row < 0 || row >= rows as i64 {
            return true;
        }
        // SAFETY: a row of the table.
        let first = unsafe { table.first_mut().offset(row as isize * row_stride) };
        let mut norm = 0f64;
        for column in 0..columns as isize {
            // SAFETY: a column of the row.
            let value: f64 =
                unsafe { load_one(table.dtype(), first.offset(column * column_stride)) };
            match power {
                f64::INFINITY => norm = norm.max(value.abs()),
                2.0 => norm += value * value,
                1.0 => norm += value.abs(),
                0.0 => norm += f64::from(u8::from(value != 0.0)),
                _ => norm += value.abs().powf(power),
            }
        }
        if power.is_finite() && power != 0.0 {
            norm = if power == 2.0 { norm.sqrt() } else { norm.powf(1.0 / power) };
        }
        if norm > max_norm * (1.0 + 1e-7) {
            let scale = max_norm / (norm + 1e-7);
            for column in 0..columns as isize {
                // SAFETY: a column of the row.
                unsafe {
                    let element = first.offset(column * column_stride);
                    let value: f64 = load_one(table.dtype(), element);
                    store_one(table.dtype(), element, value * scale);
                }
            }
        }
        true
    });
    Ok(())
}
