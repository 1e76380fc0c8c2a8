//! Samples at moved positions: without offsets they are the taps of a plain convolution; the gradients are those of the values.

use cairn_tensor::kernels::deform::DeformableWindows;
use cairn_tensor::parallel::SingleThread;
use cairn_tensor::{DType, Layout, View, ViewMut};
use proptest::prelude::*;
use std::cell::Cell;

/// A tensor of `f32`.
struct Tensor {
    bytes: Vec<Cell<u8>>,
    layout: Layout,
}

impl Tensor {
    fn new(dims: &[usize], value: impl Fn(usize) -> f32) -> Tensor {
        let layout = Layout::contiguous(DType::Float, dims);
        let bytes = (0..layout.count()).flat_map(|at| value(at).to_le_bytes()).map(Cell::new);
        Tensor { bytes: bytes.collect(), layout }
    }

    fn view(&self) -> View<'_> {
        View::over(&self.bytes, self.layout).unwrap()
    }

    fn out(&self) -> ViewMut<'_> {
        ViewMut::over(&self.bytes, self.layout).unwrap()
    }

    fn values(&self) -> Vec<f32> {
        let bytes: Vec<u8> = self.bytes.iter().map(Cell::get).collect();
        bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
    }
}

/// Numbers from -1 to 1 that look random.
fn noise(seed: usize) -> impl Fn(usize) -> f32 {
    move |at| {
        (((at + seed) as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 23) as f32 - 1.0
    }
}

fn sum_of_products(a: &Tensor, b: &Tensor) -> f64 {
    a.values().iter().zip(b.values()).map(|(a, b)| f64::from(*a) * f64::from(b)).sum()
}

/// A shape, with sizes of images, offsets and samples.
fn sizes(deformable: &DeformableWindows, channels: usize) -> [[usize; 4]; 3] {
    let DeformableWindows { taps, groups, image, positions, .. } = *deformable;
    [
        [2, channels, image[0], image[1]],
        [2, 3 * groups * taps[0] * taps[1], positions[0], positions[1]],
        [2, channels, positions[0] * taps[0], positions[1] * taps[1]],
    ]
}

fn shapes() -> impl Strategy<Value = DeformableWindows> {
    let pair = |range: std::ops::Range<usize>| [range.clone(), range];
    (pair(1..4), pair(1..3), pair(1..3), pair(0..3), 1usize..3, pair(3..7)).prop_map(
        |(taps, stride, dilation, padding, groups, image)| {
            let positions = [0, 1].map(|i| {
                let room =
                    (image[i] + 2 * padding[i]).saturating_sub((taps[i] - 1) * dilation[i] + 1);
                room / stride[i] + 1
            });
            DeformableWindows { taps, stride, dilation, padding, groups, image, positions }
        },
    )
}

proptest! {
    #[test]
    fn without_offsets_samples_are_taps(deformable in shapes(), seed in 0usize..1000) {
        let [images, offsets, samples] = sizes(&deformable, 4);
        let DeformableWindows { taps, stride, dilation, padding, groups, image, positions } = deformable;
        let kind_size = groups * taps[0] * taps[1] * positions[0] * positions[1];
        let x = Tensor::new(&images, noise(seed));
        let zero_offsets = Tensor::new(&offsets, |at| if at / kind_size % 3 == 2 { 2.0 } else { 0.0 });
        let out = Tensor::new(&samples, |_| 9.0);
        deformable.forward(&SingleThread, out.out(), x.view(), zero_offsets.view());
        let (x, out) = (x.values(), out.values());
        for (at, found) in out.iter().enumerate() {
            let (row, column) = (at / samples[3] % samples[2], at % samples[3]);
            let from = [(row, 0), (column, 1)].map(|(one, i)| {
                (one / taps[i] * stride[i] + one % taps[i] * dilation[i]).checked_sub(padding[i])
            });
            let plane = at / samples[3] / samples[2];
            let expected = match from {
                [Some(r), Some(c)] if r < image[0] && c < image[1] => {
                    2.0 * x[(plane * image[0] + r) * image[1] + c]
                }
                _ => 0.0,
            };
            prop_assert_eq!(*found, expected);
        }
    }

    #[test]
    fn gradients_are_those_of_the_values(deformable in shapes(), seed in 0usize..1000) {
        let [images, offsets, samples] = sizes(&deformable, 4);
        // Offsets that stay away from integers, where the derivative jumps.
        let offset_value = |step: f32| move |at: usize| {
            let value = noise(seed + 7)(at);
            (value * 3.0).trunc() + 0.25 + 0.4 * value.abs() + step * noise(seed + 11)(at)
        };
        let x = Tensor::new(&images, noise(seed));
        let grads = Tensor::new(&samples, noise(seed + 3));
        let offset_tensor = Tensor::new(&offsets, offset_value(0.0));
        let sampled = Tensor::new(&samples, |_| 0.0);
        deformable.forward(&SingleThread, sampled.out(), x.view(), offset_tensor.view());
        let dx = Tensor::new(&images, |_| 0.0);
        deformable.add_grad_of_images(&SingleThread, dx.out(), grads.view(), offset_tensor.view());
        let (one, other) = (sum_of_products(&sampled, &grads), sum_of_products(&x, &dx));
        prop_assert!((one - other).abs() < 1e-4 * (1.0 + one.abs()), "{one} {other}");

        let doffset = Tensor::new(&offsets, |_| 9.0);
        deformable.grad_of_offsets(&SingleThread, doffset.out(), grads.view(), (x.view(), offset_tensor.view()));
        let step = 1e-2f32;
        let loss = |step: f32| {
            let offset_tensor = Tensor::new(&offsets, offset_value(step));
            let sampled = Tensor::new(&samples, |_| 0.0);
            deformable.forward(&SingleThread, sampled.out(), x.view(), offset_tensor.view());
            sum_of_products(&sampled, &grads)
        };
        let derivative = (loss(step) - loss(-step)) / f64::from(2.0 * step);
        let direction = Tensor::new(&offsets, noise(seed + 11));
        let expected = sum_of_products(&doffset, &direction);
        prop_assert!((derivative - expected).abs() < 2e-2 * (1.0 + expected.abs()), "{derivative} {expected}");
    }

    #[test]
    fn gradients_spread_to_taps(deformable in shapes(), seed in 0usize..1000, groups in 1usize..3) {
        let [_, _, samples] = sizes(&deformable, 4);
        let DeformableWindows { taps, positions, .. } = deformable;
        let weights = Tensor::new(&[6, 4 / groups, taps[0], taps[1]], noise(seed));
        let grads = Tensor::new(&[2, 6, positions[0], positions[1]], noise(seed + 5));
        let out = Tensor::new(&samples, |_| 9.0);
        deformable.sample_gradients(&SingleThread, out.out(), grads.view(), weights.view());
        let (weights, grads) = (weights.values(), grads.values());
        for (at, found) in out.values().iter().enumerate() {
            let (row, column) = (at / samples[3] % samples[2], at % samples[3]);
            let (channel, sample) = (at / samples[3] / samples[2] % 4, at / samples[3] / samples[2] / 4);
            let tap = row % taps[0] * taps[1] + column % taps[1];
            let position = row / taps[0] * positions[1] + column / taps[1];
            let group = channel / (4 / groups);
            let expected: f32 = (group * 6 / groups..(group + 1) * 6 / groups)
                .map(|output| {
                    let weight = (output * (4 / groups) + channel % (4 / groups)) * taps[0] * taps[1] + tap;
                    let grad = (sample * 6 + output) * positions[0] * positions[1] + position;
                    weights[weight] * grads[grad]
                })
                .sum();
            prop_assert!((found - expected).abs() < 1e-4, "{found} {expected}");
        }
    }
}
