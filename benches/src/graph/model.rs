//! One description of a model, from which our graph and the ONNX graph are made.

/// The index of a tensor in its model.
pub type Tensor = usize;

/// Where a tensor comes from.
pub enum Op {
    /// An input.
    Input,
    /// A weight of the model.
    Weight(Vec<f32>),
    /// `a + b`.
    Add(Tensor, Tensor),
    /// `x w + b`: matrices x and w, a row vector b.
    Linear(Tensor, Tensor, Tensor),
    /// Batched matrix product over the last two dimensions.
    MatMul(Tensor, Tensor),
    /// max(x, 0).
    Relu(Tensor),
    /// `x Phi(x)`, the exact GELU.
    Gelu(Tensor),
    /// Over the last dimension.
    Softmax(Tensor),
    /// Times a number.
    Scale(Tensor, f32),
    /// Mean 0 and variance 1 over the last dimension; then scaled by a gain and shifted by a bias.
    LayerNorm(Tensor, Tensor, Tensor),
    /// The same elements in other sizes.
    Reshape(Tensor),
    /// Dimensions in another order.
    Transpose(Tensor, Vec<usize>),
}

/// An f32 model: tensors in an order in which they can be computed. The last one is the output.
pub struct Model {
    /// What it is called.
    pub name: String,
    /// Whether the first dimension of its inputs is dynamic.
    pub has_dynamic_batch: bool,
    /// Each tensor: where it comes from, and its sizes.
    pub tensors: Vec<(Op, Vec<usize>)>,
    seed: u32,
}

impl Model {
    fn new(name: &str) -> Model {
        Model { name: name.into(), has_dynamic_batch: false, tensors: Vec::new(), seed: 1 }
    }

    /// `x + b + b + ..`, `length` times, over vectors of `width`.
    pub fn chain(length: usize, width: usize, has_dynamic_batch: bool) -> Model {
        let mut model = Model { has_dynamic_batch, ..Model::new("chain") };
        let x = model.push(Op::Input, &[width]);
        let b = model.push(Op::Input, &[width]);
        let mut y = x;
        for _ in 0..length {
            y = model.push(Op::Add(y, b), &[width]);
        }
        model
    }

    /// Linear layers of these widths over `rows` rows, with a ReLU between them.
    pub fn perceptron(rows: usize, widths: &[usize]) -> Model {
        let mut model = Model::new("MLP");
        let mut x = model.push(Op::Input, &[rows, widths[0]]);
        for (at, pair) in widths.windows(2).enumerate() {
            if at > 0 {
                x = model.push(Op::Relu(x), &[rows, pair[0]]);
            }
            x = model.linear(x, rows, pair[0], pair[1]);
        }
        model
    }

    /// The encoder of BERT-base for one sequence: `layers` of 768 with 12 heads.
    pub fn encoder(layers: usize, sequence: usize) -> Model {
        const WIDTH: usize = 768;
        const HEADS: usize = 12;
        const INNER: usize = 3072;
        let mut model = Model::new(&format!("BERT-base, {layers} layers"));
        let mut x = model.push(Op::Input, &[sequence, WIDTH]);
        let (rows, size) = (sequence, WIDTH / HEADS);
        for _ in 0..layers {
            let [q, k, v] = [(); 3].map(|()| model.linear(x, rows, WIDTH, WIDTH));
            let mut split = |x: Tensor, order: [usize; 3], dims: [usize; 3]| {
                let heads = model.push(Op::Reshape(x), &[rows, HEADS, size]);
                model.push(Op::Transpose(heads, order.to_vec()), &dims)
            };
            let q = split(q, [1, 0, 2], [HEADS, rows, size]);
            let k = split(k, [1, 2, 0], [HEADS, size, rows]);
            let v = split(v, [1, 0, 2], [HEADS, rows, size]);
            let scores = model.push(Op::MatMul(q, k), &[HEADS, rows, rows]);
            let scores =
                model.push(Op::Scale(scores, 1.0 / (size as f32).sqrt()), &[HEADS, rows, rows]);
            let probabilities = model.push(Op::Softmax(scores), &[HEADS, rows, rows]);
            let context = model.push(Op::MatMul(probabilities, v), &[HEADS, rows, size]);
            let context = model.push(Op::Transpose(context, vec![1, 0, 2]), &[rows, HEADS, size]);
            let context = model.push(Op::Reshape(context), &[rows, WIDTH]);
            let context = model.linear(context, rows, WIDTH, WIDTH);
            x = model.push(Op::Add(context, x), &[rows, WIDTH]);
            x = model.layer_norm(x, rows, WIDTH);
            let inner = model.linear(x, rows, WIDTH, INNER);
            let inner = model.push(Op::Gelu(inner), &[rows, INNER]);
            let inner = model.linear(inner, rows, INNER, WIDTH);
            x = model.push(Op::Add(inner, x), &[rows, WIDTH]);
            x = model.layer_norm(x, rows, WIDTH);
        }
        model
    }

    fn push(&mut self, op: Op, dims: &[usize]) -> Tensor {
        self.tensors.push((op, dims.to_vec()));
        self.tensors.len() - 1
    }

    fn weight(&mut self, dims: &[usize], mean: f32, range: f32) -> Tensor {
        let count = dims.iter().product();
        let numbers = (0..count).map(|_| mean + range * random(&mut self.seed)).collect();
        self.push(Op::Weight(numbers), dims)
    }

    fn linear(&mut self, x: Tensor, rows: usize, from: usize, to: usize) -> Tensor {
        let weight = self.weight(&[from, to], 0.0, 1.7 / (from as f32).sqrt());
        let bias = self.weight(&[to], 0.0, 0.1);
        self.push(Op::Linear(x, weight, bias), &[rows, to])
    }

    fn layer_norm(&mut self, x: Tensor, rows: usize, width: usize) -> Tensor {
        let gain = self.weight(&[width], 1.0, 0.1);
        let bias = self.weight(&[width], 0.0, 0.1);
        self.push(Op::LayerNorm(x, gain, bias), &[rows, width])
    }

    /// The inputs, in order.
    pub fn inputs(&self) -> Vec<Tensor> {
        let is_input = |at: &Tensor| matches!(self.tensors[*at].0, Op::Input);
        (0..self.tensors.len()).filter(is_input).collect()
    }

    /// The output.
    pub fn output(&self) -> Tensor {
        self.tensors.len() - 1
    }

    /// The values of each input.
    pub fn input_values(&self) -> Vec<Vec<f32>> {
        let mut seed = 77;
        let numbers = |at: Tensor| {
            let count = self.tensors[at].1.iter().product();
            (0..count).map(|_| random(&mut seed)).collect()
        };
        self.inputs().into_iter().map(numbers).collect()
    }

    /// The bytes of the inputs and the weights, in their order: what eager PyTorch gets.
    pub fn input_and_weight_bytes(&self) -> Vec<u8> {
        let inputs = self.input_values().into_iter().flatten().collect::<Vec<f32>>();
        let mut bytes: Vec<u8> = inputs.iter().flat_map(|one| one.to_le_bytes()).collect();
        for (op, _) in &self.tensors {
            if let Op::Weight(numbers) = op {
                bytes.extend(numbers.iter().flat_map(|one| one.to_le_bytes()));
            }
        }
        bytes
    }
}

/// From -1 to 1; the same on every machine.
fn random(seed: &mut u32) -> f32 {
    *seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    (*seed >> 8) as f32 / (1u32 << 23) as f32 - 1.0
}
