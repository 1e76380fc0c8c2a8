//! Steps of optimisers as one operator.

use super::formula::Parameter;
use super::reduction_plan::InPlaceInput;
use crate::argument::Arg;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::{Memory, Operand, Plan};
use crate::table::ArgSource::{A, Attr, B, O};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::map::{map1, map2, map3};
use cairn_tensor::kernels::math::Real;
use cairn_tensor::{Layout, with_real};

/// Fails unless a tensor has real numbers and these sizes.
fn expect_reals(call: &Call<'_>, at: usize, one: &Operand, dims: &[usize]) -> Result<()> {
    call.expect_dims(at, one, dims)?;
    if !one.dtype.is_floating() {
        let (name, dtype) = (call.parameter(at), one.dtype);
        return Err(Error::invalid(format!("{name} is of type {dtype}: expected real numbers")));
    }
    call.expect_arithmetic(at, one.dtype)
}

/// The tensors of one variable, which a step of Adam changes.
#[derive(Clone, Copy)]
struct State {
    variable: Operand,
    gradient: Operand,
    /// Mean of the gradients.
    mean: Operand,
    /// Mean of their squares.
    square: Operand,
    /// The greatest of the latter so far, with amsgrad.
    max_square: Option<Operand>,
}

impl State {
    /// Fails unless all have real numbers and the variable's sizes. Indices: variable, gradient, mean, square, max_square.
    fn check(&self, call: &Call<'_>, indices: [usize; 5]) -> Result<()> {
        let [variable, gradient, mean, square, max_square] = indices;
        let dims = self.variable.dims();
        expect_reals(call, variable, &self.variable, dims)?;
        expect_reals(call, gradient, &self.gradient, dims)?;
        expect_reals(call, mean, &self.mean, dims)?;
        expect_reals(call, square, &self.square, dims)?;
        self.max_square.as_ref().map_or(Ok(()), |one| expect_reals(call, max_square, one, dims))
    }
}

/// Numbers of a step of Adam.
#[derive(Clone, Copy)]
struct AdamOptions {
    rate: f64,
    beta1: f64,
    beta2: f64,
    decay: f64,
    epsilon: f64,
    /// beta1 and beta2 to the power of the number of this step.
    powers: [f64; 2],
    /// What gradients are divided by.
    scale: f64,
    /// Whether steps go up the gradient.
    maximize: bool,
    /// The decay is a part of the gradient, and not of the variable.
    coupled: bool,
    /// The greatest mean of squares is written, and not only compared with.
    amsgrad: bool,
}

/// One step of Adam.
fn step(memory: &Memory<'_>, state: &State, options: &AdamOptions) {
    let parallel = memory.parallel;
    let State { variable, gradient, mean, square, max_square } = state;
    let sign = if options.maximize { -1.0 } else { 1.0 };
    with_real!(variable.dtype, C => {
        let of = <C as Real>::of;
        let (b1, b2, c1, c2) = (of(options.beta1), of(options.beta2), of(1.0 - options.beta1), of(1.0 - options.beta2));
        let (scale, sign) = (of(options.scale), of(sign));
        let (grads, variables) = (memory.view(gradient), memory.view(variable));
        let (means, squares) = (memory.view(mean), memory.view(square));
        if options.coupled && options.decay != 0.0 {
            let decay = of(options.decay);
            let with_decay = move |g: C, x: C| g / scale * sign + decay * x;
            map3::<C, C, C, C>(parallel, memory.out(mean), means, grads, variables, move |m, g, x| b1 * m + c1 * with_decay(g, x));
            map3::<C, C, C, C>(parallel, memory.out(square), squares, grads, variables, move |v, g, x| {
                b2 * v + c2 * with_decay(g, x) * with_decay(g, x)
            });
        } else {
            map2::<C, C, C>(parallel, memory.out(mean), means, grads, move |m, g| b1 * m + c1 * (g / scale * sign));
            map2::<C, C, C>(parallel, memory.out(square), squares, grads, move |v, g| {
                b2 * v + c2 * (g / scale) * (g / scale)
            });
        }
        let [correction1, correction2] = options.powers.map(|power| 1.0 - power);
        let shrink = of(if options.coupled { 1.0 } else { 1.0 - options.rate * options.decay });
        let (step_size, root_correction, epsilon) = (of(options.rate / correction1), of(correction2.sqrt()), of(options.epsilon));
        let greater = |a: C, b: C| if a > b { a } else { b };
        let target = memory.out(variable);
        match max_square {
            Some(max_square) if options.amsgrad => {
                map2::<C, C, C>(parallel, memory.out(max_square), memory.view(max_square), squares, greater);
                map3::<C, C, C, C>(parallel, target, variables, means, memory.view(max_square), move |x, m, v| {
                    x * shrink - step_size * m / (v.sqrt() / root_correction + epsilon)
                });
            }
            _ => map3::<C, C, C, C>(parallel, target, variables, means, squares, move |x, m, v| {
                x * shrink - step_size * m / (v.sqrt() / root_correction + epsilon)
            }),
        }
    });
}

/// One step of AdamW on one tensor, in place.
///
/// Arguments: variable, mean of the gradients, mean of their squares, the greatest of the latter (with amsgrad),
/// gradient, the number of the step before, rate, beta1, beta2, decay, epsilon, amsgrad, whether to maximize.
fn adamw(call: &mut Call<'_>) -> Result<Plan> {
    let amsgrad = call.flag(11)?;
    let state = State {
        variable: call.inout(0)?,
        mean: call.inout(1)?,
        square: call.inout(2)?,
        max_square: if amsgrad { Some(call.inout(3)?) } else { None },
        gradient: call.tensor(4)?,
    };
    state.check(call, [0, 4, 1, 2, 3])?;
    let number = call.parameter_or(5, 0.0)?;
    let options = AdamOptions {
        rate: call.float(6)?,
        beta1: call.float(7)?,
        beta2: call.float(8)?,
        decay: call.float(9)?,
        epsilon: call.float(10)?,
        powers: [0.0; 2],
        scale: 1.0,
        maximize: call.flag(12)?,
        coupled: false,
        amsgrad,
    };
    call.plan(move |memory| {
        let number = number.value(memory).as_f64() + 1.0;
        let powers = [options.beta1.powf(number), options.beta2.powf(number)];
        step(memory, &state, &AdamOptions { powers, ..options });
        Ok(())
    })
}

/// One step of AdamW whose numbers are tensors of one element.
///
/// Arguments: variable, mean, mean of squares, powers of beta1 and beta2 before this step, rate, decay, beta1, beta2,
/// epsilon, gradient, the greatest mean of squares (with amsgrad), amsgrad, whether to maximize.
fn adamw_by_tensors(call: &mut Call<'_>) -> Result<Plan> {
    let amsgrad = call.flag(12)?;
    let state = State {
        variable: call.inout(0)?,
        mean: call.inout(1)?,
        square: call.inout(2)?,
        gradient: call.tensor(10)?,
        max_square: if amsgrad { Some(call.inout(11)?) } else { None },
    };
    state.check(call, [0, 10, 1, 2, 11])?;
    let mut numbers: [_; 7] = std::array::from_fn(|_| Parameter::Number(0.into()));
    for (number, at) in numbers.iter_mut().zip(3..) {
        if !call.has(at) {
            call.scalar(at)?;
        }
        *number = call.parameter_or(at, 0.0)?;
    }
    let maximize = call.flag(13)?;
    call.plan(move |memory| {
        let [power1, power2, rate, decay, beta1, beta2, epsilon] =
            numbers.each_ref().map(|number| number.value(memory).as_f64());
        let powers = [power1 * beta1, power2 * beta2];
        let scale = 1.0;
        let options = AdamOptions {
            rate,
            beta1,
            beta2,
            decay,
            epsilon,
            powers,
            scale,
            maximize,
            coupled: false,
            amsgrad,
        };
        step(memory, &state, &options);
        Ok(())
    })
}

/// One step of Adam that takes the powers of its betas.
///
/// Arguments: variable, mean, mean of squares, powers of beta1 and beta2, rate, beta1, beta2, epsilon, gradient, -,
/// whether it is Nesterov's, and where variable, mean and mean of squares go.
fn adam(call: &mut Call<'_>) -> Result<Plan> {
    let outs = [call.output(12)?, call.output(13)?, call.output(14)?];
    let variable = call.tensor(0)?;
    for (at, out) in outs.iter().enumerate() {
        let one = call.tensor(at)?;
        expect_reals(call, at, &one, variable.dims())?;
        expect_reals(call, 12 + at, out, variable.dims())?;
    }
    let gradient = call.tensor(9)?;
    expect_reals(call, 9, &gradient, variable.dims())?;
    let sources = [0, 1, 2, 9].map(|at| call.tensor(at));
    let mut inputs = Vec::new();
    for source in sources {
        inputs.push(call.in_place_input(source?, &[&outs[0], &outs[1], &outs[2]]));
    }
    let mut numbers: [_; 6] = std::array::from_fn(|_| Parameter::Number(0.into()));
    for (number, at) in numbers.iter_mut().zip(3..) {
        if !call.has(at) {
            call.scalar(at)?;
        }
        *number = call.parameter_or(at, 0.0)?;
    }
    let nesterov = call.flag(11)?;
    call.plan(move |memory| {
        let [power1, power2, rate, beta1, beta2, epsilon] =
            numbers.each_ref().map(|number| number.value(memory).as_f64());
        let parallel = memory.parallel;
        let [variables, mean, square, grads] = std::array::from_fn(|at| inputs[at].view(memory));
        let [to_variable, to_mean, to_square] = outs.map(|out| memory.out(&out));
        with_real!(variable.dtype, C => {
            let of = <C as Real>::of;
            let (b1, b2, c1, c2) = (of(beta1), of(beta2), of(1.0 - beta1), of(1.0 - beta2));
            let (step_size, epsilon) = (of(rate * (1.0 - power2).sqrt() / (1.0 - power1)), of(epsilon));
            map2::<C, C, C>(parallel, to_mean, mean, grads, move |m, g| b1 * m + c1 * g);
            map2::<C, C, C>(parallel, to_square, square, grads, move |v, g| b2 * v + c2 * g * g);
            map3::<C, C, C, C>(parallel, to_variable, variables, to_mean.view(), to_square.view(), move |x, m, v| {
                let m = if nesterov { b1 * m } else { m };
                x - step_size * m / (v.sqrt() + epsilon)
            });
            if nesterov {
                map3::<C, C, C, C>(parallel, to_variable, to_variable.view(), grads, to_square.view(), move |x, g, v| {
                    x - step_size * c1 * g / (v.sqrt() + epsilon)
                });
            }
        });
        Ok(())
    })
}

/// Variable, mean and mean of squares as they come (0, 1, 2), and where they go (at `outs`); all have the sizes of the variable, and
/// so has the gradient.
fn apart(
    call: &mut Call<'_>,
    gradient: usize,
    outs: usize,
) -> Result<([InPlaceInput; 4], [Operand; 3])> {
    let targets = [call.output(outs)?, call.output(outs + 1)?, call.output(outs + 2)?];
    let variable = call.layout(0)?;
    let mut sources = Vec::new();
    for at in [0, 1, 2, gradient] {
        let one = call.tensor(at)?;
        expect_reals(call, at, &one, variable.dims())?;
        sources.push(call.in_place_input(one, &[&targets[0], &targets[1], &targets[2]]));
    }
    for (at, target) in targets.iter().enumerate() {
        expect_reals(call, outs + at, target, variable.dims())?;
        call.expect_same(outs + at, target, at, &call.layout(at)?)?;
    }
    Ok((std::array::from_fn(|at| sources[at]), targets))
}

/// The numbers from `from` on, which are scalars or tensors of one element.
fn numbers<const N: usize>(call: &mut Call<'_>, from: usize) -> Result<[Parameter; N]> {
    let mut numbers = std::array::from_fn(|_| Parameter::Number(0.into()));
    for (number, at) in numbers.iter_mut().zip(from..) {
        if !call.has(at) {
            call.scalar(at)?;
        }
        *number = call.parameter_or(at, 0.0)?;
    }
    Ok(numbers)
}

/// As [`adamw_by_tensors`], with results apart from what they were computed of. Arguments: those, without the greatest mean of squares
/// (which is not kept), then where variable, mean and mean of squares go.
fn adamw_apart(call: &mut Call<'_>) -> Result<Plan> {
    if call.flag(12)? {
        let name = call.parameter(12);
        return Err(Error::invalid(format!("{name} = true: only false is supported")));
    }
    let (sources, [variable, mean, square]) = apart(call, 10, 14)?;
    let numbers: [Parameter; 7] = numbers(call, 3)?;
    let maximize = call.flag(13)?;
    call.plan(move |memory| {
        let [power1, power2, rate, decay, beta1, beta2, epsilon] =
            numbers.each_ref().map(|number| number.value(memory).as_f64());
        let parallel = memory.parallel;
        let [old, old_mean, old_square, grads] = sources.each_ref().map(|one| one.view(memory));
        let [to, to_mean, to_square] = [variable, mean, square].map(|one| memory.out(&one));
        with_real!(variable.dtype, C => {
            let of = <C as Real>::of;
            let sign = of(if maximize { -1.0 } else { 1.0 });
            let (b1, b2, c1, c2) = (of(beta1), of(beta2), of(1.0 - beta1), of(1.0 - beta2));
            let shrink = of(1.0 - rate * decay);
            let rate_now = of(rate / (1.0 - power1 * beta1));
            let (root, epsilon) = (of((1.0 - power2 * beta2).sqrt()), of(epsilon));
            map2::<C, C, C>(parallel, to_mean, old_mean, grads, move |m, g| b1 * m + c1 * (g * sign));
            map2::<C, C, C>(parallel, to_square, old_square, grads, move |v, g| b2 * v + c2 * g * g);
            map3::<C, C, C, C>(parallel, to, old, to_mean.view(), to_square.view(), move |x, m, v| {
                x * shrink - rate_now * m / (v.sqrt() / root + epsilon)
            });
        });
        Ok(())
    })
}

/// How the step of Adam that BERT takes weighs its parts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Weighing {
    /// The rate times the sum of step and decay, of clipped gradients.
    Whole,
    /// A size of its own for the step, the rate for the decay.
    Apart,
}

/// What gradients of this norm are multiplied by, where they are clipped.
fn clipping(most: Option<f64>, norm: f64) -> f64 {
    let clips = most.is_some_and(|most| most > 0.0) && norm.is_finite() && norm > 1.0;
    if clips { 1.0 / norm } else { 1.0 }
}

/// One step of Adam without correction of its means. Arguments: variable, mean, mean of squares, rate, beta1, beta2, epsilon,
/// gradient, greatest norm or absent, norm of all gradients, decay, size of the step or absent, how, and where variable, mean and mean
/// of squares go.
fn bert_adam(call: &mut Call<'_>) -> Result<Plan> {
    let how = match call.text(12)? {
        "adam" => Weighing::Whole,
        "mbart_adam" => Weighing::Apart,
        other => {
            let name = call.parameter(12);
            return Err(Error::invalid(format!("{name} = {other:?}: expected adam or mbart_adam")));
        }
    };
    if how == Weighing::Apart && !call.has(11) {
        let name = call.parameter(11);
        return Err(Error::Null(format!("{name} is null, but mbart_adam needs it")));
    }
    let (sources, outs) = apart(call, 7, 13)?;
    let dtype = call.layout(0)?.dtype;
    let first: [Parameter; 4] = numbers(call, 3)?;
    let [norm, decay]: [Parameter; 2] = numbers(call, 9)?;
    let most = if call.has(8) { Some(call.parameter_or(8, 0.0)?) } else { None };
    let size = call.parameter_or(11, 0.0)?;
    call.plan(move |memory| {
        let [rate, beta1, beta2, epsilon] = first.each_ref().map(|one| one.value(memory).as_f64());
        let [norm, decay, size] = [&norm, &decay, &size].map(|one| one.value(memory).as_f64());
        let most = most.as_ref().map(|most| most.value(memory).as_f64());
        let (scale, size) = match how {
            Weighing::Whole => (clipping(most, norm), rate),
            Weighing::Apart => (1.0, size),
        };
        let parallel = memory.parallel;
        let [old, mean, square, grads] = sources.each_ref().map(|one| one.view(memory));
        let [to, to_mean, to_square] = outs.map(|out| memory.out(&out));
        with_real!(dtype, C => {
            let of = <C as Real>::of;
            let (b1, b2, c1, c2) = (of(beta1), of(beta2), of(1.0 - beta1), of(1.0 - beta2));
            let (scale, epsilon, size, decay) = (of(scale), of(epsilon), of(size), of(rate * decay));
            map2::<C, C, C>(parallel, to_mean, mean, grads, move |m, g| b1 * m + c1 * (g * scale));
            map2::<C, C, C>(parallel, to_square, square, grads, move |v, g| b2 * v + c2 * (g * scale) * (g * scale));
            map3::<C, C, C, C>(parallel, to, old, to_mean.view(), to_square.view(), move |x, m, v| {
                x - size * (m / (v.sqrt() + epsilon)) - decay * x
            });
        });
        Ok(())
    })
}

/// A list of tensors that are read and written, or none.
fn inouts_or_none(call: &mut Call<'_>, at: usize, count: usize) -> Result<Option<Vec<Operand>>> {
    match call.arg(at) {
        Arg::Absent => Ok(None),
        Arg::Tensors(list) if list.is_empty() => Ok(None),
        _ => {
            let list = call.inouts(at)?;
            expect_count(call, at, list.len(), count)?;
            Ok(Some(list))
        }
    }
}

/// Fails unless a list has as many tensors as the first.
fn expect_count(call: &Call<'_>, at: usize, have: usize, want: usize) -> Result<()> {
    match have == want {
        true => Ok(()),
        false => {
            let (name, first) = (call.parameter(at), call.parameter(0));
            Err(Error::invalid(format!("{name} has {have} tensors, {first} has {want}")))
        }
    }
}

/// One step of Adam (`coupled`) or AdamW on lists of tensors, in place.
///
/// Arguments: variables, gradients, means, means of squares, the greatest of the latter or absent, numbers of the
/// steps, scale of the gradients or absent, whether one overflowed or absent, rate, beta1, beta2, decay, epsilon,
/// amsgrad, whether to maximize.
fn adam_of_lists(call: &mut Call<'_>, coupled: bool) -> Result<Plan> {
    let variables = call.inouts(0)?;
    let count = variables.len();
    let has_scale = call.has(6);
    let gradients = if coupled && has_scale { call.inouts(1)? } else { call.tensors(1)? };
    let (means, squares) = (call.inouts(2)?, call.inouts(3)?);
    let amsgrad = call.flag(13)?;
    let max_square = if amsgrad { inouts_or_none(call, 4, count)? } else { None };
    if amsgrad && max_square.is_none() && count > 0 {
        let name = call.parameter(4);
        return Err(Error::Null(format!("{name} is null or empty: the greatest are to be kept")));
    }
    let steps = call.tensors(5)?;
    for (at, have) in [(1, gradients.len()), (2, means.len()), (3, squares.len()), (5, steps.len())]
    {
        expect_count(call, at, have, count)?;
    }
    for number in &steps {
        call.expect_arithmetic(5, number.dtype)?;
        if number.count() == 0 {
            let name = call.parameter(5);
            return Err(Error::invalid(format!("{name} has a tensor without elements")));
        }
    }
    let states: Vec<State> = (0..count)
        .map(|at| State {
            variable: variables[at],
            gradient: gradients[at],
            mean: means[at],
            square: squares[at],
            max_square: max_square.as_ref().map(|max_square| max_square[at]),
        })
        .collect();
    states.iter().try_for_each(|state| state.check(call, [0, 1, 2, 3, 4]))?;
    let (scale, overflow) = (call.value_or(6, 1.0)?, call.value_or(7, 0.0)?);
    let options = AdamOptions {
        rate: call.float(8)?,
        beta1: call.float(9)?,
        beta2: call.float(10)?,
        decay: call.float(11)?,
        epsilon: call.float(12)?,
        powers: [0.0; 2],
        scale: 1.0,
        maximize: call.flag(14)?,
        coupled,
        amsgrad,
    };
    call.plan(move |memory| {
        if overflow.read(memory).as_f64() == 1.0 {
            return Ok(());
        }
        let scale = scale.read(memory).as_f64();
        for (state, number) in states.iter().zip(&steps) {
            if coupled && has_scale {
                let grads = memory.out(&state.gradient);
                with_real!(grads.dtype(), C => {
                    let scale = C::of(scale);
                    map1::<C, C>(memory.parallel, grads, grads.view(), move |g| g / scale);
                });
            }
            let number = cairn_tensor::kernels::peek::first(memory.view(number));
            let number = number.map_or(0.0, |one| one.as_f64()) + f64::from(u8::from(coupled));
            let powers = [options.beta1.powf(number), options.beta2.powf(number)];
            let scale = if coupled { 1.0 } else { scale };
            step(memory, state, &AdamOptions { powers, scale, ..options });
        }
        Ok(())
    })
}

/// One step of stochastic gradient descent on lists of tensors, in place.
///
/// Arguments: variables, gradients, momenta or absent, scale of the gradients or absent, decay, momentum, rate,
/// dampening, whether it is Nesterov's, whether to maximize, whether it is the first step.
fn sgd(call: &mut Call<'_>) -> Result<Plan> {
    let (variables, gradients) = (call.inouts(0)?, call.inouts(1)?);
    expect_count(call, 1, gradients.len(), variables.len())?;
    let momenta = inouts_or_none(call, 2, variables.len())?;
    for (at, variable) in variables.iter().enumerate() {
        expect_reals(call, 0, variable, variable.dims())?;
        expect_reals(call, 1, &gradients[at], variable.dims())?;
        if let Some(momenta) = &momenta {
            expect_reals(call, 2, &momenta[at], variable.dims())?;
        }
    }
    let has_scale = call.has(3);
    let scale = call.value_or(3, 1.0)?;
    let [decay, momentum, rate, dampening] = [4, 5, 6, 7].map(|at| call.float(at));
    let (decay, momentum, rate, dampening) = (decay?, momentum?, rate?, dampening?);
    let (nesterov, maximize, is_first) = (call.flag(8)?, call.flag(9)?, call.flag(10)?);
    call.plan(move |memory| {
        let parallel = memory.parallel;
        let scale = scale.read(memory).as_f64();
        for (at, variable) in variables.iter().enumerate() {
            let (target, grads) = (memory.out(variable), memory.out(&gradients[at]));
            with_real!(variable.dtype, C => {
                let of = <C as Real>::of;
                let (scale, decay, rate) = (of(scale), of(decay), of(rate));
                let (momentum, gradient_factor) = (of(momentum), of(1.0 - dampening));
                let sign = of(if maximize { -1.0 } else { 1.0 });
                if has_scale {
                    map1::<C, C>(parallel, grads, grads.view(), move |g| g / scale);
                }
                let with_decay = move |g: C, x: C| sign * g + decay * x;
                match &momenta {
                    None => map2::<C, C, C>(parallel, target, target.view(), grads.view(), move |x, g| {
                        x - rate * with_decay(g, x)
                    }),
                    Some(momenta) => {
                        let momentum_buffer = memory.out(&momenta[at]);
                        map3::<C, C, C, C>(parallel, momentum_buffer, momentum_buffer.view(), grads.view(), target.view(), move |v, g, x| {
                            if is_first { with_decay(g, x) } else { momentum * v + gradient_factor * with_decay(g, x) }
                        });
                        map3::<C, C, C, C>(parallel, target, target.view(), grads.view(), momentum_buffer.view(), move |x, g, v| {
                            x - rate * if nesterov { with_decay(g, x) + momentum * v } else { v }
                        });
                    }
                }
            });
        }
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("ApplyAdamWV2", adamw),
    aclnn("ApplyAdamW", adamw_by_tensors),
    aclnn("ApplyAdam", adam).with_args(&[
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
        B(false),
        A(11),
        A(0),
        A(1),
        A(2),
    ]),
    aclnn("ApplyAdamD", adam),
    aclnn("FusedAdam", |c| adam_of_lists(c, true)),
    aclnn("FusedAdamw", |c| adam_of_lists(c, false)),
    aclnn("FusedSgd", sgd),
];

fn infer_state(call: &Call<'_>) -> Result<Vec<Layout>> {
    [0, 1, 2].map(|at| call.layout(at).map(|layout| layout.packed())).into_iter().collect()
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "ApplyAdamD",
        &["var", "m", "v", "beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon", "grad"],
        &["var", "m", "v"],
        Infer::By(infer_state),
        adam,
        &[
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
            Attr("use_locking", AttrDefault::Flag(false)),
            Attr("use_nesterov", AttrDefault::Flag(false)),
            O(0),
            O(1),
            O(2),
        ],
    )
    .writes_first(),
    node(
        "ApplyAdamW",
        &[
            "var",
            "m",
            "v",
            "beta1_power",
            "beta2_power",
            "lr",
            "weight_decay",
            "beta1",
            "beta2",
            "epsilon",
            "grad",
            "max_grad_norm?",
        ],
        &["var", "m", "v"],
        Infer::By(infer_state),
        adamw_apart,
        &[
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
            A(10),
            A(11),
            Attr("amsgrad", AttrDefault::Flag(false)),
            Attr("maximize", AttrDefault::Flag(false)),
            O(0),
            O(1),
            O(2),
        ],
    )
    .writes_first(),
    node(
        "ApplyAdamV2",
        &[
            "var",
            "m",
            "v",
            "lr",
            "beta1",
            "beta2",
            "epsilon",
            "grad",
            "max_grad_norm?",
            "global_grad_norm",
            "weight_decay",
            "step_size?",
        ],
        &["var", "m", "v"],
        Infer::By(infer_state),
        bert_adam,
        &[
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
            A(10),
            A(11),
            Attr("adam_mode", AttrDefault::Text("adam")),
            O(0),
            O(1),
            O(2),
        ],
    )
    .writes_first(),
];
