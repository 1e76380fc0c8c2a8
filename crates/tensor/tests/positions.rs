//! Resizing, windows of channels, groups, coordinates and flat indices, against plain loops.

use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::distinct::Groups;
use cairn_tensor::kernels::gather::gather;
use cairn_tensor::kernels::indexed::{Coordinate, IndexedView, combine};
use cairn_tensor::kernels::local_norm::{LocalNorm, local_norm};
use cairn_tensor::kernels::pool::flatten_indices;
use cairn_tensor::kernels::resize::{Coordinates, Method, NearestMode, Resize};
use cairn_tensor::kernels::taps::{Divisor, Rule, Taps};
use cairn_tensor::parallel::{Parallel, SingleThread};
use cairn_tensor::{DType, Layout, View, ViewMut};
use proptest::prelude::*;
use std::cell::Cell;

/// Four parts at once, on one thread, the last first.
struct ReverseOrder;

impl Parallel for ReverseOrder {
    fn width(&self) -> usize {
        4
    }

    fn run(&self, parts: usize, body: &(dyn Fn(usize) + Sync)) {
        (0..parts).rev().for_each(body);
    }
}

/// Memory that is aligned for every type.
struct AlignedMemory(Vec<Cell<u64>>);

impl AlignedMemory {
    fn new(bytes: usize) -> AlignedMemory {
        AlignedMemory(vec![Cell::new(0); bytes.div_ceil(8) + 1])
    }

    fn of<const N: usize>(values: impl IntoIterator<Item = [u8; N]>) -> AlignedMemory {
        let bytes: Vec<u8> = values.into_iter().flatten().collect();
        let memory = AlignedMemory::new(bytes.len());
        memory.bytes().iter().zip(bytes).for_each(|(cell, byte)| cell.set(byte));
        memory
    }

    fn floats(values: &[f32]) -> AlignedMemory {
        AlignedMemory::of(values.iter().map(|value| value.to_le_bytes()))
    }

    fn ints(values: &[i64]) -> AlignedMemory {
        AlignedMemory::of(values.iter().map(|value| value.to_le_bytes()))
    }

    fn bytes(&self) -> &[Cell<u8>] {
        // SAFETY: eight cells of a byte in place of each cell of eight, for as long.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() * 8) }
    }

    fn read<const N: usize>(&self, at: usize) -> [u8; N] {
        std::array::from_fn(|i| self.bytes()[at * N + i].get())
    }

    fn float(&self, at: usize) -> f32 {
        f32::from_le_bytes(self.read(at))
    }

    fn int(&self, at: usize) -> i64 {
        i64::from_le_bytes(self.read(at))
    }
}

fn coordinates() -> impl Strategy<Value = Coordinates> {
    prop_oneof![
        Just(Coordinates::HalfPixel),
        Just(Coordinates::HalfPixelSymmetric),
        Just(Coordinates::PytorchHalfPixel),
        Just(Coordinates::AlignCorners),
        Just(Coordinates::Asymmetric),
        (0.0f64..0.5, 0.5f64..1.0).prop_map(|(start, end)| Coordinates::Crop(start, end)),
    ]
}

/// The value of a line at a position between its elements, which repeats its ends.
fn interpolated(line: &[f64], position: f64, steepness: Option<f64>) -> f64 {
    let element = |at: f64| line[at.clamp(0.0, line.len() as f64 - 1.0) as usize];
    let (first, part) = (position.floor(), position - position.floor());
    let Some(a) = steepness else {
        return element(first) * (1.0 - part) + element(first + 1.0) * part;
    };
    let near = |x: f64| (a + 2.0) * x.powi(3) - (a + 3.0) * x.powi(2) + 1.0;
    let far = |x: f64| a * x.powi(3) - 5.0 * a * x.powi(2) + 8.0 * a * x - 4.0 * a;
    element(first - 1.0) * far(1.0 + part)
        + element(first) * near(part)
        + element(first + 1.0) * near(1.0 - part)
        + element(first + 2.0) * far(2.0 - part)
}

proptest! {
    #[test]
    fn resized_lines_are_interpolated(
        coordinates in coordinates(),
        line in prop::collection::vec(-4.0f64..4.0, 1..9),
        output in 1usize..20,
        cubic in any::<bool>(),
        steepness in -1.0f64..-0.3,
    ) {
        let input = line.len();
        let method = if cubic { Method::Cubic(steepness) } else { Method::Linear };
        let scale = output as f64 / input as f64;
        let resize = Resize { coordinates, method, scale, antialias: false, exclude_outside: false };
        for at in 0..output {
            let mut sum = 0.0;
            resize.each(at, input, output, |source, weight| sum += line[source] * weight);
            let position = resize.position(at, input, output);
            let expected = interpolated(&line, position, cubic.then_some(steepness));
            prop_assert!((sum - expected).abs() < 1e-9, "{at} at {position}: {sum}, expected {expected}");
        }
    }

    #[test]
    fn weights_are_a_share_of_one(
        coordinates in coordinates(),
        input in 1usize..30,
        output in 1usize..30,
        cubic in any::<bool>(),
        antialias in any::<bool>(),
        exclude_outside in any::<bool>(),
    ) {
        let method = if cubic { Method::Cubic(-0.75) } else { Method::Linear };
        let scale = output as f64 / input as f64;
        let resize = Resize { coordinates, method, scale, antialias, exclude_outside };
        for at in 0..output {
            let mut total = 0.0;
            resize.each(at, input, output, |source, weight| {
                assert!(source < input);
                total += weight;
            });
            prop_assert!((total - 1.0).abs() < 1e-9, "{at}: {total}");
        }
    }

    #[test]
    fn channels_are_divided_by_their_neighbours(
        sizes in (1usize..3, 1usize..8, 1usize..600),
        below in 0usize..4,
        above in 0usize..4,
        turned in any::<bool>(),
        seed in any::<u32>(),
    ) {
        let (n, c, length) = sizes;
        let count = n * c * length;
        let value = |at: usize| ((at as u32).wrapping_mul(2_654_435_761).wrapping_add(seed) % 97) as f32 / 16.0 - 3.0;
        let values: Vec<f32> = (0..count).map(value).collect();
        let (from, to) = (AlignedMemory::floats(&values), AlignedMemory::new(count * 4));
        let layout = match turned {
            true => Layout::contiguous(DType::Float, &[n, length, c]).transposed(1, 2),
            false => Layout::contiguous(DType::Float, &[n, c, length]),
        };
        let norm = LocalNorm { below, above, alpha: 0.5f32, bias: 1.5, beta: 0.75 };
        let a = View::over(from.bytes(), layout).unwrap();
        local_norm(&ReverseOrder, ViewMut::over(to.bytes(), layout).unwrap(), a, norm);
        let at = |s: usize, channel: usize, i: usize| match turned {
            true => (s * length + i) * c + channel,
            false => (s * c + channel) * length + i,
        };
        for s in 0..n {
            for channel in 0..c {
                for i in 0..length {
                    let window = channel.saturating_sub(below)..(channel + above + 1).min(c);
                    let sum: f32 = window.map(|other| values[at(s, other, i)].powi(2)).sum();
                    let expected = values[at(s, channel, i)] / (1.5 + 0.5 * sum).powf(0.75);
                    let made = to.float(at(s, channel, i));
                    prop_assert!((made - expected).abs() <= 1e-5 * expected.abs() + 1e-6, "{made}, expected {expected}");
                }
            }
        }
    }

    #[test]
    fn dilated_windows_average_their_positions(
        window in (1usize..5, 1usize..4, 1usize..4),
        padding in (0usize..4, 0usize..4),
        input in 1usize..12,
        padded in any::<bool>(),
    ) {
        let ((kernel, stride, dilation), (before, after)) = (window, padding);
        let span = (kernel - 1) * dilation + 1;
        prop_assume!(input + before + after >= span);
        let divisor = if padded { Divisor::Padded } else { Divisor::Inside };
        let rule = Rule::Windows { kernel, stride, before, after, dilation, divisor };
        // One window more, as when sizes are rounded up.
        let output = (input + before + after - span) / stride + 2;
        let taps = Taps { rule, input, output };
        for at in 0..output {
            let positions = (0..kernel).map(|tap| (at * stride + tap * dilation) as i64 - before as i64);
            let inside: Vec<usize> = positions.clone().filter(|p| *p >= 0 && *p < input as i64).map(|p| p as usize).collect();
            let mut visited = Vec::new();
            taps.each(at, |source, weight| {
                assert!(weight == 1.0);
                visited.push(source);
            });
            prop_assert_eq!(&visited, &inside);
            let counted = if padded { positions.filter(|p| *p < (input + after) as i64).count() } else { inside.len() };
            let expected = if inside.is_empty() { 0.0 } else { counted as f64 };
            prop_assert_eq!(taps.divisor(at), expected);
        }
    }

    #[test]
    fn indices_of_planes_become_those_of_the_tensor(
        planes in (1usize..3, 1usize..4),
        sizes in (1usize..4, 1usize..4, 1usize..5),
        by_columns in any::<bool>(),
    ) {
        let ((n, c), (d, h, w)) = (planes, sizes);
        let each = d * h * w;
        let places: Vec<i64> = (0..n * c * each).map(|at| ((at * 7) % each) as i64).collect();
        let index = AlignedMemory::ints(&places);
        let layout = Layout::contiguous(DType::Int64, &[n, c, d, h, w]);
        flatten_indices(&ReverseOrder, ViewMut::over(index.bytes(), layout).unwrap(), [d, h, w], by_columns);
        for (at, place) in places.iter().enumerate() {
            let place = *place as usize;
            let (x, y, z) = (place % w, place / w % h, place / w / h);
            let inner = if by_columns { (x * h + y) * d + z } else { place };
            prop_assert_eq!(index.int(at), (at / each * each + inner) as i64);
        }
    }

    #[test]
    fn groups_are_counted_and_numbered_as_they_come(
        numbers in prop::collection::vec(0i64..5, 1..40),
        in_order in any::<bool>(),
    ) {
        let mut known: Vec<i64> = numbers.clone();
        known.sort_unstable();
        known.dedup();
        let dense: Vec<i64> = numbers.iter().map(|one| known.iter().position(|k| k == one).unwrap() as i64).collect();
        let (count, total) = (dense.len(), known.len());
        let inverse = AlignedMemory::ints(&dense);
        let [firsts, counts, scratch] = [0; 3].map(|_| AlignedMemory::new(count * 8));
        let view = |memory: &AlignedMemory| -> ViewMut<'static> {
            let layout = Layout::contiguous(DType::Int64, &[count]);
            // SAFETY: the memory is there until the end of the test.
            let bytes = unsafe { std::slice::from_raw_parts(memory.bytes().as_ptr(), memory.bytes().len()) };
            ViewMut::over(bytes, layout).unwrap()
        };
        let groups = Groups { inverse: view(&inverse), firsts: view(&firsts), counts: view(&counts) };
        prop_assert!(groups.count(total, in_order.then(|| view(&scratch))).is_ok());
        let mut order: Vec<i64> = (0..total as i64).collect();
        if in_order {
            order.sort_by_key(|group| dense.iter().position(|one| one == group));
        }
        for (number, group) in order.iter().enumerate() {
            prop_assert_eq!(firsts.int(number), dense.iter().position(|one| one == group).unwrap() as i64);
            prop_assert_eq!(counts.int(number), dense.iter().filter(|one| *one == group).count() as i64);
        }
        for (at, group) in dense.iter().enumerate() {
            prop_assert_eq!(order[inverse.int(at) as usize], *group);
        }
    }

    #[test]
    fn coordinates_lead_into_each_batch(
        sizes in (1usize..4, 1usize..5, 1usize..4, 1usize..4),
        places in 1usize..6,
        wraps in any::<bool>(),
        seed in any::<u32>(),
    ) {
        let (batch, rows, columns, rest) = sizes;
        let values: Vec<f32> = (0..batch * rows * columns * rest).map(|at| at as f32).collect();
        let pick = |at: usize, size: usize| {
            let number = (seed.wrapping_add(at as u32).wrapping_mul(2_654_435_761) >> 8) as usize;
            let index = (number % size) as i64;
            if wraps && number.is_multiple_of(3) { index - size as i64 } else { index }
        };
        let index: Vec<i64> = (0..batch * places * 2)
            .map(|at| pick(at, if at % 2 == 0 { rows } else { columns }))
            .collect();
        let (from, named) = (AlignedMemory::floats(&values), AlignedMemory::ints(&index));
        let offsets = AlignedMemory::new(batch * places * 8);
        let to = AlignedMemory::new(batch * places * rest * 4);
        let a = View::over(from.bytes(), Layout::contiguous(DType::Float, &[batch, rows, columns, rest])).unwrap();
        let named = View::over(named.bytes(), Layout::contiguous(DType::Int64, &[batch, places, 2])).unwrap();
        let offsets = ViewMut::over(offsets.bytes(), Layout::contiguous(DType::Int64, &[batch, places])).unwrap();
        let coordinates: Vec<Coordinate<'_>> = (0..2)
            .map(|at| Coordinate {
                index: named.with_layout(named.layout().at(2, at)).unwrap(),
                size: a.dims()[1 + at],
                stride: a.strides()[1 + at],
                wraps,
            })
            .collect();
        prop_assert!(combine(&SingleThread, offsets, &coordinates).is_ok());
        let source = IndexedView::combined_in_batches(a, 1, 2, offsets.view());
        let out = ViewMut::over(to.bytes(), Layout::contiguous(DType::Float, &[batch, places, rest])).unwrap();
        prop_assert!(gather(&ReverseOrder, out, &source, offsets.view()).is_ok());
        for b in 0..batch {
            for place in 0..places {
                let wrapped = |at: usize, size: usize| {
                    let index = index[(b * places + place) * 2 + at];
                    (if index < 0 { index + size as i64 } else { index }) as usize
                };
                let (row, column) = (wrapped(0, rows), wrapped(1, columns));
                for i in 0..rest {
                    let expected = values[((b * rows + row) * columns + column) * rest + i];
                    prop_assert_eq!(to.float((b * places + place) * rest + i), expected);
                }
            }
        }
    }
}

#[test]
fn a_negative_coordinate_is_out_of_range_unless_it_wraps() {
    let named = AlignedMemory::ints(&[0, -1]);
    let index = View::over(named.bytes(), Layout::contiguous(DType::Int64, &[2])).unwrap();
    let offsets = AlignedMemory::new(16);
    let offsets = ViewMut::over(offsets.bytes(), index.layout().packed()).unwrap();
    let one = |wraps| [Coordinate { index, size: 3, stride: 1, wraps }];
    assert!(combine(&SingleThread, offsets, &one(true)).is_ok());
    let bad = combine(&SingleThread, offsets, &one(false)).unwrap_err();
    assert_eq!((bad.value, bad.valid), (-1, (0, 2)));
}

#[test]
fn the_nearest_is_as_asked() {
    let of = |mode, coordinates, input: usize, output: usize| -> Vec<usize> {
        let (method, scale) = (Method::Nearest(mode), output as f64 / input as f64);
        let resize =
            Resize { coordinates, method, scale, antialias: false, exclude_outside: false };
        (0..output).map(|at| resize.source(at, input, output).unwrap()).collect()
    };
    use NearestMode::*;
    let half = Coordinates::HalfPixel;
    assert_eq!(of(RoundPreferFloor, Coordinates::Asymmetric, 2, 4), [0, 0, 1, 1]);
    assert_eq!(of(RoundPreferCeil, Coordinates::Asymmetric, 2, 4), [0, 1, 1, 1]);
    assert_eq!(of(Floor, half, 2, 4), [0, 0, 0, 1]);
    assert_eq!(of(Ceil, half, 2, 4), [0, 1, 1, 1]);
    assert_eq!(of(RoundPreferFloor, Coordinates::AlignCorners, 4, 2), [0, 3]);
}

#[test]
fn wide_unsigned_integers_convert_exactly() {
    let values = [0u64, 1, u64::MAX, 1 << 63, 12345];
    let from = AlignedMemory::of(values.map(u64::to_le_bytes));
    let a = View::over(from.bytes(), Layout::contiguous(DType::Uint64, &[5])).unwrap();
    let to = AlignedMemory::new(40);
    copy(&SingleThread, ViewMut::over(to.bytes(), a.with_dtype(DType::Double)).unwrap(), a);
    for (at, value) in values.iter().enumerate() {
        assert_eq!(f64::from_le_bytes(to.read(at)), *value as f64);
    }
    let reals = AlignedMemory::of([0.5f64, 3e18, 1e19, 1.8e19, 65535.0].map(f64::to_le_bytes));
    let a = View::over(reals.bytes(), Layout::contiguous(DType::Double, &[5])).unwrap();
    copy(&SingleThread, ViewMut::over(to.bytes(), a.with_dtype(DType::Uint64)).unwrap(), a);
    let made: Vec<u64> = (0..5).map(|at| u64::from_le_bytes(to.read(at))).collect();
    assert_eq!(
        made,
        [
            0,
            3_000_000_000_000_000_000,
            10_000_000_000_000_000_000,
            18_000_000_000_000_000_000,
            65535
        ]
    );
    copy(
        &SingleThread,
        ViewMut::over(to.bytes(), Layout::contiguous(DType::Uint16, &[5])).unwrap(),
        a,
    );
    assert_eq!(u16::from_le_bytes(to.read(4)), 65535);
}
