//! One layer of a recurrent network in one direction, planned: its tensors, the scratch that layers use one after the
//! other, and what runs.

use super::super::inputs::UnaliasedInput;
use crate::call::Call;
use crate::error::Result;
use crate::plan::{Memory, Operand, Plan, Scratch};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::kernels::matmul::{matmul, panels};
use cairn_tensor::kernels::recurrent::{
    Gru, GruGradients, Lstm, LstmGradients, Recurrence, clear_inactive, column_sums, gather_bias,
    gru, gru_gradients, lstm, lstm_gradients,
};
use cairn_tensor::{DType, Layout, Scalar, View, ViewMut};

/// What the cells of a network are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Input gate, candidate, forget gate, output gate; hidden state and cell state.
    Lstm,
    /// Reset gate, update gate, candidate; a hidden state.
    Gru,
}

impl Kind {
    /// How many blocks the weights have.
    pub fn blocks(self) -> usize {
        match self {
            Kind::Lstm => 4,
            Kind::Gru => 3,
        }
    }

    /// How many states there are.
    pub fn states(self) -> usize {
        match self {
            Kind::Lstm => 2,
            Kind::Gru => 1,
        }
    }
}

/// The sizes of a layer.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub kind: Kind,
    pub steps: usize,
    pub rows: usize,
    pub hidden: usize,
}

impl Sizes {
    /// The columns of the weights: all blocks.
    fn columns(&self) -> usize {
        self.kind.blocks() * self.hidden
    }

    fn recurrence<'a>(&self, reversed: bool, active: Option<View<'a>>) -> Recurrence<'a> {
        Recurrence { steps: self.steps, rows: self.rows, hidden: self.hidden, reversed, active }
    }
}

/// A plan that fills gradients of parameters with zeros, where there are no rows.
pub fn zeros(call: &mut Call<'_>, outs: Vec<Operand>) -> Result<Plan> {
    call.plan(move |memory| {
        outs.iter().for_each(|out| fill_scalar(memory.parallel, memory.out(out), Scalar::from(0)));
        Ok(())
    })
}

/// Where a layer reads: a tensor of the call, or scratch with a layout.
#[derive(Clone, Copy)]
pub enum Source {
    Tensor(UnaliasedInput),
    Scratch(Scratch, Layout),
}

impl Source {
    pub fn layout(&self) -> &Layout {
        match self {
            Source::Tensor(read) => read,
            Source::Scratch(_, layout) => layout,
        }
    }

    fn view<'a>(&self, memory: &Memory<'a>) -> View<'a> {
        match self {
            Source::Tensor(read) => read.prepared(memory),
            Source::Scratch(scratch, layout) => {
                memory.scratch(scratch).view().with_layout(*layout).expect("a part of the scratch")
            }
        }
    }
}

/// Where a layer writes: a tensor of the call, or scratch with a layout.
#[derive(Clone, Copy)]
pub enum Target {
    Tensor(Operand),
    Scratch(Scratch, Layout),
}

impl Target {
    fn view<'a>(&self, memory: &Memory<'a>) -> ViewMut<'a> {
        match self {
            Target::Tensor(operand) => memory.out(operand),
            Target::Scratch(scratch, layout) => {
                memory.scratch(scratch).with_layout(*layout).expect("a part of the scratch")
            }
        }
    }
}

/// Unused columns after each row of the weights: rows a power of two apart would share few cache lines.
const ROW_PADDING: usize = 16;

/// Scratch of all layers.
pub struct LayerScratch {
    /// Products of inputs, or their gradients.
    gates: Scratch,
    /// Of a GRU: products of hidden states, or their gradients.
    hidden_products: Option<Scratch>,
    weights: Scratch,
    bias: Scratch,
    state: Scratch,
    /// The hidden state before each step, for gradients.
    before: Option<Scratch>,
    /// Which rows take part in each step.
    pub active: Option<Scratch>,
}

impl LayerScratch {
    pub fn new(
        call: &mut Call<'_>,
        sizes: &Sizes,
        has_lengths: bool,
        backward: bool,
    ) -> LayerScratch {
        let Sizes { kind, steps, rows, hidden } = *sizes;
        let columns = sizes.columns();
        let mut floats = |dims: &[usize]| call.scratch(DType::Float, dims);
        let weights = if backward {
            [columns, hidden + ROW_PADDING]
        } else {
            [hidden, columns + ROW_PADDING]
        };
        let hidden_products = match (kind, backward) {
            (Kind::Lstm, _) => None,
            (Kind::Gru, false) => Some(floats(&[rows, columns])),
            (Kind::Gru, true) => Some(floats(&[steps, rows, columns])),
        };
        LayerScratch {
            gates: floats(&[steps, rows, columns]),
            hidden_products,
            weights: floats(&weights),
            bias: floats(&[2, columns]),
            state: floats(&[kind.states(), rows, hidden]),
            before: backward.then(|| floats(&[steps, rows, hidden])),
            active: has_lengths.then(|| floats(&[steps, rows])),
        }
    }

    /// The weights of the hidden state, rows by columns.
    fn weights<'a>(&self, memory: &Memory<'a>) -> ViewMut<'a> {
        let weights = memory.scratch(&self.weights);
        let columns = weights.dims()[1] - ROW_PADDING;
        weights
            .with_layout(weights.layout().sliced(1, 0, columns, 1))
            .expect("a part of the scratch")
    }

    fn active<'a>(&self, memory: &Memory<'a>) -> Option<View<'a>> {
        self.active.map(|scratch| memory.scratch(&scratch).view())
    }
}

/// Scratch for a product of tensors with these layouts.
fn product_scratch(call: &mut Call<'_>, out: &Layout, a: &Layout, b: &Layout) -> Option<Scratch> {
    panels(out, a, b).map(|panels| call.scratch(panels.dtype(), &panels.dims()))
}

/// `out += a @ b` or `out = a @ b`.
fn product(
    memory: &Memory<'_>,
    out: ViewMut<'_>,
    a: View<'_>,
    b: View<'_>,
    adds: bool,
    scratch: &Option<Scratch>,
) {
    let scratch = scratch.map(|scratch| memory.scratch(&scratch));
    let (one, beta) = (Scalar::from(1.0), Scalar::from(f64::from(u8::from(adds))));
    matmul(memory.parallel, out, a, b, one, beta, scratch);
}

/// A view of the same elements as a matrix; its layout allows it.
fn as_matrix<'a>(view: View<'a>) -> View<'a> {
    let columns = *view.dims().last().expect("three dimensions");
    let layout = view.reshaped(&[view.count() / columns.max(1), columns]).expect("contiguous rows");
    view.with_layout(layout).expect("the same elements")
}

/// As [`as_matrix`], with rows and columns swapped.
fn transposed<'a>(view: ViewMut<'a>) -> View<'a> {
    let view = as_matrix(view.view());
    view.with_layout(view.transposed(0, 1)).expect("the same elements")
}

/// The part at an index of the first dimension.
fn part_at<'a>(view: ViewMut<'a>, index: usize) -> ViewMut<'a> {
    view.with_layout(view.layout().at(0, index)).expect("a part of it")
}

/// Sets states to these, or to zeros.
fn set_states(memory: &Memory<'_>, state: ViewMut<'_>, first: &[Option<UnaliasedInput>; 2]) {
    for index in 0..state.dims()[0] {
        match &first[index] {
            Some(first) => copy(memory.parallel, part_at(state, index), first.prepared(memory)),
            None => fill_scalar(memory.parallel, part_at(state, index), Scalar::from(0.0)),
        }
    }
}

/// Copies states to outputs.
fn copy_states(memory: &Memory<'_>, state: ViewMut<'_>, last: &[Option<Operand>; 2]) {
    for index in 0..state.dims()[0] {
        if let Some(last) = &last[index] {
            copy(memory.parallel, memory.out(last), part_at(state, index).view());
        }
    }
}

/// A layer in one direction. States are rows by hidden; the rest, but for weights, by steps, rows and elements.
pub struct Layer {
    pub reversed: bool,
    pub order: [usize; 4],
    pub x: Source,
    /// Inputs by blocks.
    pub input_weights: UnaliasedInput,
    /// Hidden by blocks.
    pub hidden_weights: UnaliasedInput,
    pub bias: [Option<UnaliasedInput>; 2],
    /// What is added to the forget gate.
    pub forget: f32,
    /// Hidden state and cell state before the first step.
    pub first: [Option<UnaliasedInput>; 2],
    pub y: Option<Target>,
    /// Get both states after the last step.
    pub last: [Option<Operand>; 2],
    /// Get both states after each step.
    pub states: [Option<Operand>; 2],
    /// Get the gates of each step.
    pub saved: [Option<Operand>; 4],
    /// Gets the hyperbolic tangent of the cell state after each step.
    pub tanh: Option<Operand>,
    product: Option<Scratch>,
}

impl Layer {
    /// A layer with these inputs and weights and nothing else; takes the scratch of its product.
    pub fn new(
        call: &mut Call<'_>,
        scratch: &LayerScratch,
        x: Source,
        input_weights: UnaliasedInput,
        hidden_weights: UnaliasedInput,
        order: [usize; 4],
    ) -> Layer {
        let x_layout = x.layout();
        let repeated = repeated_weights(x_layout, &input_weights);
        Layer {
            reversed: false,
            order,
            product: product_scratch(call, &scratch.gates, x_layout, &repeated),
            x,
            input_weights,
            hidden_weights,
            bias: [None; 2],
            forget: 0.0,
            first: [None; 2],
            y: None,
            last: [None; 2],
            states: [None; 2],
            saved: [None; 4],
            tanh: None,
        }
    }

    pub fn run(&self, memory: &Memory<'_>, scratch: &LayerScratch, sizes: &Sizes) {
        let (parallel, hidden) = (memory.parallel, sizes.hidden);
        let (gates, x) = (memory.scratch(&scratch.gates), self.x.view(memory));
        let input_weights = self.input_weights.prepared(memory);
        let repeated = repeated_weights(&x, &input_weights);
        let input_weights = input_weights.with_layout(repeated).expect("the same for every step");
        product(memory, gates, x, input_weights, false, &self.product);
        let weights = scratch.weights(memory);
        copy(parallel, weights, self.hidden_weights.prepared(memory));
        let biases = memory.scratch(&scratch.bias);
        let bias = self.bias.map(|bias| bias.map(|bias| bias.prepared(memory)));
        let state = memory.scratch(&scratch.state);
        set_states(memory, state, &self.first);
        let recurrence = sizes.recurrence(self.reversed, scratch.active(memory));
        let out = |one: &Option<Operand>| one.map(|one| memory.out(&one));
        let y = self.y.map(|y| y.view(memory));
        match sizes.kind {
            Kind::Lstm => {
                let forget = self.order[2] * hidden..(self.order[2] + 1) * hidden;
                gather_bias(part_at(biases, 0), &bias, (forget, self.forget));
                let task = Lstm {
                    recurrence,
                    gates,
                    weights: weights.view(),
                    bias: part_at(biases, 0).view(),
                    order: self.order,
                    state,
                    y,
                    states: [out(&self.states[0]), out(&self.states[1])],
                    saved: self.saved.each_ref().map(out),
                    tanh: out(&self.tanh),
                };
                lstm(parallel, &task);
            }
            Kind::Gru => {
                for (index, bias) in bias.iter().enumerate() {
                    gather_bias(part_at(biases, index), &[*bias], (0..0, 0.0));
                }
                let hidden_products =
                    scratch.hidden_products.as_ref().expect("planned for this kind");
                let [reset, update, candidate, _] = self.order;
                let task = Gru {
                    recurrence,
                    gates,
                    products: memory.scratch(hidden_products),
                    weights: weights.view(),
                    bias: biases.view(),
                    order: [reset, update, candidate],
                    state: part_at(state, 0),
                    y,
                    states: out(&self.states[0]),
                    saved: self.saved.each_ref().map(out),
                };
                gru(parallel, &task);
            }
        }
        copy_states(memory, state, &self.last);
    }
}

/// Weights repeated for each step, without a copy.
fn repeated_weights(x: &Layout, weights: &Layout) -> Layout {
    let dims = [x.dims()[0], weights.dims()[0], weights.dims()[1]];
    weights.broadcast_to(&dims).expect("a new dimension in front")
}

/// The gradients of a layer in one direction. Weights are blocks by inputs and blocks by hidden.
pub struct Gradients {
    pub reversed: bool,
    pub order: [usize; 4],
    pub x: Source,
    pub input_weights: UnaliasedInput,
    pub hidden_weights: UnaliasedInput,
    pub saved: [UnaliasedInput; 4],
    pub states: [Option<UnaliasedInput>; 2],
    pub tanh: Option<UnaliasedInput>,
    pub first: [Option<UnaliasedInput>; 2],
    /// The gradient of its output.
    pub dy: Option<Source>,
    /// The gradients of the states after the last step.
    pub last: [Option<UnaliasedInput>; 2],
    /// Gets that of the input, `f32`, steps by rows by inputs; and whether it is added to what is there.
    pub dx: Option<(Target, bool)>,
    /// Get those of the states before the first step.
    pub dfirst: [Option<Operand>; 2],
    /// Get those of both weights.
    pub dweights: [Option<Operand>; 2],
    /// Get those of the biases of inputs and of hidden states.
    pub dbias: [Option<Operand>; 2],
    /// A contiguous copy of `x`.
    packed_x: Option<Scratch>,
    products: [Option<Scratch>; 3],
}

impl Gradients {
    /// Those of a layer with these tensors and nothing else.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        x: Source,
        input_weights: UnaliasedInput,
        hidden_weights: UnaliasedInput,
        order: [usize; 4],
        saved: [UnaliasedInput; 4],
        states: [Option<UnaliasedInput>; 2],
    ) -> Gradients {
        Gradients {
            reversed: false,
            order,
            x,
            input_weights,
            hidden_weights,
            saved,
            states,
            tanh: None,
            first: [None; 2],
            dy: None,
            last: [None; 2],
            dx: None,
            dfirst: [None; 2],
            dweights: [None; 2],
            dbias: [None; 2],
            packed_x: None,
            products: [None; 3],
        }
    }

    /// Takes the scratch of its products. Where rows have different lengths (`has_lengths`), inputs are copied: what lies
    /// after a row's end must not reach the weights, not even as NaN.
    pub fn take_scratch(&mut self, call: &mut Call<'_>, sizes: &Sizes, has_lengths: bool) {
        let x = *self.x.layout();
        let matrix_dims = [sizes.steps * sizes.rows, *x.dims().last().expect("three dimensions")];
        if has_lengths || x.reshaped(&matrix_dims).is_none() {
            self.packed_x = Some(call.scratch(x.dtype, x.dims()));
        }
        let float = |dims: &[usize]| Layout::contiguous(DType::Float, dims);
        let gates = float(&[matrix_dims[0], sizes.columns()]);
        let transposed = gates.transposed(0, 1);
        if self.dx.is_some() {
            self.products[0] =
                product_scratch(call, &float(&matrix_dims), &gates, &self.input_weights);
        }
        if let Some(out) = self.dweights[0] {
            let x = Layout::contiguous(x.dtype, &matrix_dims);
            self.products[1] = product_scratch(call, &out, &transposed, &x);
        }
        if let Some(out) = self.dweights[1] {
            let before = float(&[matrix_dims[0], sizes.hidden]);
            self.products[2] = product_scratch(call, &out, &transposed, &before);
        }
    }

    pub fn run(&self, memory: &Memory<'_>, scratch: &LayerScratch, sizes: &Sizes) {
        let parallel = memory.parallel;
        let gates = memory.scratch(&scratch.gates);
        let before = memory.scratch(scratch.before.as_ref().expect("planned for gradients"));
        let weights = scratch.weights(memory);
        copy(parallel, weights, self.hidden_weights.prepared(memory));
        let state = memory.scratch(&scratch.state);
        set_states(memory, state, &self.last);
        let read = |one: Option<UnaliasedInput>| one.map(|one| one.prepared(memory));
        let recurrence = sizes.recurrence(self.reversed, scratch.active(memory));
        let saved = self.saved.map(|one| one.prepared(memory));
        let y = self.dy.map(|one| one.view(memory));
        let states = self.states.map(read);
        let hidden_states = states[0].expect("hidden states are there");
        let hidden_products = match sizes.kind {
            Kind::Lstm => {
                let task = LstmGradients {
                    recurrence,
                    weights: weights.view(),
                    order: self.order,
                    saved,
                    states: [hidden_states, states[1].expect("cell states are there")],
                    tanh: read(self.tanh),
                    first: self.first.map(read),
                    y,
                    state,
                    gates,
                    before,
                };
                lstm_gradients(parallel, &task);
                gates
            }
            Kind::Gru => {
                let hidden_products = memory
                    .scratch(scratch.hidden_products.as_ref().expect("planned for this kind"));
                let [reset, update, candidate, _] = self.order;
                let task = GruGradients {
                    recurrence,
                    weights: weights.view(),
                    order: [reset, update, candidate],
                    saved,
                    states: hidden_states,
                    first: read(self.first[0]),
                    y,
                    state: part_at(state, 0),
                    gates: [gates, hidden_products],
                    before,
                };
                gru_gradients(parallel, &task);
                hidden_products
            }
        };
        copy_states(memory, state, &self.dfirst);
        self.multiply(memory, gates, hidden_products, before.view(), scratch.active(memory));
        for (index, (out, gates)) in self.dbias.iter().zip([gates, hidden_products]).enumerate() {
            if let Some(out) = out {
                let sums = part_at(memory.scratch(&scratch.bias), index);
                column_sums(parallel, sums, as_matrix(gates.view()));
                copy(parallel, memory.out(out), sums.view());
            }
        }
    }

    /// The gradients of weights and input, from those of the products.
    fn multiply(
        &self,
        memory: &Memory<'_>,
        gates: ViewMut<'_>,
        hidden_products: ViewMut<'_>,
        before: View<'_>,
        active: Option<View<'_>>,
    ) {
        if let Some(out) = &self.dweights[0] {
            let x = self.x.view(memory);
            let x = match &self.packed_x {
                Some(packed_x) => {
                    copy(memory.parallel, memory.scratch(packed_x), x);
                    if let Some(active) = active {
                        clear_inactive(memory.parallel, memory.scratch(packed_x), active);
                    }
                    memory.scratch(packed_x).view()
                }
                None => x,
            };
            product(
                memory,
                memory.out(out),
                transposed(gates),
                as_matrix(x),
                false,
                &self.products[1],
            );
        }
        if let Some(out) = &self.dweights[1] {
            let before = as_matrix(before);
            product(
                memory,
                memory.out(out),
                transposed(hidden_products),
                before,
                false,
                &self.products[2],
            );
        }
        if let Some((target, adds)) = &self.dx {
            let out = target.view(memory);
            let columns = *out.dims().last().expect("three dimensions");
            let matrix_dims = [out.count() / columns.max(1), columns];
            let out = out
                .with_layout(out.reshaped(&matrix_dims).expect("contiguous"))
                .expect("the same elements");
            let weights = self.input_weights.prepared(memory);
            product(memory, out, as_matrix(gates.view()), weights, *adds, &self.products[0]);
        }
    }
}
