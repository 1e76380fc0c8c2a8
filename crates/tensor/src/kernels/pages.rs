//! Rows of tokens in the blocks of a paged cache: put there, taken from there, and made on the way there.
//!
//! Rows have the sizes batches, positions, heads, features; pages have blocks, heads, chunks of features, positions,
//! features of a chunk.

use super::rotary::Rotation;
use super::strip::{load, runs_here, store};
use crate::parallel::{Parallel, split};
use crate::{Dims, View, ViewMut};

/// The block and the position in it of a token, which is a batch and a position; `None` for one that has no place.
pub type PlaceOf<'a> = dyn Fn(usize, usize) -> Option<(usize, usize)> + Sync + 'a;

/// Workers at the same time, at most.
const WORKERS: usize = 8;
/// Bytes that are worth a thread of their own.
const LEAST_BYTES: usize = 1 << 15;

/// The byte offset of the first feature of a chunk of a page.
fn page_offset(pages: &View<'_>, at: [usize; 4]) -> isize {
    let strides = pages.strides();
    let offset: isize =
        at.iter().zip(strides).map(|(index, stride)| *index as isize * stride).sum();
    offset * pages.item() as isize
}

/// The byte offset of a row.
fn row_offset(rows: &View<'_>, at: [usize; 3]) -> isize {
    let strides = rows.strides();
    let offset: isize =
        at.iter().zip(strides).map(|(index, stride)| *index as isize * stride).sum();
    offset * rows.item() as isize
}

/// Copies `count` elements of `item` bytes that are `from_stride` and `to_stride` bytes apart.
///
/// # Safety
/// All are readable and writable, and nobody else touches them.
unsafe fn copy_elements(
    (to, to_stride): (*mut u8, isize),
    (from, from_stride): (*const u8, isize),
    item: usize,
    count: usize,
) {
    // SAFETY: as the caller guarantees.
    unsafe {
        if to_stride == item as isize && from_stride == item as isize {
            return std::ptr::copy_nonoverlapping(from, to, item * count);
        }
        for at in 0..count as isize {
            std::ptr::copy_nonoverlapping(
                from.offset(at * from_stride),
                to.offset(at * to_stride),
                item,
            );
        }
    }
}

/// Copies every token that has a place between rows and pages of the same type, in either direction. Places are inside the
/// pages; of tokens with the same place, one is copied.
fn exchange(
    parallel: &dyn Parallel,
    rows: &View<'_>,
    pages: &View<'_>,
    place: &PlaceOf<'_>,
    copy_row: impl Fn(*const u8, *const u8, [isize; 2], usize) + Sync,
) {
    let [batches, positions, heads, features] = *rows.dims() else {
        unreachable!("rows of four dimensions")
    };
    let (chunks, inner) = (pages.dims()[2], pages.dims()[4]);
    assert_eq!(features, chunks * inner, "as many features");
    let item = rows.item();
    let least = (LEAST_BYTES / (heads * features * item).max(1)).max(1);
    let strides = [rows.strides()[3] * item as isize, pages.strides()[4] * item as isize];
    split(parallel, batches * positions, 1, least, |tokens| {
        for token in tokens {
            let (batch, position) = (token / positions, token % positions);
            let Some((block, slot)) = place(batch, position) else { continue };
            for head in 0..heads {
                let row = row_offset(rows, [batch, position, head]);
                for chunk in 0..chunks {
                    let page = page_offset(pages, [block, head, chunk, slot]);
                    let start = row + (chunk * inner) as isize * strides[0];
                    // SAFETY: both are inside their views.
                    let (row, page) =
                        unsafe { (rows.first().offset(start), pages.first().offset(page)) };
                    copy_row(row, page, strides, inner);
                }
            }
        }
    });
}

/// Copies the rows of every token that has a place to its page.
pub fn put_rows(parallel: &dyn Parallel, pages: ViewMut<'_>, rows: View<'_>, place: &PlaceOf<'_>) {
    let item = rows.item();
    exchange(parallel, &rows, &pages, place, |row, page, [row_stride, page_stride], count| {
        // SAFETY: both are inside their views, and the page is one token's.
        unsafe { copy_elements((page.cast_mut(), page_stride), (row, row_stride), item, count) };
    });
}

/// Copies the pages of every token that has a place to its row.
pub fn take_rows(parallel: &dyn Parallel, rows: ViewMut<'_>, pages: View<'_>, place: &PlaceOf<'_>) {
    let item = rows.item();
    exchange(parallel, &rows, &pages, place, |row, page, [row_stride, page_stride], count| {
        // SAFETY: both are inside their views, and the row is one token's.
        unsafe { copy_elements((row.cast_mut(), row_stride), (page, page_stride), item, count) };
    });
}

/// What a row becomes: divided by the root of its mean square, then rotated.
#[derive(Clone, Copy)]
pub struct RowSteps<'a> {
    /// What the features are multiplied by after the division, and what is added to the mean square.
    pub norm: Option<(View<'a>, f32)>,
    /// What the features are multiplied by then.
    pub factor: f32,
    /// The rotation, with cosines and sines: batches, positions, features (broadcast). Where these have fewer features than
    /// rows, the first of a row are rotated.
    pub rotation: Option<(Rotation, View<'a>, View<'a>)>,
}

/// Where finished rows go.
#[derive(Clone, Copy)]
pub struct RowTargets<'a> {
    /// To a tensor with the sizes of the rows.
    pub plain: Option<ViewMut<'a>>,
    /// To pages, for tokens that have a place.
    pub pages: Option<(ViewMut<'a>, &'a PlaceOf<'a>)>,
}

/// The sizes of the `f32` scratch that [`make_rows`] needs for rows of these sizes.
pub fn row_scratch(dims: &[usize]) -> Dims {
    Dims::new(&[(dims[0] * dims[1]).min(WORKERS), 5 * dims[3]])
}

/// Makes every row, computed in `f32`, and stores it.
pub fn make_rows(
    parallel: &dyn Parallel,
    rows: View<'_>,
    steps: &RowSteps<'_>,
    targets: &RowTargets<'_>,
    scratch: ViewMut<'_>,
) {
    assert!(runs_here(), "this processor lacks AVX2, FMA or F16C");
    let [batches, positions, heads, features] = *rows.dims() else {
        unreachable!("rows of four dimensions")
    };
    if features == 0 {
        return;
    }
    let tokens = batches * positions;
    let (workers, size) = (scratch.dims()[0], scratch.dims()[1]);
    let worker = |worker: usize| {
        // SAFETY: each worker has a row of the scratch of its own, which is aligned.
        let mine = unsafe {
            let first = scratch.first_mut().cast::<f32>().add(worker * size);
            std::slice::from_raw_parts_mut(first, size)
        };
        let (line, mine) = mine.split_at_mut(features);
        let (gamma, mine) = mine.split_at_mut(features);
        let (cos, mine) = mine.split_at_mut(features);
        let (sin, rotated) = mine.split_at_mut(features);
        // SAFETY: gamma has as many elements as a row.
        let fetch = |view: &View<'_>, offset: isize, line: &mut [f32]| unsafe {
            let stride = view.strides().last().copied().unwrap_or(1);
            load(view.dtype(), view.first().offset(offset), stride, line);
        };
        if let Some((view, _)) = &steps.norm {
            fetch(view, 0, gamma);
        }
        for token in (worker..tokens).step_by(workers) {
            let (batch, position) = (token / positions, token % positions);
            if let Some((_, cosines, sines)) = &steps.rotation {
                for (view, line) in [(cosines, &mut *cos), (sines, &mut *sin)] {
                    let strides = view.strides();
                    let at = batch as isize * strides[0] + position as isize * strides[1];
                    fetch(view, at * view.item() as isize, &mut line[..view.dims()[2]]);
                }
            }
            for head in 0..heads {
                fetch(&rows, row_offset(&rows, [batch, position, head]), line);
                if let Some((_, epsilon)) = steps.norm {
                    normalise(line, gamma, epsilon);
                }
                if steps.factor != 1.0 {
                    line.iter_mut().for_each(|x| *x *= steps.factor);
                }
                let done: &[f32] = match &steps.rotation {
                    None => line,
                    Some((rotation, cosines, _)) => {
                        let width = cosines.dims()[2];
                        let (cos, sin) = (&cos[..width], &sin[..width]);
                        rotation.rotate(&line[..width], cos, sin, &mut rotated[..width]);
                        rotated[width..].copy_from_slice(&line[width..]);
                        rotated
                    }
                };
                // SAFETY: the rows are this token's alone.
                unsafe { keep(targets, [batch, position, head], done) };
            }
        }
    };
    match workers {
        0 => (),
        1 => worker(0),
        _ => parallel.run(workers, &worker),
    }
}

/// Divides a line by the root of its mean square and multiplies it by `gamma`.
fn normalise(line: &mut [f32], gamma: &[f32], epsilon: f32) {
    let squares: f64 = line.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
    let mean = (squares / line.len() as f64) as f32;
    let factor = 1.0 / (mean + epsilon).sqrt();
    for (x, gamma) in line.iter_mut().zip(gamma) {
        *x = *x * factor * gamma;
    }
}

/// Stores a row.
///
/// # Safety
/// The position is inside the targets, and nobody else writes it.
unsafe fn keep(targets: &RowTargets<'_>, at: [usize; 3], line: &[f32]) {
    // SAFETY: as the caller guarantees.
    unsafe {
        if let Some(plain) = &targets.plain {
            let to = plain.first_mut().offset(row_offset(plain, at));
            store(plain.dtype(), to, plain.strides()[3], line);
        }
        let Some((pages, place)) = &targets.pages else { return };
        let Some((block, slot)) = place(at[0], at[1]) else { return };
        let inner = pages.dims()[4];
        for (chunk, line) in line.chunks_exact(inner).enumerate() {
            let to = pages.first_mut().offset(page_offset(pages, [block, at[2], chunk, slot]));
            store(pages.dtype(), to, pages.strides()[4], line);
        }
    }
}
