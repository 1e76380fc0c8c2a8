//! Packed elements against a plain loop: aligned or not, apart from the results or the results themselves, of the type
//! that is computed in or of another.

use cairn_tensor::DType;
use cairn_tensor::kernels::elementwise::{ElementwiseArgs, Packed};
use proptest::prelude::*;
use std::cell::Cell;

const LONGEST: usize = Packed::<2>::LONGEST;

/// These bytes after `start` others, so that they need not be aligned.
fn bytes_after(bytes: impl IntoIterator<Item = u8>, start: usize) -> Vec<Cell<u8>> {
    std::iter::repeat_n(0, start).chain(bytes).map(Cell::new).collect()
}

fn floats(cells: &[Cell<u8>]) -> Vec<f32> {
    let bytes: Vec<u8> = cells.iter().map(Cell::get).collect();
    bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
}

proptest! {
    #[test]
    fn packed_floats(
        pairs in prop::collection::vec((-9i16..9, -9i16..9), 1..=LONGEST),
        starts in [0usize..9, 0usize..9, 0usize..9],
        target_index in 0usize..3,
    ) {
        let count = pairs.len();
        let column = |pick: fn(&(i16, i16)) -> i16| {
            pairs.iter().flat_map(move |pair| f32::from(pick(pair)).to_le_bytes()).collect::<Vec<_>>()
        };
        let a = bytes_after(column(|pair| pair.0), starts[0]);
        let b = bytes_after(column(|pair| pair.1), starts[1]);
        let out = bytes_after(vec![0xA5; 4 * count + 4], starts[2]);
        let (a, b, out) = (&a[starts[0]..], &b[starts[1]..], &out[starts[2]..]);
        let target = match target_index { 0 => out, 1 => a, _ => b };
        let inputs = [(a, DType::Float), (b, DType::Float)];
        let packed = Packed { count, out: (&target[..4 * count], DType::Float), inputs };
        ElementwiseArgs::Strip(packed).map::<f32, f32, f32>(|x, y| x * 2.0 - y);
        let expected: Vec<f32> = pairs.iter().map(|(x, y)| f32::from(*x) * 2.0 - f32::from(*y)).collect();
        prop_assert_eq!(&floats(target)[..count], &expected[..]);
        let after = &out[4 * count..4 * count + 4];
        prop_assert!(after.iter().all(|byte| byte.get() == 0xA5));
    }

    #[test]
    fn packed_elements_of_other_types(numbers in prop::collection::vec(any::<i32>(), 1..=LONGEST)) {
        let count = numbers.len();
        let a = bytes_after(numbers.iter().flat_map(|one| one.to_le_bytes()), 0);
        let out = bytes_after(vec![7; count], 0);
        let packed = |inputs| Packed { count, out: (&out[..], DType::Bool), inputs };
        ElementwiseArgs::Strip(packed([(&a[..], DType::Int32)])).map::<i64, bool>(|x| x > 0);
        let found: Vec<bool> = out.iter().map(|byte| byte.get() == 1).collect();
        prop_assert_eq!(found, numbers.iter().map(|one| *one > 0).collect::<Vec<_>>());

        let bytes = bytes_after(numbers.iter().map(|one| *one as u8), 0);
        ElementwiseArgs::Strip(packed([(&bytes[..], DType::Bool)])).map::<bool, bool>(|x| !x);
        let found: Vec<u8> = out.iter().map(Cell::get).collect();
        prop_assert_eq!(found, numbers.iter().map(|one| u8::from(*one as u8 == 0)).collect::<Vec<_>>());
    }
}

/// Fewer bytes than elements are a mistake of the caller; nothing is touched past them.
#[test]
#[should_panic(expected = "packed elements fill their bytes")]
fn elements_that_are_not_there() {
    let (a, out) = (bytes_after([0; 16], 0), bytes_after([0; 12], 0));
    let packed =
        Packed { count: 4, out: (&out[..], DType::Float), inputs: [(&a[..], DType::Float)] };
    ElementwiseArgs::Strip(packed).map::<f32, f32>(|x| x);
}
