//! One description of a model, from which our graph and the ONNX graph are made.

/// The index of a tensor in its model.
pub type Tensor = usize;

/// Where a tensor comes from.
pub enum Origin {
    /// It is fed.
    Input,
    /// It is part of the model.
    Weight(Vec<f32>),
    /// `a + b`.
    Add(Tensor, Tensor),
    /// `x w + b` of a matrix, a matrix and a row.
    Linear(Tensor, Tensor, Tensor),
    /// The product of the last two dimensions.
    Product(Tensor, Tensor),
    /// Negative numbers become 0.
    Relu(Tensor),
    /// `x` times the share of a normal distribution below it.
    Gelu(Tensor),
    /// Over the last dimension.
    Softmax(Tensor),
    /// Times a number.
    Scaled(Tensor, f32),
    /// Mean 0 and variance 1 over the last dimension; then times a gain, and a bias.
    Normalised(Tensor, Tensor, Tensor),
    /// The same elements in other sizes.
    Reshaped(Tensor),
    /// Dimensions in another order.
    Transposed(Tensor, Vec<usize>),
}

/// A model of floats: tensors in an order in which they can be computed. The last one goes out.
pub struct Model {
    /// What it is called.
    pub name: String,
    /// Whether the first dimension of its inputs is left open.
    pub is_open: bool,
    /// Each tensor: where it comes from, and its sizes.
    pub tensors: Vec<(Origin, Vec<usize>)>,
    seed: u32,
}

impl Model {
    fn new(name: &str) -> Model {
        Model { name: name.into(), is_open: false, tensors: Vec::new(), seed: 1 }
    }

    /// `x + b + b + ..`, `length` times, over vectors of `width`.
    pub fn chain(length: usize, width: usize, is_open: bool) -> Model {
        let mut model = Model { is_open, ..Model::new("chain") };
        let x = model.push(Origin::Input, &[width]);
        let b = model.push(Origin::Input, &[width]);
        let mut y = x;
        for _ in 0..length {
            y = model.push(Origin::Add(y, b), &[width]);
        }
        model
    }

    /// Linear layers of these widths over `rows` rows, with a ReLU between them.
    pub fn perceptron(rows: usize, widths: &[usize]) -> Model {
        let mut model = Model::new("MLP");
        let mut x = model.push(Origin::Input, &[rows, widths[0]]);
        for (at, pair) in widths.windows(2).enumerate() {
            if at > 0 {
                x = model.push(Origin::Relu(x), &[rows, pair[0]]);
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
        let mut x = model.push(Origin::Input, &[sequence, WIDTH]);
        let (rows, size) = (sequence, WIDTH / HEADS);
        for _ in 0..layers {
            let [q, k, v] = [(); 3].map(|()| model.linear(x, rows, WIDTH, WIDTH));
            let mut split = |x: Tensor, order: [usize; 3], dims: [usize; 3]| {
                let apart = model.push(Origin::Reshaped(x), &[rows, HEADS, size]);
                model.push(Origin::Transposed(apart, order.to_vec()), &dims)
            };
            let q = split(q, [1, 0, 2], [HEADS, rows, size]);
            let k = split(k, [1, 2, 0], [HEADS, size, rows]);
            let v = split(v, [1, 0, 2], [HEADS, rows, size]);
            let scores = model.push(Origin::Product(q, k), &[HEADS, rows, rows]);
            let scores = model
                .push(Origin::Scaled(scores, 1.0 / (size as f32).sqrt()), &[HEADS, rows, rows]);
            let shares = model.push(Origin::Softmax(scores), &[HEADS, rows, rows]);
            let mixed = model.push(Origin::Product(shares, v), &[HEADS, rows, size]);
            let mixed = model.push(Origin::Transposed(mixed, vec![1, 0, 2]), &[rows, HEADS, size]);
            let mixed = model.push(Origin::Reshaped(mixed), &[rows, WIDTH]);
            let mixed = model.linear(mixed, rows, WIDTH, WIDTH);
            x = model.push(Origin::Add(mixed, x), &[rows, WIDTH]);
            x = model.normalised(x, rows, WIDTH);
            let inner = model.linear(x, rows, WIDTH, INNER);
            let inner = model.push(Origin::Gelu(inner), &[rows, INNER]);
            let inner = model.linear(inner, rows, INNER, WIDTH);
            x = model.push(Origin::Add(inner, x), &[rows, WIDTH]);
            x = model.normalised(x, rows, WIDTH);
        }
        model
    }

    fn push(&mut self, origin: Origin, dims: &[usize]) -> Tensor {
        self.tensors.push((origin, dims.to_vec()));
        self.tensors.len() - 1
    }

    fn weight(&mut self, dims: &[usize], around: f32, spread: f32) -> Tensor {
        let count = dims.iter().product();
        let numbers = (0..count).map(|_| around + spread * random(&mut self.seed)).collect();
        self.push(Origin::Weight(numbers), dims)
    }

    fn linear(&mut self, x: Tensor, rows: usize, from: usize, to: usize) -> Tensor {
        let weight = self.weight(&[from, to], 0.0, 1.7 / (from as f32).sqrt());
        let bias = self.weight(&[to], 0.0, 0.1);
        self.push(Origin::Linear(x, weight, bias), &[rows, to])
    }

    fn normalised(&mut self, x: Tensor, rows: usize, width: usize) -> Tensor {
        let gain = self.weight(&[width], 1.0, 0.1);
        let bias = self.weight(&[width], 0.0, 0.1);
        self.push(Origin::Normalised(x, gain, bias), &[rows, width])
    }

    /// The inputs, in order.
    pub fn inputs(&self) -> Vec<Tensor> {
        let is_input = |at: &Tensor| matches!(self.tensors[*at].0, Origin::Input);
        (0..self.tensors.len()).filter(is_input).collect()
    }

    /// The tensor that goes out.
    pub fn output(&self) -> Tensor {
        self.tensors.len() - 1
    }

    /// Numbers to feed, for each input.
    pub fn fed(&self) -> Vec<Vec<f32>> {
        let mut seed = 77;
        let numbers = |at: Tensor| {
            let count = self.tensors[at].1.iter().product();
            (0..count).map(|_| random(&mut seed)).collect()
        };
        self.inputs().into_iter().map(numbers).collect()
    }

    /// All numbers of the inputs and the weights, in their order: what eager PyTorch gets.
    pub fn numbers(&self) -> Vec<u8> {
        let fed = self.fed().into_iter().flatten().collect::<Vec<f32>>();
        let mut bytes: Vec<u8> = fed.iter().flat_map(|one| one.to_le_bytes()).collect();
        for (origin, _) in &self.tensors {
            if let Origin::Weight(numbers) = origin {
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
