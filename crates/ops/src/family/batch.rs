//! Normalisation by channels: batch norm and group norm, with their gradients.
//!
//! Both scale each channel of each sample: `y = x * scale + shift`. Workspace: the statistics, scales and shifts
//! in the type computed in, and for gradients one number for each element.

use super::reducing::{Axes, Reducing};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::plan::{Operand, Plan, Scratch};
use crate::table::Pick::{A, I, No};
use crate::table::{Row, aclnn};
use cairn_tensor::kernels::constant::Constant;
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::fold::{self, Moments};
use cairn_tensor::kernels::map::{map1, map2, map3};
use cairn_tensor::kernels::math::Real;
use cairn_tensor::kernels::number::Number;
use cairn_tensor::{DType, Layout, Scalar, View, ViewMut, with_real};

/// A tensor seen as samples, groups, channels of a group, and places. Batch norm has one group for each channel
/// and takes its statistics over the samples too.
#[derive(Clone, Copy)]
struct Grid {
    dims: [usize; 4],
    batch: bool,
}

impl Grid {
    fn axes(&self) -> Axes {
        Axes::new(&[self.batch, false, true, true])
    }

    /// Sizes of the statistics, with the dimensions that are reduced.
    fn statistics(&self) -> [usize; 4] {
        [if self.batch { 1 } else { self.dims[0] }, self.dims[1], 1, 1]
    }

    /// Sizes of weights and biases.
    fn channels(&self) -> [usize; 4] {
        [1, self.dims[1], self.dims[2], 1]
    }

    /// Sizes of scales and shifts.
    fn scales(&self) -> [usize; 4] {
        let [samples, groups, channels, _] = self.dims;
        [if self.batch { 1 } else { samples }, groups, channels, 1]
    }

    fn count(&self) -> usize {
        self.dims
            .iter()
            .zip(self.axes().iter())
            .filter(|(_, axis)| **axis)
            .map(|(n, _)| n)
            .product()
    }
}

/// Samples, channels, places, groups. Arguments from `at` on: them; or x alone, when the first is negative.
fn grid(call: &Call<'_>, at: usize, x: (usize, &Layout)) -> Result<Grid> {
    let dims = x.1.dims();
    let wrong =
        |why: String| Err(Error::invalid(format!("{} {dims:?} {why}", call.parameter(x.0))));
    if call.int(at)? < 0 {
        let [samples, channels, places @ ..] = dims else {
            return wrong("has no dimension of channels".into());
        };
        let places = places.iter().product();
        return Ok(Grid { dims: [*samples, *channels, 1, places], batch: true });
    }
    let mut numbers = [0usize; 4];
    for (i, number) in numbers.iter_mut().enumerate() {
        *number = usize::try_from(call.int(at + i)?).unwrap_or(usize::MAX);
    }
    let [samples, channels, places, groups] = numbers;
    let product = samples.checked_mul(channels).and_then(|n| n.checked_mul(places));
    if product != Some(x.1.count()) {
        return wrong(format!(
            "is not {samples} samples of {channels} channels of {places} places"
        ));
    }
    if groups == 0 || channels % groups != 0 {
        return wrong(format!("has {channels} channels, which {groups} groups cannot share"));
    }
    Ok(Grid { dims: [samples, groups, channels / groups, places], batch: false })
}

/// A tensor seen with these sizes, of a number of elements that fits.
fn sized(call: &Call<'_>, at: usize, operand: Operand, dims: &[usize]) -> Result<Operand> {
    operand.reshaped(dims).map(|layout| operand.seen(layout)).ok_or_else(|| {
        let (name, layout) = (call.parameter(at), *operand.layout());
        let (strides, count) = (layout.strides(), dims.iter().product::<usize>());
        Error::invalid(format!(
            "{name} ({layout}, strides {strides:?}) is no row of {count} numbers"
        ))
    })
}

fn optional(call: &mut Call<'_>, at: usize, dims: &[usize]) -> Result<Option<Operand>> {
    call.optional(at)?.map(|one| sized(call, at, one, dims)).transpose()
}

fn optional_output(call: &mut Call<'_>, at: usize, dims: &[usize]) -> Result<Option<Operand>> {
    let given = call.optional_output(at)?.filter(|out| out.count() > 0);
    given.map(|one| sized(call, at, one, dims)).transpose()
}

fn wide<'v>(view: View<'v>, dims: &[usize; 4]) -> View<'v> {
    view.seen(view.broadcast_to(dims).expect("sizes were checked")).expect("the same elements")
}

fn narrow<'v>(view: ViewMut<'v>, axes: &Axes) -> ViewMut<'v> {
    let mut layout = *view.layout();
    for at in (0..axes.len()).rev().filter(|at| axes[*at]) {
        layout = layout.without(at);
    }
    view.seen(layout).expect("the same elements")
}

/// Forward. Arguments: x, weight, bias, running mean, running variance, training, momentum, epsilon, samples
/// (-1: batch norm), channels, places, groups, y, saved mean, saved scale.
fn forward(call: &mut Call<'_>) -> Result<Plan> {
    let x = call.tensor(0)?;
    let grid = grid(call, 8, (0, &x))?;
    let y = call.output(12)?;
    call.expect_dims(12, &y, x.dims())?;
    let affine = [optional(call, 1, &grid.channels())?, optional(call, 2, &grid.channels())?];
    let training = call.flag_or(5, true)?;
    let mut running = [None; 2];
    for (place, at) in running.iter_mut().zip([3, 4]) {
        if call.has(at) {
            let one = if training { call.inout(at)? } else { call.tensor(at)? };
            *place = Some(sized(call, at, one, &grid.statistics())?);
        }
    }
    if !training && running.iter().any(Option::is_none) {
        let (mean, variance) = (call.parameter(3), call.parameter(4));
        return Err(Error::Null(format!(
            "{mean} and {variance} are wanted when it does not train"
        )));
    }
    let (momentum, epsilon) = (call.scalar_or(6, 0.0)?.as_f64(), call.float(7)?);
    let statistics = grid.statistics();
    let saved = [optional_output(call, 13, &statistics)?, optional_output(call, 14, &statistics)?];
    let x = call.flat(x, &grid.dims, &[&y]);
    let y = call.flat_output(y, &grid.dims);
    let dtype = if x.layout().dtype == DType::Double { DType::Double } else { DType::Float };
    let [mean, scale] = [0; 2].map(|_| call.scratch(dtype, &statistics));
    let variance = call.scratch(dtype, &statistics);
    let [scales, shifts] = [0; 2].map(|_| call.scratch(dtype, &grid.scales()));
    let reducing =
        with_real!(dtype, C => call.reducing(&x.layout(), &grid.axes(), &fold::moments::<C>()));
    let count = grid.count() as f64;
    call.plan(move |memory| {
        let (view, out) = (x.view(memory), y.out(memory));
        let [mean, scale, variance, scales, shifts] =
            [mean, scale, variance, scales, shifts].map(|one| memory.scratch(&one));
        let team = memory.team;
        with_real!(dtype, C => {
            if training {
                let axes = grid.axes();
                let outs = (narrow(mean, &axes), Some(narrow(variance, &axes)));
                reducing.run(memory, view, fold::moments::<C>(), outs, |all: Moments| {
                    (all.mean, all.squares / all.count)
                });
                if let [Some(old_mean), Some(old_variance)] = running {
                    let (keep, take) = (C::of(1.0 - momentum), C::of(momentum));
                    let unbiased = C::of(momentum * count / (count - 1.0));
                    let (old_mean, old_variance) = (memory.out(&old_mean), memory.out(&old_variance));
                    map2(team, old_mean, old_mean.view(), mean.view(), |old: C, new: C| {
                        old.mul(keep).add(new.mul(take))
                    });
                    map2(team, old_variance, old_variance.view(), variance.view(), |old: C, new: C| {
                        old.mul(keep).add(new.mul(unbiased))
                    });
                }
            } else if let [Some(old_mean), Some(old_variance)] = running {
                copy(team, mean, memory.view(&old_mean));
                copy(team, variance, memory.view(&old_variance));
            }
            let epsilon = C::of(epsilon);
            map1(team, scale, variance.view(), |v: C| C::ONE.div(Real::sqrt(v.add(epsilon))));
            for (from, to) in [mean, scale].iter().zip(&saved) {
                if let Some(to) = to {
                    copy(team, memory.out(to), from.view());
                }
            }
            let [one, none] = [1.0, 0.0].map(|value| Constant::new(Scalar::from(value)));
            let dims = grid.scales();
            let [weight, bias] = affine.map(|one| one.map(|one| wide(memory.view(&one), &dims)));
            let (weight, bias) = (weight.unwrap_or(one.view(&dims)), bias.unwrap_or(none.view(&dims)));
            map2(team, scales, wide(scale.view(), &dims), weight, |s: C, w: C| s.mul(w));
            map3(team, shifts, bias, wide(mean.view(), &dims), scales.view(), |b: C, m: C, s: C| {
                b.sub(m.mul(s))
            });
            let (scales, shifts) = (wide(scales.view(), &grid.dims), wide(shifts.view(), &grid.dims));
            map3(team, out, view, scales, shifts, |x: C, s: C, h: C| x.mul(s).add(h));
        });
        y.done(memory);
        Ok(())
    })
}

/// Backward. Arguments: dy, x, weight, running mean, running variance, saved mean, saved scale, training,
/// epsilon, which gradients are wanted, samples (-1: batch norm), channels, places, groups, dx, dweight, dbias.
fn backward(call: &mut Call<'_>) -> Result<Plan> {
    let (dy, x) = (call.tensor(0)?, call.tensor(1)?);
    call.expect_dims(0, &dy, x.dims())?;
    let grid = grid(call, 10, (1, &x))?;
    let statistics = grid.statistics();
    let training = call.flag_or(7, true)?;
    let (mean_at, spread_at) = if training { (5, 6) } else { (3, 4) };
    let mean = call.tensor(mean_at)?;
    let mean = sized(call, mean_at, mean, &statistics)?;
    let spread = call.tensor(spread_at)?;
    let spread = sized(call, spread_at, spread, &statistics)?;
    let epsilon = call.scalar_or(8, 0.0)?.as_f64();
    let weight = optional(call, 2, &grid.channels())?;
    let wanted = if call.has(9) { call.flags(9)? } else { vec![true; 3] };
    let is_wanted = |at: usize| wanted.get(at).copied().unwrap_or(true);
    let dx = if is_wanted(0) { call.optional_output(14)? } else { None };
    if let Some(dx) = &dx {
        call.expect_dims(14, dx, x.dims())?;
    }
    let mut grads = [None; 2];
    for (place, at) in grads.iter_mut().zip([15, 16]) {
        if is_wanted(at - 14) {
            *place = optional_output(call, at, &grid.channels())?;
        }
    }
    let first = dx.unwrap_or(x);
    let (dy, x) = (call.flat(dy, &grid.dims, &[&first]), call.flat(x, &grid.dims, &[&first]));
    let dx = dx.map(|dx| call.flat_output(dx, &grid.dims));
    let dtype = if x.layout().dtype == DType::Double { DType::Double } else { DType::Float };
    let held = call.scratch(dtype, &grid.dims);
    let [means, scale] = [0; 2].map(|_| call.scratch(dtype, &statistics));
    let by_channel = [grid.dims[0], grid.dims[1], grid.dims[2], 1];
    let [sums, products] = [0; 2].map(|_| call.scratch(dtype, &by_channel));
    let weighted = call.scratch(dtype, &by_channel);
    let [total, product] = [0; 2].map(|_| call.scratch(dtype, &statistics));
    let places = Axes::new(&[false, false, false, true]);
    let samples = Axes::new(&[true, false, false, true]);
    let plans: [Reducing; 4] = with_real!(dtype, C => {
        let sum = fold::sum::<C>();
        [
            call.reducing(&dy.layout(), &places, &sum),
            call.reducing(&held, &places, &sum),
            call.reducing(&sums, &samples, &sum),
            call.reducing(&sums, &grid.axes(), &sum),
        ]
    });
    let count = grid.count() as f64;
    call.plan(move |memory| {
        let (dy, x) = (dy.view(memory), x.view(memory));
        let scratch = |one: Scratch| memory.scratch(&one);
        let (held, means, scale) = (scratch(held), scratch(means), scratch(scale));
        let (sums, products, weighted) = (scratch(sums), scratch(products), scratch(weighted));
        let (total, product) = (scratch(total), scratch(product));
        let team = memory.team;
        with_real!(dtype, C => {
            let alone = |sum: C| (sum, false);
            let fold = fold::sum::<C>();
            copy(team, means, memory.view(&mean));
            match training {
                true => copy(team, scale, memory.view(&spread)),
                false => {
                    let epsilon = C::of(epsilon);
                    map1(team, scale, memory.view(&spread), |v: C| {
                        C::ONE.div(Real::sqrt(v.add(epsilon)))
                    });
                }
            }
            let (middle, factor) = (wide(means.view(), &grid.dims), wide(scale.view(), &grid.dims));
            map3(team, held, x, middle, factor, |x: C, m: C, s: C| x.sub(m).mul(s));
            map2(team, held, held.view(), dy, |x: C, g: C| x.mul(g));
            plans[0].run(memory, dy, fold, (narrow(sums, &places), None), alone);
            plans[1].run(memory, held.view(), fold, (narrow(products, &places), None), alone);
            for (from, to) in [products, sums].iter().zip(&grads) {
                if let Some(to) = to {
                    let to = narrow(memory.out(to), &samples);
                    plans[2].run(memory, from.view(), fold, (to, None), alone);
                }
            }
            let Some(dx) = &dx else {
                return Ok(());
            };
            let one = Constant::new(Scalar::from(1.0));
            let weight = weight.map_or(one.view(&by_channel), |w| wide(memory.view(&w), &by_channel));
            let out = dx.out(memory);
            let weights = weighted;
            if training {
                for (from, to) in [(sums, total), (products, product)] {
                    map2(team, weighted, from.view(), weight, |s: C, w: C| s.mul(w));
                    let to = narrow(to, &grid.axes());
                    plans[3].run(memory, weighted.view(), fold, (to, None), alone);
                }
                map3(team, held, x, middle, factor, |x: C, m: C, s: C| x.sub(m).mul(s));
                let share = C::of(1.0 / count.max(1.0));
                let (total, product) = (wide(total.view(), &grid.dims), wide(product.view(), &grid.dims));
                map3(team, held, held.view(), product, total, |x: C, p: C, t: C| {
                    x.mul(p).add(t).mul(share)
                });
            } else {
                cairn_tensor::kernels::map::fill(team, held, C::ZERO);
            }
            copy(team, weights, weight);
            let weights = wide(weights.view(), &grid.dims);
            map3(team, held, held.view(), dy, weights, |rest: C, g: C, w: C| g.mul(w).sub(rest));
            map2(team, out, held.view(), factor, |g: C, s: C| g.mul(s));
            dx.done(memory);
        });
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("BatchNorm", forward).picks(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        A(7),
        I(-1),
        No,
        No,
        No,
        A(8),
        A(9),
        A(10),
    ]),
    aclnn("GroupNorm", forward).picks(&[
        A(0),
        A(1),
        A(2),
        No,
        No,
        No,
        No,
        A(7),
        A(3),
        A(4),
        A(5),
        A(6),
        A(8),
        A(9),
        A(10),
    ]),
    aclnn("BatchNormBackward", backward).picks(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        A(7),
        A(8),
        A(9),
        I(-1),
        No,
        No,
        No,
        A(10),
        A(11),
        A(12),
    ]),
    aclnn("GroupNormBackward", backward).picks(&[
        A(0),
        A(1),
        A(4),
        No,
        No,
        A(2),
        A(3),
        No,
        No,
        A(9),
        A(5),
        A(6),
        A(7),
        A(8),
        A(10),
        A(11),
        A(12),
    ]),
];
