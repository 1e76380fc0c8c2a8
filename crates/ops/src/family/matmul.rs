//! Products of matrices and vectors.

use super::elementwise::Input;
use super::formula::promote_all;
use super::value::Value;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::{Operand, Plan};
use crate::table::ArgSource::{A, Attr, I, No, O};
use crate::table::{ArgSource, AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::element::{Compute, Element};
use cairn_tensor::kernels::map::{map2, map3};
use cairn_tensor::kernels::matmul as kernel;
use cairn_tensor::kernels::number::Number;
use cairn_tensor::{
    DType, Dims, Layout, Scalar, View, ViewMut, broadcast, with_complex, with_number,
};

// Arguments of every function here: what is added (or nothing), left side, right side, beta (1), alpha (1),
// out, whether the left and the right side are transposed.
const ADDED: usize = 0;
const LEFT: usize = 1;
const RIGHT: usize = 2;
const BETA: usize = 3;
const ALPHA: usize = 4;
pub(super) const OUT: usize = 5;
const TRANSPOSE_LEFT: usize = 6;
const TRANSPOSE_RIGHT: usize = 7;

/// Left and right side as matrices with the same batch sizes, and the sizes of their product.
pub(super) struct MatmulOperands {
    pub(super) left: Layout,
    pub(super) right: Layout,
    /// As the caller sees it.
    pub(super) dims: Dims,
    /// The dimensions of size 1 that `dims` lacks where a side is a vector.
    vector_dims: [Option<usize>; 2],
}

/// Fails for sides that cannot be multiplied.
pub(super) fn operands(call: &Call<'_>, left: Layout, right: Layout) -> Result<MatmulOperands> {
    let wrong = || {
        let (a, b) = (call.parameter(LEFT), call.parameter(RIGHT));
        Error::invalid(format!("{a} ({left}) and {b} ({right}) cannot be multiplied"))
    };
    if left.rank() == 0 || right.rank() == 0 {
        return Err(wrong());
    }
    let transposed = |at: usize, side: Layout| -> Result<Layout> {
        let transpose = side.rank() > 1 && call.flag_or(at, false)?;
        Ok(if transpose { side.transposed(side.rank() - 2, side.rank() - 1) } else { side })
    };
    let (is_left_vector, is_right_vector) = (left.rank() == 1, right.rank() == 1);
    let a = if is_left_vector { left.with(0) } else { transposed(TRANSPOSE_LEFT, left)? };
    let b = if is_right_vector { right.with(1) } else { transposed(TRANSPOSE_RIGHT, right)? };
    let ((m, k), (right_k, n)) = (last_two(&a), last_two(&b));
    let batch = broadcast(&a.dims()[..a.rank() - 2], &b.dims()[..b.rank() - 2]);
    let Some(batch) = batch.filter(|_| k == right_k) else {
        return Err(wrong());
    };
    let with = |rows, columns| batch.iter().copied().chain([rows, columns]).collect::<Dims>();
    let (left, right) = (a.broadcast_to(&with(m, k)), b.broadcast_to(&with(k, n)));
    let (Some(left), Some(right)) = (left, right) else {
        return Err(wrong());
    };
    let mut dims = batch;
    let rank = batch.len();
    let mut vector_dims = [None; 2];
    match is_left_vector {
        true => vector_dims[0] = Some(rank),
        false => dims.push(m),
    }
    match is_right_vector {
        true => vector_dims[1] = Some(rank + 1),
        false => dims.push(n),
    }
    Ok(MatmulOperands { left, right, dims, vector_dims })
}

/// The last two sizes.
fn last_two(layout: &Layout) -> (usize, usize) {
    let rank = layout.rank();
    (layout.dims()[rank - 2], layout.dims()[rank - 1])
}

/// An input that no element of `out` may overwrite before it is read.
fn unaliased_input(call: &mut Call<'_>, input: Operand, out: &Operand) -> Input {
    let same = input.address == out.address && input.count() > 0;
    match same && !call.has_partial_overlap(&input, out) {
        true => {
            let scratch = call.scratch(input.dtype, input.dims());
            Input::Copied(input, scratch)
        }
        false => call.without_overlap(Input::Tensor(input), out),
    }
}

/// How two operands are multiplied.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// The product of each batch.
    Each,
    /// The sum of all batches' products.
    Sum,
    /// The products of all pairs of two vectors' elements.
    Outer,
}

/// `out = beta * added + alpha * (left @ right)`.
fn product(call: &mut Call<'_>, kind: Kind) -> Result<Plan> {
    if call.layout(LEFT)?.dtype.is_complex() {
        return complex_product(call, kind);
    }
    let (left, right, out) = (call.tensor(LEFT)?, call.tensor(RIGHT)?, call.output(OUT)?);
    for (at, operand) in [(LEFT, &left), (RIGHT, &right), (OUT, &out)] {
        call.expect_number(at, operand)?;
    }
    let MatmulOperands { left: a, right: b, mut dims, vector_dims } = match kind {
        Kind::Outer => operands(call, left.layout.with(1), right.layout.with(0))?,
        _ => operands(call, left.layout, right.layout)?,
    };
    let sum_batches = kind == Kind::Sum;
    if sum_batches {
        dims.remove(0);
    }
    call.expect_dims(OUT, &out, &dims)?;
    let (beta, alpha) = (call.value_or(BETA, 1)?, call.value_or(ALPHA, 1)?);
    let added = match call.optional(ADDED)? {
        None => None,
        Some(added) => {
            call.expect_number(ADDED, &added)?;
            let Some(broadcast) = added.broadcast_to(&dims) else {
                let (name, have) = (call.parameter(ADDED), added.dims());
                return Err(Error::invalid(format!(
                    "{name} {have:?} does not broadcast to {dims:?}"
                )));
            };
            Some(added.with_layout(broadcast))
        }
    };
    let in_place = added.is_some_and(|one| one.address == out.address && one.layout == out.layout);
    let to_copy =
        added.filter(|_| !in_place).map(|one| call.without_overlap(Input::Tensor(one), &out));
    let (left, right) = (
        unaliased_input(call, left.with_layout(a), &out),
        unaliased_input(call, right.with_layout(b), &out),
    );
    let (a, b) = (broadcast_layout(&left), broadcast_layout(&right));
    let out_matrices = vector_dims.iter().flatten().fold(out.layout, |layout, at| layout.with(*at));
    let panels = match sum_batches {
        true => kernel::panels(&out_matrices, &a.at(0, 0), &b.at(0, 0)),
        false => kernel::panels(&out_matrices, &a, &b),
    };
    let scratch = panels.map(|one| call.scratch(one.dtype(), &one.dims()));
    let has_added = added.is_some();
    let is_one = |value: &Value| value.known().is_some_and(|one| one.as_f64() == 1.0);
    let packed = match (&left, &right) {
        (Input::Tensor(left), Input::Tensor(right))
            if !sum_batches && is_one(&alpha) && (!has_added || is_one(&beta)) =>
        {
            kernel::PackedProduct::new(&out_matrices, &a, &b).map(|packed| PackedRight {
                packed,
                left: *left,
                right: *right,
                to_copy,
                out,
            })
        }
        _ => None,
    };
    let plan = call.plan(move |memory| {
        let alpha = alpha.read(memory);
        let mut beta = if has_added { beta.read(memory) } else { Scalar::from(0) };
        left.prepare(memory);
        right.prepare(memory);
        if let Some(to_copy) = to_copy.filter(|_| beta.as_bool()) {
            to_copy.prepare(memory);
            to_copy.with(memory, out.dims(), |to_copy| {
                copy(memory.parallel, memory.out(&out), to_copy)
            });
        }
        let scratch = scratch.map(|one| memory.scratch(&one));
        let out = memory.out(&out.with_layout(out_matrices));
        left.with(memory, a.dims(), |left| {
            right.with(memory, b.dims(), |right| {
                if !sum_batches {
                    return kernel::matmul(memory.parallel, out, left, right, alpha, beta, scratch);
                }
                for at in 0..left.dims()[0] {
                    let one = |view: &cairn_tensor::View<'_>| view.layout().at(0, at);
                    let (a, b) = (left.with_layout(one(&left)), right.with_layout(one(&right)));
                    let (Some(a), Some(b)) = (a, b) else { unreachable!("a part of itself") };
                    kernel::matmul(memory.parallel, out, a, b, alpha, beta, scratch);
                    beta = Scalar::from(1);
                }
            });
        });
        Ok(())
    })?;
    Ok(match packed {
        Some(packed) => packed.offer(plan, has_added),
        None => plan,
    })
}

/// A product whose right side can be packed.
struct PackedRight {
    packed: kernel::PackedProduct,
    left: Operand,
    right: Operand,
    /// What is added, unless it is in the output already.
    to_copy: Option<Input>,
    out: Operand,
}

impl PackedRight {
    /// The plan, with the right side packed for those who keep it.
    fn offer(self, plan: Plan, has_added: bool) -> Plan {
        let PackedRight { packed, left, right, to_copy, out } = self;
        let (dims, strides) = (packed.b.dims(), packed.b.strides());
        let format = format!("right side {dims:?} {strides:?} {}", packed.b.offset);
        let workspace = plan.workspace;
        let is_dense = out.is_contiguous() && out.offset == 0;
        let plan = plan.with_packing(
            &right,
            (packed.packed_size(), format),
            move |parallel, from, into| {
                packed.pack(parallel, View::of(from, packed.b).expect("all its bytes"), into);
            },
            workspace,
            move |memory, right| {
                if let Some(to_copy) = &to_copy {
                    to_copy.prepare(memory);
                    to_copy.with(memory, out.dims(), |to_copy| {
                        copy(memory.parallel, memory.out(&out), to_copy);
                    });
                }
                let target = memory.out(&out.with_layout(packed.out));
                let left = memory.view_with_layout(&left, packed.a);
                let rest = (has_added, memory.epilogue);
                packed.multiply(memory.parallel, target, left, right, rest);
                Ok(())
            },
        );
        if is_dense { plan.taking_stages() } else { plan }
    }
}

/// As [`product`], of complex numbers: products of their parts. Where something is added, the product is made in the
/// workspace.
fn complex_product(call: &mut Call<'_>, kind: Kind) -> Result<Plan> {
    let (left, right, out) = (call.tensor(LEFT)?, call.tensor(RIGHT)?, call.output(OUT)?);
    for (at, operand) in [(LEFT, &left), (RIGHT, &right), (OUT, &out)] {
        call.expect_dtype(at, operand, &[DType::Complex64, DType::Complex128])?;
        call.expect_same(at, operand, LEFT, &left)?;
    }
    let MatmulOperands { left: a, right: b, mut dims, vector_dims } = match kind {
        Kind::Outer => operands(call, left.layout.with(1), right.layout.with(0))?,
        _ => operands(call, left.layout, right.layout)?,
    };
    let sum_batches = kind == Kind::Sum;
    if sum_batches {
        dims.remove(0);
    }
    call.expect_dims(OUT, &out, &dims)?;
    let factor = |call: &Call<'_>, at: usize| match call.has(at) {
        true => call.any_scalar(at),
        false => Ok(Scalar::from(1)),
    };
    let (beta, alpha) = (factor(call, BETA)?, factor(call, ALPHA)?);
    let added = match call.optional(ADDED)? {
        None => None,
        Some(added) => {
            call.expect_same(ADDED, &added, LEFT, &left)?;
            let Some(broadcast) = added.broadcast_to(&dims) else {
                let (name, have) = (call.parameter(ADDED), added.dims());
                return Err(Error::invalid(format!(
                    "{name} {have:?} does not broadcast to {dims:?}"
                )));
            };
            Some(call.in_place_input(added.with_layout(broadcast), &[&out]))
        }
    };
    let (left, right) = (
        unaliased_input(call, left.with_layout(a), &out),
        unaliased_input(call, right.with_layout(b), &out),
    );
    let with_vector_dims =
        |layout: Layout| vector_dims.iter().flatten().fold(layout, |one, at| one.with(*at));
    let result = added.is_some().then(|| call.scratch(out.dtype, &dims));
    let target = with_vector_dims(result.map_or(out.layout, |scratch| *scratch));
    call.plan(move |memory| {
        left.prepare(memory);
        right.prepare(memory);
        let part = |input: &Input, which| match input {
            Input::Copied(_, scratch) => memory.scratch_part(scratch, which),
            Input::Tensor(operand) => memory.view_with_layout(operand, operand.layout.part(which)),
            Input::Scalar(_) => unreachable!("a tensor"),
        };
        // Real: ac - bd. Imaginary: ad + bc.
        for (to, terms) in [(0, [(0, 0, 1.0), (1, 1, -1.0)]), (1, [(0, 1, 1.0), (1, 0, 1.0)])] {
            let target = match &result {
                Some(scratch) => ViewMut::over(memory.scratch_bytes(scratch), target.part(to))
                    .expect("scratch is contiguous"),
                None => memory.out(&out.with_layout(target.part(to))),
            };
            let mut beta = Scalar::from(0);
            for (a, b, sign) in terms {
                let (a, b) = (part(&left, a), part(&right, b));
                let mut add = |a: View<'_>, b: View<'_>| {
                    kernel::matmul(memory.parallel, target, a, b, Scalar::from(sign), beta, None);
                    beta = Scalar::from(1);
                };
                if !sum_batches {
                    add(a, b);
                    continue;
                }
                for at in 0..a.dims()[0] {
                    let (one, other) = (a.layout().at(0, at), b.layout().at(0, at));
                    let (Some(a), Some(b)) = (a.with_layout(one), b.with_layout(other)) else {
                        unreachable!("a part of itself")
                    };
                    add(a, b);
                }
            }
        }
        if let (Some(added), Some(result)) = (&added, &result) {
            let (added, sums) = (added.view(memory), memory.scratch(result).view());
            with_complex!(out.dtype, C => {
                let (beta, alpha) = (C::from_scalar(beta), C::from_scalar(alpha));
                let is_beta_zero = beta == C::from_f64(0.0);
                map2(memory.parallel, memory.out(&out), added, sums, move |s: C, p: C| {
                    if is_beta_zero { alpha * p } else { beta * s + alpha * p }
                });
            });
        }
        Ok(())
    })
}

/// The layout a kernel will see.
fn broadcast_layout(input: &Input) -> Layout {
    match input {
        Input::Copied(_, scratch) => **scratch,
        Input::Tensor(operand) => operand.layout,
        Input::Scalar(_) => unreachable!("a tensor"),
    }
}

/// Fails unless left and right side have this many dimensions.
fn expect_ranks(call: &Call<'_>, left: usize, right: usize) -> Result<()> {
    for (at, rank) in [(LEFT, left), (RIGHT, right)] {
        let layout = call.layout(at)?;
        if layout.rank() != rank {
            let (name, dims) = (call.parameter(at), layout.dims());
            return Err(Error::invalid(format!(
                "{name} has the sizes {dims:?}: expected {rank} dimensions"
            )));
        }
    }
    Ok(())
}

/// Products of operands with these ranks.
macro_rules! products {
    ($($name:ident: $left:literal by $right:literal;)*) => {$(
        fn $name(call: &mut Call<'_>) -> Result<Plan> {
            expect_ranks(call, $left, $right)?;
            product(call, Kind::Each)
        }
    )*};
}

products! {
    by_matrix: 2 by 2;
    by_batch: 3 by 3;
    by_vector: 2 by 1;
    dot: 1 by 1;
}

/// The product of operands of any ranks.
fn any_ranks(call: &mut Call<'_>) -> Result<Plan> {
    product(call, Kind::Each)
}

fn addbmm(call: &mut Call<'_>) -> Result<Plan> {
    expect_ranks(call, 3, 3)?;
    if call.layout(LEFT)?.dims()[0] == 0 {
        let name = call.parameter(LEFT);
        return Err(Error::invalid(format!("{name} has no batches to sum")));
    }
    product(call, Kind::Sum)
}

fn outer(call: &mut Call<'_>) -> Result<Plan> {
    expect_ranks(call, 1, 1)?;
    let is_complex = call.layout(LEFT)?.dtype.is_complex();
    match call.has(ADDED) && !is_complex {
        true => added_outer(call),
        false => product(call, Kind::Outer),
    }
}

/// `out = beta * added + alpha * left[i] * right[j]`, computed in the type that all of them promote to.
fn added_outer(call: &mut Call<'_>) -> Result<Plan> {
    let (added, left, right) = (call.tensor(ADDED)?, call.tensor(LEFT)?, call.tensor(RIGHT)?);
    let out = call.output(OUT)?;
    for (at, one) in [(ADDED, &added), (LEFT, &left), (RIGHT, &right), (OUT, &out)] {
        call.expect_number(at, one)?;
    }
    let dims = [left.count(), right.count()];
    call.expect_dims(OUT, &out, &dims)?;
    let (beta, alpha) = (call.value_or(BETA, 1)?, call.value_or(ALPHA, 1)?);
    let expand = |call: &Call<'_>, at: usize, one: Operand, layout: Option<Layout>| match layout {
        Some(layout) => Ok(one.with_layout(layout)),
        None => {
            let (name, have) = (call.parameter(at), one.dims());
            Err(Error::invalid(format!("{name} {have:?} does not broadcast to {dims:?}")))
        }
    };
    let added = expand(call, ADDED, added, added.broadcast_to(&dims))?;
    let left = expand(call, LEFT, left, left.with(1).broadcast_to(&dims))?;
    let right = expand(call, RIGHT, right, right.with(0).broadcast_to(&dims))?;
    let dtype = promote_all([added.dtype, left.dtype, right.dtype]).unwrap_or(out.dtype);
    call.expect_castable(OUT, dtype, &out)?;
    let inputs = [added, left, right].map(|one| call.without_overlap(Input::Tensor(one), &out));
    call.plan(move |memory| {
        let (beta, alpha) = (beta.read(memory), alpha.read(memory));
        inputs.iter().for_each(|one| one.prepare(memory));
        let out = memory.out(&out);
        inputs[0].with(memory, &dims, |added| {
            inputs[1].with(memory, &dims, |left| {
                inputs[2].with(memory, &dims, |right| {
                    with_number!(dtype, C => {
                        let (beta, alpha) = (C::from_scalar(beta), C::from_scalar(alpha));
                        let is_beta_zero = beta == C::ZERO;
                        map3(memory.parallel, out, added, left, right, move |s: C, a: C, b: C| {
                            let product = alpha.mul(a).mul(b);
                            if is_beta_zero { product } else { beta.mul(s).add(product) }
                        });
                    });
                });
            });
        });
        Ok(())
    })
}

fn infer_product(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (left, right) = (call.layout(LEFT)?, call.layout(RIGHT)?);
    let dtype = match left.dtype {
        DType::Int8 => DType::Int32,
        other => other,
    };
    Ok(vec![Layout::contiguous(dtype, &operands(call, left, right)?.dims)])
}

fn infer_outer(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (left, right) = (call.layout(LEFT)?, call.layout(RIGHT)?);
    Ok(vec![Layout::contiguous(left.dtype, &[left.count(), right.count()])])
}

const PLAIN: &[ArgSource] = &[No, A(0), A(1), No, No, A(2)];
const ADDING: &[ArgSource] = &[A(0), A(1), A(2), A(3), A(4), A(5)];
const IN_PLACE: &[ArgSource] = &[A(0), A(1), A(2), A(3), A(4), A(0)];

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("Mm", by_matrix).with_args(PLAIN),
    aclnn("Matmul", any_ranks).with_args(PLAIN),
    aclnn("BatchMatMul", by_batch).with_args(PLAIN),
    aclnn("Mv", by_vector).with_args(PLAIN),
    aclnn("Dot", dot).with_args(PLAIN),
    aclnn("Ger", outer).with_args(PLAIN),
    aclnn("Addmm", by_matrix).with_args(ADDING),
    aclnn("InplaceAddmm", by_matrix).with_args(IN_PLACE),
    aclnn("Addbmm", addbmm).with_args(ADDING),
    aclnn("InplaceAddbmm", addbmm).with_args(IN_PLACE),
    aclnn("Baddbmm", by_batch).with_args(ADDING),
    aclnn("InplaceBaddbmm", by_batch).with_args(IN_PLACE),
    aclnn("Addmv", by_vector).with_args(&[A(0), A(1), A(2), A(4), A(3), A(5)]),
    aclnn("Addr", outer).with_args(ADDING),
    aclnn("InplaceAddr", outer).with_args(IN_PLACE),
    aclnn("Gemm", by_matrix).with_args(&[A(2), A(0), A(1), A(4), A(3), A(7), A(5), A(6)]),
];

const ADJOINED: &[ArgSource] = &[
    A(2),
    A(0),
    A(1),
    I(1),
    I(1),
    O(0),
    Attr("adj_x1", AttrDefault::Flag(false)),
    Attr("adj_x2", AttrDefault::Flag(false)),
];

const TRANSPOSED: &[ArgSource] = &[
    A(2),
    A(0),
    A(1),
    I(1),
    I(1),
    O(0),
    Attr("transpose_x1", AttrDefault::Flag(false)),
    Attr("transpose_x2", AttrDefault::Flag(false)),
];

const WITH_BIAS: &[&str] = &["x1", "x2", "bias?", "offset_w?"];

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node("MatMul", &["x1", "x2", "bias?"], &["y"], Infer::By(infer_product), by_matrix, TRANSPOSED),
    node("MatMulV2", WITH_BIAS, &["y"], Infer::By(infer_product), by_matrix, TRANSPOSED),
    node("BatchMatMul", &["x1", "x2"], &["y"], Infer::By(infer_product), any_ranks, ADJOINED),
    node("BatchMatMulV2", WITH_BIAS, &["y"], Infer::By(infer_product), any_ranks, ADJOINED),
    node(
        "Dot",
        &["input_x", "input_y"],
        &["output"],
        Infer::By(infer_product),
        dot,
        &[No, A(0), A(1), No, No, O(0)],
    ),
    node(
        "Ger",
        &["x1", "x2"],
        &["y"],
        Infer::By(infer_outer),
        outer,
        &[No, A(0), A(1), No, No, O(0)],
    ),
    node(
        "GEMM",
        &["a", "b", "c", "alpha", "beta"],
        &["y"],
        Infer::By(infer_product),
        by_matrix,
        &[
            A(2),
            A(0),
            A(1),
            A(4),
            A(3),
            O(0),
            Attr("transpose_a", AttrDefault::Flag(false)),
            Attr("transpose_b", AttrDefault::Flag(false)),
        ],
    ),
];
