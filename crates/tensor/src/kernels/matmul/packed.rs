//! Products of `f32` with a right side that was packed before: panels of [`PANEL`] columns, each row of a panel one after
//! the other, zeros beyond the last column.
//!
//! Each element is summed along the depth in order, in blocks of [`DEPTH`], so results depend neither on threads nor on
//! the number of rows.

use super::{LEAST, folded};
use crate::kernels::epilogue::{Block, Epilogue};
use crate::kernels::small_product::{Left, Rows, Shape, product, product_with_prefetch};
use crate::parallel::{Parallel, share, split};
use crate::{DType, Layout, View, ViewMut};
use std::ops::Range;

/// Columns of a panel.
const PANEL: usize = 32;
/// Rows of the right side that are multiplied at a time: those of a panel stay in the first cache.
const DEPTH: usize = 512;
/// Rows of the left side that are multiplied at a time: a block of them stays in the second cache.
const ROWS: usize = 240;
/// Rows that a set of the first cache holds at most, and rows that are copied at a time where more would fall into one; each copy serves so many
/// panels, which stay in the second cache.
const CACHE_WAYS: usize = 8;
const COPIED_ROWS: usize = 12;
const COPIED_FOR: usize = 8;
/// Rows of a last, narrower panel that are summed aside at a time.
const EDGE_ROWS: usize = 24;
/// Multiply-adds that take about as long as loading an element of the right side.
const LOAD: usize = 8;
/// Elements that an epilogue is computed of at a time, at least.
const EPILOGUE: usize = 512;
/// The fewest elements of a right side that is worth packing.
const MIN_ELEMENTS: usize = 1 << 12;

/// A product whose right side can be packed: the matrices, without batches.
#[derive(Clone, Copy, Debug)]
pub struct PackedProduct {
    /// The result, whose rows have no gaps.
    pub out: Layout,
    /// The left side.
    pub a: Layout,
    /// The right side as it is before.
    pub b: Layout,
}

impl PackedProduct {
    /// The product of these, with batches or without, if its right side can be packed and that pays: the same for all
    /// batches, and everything `f32`.
    pub fn new(out: &Layout, a: &Layout, b: &Layout) -> Option<PackedProduct> {
        if [out, a, b].iter().any(|one| one.dtype != DType::Float || one.rank() < 2) {
            return None;
        }
        let [out, a, b] = match out.rank() {
            2 => [*out, *a, *b],
            _ => folded([out, a, b])?,
        };
        let has_whole_rows = out.strides()[1] == 1 && out.strides()[0] >= 0;
        let pays = b.count() >= MIN_ELEMENTS && out.count() > 0 && out.dims()[1] > 1;
        (has_whole_rows && pays).then_some(PackedProduct { out, a, b })
    }

    /// Rows and columns of the right side.
    fn sizes(&self) -> (usize, usize) {
        (self.b.dims()[0], self.b.dims()[1])
    }

    /// Elements of the packed right side.
    pub fn packed_size(&self) -> usize {
        let (k, n) = self.sizes();
        k * n.next_multiple_of(PANEL)
    }

    /// Packs a right side, of this product's layout, into [`PackedProduct::packed_size`] elements.
    pub fn pack(&self, parallel: &dyn Parallel, right: View<'_>, into: ViewMut<'_>) {
        let (k, n) = self.sizes();
        expect_elements(into.layout(), self.packed_size());
        let (row, column) = (right.strides()[0], right.strides()[1]);
        let panels = Pointer(into.first_mut());
        split(parallel, n.div_ceil(PANEL), 1, (1 << 15) / (k * PANEL).max(1) + 1, |range| {
            for panel in range {
                let first = panel * PANEL;
                let width = (n - first).min(PANEL);
                for depth in 0..k {
                    let from = (depth as isize * row + first as isize * column) * 4;
                    // SAFETY: element of the right side, which the view holds, and of a panel that is this call's
                    // alone; neither need be aligned.
                    unsafe {
                        let from = right.first().offset(from);
                        let to = panels.at((panel * k + depth) * PANEL * 4);
                        if column == 1 {
                            std::ptr::copy_nonoverlapping(from, to, width * 4);
                        } else {
                            for at in 0..width {
                                let value = from.offset(at as isize * column * 4).cast::<[u8; 4]>();
                                to.add(at * 4).cast::<[u8; 4]>().write(value.read());
                            }
                        }
                        std::ptr::write_bytes(to.add(width * 4), 0, (PANEL - width) * 4);
                    }
                }
            }
        });
    }

    /// `out = a @ b`, or added to it, where `packed` is what [`PackedProduct::pack`] made of `b`; of an output without gaps an epilogue
    /// is computed.
    pub fn multiply(
        &self,
        parallel: &dyn Parallel,
        out: ViewMut<'_>,
        a: View<'_>,
        packed: View<'_>,
        (add, epilogue): (bool, Option<&Epilogue<'_>>),
    ) {
        let (k, n) = self.sizes();
        let m = self.out.dims()[0];
        expect_elements(packed.layout(), self.packed_size());
        debug_assert!(out.dims() == [m, n] && a.dims() == [m, k]);
        let is_aligned =
            [out.address(), a.address(), packed.address()].iter().all(|one| one % 4 == 0);
        assert!(epilogue.is_none() || out.is_contiguous(), "an output without gaps");
        if !is_aligned {
            self.multiply_unaligned(&out, &a, &packed, add);
            return epilogue.into_iter().for_each(|epilogue| epilogue.apply_to_all(&out));
        }
        let panels = n.div_ceil(PANEL);
        // An element of the right side that comes from memory takes as long as some multiply-adds.
        let work = m.saturating_add(LOAD).saturating_mul(n).saturating_mul(k.max(1));
        let parts = (work / LEAST).clamp(1, parallel.width());
        let task = Operands {
            target: (out, epilogue),
            out: Rows { first: out.first_mut().cast(), pitch: out.strides()[0] as usize },
            a: Left { first: a.first().cast(), row: a.strides()[0], column: a.strides()[1] },
            packed: packed.first().cast(),
            sizes: [m, n, k],
            add,
        };
        if parts == 1 {
            return task.multiply(0..m, 0..panels);
        }
        // The units are smaller than a thread's share, so that threads that start late do less.
        let by_rows = m >= 4 * n;
        let units = parts * 4;
        parallel.run(units, &|unit| match by_rows {
            true => task.multiply(share(m, 12, units, unit), 0..panels),
            false => task.multiply(0..m, share(panels, 1, units, unit)),
        });
    }

    /// As [`PackedProduct::multiply`], on this thread, of elements at any addresses.
    fn multiply_unaligned(&self, out: &ViewMut<'_>, a: &View<'_>, packed: &View<'_>, add: bool) {
        let (k, n) = self.sizes();
        let read = |first: *const u8, offset: isize| {
            // SAFETY: callers pass offsets of elements of views; four bytes at any address.
            unsafe { first.offset(offset * 4).cast::<f32>().read_unaligned() }
        };
        for row in 0..self.out.dims()[0] as isize {
            for column in 0..n {
                let to = row * out.strides()[0] + column as isize;
                let mut sum = if add { read(out.first(), to) } else { 0.0 };
                for depth in 0..k {
                    let left = row * a.strides()[0] + depth as isize * a.strides()[1];
                    let right = ((column / PANEL * k + depth) * PANEL + column % PANEL) as isize;
                    sum = read(a.first(), left).mul_add(read(packed.first(), right), sum);
                }
                // SAFETY: an element of the result, which nobody else touches; four bytes at any address.
                unsafe { out.first_mut().offset(to * 4).cast::<f32>().write_unaligned(sum) };
            }
        }
    }
}

fn expect_elements(packed: &Layout, count: usize) {
    let is_packed = packed.dtype == DType::Float && packed.is_contiguous();
    assert!(is_packed && packed.count() == count, "{packed} is no packed right side of {count}");
}

/// An address that threads share.
#[derive(Clone, Copy)]
struct Pointer(*mut u8);

// SAFETY: an address; each thread writes only elements of its own.
unsafe impl Sync for Pointer {}

impl Pointer {
    fn at(&self, bytes: usize) -> *mut u8 {
        self.0.wrapping_add(bytes)
    }
}

/// One product: result, left side, panels, and rows, columns and depth.
struct Operands<'a> {
    target: (ViewMut<'a>, Option<&'a Epilogue<'a>>),
    out: Rows<*mut f32>,
    a: Left,
    packed: *const f32,
    sizes: [usize; 3],
    add: bool,
}

// SAFETY: addresses; each thread writes only the rows and panels of its own.
unsafe impl Sync for Operands<'_> {}

impl Operands<'_> {
    /// Computes some rows of some panels.
    fn multiply(&self, rows: Range<usize>, panels: Range<usize>) {
        let [_, _, k] = self.sizes;
        for first_row in rows.clone().step_by(ROWS) {
            let rows = first_row..(first_row + ROWS).min(rows.end);
            let mut start = 0;
            loop {
                let depth = start..(start + DEPTH).min(k);
                match self.shares_cache_sets() && rows.len() > CACHE_WAYS {
                    true => self.multiply_copies(rows.clone(), panels.clone(), depth.clone()),
                    false => self.multiply_rows(rows.clone(), panels.clone(), depth.clone()),
                }
                start = depth.end;
                if start >= k {
                    break;
                }
            }
        }
    }

    /// Whether neighbouring rows of the left side are so far apart that they drive each other out of the first cache.
    fn shares_cache_sets(&self) -> bool {
        const CACHE_WAY: isize = 4096;
        self.a.column == 1 && (self.a.row * size_of::<f32>() as isize) % CACHE_WAY == 0
    }

    /// Some depth of some rows and panels.
    fn multiply_rows(&self, rows: Range<usize>, panels: Range<usize>, depth: Range<usize>) {
        let a = self.left(rows.start, depth.start);
        let mut finished = panels.start;
        for panel in panels.clone() {
            self.multiply_panel(rows.clone(), panel, depth.clone(), a);
            let is_strip = (panel + 1 - finished) * PANEL * rows.len() >= EPILOGUE;
            if is_strip || panel + 1 == panels.end {
                self.finish(rows.clone(), finished..panel + 1, &depth);
                finished = panel + 1;
            }
        }
    }

    /// As [`Operands::multiply_rows`], from copies of the rows that lie side by side.
    fn multiply_copies(&self, rows: Range<usize>, panels: Range<usize>, depth: Range<usize>) {
        // Odd multiples of a cache line apart.
        const PITCH: usize = DEPTH + 16;
        let mut copies = [0f32; COPIED_ROWS * PITCH];
        for first_panel in panels.clone().step_by(COPIED_FOR) {
            let panels = first_panel..(first_panel + COPIED_FOR).min(panels.end);
            for first in rows.clone().step_by(COPIED_ROWS) {
                let rows = first..(first + COPIED_ROWS).min(rows.end);
                for (row, copy) in rows.clone().zip(copies.chunks_exact_mut(PITCH)) {
                    let from = self.left(row, depth.start).first;
                    // SAFETY: a part of a row, which lies without gaps; nobody writes it.
                    let from = unsafe { std::slice::from_raw_parts(from, depth.len()) };
                    copy[..depth.len()].copy_from_slice(from);
                }
                let a = Left { first: copies.as_ptr(), row: PITCH as isize, column: 1 };
                for panel in panels.clone() {
                    self.multiply_panel(rows.clone(), panel, depth.clone(), a);
                }
            }
            self.finish(rows.clone(), panels, &depth);
        }
    }

    /// The left side from this element on.
    fn left(&self, row: usize, depth: usize) -> Left {
        let offset = row as isize * self.a.row + depth as isize * self.a.column;
        Left { first: self.a.first.wrapping_offset(offset), ..self.a }
    }

    /// Some depth of some rows of one panel, from the left side at `a` on.
    fn multiply_panel(&self, rows: Range<usize>, panel: usize, depth: Range<usize>, a: Left) {
        let [_, n, k] = self.sizes;
        let column = panel * PANEL;
        let out = self.out.first.wrapping_add(rows.start * self.out.pitch + column);
        let out = Rows { first: out, ..self.out };
        let first = self.packed.wrapping_add((panel * k + depth.start) * PANEL);
        let right = Rows { first, pitch: PANEL };
        let (rows, columns) = (rows.len(), PANEL);
        let shape = Shape { rows, columns, depth: depth.len(), add: self.add || depth.start > 0 };
        // The next panel at the same depth; of the last panel, what comes after it in memory.
        let ahead = Some(first.wrapping_add(k * PANEL)).filter(|_| rows > 1);
        // SAFETY: rows, columns and depth are inside the matrices, and these elements of the result are of this call alone.
        unsafe {
            match n - column {
                PANEL.. => product_with_prefetch(shape, a, right, out, ahead),
                width => edge(shape, a, right, out, width),
            }
        }
    }

    /// Computes the epilogue of some rows of some panels, if this depth was the last.
    fn finish(&self, rows: Range<usize>, panels: Range<usize>, depth: &Range<usize>) {
        let [_, n, k] = self.sizes;
        let (out, Some(epilogue)) = self.target else { return };
        if depth.end < k {
            return;
        }
        let (first, end) = (panels.start * PANEL, (panels.end * PANEL).min(n));
        let block = Block {
            first: rows.start * self.out.pitch + first,
            rows: rows.len(),
            pitch: self.out.pitch,
            length: end - first,
        };
        // SAFETY: rows and panels that are computed, of this call alone.
        unsafe { epilogue.apply(&out, block) };
    }
}

/// As [`product`], of the last panel, of which the result has only `width` columns.
///
/// # Safety
/// As of [`product`], where the result has as many columns.
unsafe fn edge(shape: Shape, a: Left, b: Rows<*const f32>, out: Rows<*mut f32>, width: usize) {
    let mut sums = [0.0f32; EDGE_ROWS * PANEL];
    for first in (0..shape.rows).step_by(EDGE_ROWS) {
        let rows = (shape.rows - first).min(EDGE_ROWS);
        // SAFETY: as the caller guarantees; the sums have room for these rows.
        unsafe {
            let a = Left { first: a.first.offset(first as isize * a.row), ..a };
            let target = out.first.add(first * out.pitch);
            let first_sum = sums.as_mut_ptr();
            if shape.add {
                for row in 0..rows {
                    let from = target.add(row * out.pitch);
                    std::ptr::copy_nonoverlapping(from, first_sum.add(row * PANEL), width);
                }
            }
            product(Shape { rows, ..shape }, a, b, Rows { first: first_sum, pitch: PANEL });
            for row in 0..rows {
                let to = target.add(row * out.pitch);
                std::ptr::copy_nonoverlapping(first_sum.add(row * PANEL), to, width);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::epilogue::{Function, Pattern, Source, Stage, Stages};
    use crate::parallel::SingleThread;
    use std::cell::Cell;

    fn cells(values: &mut [f32]) -> &[Cell<u8>] {
        let length = values.len() * 4;
        // SAFETY: the same memory as bytes, borrowed as long.
        unsafe { std::slice::from_raw_parts(values.as_mut_ptr().cast::<Cell<u8>>(), length) }
    }

    struct Threads(usize);

    impl Parallel for Threads {
        fn width(&self) -> usize {
            self.0
        }

        fn run(&self, parts: usize, body: &(dyn Fn(usize) + Sync)) {
            std::thread::scope(|scope| {
                for part in 0..parts {
                    scope.spawn(move || body(part));
                }
            });
        }
    }

    /// Small whole numbers, whose sums are exact in any order.
    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|at| ((at * 7 + seed * 5) % 11) as f32 - 5.0).collect()
    }

    #[test]
    fn packed_products_are_those_of_naive_loops() {
        for k in [1, 3, 64, 511, 512, 513, 1024, 1100] {
            for n in [2, 15, 16, 17, 31, 32, 33, 63, 64, 70] {
                for m in [1, 2, 3, 5, 11, 12, 13, 25, 29, 241] {
                    if k * n >= MIN_ELEMENTS && m * n * k < 1 << 22 {
                        check(m, n, k, m % 2 == 0, n % 2 == 0, (m + n) % 3 == 0);
                    }
                }
            }
        }
    }

    fn check(m: usize, n: usize, k: usize, transposes_a: bool, transposes_b: bool, add: bool) {
        let matrix = |rows: usize, columns: usize, transposes: bool| match transposes {
            false => Layout::contiguous(DType::Float, &[rows, columns]),
            true => Layout::contiguous(DType::Float, &[columns, rows]).transposed(0, 1),
        };
        let (a_layout, b_layout) = (matrix(m, k, transposes_a), matrix(k, n, transposes_b));
        let out_layout = Layout::contiguous(DType::Float, &[m, n]);
        let (mut a, mut b) = (numbers(m * k, 1), numbers(k * n, 2));
        let started = numbers(m * n, 3);
        let task = PackedProduct::new(&out_layout, &a_layout, &b_layout).expect("it can be packed");
        let mut packed = vec![f32::NAN; task.packed_size()];
        let packed_layout = Layout::contiguous(DType::Float, &[packed.len()]);
        let of = |layout: &Layout, row: usize, column: usize| {
            (row as isize * layout.strides()[0] + column as isize * layout.strides()[1]) as usize
        };
        let expected: Vec<f32> = (0..m * n)
            .map(|at| {
                let (row, column) = (at / n, at % n);
                let products =
                    (0..k).map(|d| a[of(&a_layout, row, d)] * b[of(&b_layout, d, column)]);
                products.sum::<f32>() + if add { started[at] } else { 0.0 }
            })
            .collect();
        let right = View::over(cells(&mut b), task.b).expect("it fits");
        let packed_cells = cells(&mut packed);
        let into = ViewMut::over(packed_cells, packed_layout).expect("it fits");
        task.pack(&Threads(2), right, into);
        let left = View::over(cells(&mut a), task.a).expect("it fits");
        for threads in [1, 3] {
            let mut out = started.clone();
            if !add {
                out.fill(f32::NAN);
            }
            let target = ViewMut::over(cells(&mut out), task.out).expect("it fits");
            task.multiply(&Threads(threads), target, left, into.view(), (add, None));
            assert_eq!(out, expected, "{m}x{n}x{k} on {threads} threads");
        }
        check_epilogue(&task, left, into.view(), (started.clone(), add), &expected);
        let mut out = started.clone();
        let target = ViewMut::over(cells(&mut out), task.out).expect("it fits");
        task.multiply_unaligned(&target, &left, &into.view(), add);
        assert_eq!(out, expected, "{m}x{n}x{k} at any address");
    }

    /// A product whose results are added to a row of numbers, and negative ones set to zero.
    fn check_epilogue(
        task: &PackedProduct,
        left: View<'_>,
        packed: View<'_>,
        (mut out, add): (Vec<f32>, bool),
        products: &[f32],
    ) {
        let n = task.out.dims()[1];
        let mut row = numbers(n, 4);
        let expected: Vec<f32> =
            products.iter().enumerate().map(|(at, one)| (one + row[at % n]).max(0.0)).collect();
        let added = Source::Operand(0, Pattern { inner: 1, count: n });
        let stages = Stages::new(vec![
            Stage { function: Function::Add, inputs: vec![Source::Value(0), added] },
            Stage { function: Function::Relu, inputs: vec![Source::Value(1)] },
        ]);
        let row_layout = Layout::contiguous(DType::Float, &[n]);
        let operands = [View::over(cells(&mut row), row_layout).expect("it fits")];
        let stages = stages.expect("few values");
        let epilogue = Epilogue::new(&stages, &operands);
        let target = ViewMut::over(cells(&mut out), task.out).expect("it fits");
        task.multiply(&Threads(2), target, left, packed, (add, Some(&epilogue)));
        assert_eq!(out, expected, "{n} columns");
    }

    #[test]
    fn batches_that_share_a_right_side_are_rows() {
        let out = Layout::contiguous(DType::Float, &[2, 3, 64]);
        let a = Layout::contiguous(DType::Float, &[2, 3, 64]);
        let b = Layout::contiguous(DType::Float, &[64, 64]).broadcast_to(&[2, 64, 64]).unwrap();
        let task = PackedProduct::new(&out, &a, &b).expect("it can be packed");
        assert_eq!(task.out.dims(), [6, 64]);
        let each = Layout::contiguous(DType::Float, &[2, 64, 64]);
        assert!(PackedProduct::new(&out, &a, &each).is_none(), "a right side for each batch");
        let small = Layout::contiguous(DType::Float, &[8, 8]);
        assert!(PackedProduct::new(&small, &small, &small).is_none(), "too small to pay");
    }

    #[test]
    fn multiplying_packs_nothing() {
        let layout = Layout::contiguous(DType::Float, &[64, 64]);
        let task = PackedProduct::new(&layout, &layout, &layout).expect("it can be packed");
        let (mut a, mut b, mut out) = (numbers(4096, 1), numbers(4096, 2), vec![0.0; 4096]);
        let mut packed = vec![0.0; task.packed_size()];
        let into = ViewMut::over(cells(&mut packed), Layout::contiguous(DType::Float, &[4096]));
        let into = into.expect("it fits");
        task.pack(&SingleThread, View::over(cells(&mut b), layout).expect("it fits"), into);
        b.fill(f32::NAN);
        let left = View::over(cells(&mut a), layout).expect("it fits");
        let target = ViewMut::over(cells(&mut out), layout).expect("it fits");
        task.multiply(&SingleThread, target, left, into.view(), (false, None));
        assert!(out.iter().all(|one| one.is_finite()), "the right side itself is not read");
    }
}
