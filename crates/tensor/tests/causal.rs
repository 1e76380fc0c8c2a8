//! Causal convolutions and their gradients, against plain loops.

use cairn_tensor::kernels::causal::{forward, grad_of_sequence, grad_of_weights};
use cairn_tensor::parallel::SingleThread;
use cairn_tensor::{DType, Layout, View, ViewMut};
use proptest::prelude::*;
use std::cell::Cell;

/// The bytes of the values, as views share them.
fn cells(values: &[f32]) -> Vec<Cell<u8>> {
    values.iter().flat_map(|x| x.to_ne_bytes()).map(Cell::new).collect()
}

/// The values that the bytes hold.
fn values(cells: &[Cell<u8>]) -> Vec<f32> {
    let bytes: Vec<u8> = cells.iter().map(Cell::get).collect();
    bytes.chunks_exact(4).map(|four| f32::from_ne_bytes(four.try_into().unwrap())).collect()
}

fn layout(dims: &[usize]) -> Layout {
    Layout::contiguous(DType::Float, dims)
}

proptest! {
    #[test]
    fn sums_are_those_of_a_plain_loop(
        steps in 1usize..7,
        batches in 1usize..4,
        channels in 1usize..80,
        taps in 1usize..5,
        masked in any::<bool>(),
        seed in any::<u32>(),
    ) {
        let number = |at: usize| ((at as u32).wrapping_mul(2_654_435_761).wrapping_add(seed) >> 20) as f32 / 2048.0 - 1.0;
        let count = steps * batches * channels;
        let x: Vec<f32> = (0..count).map(number).collect();
        let grad: Vec<f32> = (0..count).map(|at| number(at + 7919)).collect();
        let weights: Vec<f32> = (0..taps * channels).map(|at| number(at + 104_729)).collect();
        let mask: Vec<Cell<u8>> =
            (0..batches * steps).map(|at| Cell::new(u8::from(!masked || number(at + 31) > 0.0))).collect();
        let flags = masked.then(|| {
            View::over(&mask, Layout::contiguous(DType::Bool, &[batches, steps])).unwrap()
        });
        let (mut want, mut dx, mut dw) =
            (vec![0f64; count], vec![0f64; count], vec![0f64; taps * channels]);
        for s in 0..steps {
            for b in (0..batches).filter(|b| mask[b * steps + s].get() != 0) {
                for k in (0..taps).filter(|k| s + k + 1 >= taps) {
                    for h in 0..channels {
                        let to = (s * batches + b) * channels + h;
                        let from = ((s + k + 1 - taps) * batches + b) * channels + h;
                        want[to] += f64::from(weights[k * channels + h] * x[from]);
                        dx[from] += f64::from(weights[k * channels + h] * grad[to]);
                        dw[k * channels + h] += f64::from(x[from] * grad[to]);
                    }
                }
            }
        }
        let dims = [steps, batches, channels];
        let (x, grad, weights) = (cells(&x), cells(&grad), cells(&weights));
        let view = |cells| View::over(cells, layout(&dims)).unwrap();
        let taps_view = View::over(&weights, layout(&[taps, channels])).unwrap();
        let check = |have: Vec<f32>, want: &[f64]| {
            have.iter().zip(want).all(|(have, want)| (f64::from(*have) - want).abs() < 1e-4)
        };
        let out = cells(&vec![f32::NAN; count]);
        forward(&SingleThread, ViewMut::over(&out, layout(&dims)).unwrap(), view(&x), taps_view, flags);
        prop_assert!(check(values(&out), &want));
        grad_of_sequence(&SingleThread, ViewMut::over(&out, layout(&dims)).unwrap(), view(&grad), taps_view, flags);
        prop_assert!(check(values(&out), &dx));
        let out = cells(&vec![f32::NAN; taps * channels]);
        let to = ViewMut::over(&out, layout(&[taps, channels])).unwrap();
        grad_of_weights(&SingleThread, to, view(&x), view(&grad), flags);
        prop_assert!(check(values(&out), &dw));
    }
}
