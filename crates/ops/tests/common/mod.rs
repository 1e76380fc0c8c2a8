//! A small memory to plan and run operators in.

#![allow(dead_code)]

use cairn_ops::{Arg, Memory, NodeArgs, Plan, Tensor};
use cairn_tensor::parallel::SingleThread;
use cairn_tensor::{DType, Layout, contiguous_strides};
use std::cell::{Cell, RefCell};

const BASE: usize = 0x10000;
const NAMES: &[&str] = &["p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "p10"];

/// Memory that tensors lie in, with a gap of known bytes after each.
pub struct TestMemory {
    bytes: Vec<Cell<u8>>,
    gaps: Vec<usize>,
    /// Sizes that a kernel reported, by argument.
    pub reported: RefCell<Vec<(usize, Vec<usize>)>>,
    /// The workspace that the last call asked for.
    pub workspace: Cell<usize>,
}

const GAP: usize = 64;
/// The bytes of gaps.
const GUARD: u8 = 0xa5;

impl TestMemory {
    pub fn new() -> TestMemory {
        TestMemory {
            bytes: vec![Cell::new(GUARD); GAP],
            gaps: vec![0],
            reported: RefCell::default(),
            workspace: Cell::new(0),
        }
    }

    fn reserve(&mut self, bytes: usize) -> usize {
        let start = self.bytes.len();
        self.bytes.extend((0..bytes).map(|_| Cell::new(0)));
        self.gaps.push(self.bytes.len());
        self.bytes.extend((0..GAP).map(|_| Cell::new(GUARD)));
        BASE + start
    }

    /// A tensor of numbers, contiguous.
    pub fn put(&mut self, dtype: DType, dims: &[usize], values: &[f64]) -> Tensor {
        let layout = Layout::contiguous(dtype, dims);
        assert_eq!(layout.count(), values.len());
        let tensor = Tensor::new(layout, self.reserve(layout.bytes()));
        self.write(&tensor, values);
        tensor
    }

    /// A tensor of zeros.
    pub fn zeros(&mut self, dtype: DType, dims: &[usize]) -> Tensor {
        let count = dims.iter().product();
        self.put(dtype, dims, &vec![0.0; count])
    }

    /// The offset of each element, in the order of positions.
    fn offsets(layout: &Layout) -> Vec<isize> {
        let packed = contiguous_strides(layout.dims());
        (0..layout.count())
            .map(|at| {
                let index = |dim: usize| at / packed[dim] as usize % layout.dims()[dim];
                let step = |dim: usize| index(dim) as isize * layout.strides()[dim];
                layout.offset + (0..layout.rank()).map(step).sum::<isize>()
            })
            .collect()
    }

    pub fn write(&self, tensor: &Tensor, values: &[f64]) {
        for (offset, value) in TestMemory::offsets(&tensor.layout).into_iter().zip(values) {
            let at = tensor.address - BASE + offset as usize * tensor.layout.item();
            let bytes: Vec<u8> = match tensor.layout.dtype {
                DType::Float => (*value as f32).to_ne_bytes().to_vec(),
                DType::Double => value.to_ne_bytes().to_vec(),
                DType::Int64 => (*value as i64).to_ne_bytes().to_vec(),
                DType::Int32 => (*value as i32).to_ne_bytes().to_vec(),
                DType::Float16 => cairn_tensor::f32_to_f16(*value as f32).to_ne_bytes().to_vec(),
                DType::Bool | DType::Uint8 => vec![*value as u8],
                DType::Int8 => vec![*value as i8 as u8],
                other => panic!("{other}"),
            };
            for (i, byte) in bytes.into_iter().enumerate() {
                self.bytes[at + i].set(byte);
            }
        }
    }

    /// The numbers of a tensor, in the order of its positions.
    pub fn read(&self, tensor: &Tensor) -> Vec<f64> {
        self.scalars(tensor).map(|one| one.as_f64()).collect()
    }

    /// The integers of a tensor, all bits of them.
    pub fn read_ints(&self, tensor: &Tensor) -> Vec<i64> {
        self.scalars(tensor).map(|one| one.as_i64()).collect()
    }

    fn scalars(&self, tensor: &Tensor) -> impl Iterator<Item = cairn_tensor::Scalar> {
        let (item, address) = (tensor.layout.item(), tensor.address - BASE);
        let dtype = tensor.layout.dtype;
        TestMemory::offsets(&tensor.layout).into_iter().map(move |offset| {
            let at = address + offset as usize * item;
            let bytes: Vec<u8> = self.bytes[at..at + item].iter().map(Cell::get).collect();
            cairn_tensor::Scalar::read(&bytes, dtype).unwrap()
        })
    }

    /// Plans and runs an operator of the aclnn door; the text of an error or fault.
    pub fn run(&self, name: &str, args: Vec<Arg>) -> Result<(), String> {
        let row = cairn_ops::rows()[name];
        self.finish(row.plan(NAMES, args.into()).map_err(|error| error.text().to_owned())?)
    }

    /// As [`TestMemory::run`], by IR name, with numbers as attributes.
    pub fn by_name(
        &self,
        name: &str,
        inputs: &[&Tensor],
        out: &Tensor,
        numbers: &[(&str, i64)],
    ) -> Result<(), String> {
        let inputs: Vec<Option<Tensor>> = inputs.iter().map(|one| Some((*one).clone())).collect();
        let attributes: Vec<(String, Arg)> =
            numbers.iter().map(|(name, value)| ((*name).to_owned(), Arg::Int(*value))).collect();
        let (outputs, attributes) = (std::slice::from_ref(out), &attributes[..]);
        let args = NodeArgs { inputs: &inputs, outputs, attributes };
        let plan = cairn_ops::nodes()[name].plan(&args);
        self.finish(plan.map_err(|error| error.text().to_owned())?)
    }

    /// As [`TestMemory::by_name`], with all outputs and attributes.
    pub fn node(
        &self,
        name: &str,
        inputs: &[Option<Tensor>],
        outputs: &[Tensor],
        attributes: &[(String, Arg)],
    ) -> Result<(), String> {
        let plan = cairn_ops::nodes()[name].plan(&NodeArgs { inputs, outputs, attributes });
        self.finish(plan.map_err(|error| error.text().to_owned())?)
    }

    fn finish(&self, plan: Plan) -> Result<(), String> {
        self.workspace.set(plan.workspace);
        let uses: Vec<&[Cell<u8>]> = (plan.uses.iter())
            .map(|one| {
                let at = one.address.saturating_sub(BASE);
                if one.bytes == 0 { &self.bytes[..0] } else { &self.bytes[at..at + one.bytes] }
            })
            .collect();
        let workspace = vec![Cell::new(0x77u8); plan.workspace];
        let memory = Memory {
            uses: &uses,
            workspace: &workspace,
            parallel: &SingleThread,
            sized: &|(at, _), dims| self.reported.borrow_mut().push((at, dims.to_vec())),
            groups: &[],
            epilogue: None,
            overflow: Default::default(),
        };
        let result = plan.run(&memory).map_err(|fault| fault.0);
        for gap in &self.gaps {
            assert!(self.bytes[*gap..*gap + GAP].iter().all(|byte| byte.get() == GUARD));
        }
        result
    }
}

/// A tensor as an argument.
pub fn t(tensor: &Tensor) -> Arg {
    Arg::Tensor(tensor.clone())
}

/// The same memory with another layout.
pub fn with_layout(tensor: &Tensor, layout: Layout) -> Tensor {
    Tensor { layout, ..tensor.clone() }
}
