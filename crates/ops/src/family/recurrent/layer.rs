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
    fn wide(&self) -> usize {
        self.kind.blocks() * self.hidden
    }

    fn recurrence<'a>(&self, reversed: bool, active: Option<View<'a>>) -> Recurrence<'a> {
        Recurrence { steps: self.steps, rows: self.rows, hidden: self.hidden, reversed, active }
    }
}

/// The gradients of parameters that no row reached: zeros.
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
    gates: Scratch,
    others: Option<Scratch>,
    weights: Scratch,
    bias: Scratch,
    state: Scratch,
    before: Option<Scratch>,
    /// Which rows take part in each step.
    pub active: Option<Scratch>,
}

impl LayerScratch {
    pub fn new(call: &mut Call<'_>, sizes: &Sizes, varies: bool, backward: bool) -> LayerScratch {
        let Sizes { kind, steps, rows, hidden } = *sizes;
        let wide = sizes.wide();
        let mut floats = |dims: &[usize]| call.scratch(DType::Float, dims);
        let weights =
            if backward { [wide, hidden + ROW_PADDING] } else { [hidden, wide + ROW_PADDING] };
        let others = match (kind, backward) {
            (Kind::Lstm, _) => None,
            (Kind::Gru, false) => Some(floats(&[rows, wide])),
            (Kind::Gru, true) => Some(floats(&[steps, rows, wide])),
        };
        LayerScratch {
            gates: floats(&[steps, rows, wide]),
            others,
            weights: floats(&weights),
            bias: floats(&[2, wide]),
            state: floats(&[kind.states(), rows, hidden]),
            before: backward.then(|| floats(&[steps, rows, hidden])),
            active: varies.then(|| floats(&[steps, rows])),
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

/// Scratch for a product of tensors laid out so.
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

/// A view of the same elements as a matrix; it is contiguous, or its layout allows it.
fn flat<'a>(view: View<'a>) -> View<'a> {
    let columns = *view.dims().last().expect("three dimensions");
    let layout = view.reshaped(&[view.count() / columns.max(1), columns]).expect("rows in line");
    view.with_layout(layout).expect("the same elements")
}

/// As [`flat`], with rows and columns swapped.
fn transposed<'a>(view: ViewMut<'a>) -> View<'a> {
    let view = flat(view.view());
    view.with_layout(view.transposed(0, 1)).expect("the same elements")
}

fn at<'a>(view: ViewMut<'a>, index: usize) -> ViewMut<'a> {
    view.with_layout(view.layout().at(0, index)).expect("a part of it")
}

/// Puts states where they start: these, or zeros.
fn begin(memory: &Memory<'_>, state: ViewMut<'_>, first: &[Option<UnaliasedInput>; 2]) {
    for index in 0..state.dims()[0] {
        match &first[index] {
            Some(first) => copy(memory.parallel, at(state, index), first.prepared(memory)),
            None => fill_scalar(memory.parallel, at(state, index), Scalar::from(0.0)),
        }
    }
}

/// Hands out states.
fn end(memory: &Memory<'_>, state: ViewMut<'_>, last: &[Option<Operand>; 2]) {
    for index in 0..state.dims()[0] {
        if let Some(last) = &last[index] {
            copy(memory.parallel, memory.out(last), at(state, index).view());
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
    pub first: [Option<UnaliasedInput>; 2],
    pub y: Option<Target>,
    pub last: [Option<Operand>; 2],
    pub states: [Option<Operand>; 2],
    pub saved: [Option<Operand>; 4],
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
        let wide = wide_weights(x_layout, &input_weights);
        Layer {
            reversed: false,
            order,
            product: product_scratch(call, &scratch.gates, x_layout, &wide),
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
        let wide = wide_weights(&x, &input_weights);
        let input_weights = input_weights.with_layout(wide).expect("the same for every step");
        product(memory, gates, x, input_weights, false, &self.product);
        let weights = scratch.weights(memory);
        copy(parallel, weights, self.hidden_weights.prepared(memory));
        let both = memory.scratch(&scratch.bias);
        let bias = self.bias.map(|bias| bias.map(|bias| bias.prepared(memory)));
        let state = memory.scratch(&scratch.state);
        begin(memory, state, &self.first);
        let recurrence = sizes.recurrence(self.reversed, scratch.active(memory));
        let out = |one: &Option<Operand>| one.map(|one| memory.out(&one));
        let y = self.y.map(|y| y.view(memory));
        match sizes.kind {
            Kind::Lstm => {
                let forget = self.order[2] * hidden..(self.order[2] + 1) * hidden;
                gather_bias(at(both, 0), &bias, (forget, self.forget));
                let task = Lstm {
                    recurrence,
                    gates,
                    weights: weights.view(),
                    bias: at(both, 0).view(),
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
                    gather_bias(at(both, index), &[*bias], (0..0, 0.0));
                }
                let others = scratch.others.as_ref().expect("planned for this kind");
                let [reset, update, candidate, _] = self.order;
                let task = Gru {
                    recurrence,
                    gates,
                    products: memory.scratch(others),
                    weights: weights.view(),
                    bias: both.view(),
                    order: [reset, update, candidate],
                    state: at(state, 0),
                    y,
                    states: out(&self.states[0]),
                    saved: self.saved.each_ref().map(out),
                };
                gru(parallel, &task);
            }
        }
        end(memory, state, &self.last);
    }
}

/// Weights as many times as there are steps.
fn wide_weights(x: &Layout, weights: &Layout) -> Layout {
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
    /// The gradient of what it puts out.
    pub above: Option<Source>,
    /// The gradients of the states after the last step.
    pub last: [Option<UnaliasedInput>; 2],
    /// Gets that of the input, `f32`, steps by rows by inputs; and whether it is added to what is there.
    pub to_x: Option<(Target, bool)>,
    /// Get those of the states before the first step.
    pub to_first: [Option<Operand>; 2],
    /// Get those of both weights.
    pub to_weights: [Option<Operand>; 2],
    /// Get those of what is added to the products of inputs and to those of hidden states.
    pub to_bias: [Option<Operand>; 2],
    line: Option<Scratch>,
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
            above: None,
            last: [None; 2],
            to_x: None,
            to_first: [None; 2],
            to_weights: [None; 2],
            to_bias: [None; 2],
            line: None,
            products: [None; 3],
        }
    }

    /// Takes the scratch of its products. Where rows `vary` in how many steps they take part in, inputs are copied: what lies
    /// after a row's end must not reach the weights, not even as NaN.
    pub fn take_scratch(&mut self, call: &mut Call<'_>, sizes: &Sizes, vary: bool) {
        let x = *self.x.layout();
        let lines = [sizes.steps * sizes.rows, *x.dims().last().expect("three dimensions")];
        if vary || x.reshaped(&lines).is_none() {
            self.line = Some(call.scratch(x.dtype, x.dims()));
        }
        let float = |dims: &[usize]| Layout::contiguous(DType::Float, dims);
        let gates = float(&[lines[0], sizes.wide()]);
        let transposed = gates.transposed(0, 1);
        if self.to_x.is_some() {
            self.products[0] = product_scratch(call, &float(&lines), &gates, &self.input_weights);
        }
        if let Some(out) = self.to_weights[0] {
            let x = Layout::contiguous(x.dtype, &lines);
            self.products[1] = product_scratch(call, &out, &transposed, &x);
        }
        if let Some(out) = self.to_weights[1] {
            let before = float(&[lines[0], sizes.hidden]);
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
        begin(memory, state, &self.last);
        let read = |one: Option<UnaliasedInput>| one.map(|one| one.prepared(memory));
        let recurrence = sizes.recurrence(self.reversed, scratch.active(memory));
        let saved = self.saved.map(|one| one.prepared(memory));
        let y = self.above.map(|one| one.view(memory));
        let states = self.states.map(read);
        let hidden_states = states[0].expect("hidden states are there");
        let others = match sizes.kind {
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
                let others =
                    memory.scratch(scratch.others.as_ref().expect("planned for this kind"));
                let [reset, update, candidate, _] = self.order;
                let task = GruGradients {
                    recurrence,
                    weights: weights.view(),
                    order: [reset, update, candidate],
                    saved,
                    states: hidden_states,
                    first: read(self.first[0]),
                    y,
                    state: at(state, 0),
                    gates: [gates, others],
                    before,
                };
                gru_gradients(parallel, &task);
                others
            }
        };
        end(memory, state, &self.to_first);
        self.multiply(memory, gates, others, before.view(), scratch.active(memory));
        for (index, (out, gates)) in self.to_bias.iter().zip([gates, others]).enumerate() {
            if let Some(out) = out {
                let sums = at(memory.scratch(&scratch.bias), index);
                column_sums(parallel, sums, flat(gates.view()));
                copy(parallel, memory.out(out), sums.view());
            }
        }
    }

    /// The gradients of weights and input, from those of the products.
    fn multiply(
        &self,
        memory: &Memory<'_>,
        gates: ViewMut<'_>,
        others: ViewMut<'_>,
        before: View<'_>,
        active: Option<View<'_>>,
    ) {
        if let Some(out) = &self.to_weights[0] {
            let x = self.x.view(memory);
            let x = match &self.line {
                Some(line) => {
                    copy(memory.parallel, memory.scratch(line), x);
                    if let Some(active) = active {
                        clear_inactive(memory.parallel, memory.scratch(line), active);
                    }
                    memory.scratch(line).view()
                }
                None => x,
            };
            product(memory, memory.out(out), transposed(gates), flat(x), false, &self.products[1]);
        }
        if let Some(out) = &self.to_weights[1] {
            let before = flat(before);
            product(memory, memory.out(out), transposed(others), before, false, &self.products[2]);
        }
        if let Some((to, adds)) = &self.to_x {
            let to = to.view(memory);
            let columns = *to.dims().last().expect("three dimensions");
            let lines = [to.count() / columns.max(1), columns];
            let to = to
                .with_layout(to.reshaped(&lines).expect("contiguous"))
                .expect("the same elements");
            let weights = self.input_weights.prepared(memory);
            product(memory, to, flat(gates.view()), weights, *adds, &self.products[0]);
        }
    }
}
