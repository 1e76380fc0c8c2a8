//! Recurrent networks, step by step: a few steps one after the other, many or an unknown number in a loop.

use super::Converters;
use super::expression::{join, plain, reshape, slice, unsqueeze};
use crate::onnx::builder::Value;
use crate::onnx::conversion::{Conversion, attrs};
use cairn_tensor::DType;

pub const CONVERTERS: Converters = &[("GRU", gru), ("LSTM", lstm), ("RNN", rnn)];

type Converted = Result<Vec<Value>, String>;

/// More steps than these become a loop.
const MAX_WRITTEN: i64 = 64;

/// What a network is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cell {
    Rnn,
    Gru,
    Lstm,
}

impl Cell {
    fn gates(self) -> i64 {
        match self {
            Cell::Rnn => 1,
            Cell::Gru => 3,
            Cell::Lstm => 4,
        }
    }

    fn activations(self) -> &'static [&'static str] {
        match self {
            Cell::Rnn => &["Tanh"],
            Cell::Gru => &["Sigmoid", "Tanh"],
            Cell::Lstm => &["Sigmoid", "Tanh", "Tanh"],
        }
    }
}

fn rnn(node: &mut Conversion<'_>) -> Converted {
    network(node, Cell::Rnn)
}

fn gru(node: &mut Conversion<'_>) -> Converted {
    network(node, Cell::Gru)
}

fn lstm(node: &mut Conversion<'_>) -> Converted {
    network(node, Cell::Lstm)
}

/// `count` sizes of x, from one of them on, and another: the sizes of a tensor.
fn sizes_with(
    node: &mut Conversion<'_>,
    x: &Value,
    from: i64,
    count: i64,
    last: i64,
) -> Result<Value, String> {
    let sizes = node.sizes_of(x)?;
    let (start, count) = (node.int_list(&[from]), node.int_list(&[count]));
    let own = plain(node, "Slice", &[&sizes, &start, &count])?;
    let last = node.int_list(&[last]);
    let both = attrs([("concat_dim", 0i64.into()), ("N", 2i64.into())]);
    node.add("ConcatD", &[&own, &last], both)
}

/// The part of a tensor that belongs to one direction.
fn of_direction(node: &mut Conversion<'_>, x: &Value, direction: i64) -> Result<Value, String> {
    let part = slice(node, x, 0, direction, direction + 1)?;
    node.add("Squeeze", &[&part], attrs([("axis", vec![0i64].into())]))
}

/// The functions of a direction with their numbers.
#[derive(Clone)]
struct Activation {
    name: String,
    alpha: Option<f32>,
    beta: Option<f32>,
}

/// The functions of all directions. Numbers belong to those that take some, in their order.
fn activations(node: &Conversion<'_>, defaults: &[&str], directions: usize) -> Vec<Activation> {
    let names = node.texts("activations").unwrap_or_default();
    let numbers = |name: &str| node.floats(name).unwrap_or_default().into_iter();
    let (mut alphas, mut betas) = (numbers("activation_alpha"), numbers("activation_beta"));
    (0..directions * defaults.len())
        .map(|at| {
            let default = || defaults[at % defaults.len()].to_owned();
            let name = names.get(at).cloned().unwrap_or_else(default);
            let (takes_alpha, takes_beta) = match name.to_ascii_lowercase().as_str() {
                "affine" | "scaledtanh" | "hardsigmoid" => (true, true),
                "leakyrelu" | "thresholdedrelu" | "elu" => (true, false),
                _ => (false, false),
            };
            let alpha = if takes_alpha { alphas.next() } else { None };
            let beta = if takes_beta { betas.next() } else { None };
            Activation { name, alpha, beta }
        })
        .collect()
}

impl Activation {
    fn apply(&self, node: &mut Conversion<'_>, x: &Value) -> Result<Value, String> {
        let alpha = |default: f32| self.alpha.unwrap_or(default);
        let beta = |default: f32| self.beta.unwrap_or(default);
        match self.name.to_ascii_lowercase().as_str() {
            "tanh" => plain(node, "Tanh", &[x]),
            "sigmoid" => plain(node, "Sigmoid", &[x]),
            "relu" => plain(node, "Relu", &[x]),
            "softsign" => plain(node, "Softsign", &[x]),
            "softplus" => plain(node, "Softplus", &[x]),
            "leakyrelu" => {
                node.add("LeakyRelu", &[x], attrs([("negative_slope", alpha(0.01).into())]))
            }
            "elu" => node.add("Elu", &[x], attrs([("alpha", alpha(1.0).into())])),
            "thresholdedrelu" => {
                let threshold = node.scalar(x.dtype(), alpha(1.0).into())?;
                let zero = node.scalar(x.dtype(), 0.0)?;
                let is_above = plain(node, "Greater", &[x, &threshold])?;
                plain(node, "SelectV2", &[&is_above, x, &zero])
            }
            "hardsigmoid" => {
                let numbers = attrs([("alpha", alpha(0.2).into()), ("beta", beta(0.5).into())]);
                node.add("HardSigmoid", &[x], numbers)
            }
            "affine" => {
                let factor = node.scalar(x.dtype(), alpha(1.0).into())?;
                let offset = node.scalar(x.dtype(), beta(0.0).into())?;
                let scaled = plain(node, "Mul", &[x, &factor])?;
                plain(node, "Add", &[&scaled, &offset])
            }
            "scaledtanh" => {
                let (a, b) = (alpha(1.0), beta(1.0));
                let inner = node.scalar(x.dtype(), b.into())?;
                let outer = node.scalar(x.dtype(), a.into())?;
                let scaled = plain(node, "Mul", &[x, &inner])?;
                let bent = plain(node, "Tanh", &[&scaled])?;
                plain(node, "Mul", &[&bent, &outer])
            }
            _ => Err(format!("the activation '{}' is not supported", self.name)),
        }
    }
}

/// The weights of one direction.
struct Weights {
    /// For the input, gates side by side.
    input: Value,
    /// For the hidden state.
    hidden: Value,
    /// Added to the products with the input and with the hidden state.
    biases: Option<(Value, Value)>,
    /// Of the cell's state, for the input, output and forget gates.
    peepholes: Option<Value>,
    activations: Vec<Activation>,
}

/// What the steps of a network have in common.
struct Network {
    cell: Cell,
    hidden: i64,
    /// How many steps there are, if they are written out.
    steps: Option<i64>,
    clip: Option<f32>,
    /// The forget gate is 1 minus the input gate.
    couples_gates: bool,
    /// The hidden state's product is taken before it is gated.
    resets_after: bool,
}

fn network(node: &mut Conversion<'_>, cell: Cell) -> Converted {
    let (mut x, weights, recurrent) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let (biases, lengths) = (node.optional(3), node.optional(4));
    let (mut first_hidden, mut first_cell) = (node.optional(5), node.optional(6));
    let peepholes = node.optional(7);
    let is_batch_first = node.int("layout", 0) != 0;
    let turn = |node: &mut Conversion<'_>, x: &Value, order: &[i64]| {
        let order = node.int_list(order);
        plain(node, "Transpose", &[x, &order])
    };
    if is_batch_first {
        x = turn(node, &x, &[1, 0, 2])?;
        for state in [&mut first_hidden, &mut first_cell].into_iter().flatten() {
            *state = turn(node, state, &[1, 0, 2])?;
        }
    }
    if node.rank(&x)? != 3 {
        return Err(format!("its input has {} dimensions, not 3", node.rank(&x)?));
    }
    let steps = node.known_dims_at(&x, 0).ok().filter(|steps| (1..=MAX_WRITTEN).contains(steps));
    let hidden = node.known_dims_at(&recurrent, 2)?;
    let direction = node.text("direction", "forward");
    node.expect_text("direction", &direction, &["forward", "reverse", "bidirectional"])?;
    let directions = if direction == "bidirectional" { 2 } else { 1 };
    let clip = node.has("clip").then(|| node.float("clip", 0.0));
    let network = Network {
        cell,
        hidden,
        steps,
        clip,
        couples_gates: node.int("input_forget", 0) != 0,
        resets_after: node.int("linear_before_reset", 0) != 0,
    };
    let functions = cell.activations();
    let activations = activations(node, functions, directions as usize);
    let mut all = Vec::new();
    let (mut last_hidden, mut last_cell) = (Vec::new(), Vec::new());
    for at in 0..directions {
        let wide = cell.gates() * hidden;
        let own = Weights {
            input: of_direction(node, &weights, at)?,
            hidden: of_direction(node, &recurrent, at)?,
            biases: match &biases {
                None => None,
                Some(biases) => {
                    let own = of_direction(node, biases, at)?;
                    Some((slice(node, &own, 0, 0, wide)?, slice(node, &own, 0, wide, 2 * wide)?))
                }
            },
            peepholes: match &peepholes {
                None => None,
                Some(peepholes) => Some(of_direction(node, peepholes, at)?),
            },
            activations: activations[at as usize * functions.len()..][..functions.len()].to_vec(),
        };
        let state = |node: &mut Conversion<'_>, first: &Option<Value>| match first {
            Some(first) => {
                let mut own = of_direction(node, first, at)?;
                node.learn_dims(&mut own, &[-1, hidden]);
                Ok(own)
            }
            None => {
                let sizes = sizes_with(node, &x, 1, 1, hidden)?;
                let zero = node.scalar(x.dtype(), 0.0)?;
                plain(node, "Fill", &[&sizes, &zero])
            }
        };
        let start = (state(node, &first_hidden)?, state(node, &first_cell)?);
        let is_reversed = at == 1 || direction == "reverse";
        let (outputs, ends) = network.run(node, &x, &own, start, lengths.as_ref(), is_reversed)?;
        all.push(outputs);
        last_hidden.push(ends.0);
        last_cell.push(ends.1);
    }
    let with_direction = |node: &mut Conversion<'_>, parts: &[Value], along: i64| {
        let apart: Result<Vec<Value>, String> =
            parts.iter().map(|part| unsqueeze(node, part, &[along])).collect();
        apart
    };
    let parts = with_direction(node, &all, 1)?;
    let mut y = join(node, &parts, 1)?;
    let parts = with_direction(node, &last_hidden, 0)?;
    let mut y_hidden = join(node, &parts, 0)?;
    let parts = with_direction(node, &last_cell, 0)?;
    let mut y_cell = join(node, &parts, 0)?;
    if is_batch_first {
        y = turn(node, &y, &[2, 0, 1, 3])?;
        y_hidden = turn(node, &y_hidden, &[1, 0, 2])?;
        y_cell = turn(node, &y_cell, &[1, 0, 2])?;
    }
    Ok(match cell {
        Cell::Lstm => vec![y, y_hidden, y_cell],
        _ => vec![y, y_hidden],
    })
}

/// Hidden state, and the cell's own.
type State = (Value, Value);

impl Network {
    /// All steps of one direction: the hidden state of each, and the last state.
    fn run(
        &self,
        node: &mut Conversion<'_>,
        x: &Value,
        weights: &Weights,
        state: State,
        lengths: Option<&Value>,
        is_reversed: bool,
    ) -> Result<(Value, State), String> {
        let wide = self.cell.gates() * self.hidden;
        let inputs = node.known_dims_at(&weights.input, 1)?;
        let flat = reshape(node, x, &[-1, inputs])?;
        let turned = attrs([("transpose_x2", true.into())]);
        let mut products = node.add("MatMulV2", &[&flat, &weights.input], turned)?;
        if let Some((bias, _)) = &weights.biases {
            products = plain(node, "Add", &[&products, bias])?;
        }
        let sizes = sizes_with(node, x, 0, 2, wide)?;
        let mut products = plain(node, "Reshape", &[&products, &sizes])?;
        let mut dims = x.dims().unwrap_or_default().to_vec();
        dims[2] = wide;
        node.learn_dims(&mut products, &dims);
        let lengths = match lengths {
            None => None,
            Some(lengths) => {
                let lengths = node.cast(lengths, DType::Int64)?;
                Some(reshape(node, &lengths, &[-1, 1])?)
            }
        };
        match self.steps {
            Some(steps) => self.write_out(
                node,
                steps,
                &products,
                weights,
                state,
                lengths.as_ref(),
                is_reversed,
            ),
            None => self.repeat(node, x, &products, weights, state, lengths, is_reversed),
        }
    }

    /// Each step as nodes of its own.
    #[expect(clippy::too_many_arguments)]
    fn write_out(
        &self,
        node: &mut Conversion<'_>,
        steps: i64,
        products: &Value,
        weights: &Weights,
        mut state: State,
        lengths: Option<&Value>,
        is_reversed: bool,
    ) -> Result<(Value, State), String> {
        let mut outputs: Vec<(i64, Value)> = Vec::new();
        for step in 0..steps {
            let at = if is_reversed { steps - 1 - step } else { step };
            let number = node.scalar(DType::Int64, at as f64)?;
            let shown;
            (shown, state) = self.step_at(node, &number, products, weights, &state, lengths)?;
            outputs.push((at, shown));
        }
        outputs.sort_by_key(|(at, _)| *at);
        let outputs: Vec<Value> = (outputs.into_iter())
            .map(|(_, value)| unsqueeze(node, &value, &[0]))
            .collect::<Result<_, _>>()?;
        Ok((join(node, &outputs, 0)?, state))
    }

    /// The steps as a loop, whose state is that of the network and the outputs so far.
    #[expect(clippy::too_many_arguments)]
    fn repeat(
        &self,
        node: &mut Conversion<'_>,
        x: &Value,
        products: &Value,
        weights: &Weights,
        state: State,
        lengths: Option<Value>,
        is_reversed: bool,
    ) -> Result<(Value, State), String> {
        let (scalar, sizes) = (node.int_list(&[]), node.sizes_of(x)?);
        let (start, one) = (node.int_list(&[0]), node.int_list(&[1]));
        let steps = plain(node, "Slice", &[&sizes, &start, &one])?;
        let limit = plain(node, "Reshape", &[&steps, &scalar])?;
        let sizes = sizes_with(node, x, 0, 2, self.hidden)?;
        let zero = node.scalar(x.dtype(), 0.0)?;
        let outputs = plain(node, "Fill", &[&sizes, &zero])?;
        let mut read = vec![products.clone(), limit.clone(), weights.hidden.clone()];
        read.extend(weights.biases.iter().map(|(_, bias)| bias.clone()));
        read.extend(weights.peepholes.iter().cloned());
        read.extend(lengths.iter().cloned());
        let first = [state.0, state.1, outputs];
        let made = node.repeat(&limit, &first, &read, |node, number, state, read| {
            let mut rest = read[2..].iter().cloned();
            let mut next = || rest.next().ok_or_else(|| "a loop reads less".to_owned());
            let hidden = next()?;
            let biases = match &weights.biases {
                Some(_) => {
                    let bias = next()?;
                    Some((bias.clone(), bias))
                }
                None => None,
            };
            let peepholes = weights.peepholes.as_ref().map(|_| next()).transpose()?;
            let lengths = lengths.as_ref().map(|_| next()).transpose()?;
            let inner = Weights {
                input: hidden.clone(),
                hidden,
                biases,
                peepholes,
                activations: weights.activations.clone(),
            };
            let mut at = number.clone();
            if is_reversed {
                let one = node.scalar(DType::Int64, 1.0)?;
                let last = plain(node, "Sub", &[&read[1], &one])?;
                at = plain(node, "Sub", &[&last, number])?;
            }
            let before = (state[0].clone(), state[1].clone());
            let (shown, after) =
                self.step_at(node, &at, &read[0], &inner, &before, lengths.as_ref())?;
            let copy = plain(node, "TensorMove", &[&state[2]])?;
            let index = reshape(node, &at, &[1, 1])?;
            let shown = unsqueeze(node, &shown, &[0])?;
            let outputs = plain(node, "ScatterNdUpdate", &[&copy, &index, &shown])?;
            Ok(vec![after.0, after.1, outputs])
        })?;
        let [hidden, cell, outputs] = &made[..] else {
            return Err("a loop has three states".to_owned());
        };
        Ok((outputs.clone(), (hidden.clone(), cell.clone())))
    }

    /// The step with this number: what it shows, and the state after it. Texts that are over keep their state and show 0.
    fn step_at(
        &self,
        node: &mut Conversion<'_>,
        at: &Value,
        products: &Value,
        weights: &Weights,
        state: &State,
        lengths: Option<&Value>,
    ) -> Result<(Value, State), String> {
        let first = node.int_list(&[0]);
        let product = plain(node, "GatherV2", &[products, at, &first])?;
        let next = self.step(node, &product, weights, state)?;
        let Some(lengths) = lengths else { return Ok((next.0.clone(), next)) };
        let counts = plain(node, "Greater", &[lengths, at])?;
        let zero = node.scalar(product.dtype(), 0.0)?;
        let mut chosen = |new: &Value, old: &Value| plain(node, "SelectV2", &[&counts, new, old]);
        let shown = chosen(&next.0, &zero)?;
        Ok((shown, (chosen(&next.0, &state.0)?, chosen(&next.1, &state.1)?)))
    }

    fn clipped(&self, node: &mut Conversion<'_>, x: &Value) -> Result<Value, String> {
        let Some(clip) = self.clip else { return Ok(x.clone()) };
        let (low, high) =
            (node.scalar(x.dtype(), (-clip).into())?, node.scalar(x.dtype(), clip.into())?);
        let x = plain(node, "Maximum", &[x, &low])?;
        plain(node, "Minimum", &[&x, &high])
    }

    fn activated(
        &self,
        node: &mut Conversion<'_>,
        activation: &Activation,
        x: &Value,
    ) -> Result<Value, String> {
        let x = self.clipped(node, x)?;
        activation.apply(node, &x)
    }

    /// One step from the products of its input.
    fn step(
        &self,
        node: &mut Conversion<'_>,
        product: &Value,
        weights: &Weights,
        state: &State,
    ) -> Result<State, String> {
        if self.cell == Cell::Gru {
            return self.gru_step(node, product, weights, state);
        }
        let turned = attrs([("transpose_x2", true.into())]);
        let own = node.add("MatMulV2", &[&state.0, &weights.hidden], turned)?;
        let mut gates = plain(node, "Add", &[product, &own])?;
        if let Some((_, bias)) = &weights.biases {
            gates = plain(node, "Add", &[&gates, bias])?;
        }
        if self.cell == Cell::Rnn {
            let hidden = self.activated(node, &weights.activations[0], &gates)?;
            return Ok((hidden.clone(), hidden));
        }
        self.lstm_step(node, &gates, weights, state)
    }

    /// Gates in the order input, output, forget, cell.
    fn lstm_step(
        &self,
        node: &mut Conversion<'_>,
        gates: &Value,
        weights: &Weights,
        state: &State,
    ) -> Result<State, String> {
        let size = self.hidden;
        let gate =
            |node: &mut Conversion<'_>, at: i64| slice(node, gates, 1, at * size, (at + 1) * size);
        let peep = |node: &mut Conversion<'_>, gate: Value, at: i64, cell: &Value| {
            let Some(peepholes) = &weights.peepholes else { return Ok(gate) };
            let own = slice(node, peepholes, 0, at * size, (at + 1) * size)?;
            let seen = plain(node, "Mul", &[&own, cell])?;
            plain(node, "Add", &[&gate, &seen])
        };
        let [gating, candidate, shown] = &weights.activations[..] else {
            return Err("it has not 3 activations".to_owned());
        };
        let input = gate(node, 0)?;
        let input = peep(node, input, 0, &state.1)?;
        let input = self.activated(node, gating, &input)?;
        let forget = match self.couples_gates {
            true => {
                let one = node.scalar(input.dtype(), 1.0)?;
                plain(node, "Sub", &[&one, &input])?
            }
            false => {
                let forget = gate(node, 2)?;
                let forget = peep(node, forget, 2, &state.1)?;
                self.activated(node, gating, &forget)?
            }
        };
        let new = gate(node, 3)?;
        let new = self.activated(node, candidate, &new)?;
        let kept = plain(node, "Mul", &[&forget, &state.1])?;
        let added = plain(node, "Mul", &[&input, &new])?;
        let cell = plain(node, "Add", &[&kept, &added])?;
        let output = gate(node, 1)?;
        let output = peep(node, output, 1, &cell)?;
        let output = self.activated(node, gating, &output)?;
        // onnxruntime does not clip here.
        let bent = shown.apply(node, &cell)?;
        let hidden = plain(node, "Mul", &[&output, &bent])?;
        Ok((hidden, cell))
    }

    /// Gates in the order update, reset, hidden.
    fn gru_step(
        &self,
        node: &mut Conversion<'_>,
        product: &Value,
        weights: &Weights,
        state: &State,
    ) -> Result<State, String> {
        let size = self.hidden;
        let [gating, candidate] = &weights.activations[..] else {
            return Err("it has not 2 activations".to_owned());
        };
        let turned = || attrs([("transpose_x2", true.into())]);
        let hidden = &state.0;
        let part = |node: &mut Conversion<'_>, at: i64| -> Result<Value, String> {
            let input = slice(node, product, 1, at * size, (at + 1) * size)?;
            let rows = slice(node, &weights.hidden, 0, at * size, (at + 1) * size)?;
            let own = node.add("MatMulV2", &[hidden, &rows], turned())?;
            let mut sum = plain(node, "Add", &[&input, &own])?;
            if let Some((_, bias)) = &weights.biases {
                let bias = slice(node, bias, 0, at * size, (at + 1) * size)?;
                sum = plain(node, "Add", &[&sum, &bias])?;
            }
            Ok(sum)
        };
        let update = part(node, 0)?;
        let update = self.activated(node, gating, &update)?;
        let reset = part(node, 1)?;
        let reset = self.activated(node, gating, &reset)?;
        let input = slice(node, product, 1, 2 * size, 3 * size)?;
        let rows = slice(node, &weights.hidden, 0, 2 * size, 3 * size)?;
        let bias = match &weights.biases {
            Some((_, bias)) => Some(slice(node, bias, 0, 2 * size, 3 * size)?),
            None => None,
        };
        let fed = match self.resets_after {
            true => hidden.clone(),
            false => plain(node, "Mul", &[&reset, hidden])?,
        };
        let mut own = node.add("MatMulV2", &[&fed, &rows], turned())?;
        if let Some(bias) = &bias {
            own = plain(node, "Add", &[&own, bias])?;
        }
        if self.resets_after {
            own = plain(node, "Mul", &[&reset, &own])?;
        }
        let sum = plain(node, "Add", &[&input, &own])?;
        let new = self.activated(node, candidate, &sum)?;
        let one = node.scalar(update.dtype(), 1.0)?;
        let rest = plain(node, "Sub", &[&one, &update])?;
        let taken = plain(node, "Mul", &[&rest, &new])?;
        let kept = plain(node, "Mul", &[&update, hidden])?;
        let next = plain(node, "Add", &[&taken, &kept])?;
        Ok((next.clone(), next))
    }
}
