//! Products of matrices with a collective before or after them, in one operator.
//!
//! Workspace: what is gathered or exchanged where the caller does not want it, and the panels of the product. Products are
//! rounded to the type of the output before they are reduced. How a product is cut to overlap with communication
//! (`commTurn`, `streamMode`, `commMode`) is left to the engine.

use super::hcom::exchange_equal;
use super::{PackedInput, PackedOutput};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::family::inputs::UnaliasedInput;
use crate::family::matmul::{self, MatmulOperands, OUT};
use crate::infer::Infer;
use crate::plan::{Memory, Operand, Plan, Scratch};
use crate::table::ArgSource::{A, Attr, No, O};
use crate::table::{ArgSource, AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::map::map2;
use cairn_tensor::kernels::matmul as kernel;
use cairn_tensor::{DType, Layout, Scalar, View, ViewMut};
use std::cell::Cell;

// Arguments: bias, x1, x2, what is added to the product, group, output, whether x1 and x2 are transposed, reduction, what was
// gathered or exchanged, ranks, axes of an exchange, what quantised forms take.
const BIAS: usize = 0;
const X1: usize = 1;
const X2: usize = 2;
const X3: usize = 3;
const GROUP: usize = 4;
const TRANSPOSE_X1: usize = 6;
const REDUCTION: usize = 8;
const GATHERED: usize = 9;
const SIZE: usize = 10;
const AXES: usize = 11;
const GATHER_INDEX: usize = 12;
const QUANTISED: std::ops::Range<usize> = 13..20;

const TYPES: &[DType] = &[DType::Float16, DType::Bf16, DType::Float];

/// The right side of a product, the bias, and the panels it is computed in.
#[derive(Clone, Copy)]
struct Product {
    left: Layout,
    right: UnaliasedInput,
    bias: Option<UnaliasedInput>,
    panels: Option<Scratch>,
    /// A contiguous output.
    out: Layout,
}

impl Product {
    /// Fails for sides that cannot be multiplied; `left` is the left side as it will be when the product is computed.
    fn new(call: &mut Call<'_>, left: &Layout, outputs: &[&Operand]) -> Result<Product> {
        let right = call.read(X2, outputs)?;
        call.expect_dtype(X2, &right, &[left.dtype])?;
        if right.rank() != 2 {
            let (name, dims) = (call.parameter(X2), right.dims());
            return Err(Error::invalid(format!(
                "{name} has the sizes {dims:?}: expected 2 dimensions"
            )));
        }
        let MatmulOperands { left: a, right: b, dims, .. } = matmul::operands(call, *left, *right)?;
        let out = Layout::contiguous(left.dtype, &dims);
        let bias = match call.has(BIAS) {
            false => None,
            true => {
                let bias = call.read(BIAS, outputs)?;
                call.expect_dtype(BIAS, &bias, TYPES)?;
                let Some(layout) = bias.broadcast_to(&dims).filter(|_| bias.rank() <= 2) else {
                    let (name, have) = (call.parameter(BIAS), bias.dims());
                    return Err(Error::invalid(format!(
                        "{name} {have:?} does not broadcast to {dims:?}"
                    )));
                };
                Some(bias.with_layout(layout))
            }
        };
        let right = right.with_layout(b);
        let panels = kernel::panels(&out, &a, &right);
        let panels = panels.map(|one| call.scratch(one.dtype(), &one.dims()));
        Ok(Product { left: a, right, bias, panels, out })
    }

    /// Computes it into contiguous bytes; those of the left side are contiguous too.
    fn run(&self, memory: &Memory<'_>, out: &[Cell<u8>], left: &[Cell<u8>]) {
        let out = ViewMut::over(out, self.out).expect("as many bytes as the product has");
        let left = View::over(left, self.left).expect("as many bytes as the left side has");
        let mut beta = Scalar::from(0);
        if let Some(bias) = &self.bias {
            copy(memory.parallel, out, bias.view(memory));
            beta = Scalar::from(1);
        }
        let panels = self.panels.map(|one| memory.scratch(&one));
        let right = self.right.view(memory);
        kernel::matmul(memory.parallel, out, left, right, Scalar::from(1), beta, panels);
    }
}

/// The left side, which is sent or multiplied as it lies in memory.
fn left_side(call: &mut Call<'_>, ranks: std::ops::RangeInclusive<usize>) -> Result<PackedInput> {
    for at in QUANTISED {
        call.expect_not_quantised(at)?;
    }
    let left = call.packed_input(X1)?;
    call.expect_dtype(X1, &left, TYPES)?;
    if !ranks.contains(&left.rank()) {
        let (name, dims) = (call.parameter(X1), left.dims());
        return Err(Error::invalid(format!(
            "{name} has the sizes {dims:?}: expected {} to {} dimensions",
            ranks.start(),
            ranks.end()
        )));
    }
    if call.flag_or(TRANSPOSE_X1, false)? {
        let name = call.parameter(TRANSPOSE_X1);
        return Err(Error::invalid(format!("{name} is true: x1 cannot be transposed")));
    }
    Ok(left)
}

/// The output, of the type of the left side.
fn output(call: &mut Call<'_>, left: &Layout) -> Result<PackedOutput> {
    let out = call.packed_output(OUT)?;
    call.expect_same(OUT, &out, X1, left)?;
    Ok(out)
}

/// The number of ranks: what the caller says, else how many of `part` there are in `whole`.
fn ranks(call: &Call<'_>, whole: usize, part: usize) -> Result<usize> {
    let stated = call.int_or(SIZE, 0)?;
    if stated > 0 {
        return Ok(stated as usize);
    }
    match part > 0 && whole.is_multiple_of(part) {
        true => Ok(whole / part),
        false if whole == part => Ok(1),
        false => {
            let (out, x1) = (call.parameter(OUT), call.parameter(X1));
            Err(Error::invalid(format!(
                "{out} and {x1} have {whole} and {part} rows, or the other way round: expected a multiple"
            )))
        }
    }
}

/// `out = gather(x1) @ x2 + bias`.
fn all_gather_matmul(call: &mut Call<'_>) -> Result<Plan> {
    let index = call.int_or(GATHER_INDEX, 0)?;
    if index != 0 {
        let name = call.parameter(GATHER_INDEX);
        return Err(Error::invalid(format!("{name} = {index}: expected 0 (x1)")));
    }
    let left = left_side(call, 2..=2)?;
    let out = output(call, &left)?;
    let (rows, width) = (left.dims()[0], left.dims()[1]);
    let size = ranks(call, out.dims().first().copied().unwrap_or(0), rows)?;
    let gathered_dims = [rows * size, width];
    let gathered = call.optional_packed_output(GATHERED)?.filter(|one| one.count() > 0);
    let gathered_layout = Layout::contiguous(left.dtype, &gathered_dims);
    if let Some(one) = &gathered {
        call.expect_same(GATHERED, one, X1, &left)?;
        call.expect_dims(GATHERED, one, &gathered_dims)?;
    }
    let scratch = gathered.is_none().then(|| call.scratch(left.dtype, &gathered_dims));
    let product = Product::new(call, &gathered_layout, &[&out])?;
    call.expect_dims(OUT, &out, product.out.dims())?;
    let group = call.group(GROUP, Some(size))?;
    call.plan(move |memory| {
        let to = match (&gathered, &scratch) {
            (Some(gathered), _) => gathered.bytes(memory),
            (None, Some(scratch)) => memory.scratch_bytes(scratch),
            (None, None) => &[],
        };
        memory.groups[group].all_gather(left.bytes(memory), to)?;
        product.run(memory, out.bytes(memory), to);
        out.store(memory);
        if let Some(gathered) = &gathered {
            gathered.store(memory);
        }
        Ok(())
    })
}

/// `out = reduce(x1 @ x2 + bias + x3)`.
fn matmul_all_reduce(call: &mut Call<'_>) -> Result<Plan> {
    let left = left_side(call, 2..=3)?;
    let out = output(call, &left)?;
    let product = Product::new(call, &left.packed(), &[&out])?;
    call.expect_dims(OUT, &out, product.out.dims())?;
    let added = match call.has(X3) {
        false => None,
        true => {
            let added = call.read(X3, &[&out])?;
            call.expect_same(X3, &added, X1, &left)?;
            let Some(layout) = added.reshaped(out.dims()) else {
                let (name, have, want) = (call.parameter(X3), added.dims(), out.dims());
                return Err(Error::invalid(format!(
                    "{name} has the sizes {have:?}: expected {want:?}"
                )));
            };
            Some(added.with_layout(layout))
        }
    };
    let reduction = call.reduction(REDUCTION)?;
    let (group, dtype) = (call.group(GROUP, None)?, left.dtype);
    call.plan(move |memory| {
        let bytes = out.bytes(memory);
        product.run(memory, bytes, left.bytes(memory));
        if let Some(added) = &added {
            let sums = ViewMut::over(bytes, product.out).expect("the product");
            map2(memory.parallel, sums, sums.view(), added.view(memory), |x: f32, y: f32| x + y);
        }
        memory.groups[group].all_reduce(dtype, reduction, bytes)?;
        out.store(memory);
        Ok(())
    })
}

/// `out = scatter(reduce(x1 @ x2 + bias))`.
fn matmul_reduce_scatter(call: &mut Call<'_>) -> Result<Plan> {
    let left = left_side(call, 2..=2)?;
    let out = output(call, &left)?;
    let product = Product::new(call, &left.packed(), &[&out])?;
    let size = ranks(call, left.dims()[0], out.dims().first().copied().unwrap_or(0))?;
    if !left.dims()[0].is_multiple_of(size) {
        let (name, rows) = (call.parameter(X1), left.dims()[0]);
        return Err(Error::invalid(format!(
            "{name} has {rows} rows: expected a multiple of {size} ranks"
        )));
    }
    call.expect_dims(OUT, &out, &[left.dims()[0] / size, product.out.dims()[1]])?;
    let sums = call.scratch(left.dtype, product.out.dims());
    let reduction = call.reduction(REDUCTION)?;
    let (group, dtype) = (call.group(GROUP, Some(size))?, left.dtype);
    call.plan(move |memory| {
        let sums = memory.scratch_bytes(&sums);
        product.run(memory, sums, left.bytes(memory));
        memory.groups[group].reduce_scatter(dtype, reduction, sums, out.bytes(memory))?;
        out.store(memory);
        Ok(())
    })
}

/// Fails unless the axes of an exchange are these, or not given.
fn expect_axes(call: &Call<'_>, expected: [i64; 2]) -> Result<()> {
    let axes = if call.has(AXES) { call.ints(AXES)? } else { Vec::new() };
    match axes.is_empty() || axes == expected {
        true => Ok(()),
        false => {
            let name = call.parameter(AXES);
            Err(Error::invalid(format!("{name} = {axes:?}: expected none or {expected:?}")))
        }
    }
}

/// Rows of `x1` by rank, exchanged, become longer rows; `out` is their product with `x2`.
fn all_to_all_matmul(call: &mut Call<'_>) -> Result<Plan> {
    expect_axes(call, [-2, -1])?;
    let left = left_side(call, 2..=2)?;
    let out = output(call, &left)?;
    let (rows, width) = (left.dims()[0], left.dims()[1]);
    let size = ranks(call, rows, out.dims().first().copied().unwrap_or(0))?;
    if !rows.is_multiple_of(size) {
        let name = call.parameter(X1);
        return Err(Error::invalid(format!(
            "{name} has {rows} rows: expected a multiple of {size} ranks"
        )));
    }
    let exchanged = [rows / size, size * width];
    let wanted = call.optional_packed_output(GATHERED)?.filter(|one| one.count() > 0);
    if let Some(one) = &wanted {
        call.expect_same(GATHERED, one, X1, &left)?;
        call.expect_dims(GATHERED, one, &exchanged)?;
    }
    let received = call.scratch(left.dtype, &[size, rows / size, width]);
    let permuted = wanted.is_none().then(|| call.scratch(left.dtype, &exchanged));
    let product = Product::new(call, &Layout::contiguous(left.dtype, &exchanged), &[&out])?;
    call.expect_dims(OUT, &out, product.out.dims())?;
    let group = call.group(GROUP, Some(size))?;
    let dtype = left.dtype;
    call.plan(move |memory| {
        let from = memory.scratch_bytes(&received);
        exchange_equal(memory.groups[group], left.bytes(memory), from)?;
        let to = match (&wanted, &permuted) {
            (Some(wanted), _) => wanted.bytes(memory),
            (None, Some(scratch)) => memory.scratch_bytes(scratch),
            (None, None) => &[],
        };
        let by_row = Layout::contiguous(dtype, &[rows / size, size, width]);
        let target = ViewMut::over(to, by_row).expect("as many bytes");
        let source = received.layout.transposed(0, 1);
        copy(memory.parallel, target, View::over(from, source).expect("as many bytes"));
        product.run(memory, out.bytes(memory), to);
        out.store(memory);
        if let Some(wanted) = &wanted {
            wanted.store(memory);
        }
        Ok(())
    })
}

/// Columns of `x1 @ x2 + bias` by rank, exchanged, become more rows.
fn matmul_all_to_all(call: &mut Call<'_>) -> Result<Plan> {
    expect_axes(call, [-1, -2])?;
    let left = left_side(call, 2..=2)?;
    let out = output(call, &left)?;
    let product = Product::new(call, &left.packed(), &[&out])?;
    let (rows, columns) = (product.out.dims()[0], product.out.dims()[1]);
    let size = ranks(call, out.dims().first().copied().unwrap_or(0), rows)?;
    if !columns.is_multiple_of(size) {
        let name = call.parameter(X2);
        return Err(Error::invalid(format!(
            "{name} has {columns} columns: expected a multiple of {size} ranks"
        )));
    }
    call.expect_dims(OUT, &out, &[rows * size, columns / size])?;
    let sums = call.scratch(left.dtype, &[rows, size, columns / size]);
    let by_rank = call.scratch(left.dtype, &[size, rows, columns / size]);
    let group = call.group(GROUP, Some(size))?;
    call.plan(move |memory| {
        product.run(memory, memory.scratch_bytes(&sums), left.bytes(memory));
        let source = View::over(memory.scratch_bytes(&sums), sums.layout.transposed(0, 1));
        copy(memory.parallel, memory.scratch(&by_rank), source.expect("as many bytes"));
        let send = memory.scratch_bytes(&by_rank);
        exchange_equal(memory.groups[group], send, out.bytes(memory))?;
        out.store(memory);
        Ok(())
    })
}

// x1, x2, bias, and where the rest is: (x3, group, out, reduction, gathered).
const fn source(at: Option<usize>) -> ArgSource {
    match at {
        Some(at) => A(at),
        None => No,
    }
}

macro_rules! row {
    ($x3:expr, $group:expr, $out:expr, $transpose:expr, $reduction:expr, $gathered:expr, $axes:expr, $index:expr, $quantised:expr) => {
        &[
            A(2),
            A(0),
            A(1),
            source($x3),
            A($group),
            A($out),
            source($transpose.0),
            source($transpose.1),
            source($reduction),
            source($gathered),
            No,
            source($axes),
            source($index),
            source($quantised.0),
            source($quantised.1),
            source($quantised.2),
            source($quantised.3),
        ]
    };
}

const NOT_TRANSPOSED: (Option<usize>, Option<usize>) = (None, None);
type Quantised = (Option<usize>, Option<usize>, Option<usize>, Option<usize>);
const PLAIN: Quantised = (None, None, None, None);

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("AllGatherMatmul", all_gather_matmul).with_args(row!(
        None,
        3,
        7,
        NOT_TRANSPOSED,
        None,
        Some(8),
        None,
        Some(4),
        PLAIN
    )),
    aclnn("AllGatherMatmulV2", all_gather_matmul).with_args(row!(
        None,
        7,
        13,
        NOT_TRANSPOSED,
        None,
        Some(14),
        None,
        Some(8),
        (Some(3), Some(4), Some(5), Some(15))
    )),
    aclnn("MatmulAllReduce", matmul_all_reduce).with_args(row!(
        None,
        3,
        7,
        NOT_TRANSPOSED,
        Some(4),
        None,
        None,
        None,
        PLAIN
    )),
    aclnn("MatmulAllReduceV2", matmul_all_reduce).with_args(row!(
        Some(3),
        4,
        8,
        NOT_TRANSPOSED,
        Some(5),
        None,
        None,
        None,
        PLAIN
    )),
    aclnn("MatmulAllReduceV3", matmul_all_reduce).with_args(row!(
        Some(3),
        4,
        9,
        NOT_TRANSPOSED,
        Some(5),
        None,
        None,
        None,
        PLAIN
    )),
    aclnn("MatmulReduceScatter", matmul_reduce_scatter).with_args(row!(
        None,
        3,
        7,
        NOT_TRANSPOSED,
        Some(4),
        None,
        None,
        None,
        PLAIN
    )),
    aclnn("MatmulReduceScatterV2", matmul_reduce_scatter).with_args(row!(
        None,
        7,
        13,
        NOT_TRANSPOSED,
        Some(8),
        None,
        None,
        None,
        (Some(3), Some(4), Some(5), Some(14))
    )),
    aclnn("AlltoAllMatmul", all_to_all_matmul).with_args(row!(
        None,
        4,
        7,
        (Some(5), Some(6)),
        None,
        Some(8),
        Some(3),
        None,
        PLAIN
    )),
    aclnn("AlltoAllMatmulV2", all_to_all_matmul).with_args(row!(
        None,
        4,
        8,
        (Some(6), Some(7)),
        None,
        Some(9),
        Some(3),
        None,
        PLAIN
    )),
    aclnn("MatmulAlltoAll", matmul_all_to_all).with_args(row!(
        None,
        4,
        7,
        (Some(5), Some(6)),
        None,
        None,
        Some(3),
        None,
        PLAIN
    )),
    aclnn("MatmulAlltoAllV2", matmul_all_to_all).with_args(row!(
        None,
        4,
        8,
        (Some(6), Some(7)),
        None,
        None,
        Some(3),
        None,
        PLAIN
    )),
];

/// The sizes of `x1 @ x2` with the rows of `x1` changed.
fn inferred(call: &Call<'_>, rows: impl Fn(usize) -> usize) -> Result<(Layout, Layout)> {
    let (left, right) = (call.layout(X1)?, call.layout(X2)?);
    let left = left.packed();
    let product = matmul::operands(call, left, right.packed())?;
    let mut dims = product.dims.to_vec();
    if let Some(first) = dims.first_mut() {
        *first = rows(*first);
    }
    let mut gathered = left.dims().to_vec();
    if let Some(first) = gathered.first_mut() {
        *first = rows(*first);
    }
    Ok((Layout::contiguous(left.dtype, &dims), Layout::contiguous(left.dtype, &gathered)))
}

fn stated_ranks(call: &Call<'_>) -> Result<usize> {
    call.ranks(SIZE)
}

fn gathered_product(call: &Call<'_>) -> Result<Vec<Layout>> {
    let size = stated_ranks(call)?;
    let (product, gathered) = inferred(call, |rows| rows.saturating_mul(size))?;
    Ok(vec![product, gathered])
}

fn plain_product(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![inferred(call, |rows| rows)?.0])
}

fn scattered_product(call: &Call<'_>) -> Result<Vec<Layout>> {
    let size = stated_ranks(call)?;
    Ok(vec![inferred(call, |rows| rows / size)?.0])
}

const GROUP_ATTR: ArgSource = Attr("group", AttrDefault::Required);
const REDUCE_ATTR: ArgSource = Attr("reduce_op", AttrDefault::Text("sum"));
const SIZE_ATTR: ArgSource = Attr("rank_size", AttrDefault::Int(0));
const TRANSPOSE_ATTRS: [ArgSource; 2] =
    [Attr("is_trans_a", AttrDefault::Flag(false)), Attr("is_trans_b", AttrDefault::Flag(false))];
const GATHER_ATTR: ArgSource = Attr("gather_index", AttrDefault::Int(0));

/// The nodes of this family. A graph that infers sizes needs `rank_size`.
pub const NODES: &[Node] = &[
    node(
        "AllGatherMatmul",
        &["x1", "x2", "bias?"],
        &["y", "gather_out"],
        Infer::By(gathered_product),
        all_gather_matmul,
        &[
            A(2),
            A(0),
            A(1),
            No,
            GROUP_ATTR,
            O(0),
            TRANSPOSE_ATTRS[0],
            TRANSPOSE_ATTRS[1],
            No,
            O(1),
            SIZE_ATTR,
            No,
            GATHER_ATTR,
        ],
    )
    .communicates(),
    node(
        "MatmulReduceScatter",
        &["x1", "x2", "bias?"],
        &["y"],
        Infer::By(scattered_product),
        matmul_reduce_scatter,
        &[
            A(2),
            A(0),
            A(1),
            No,
            GROUP_ATTR,
            O(0),
            TRANSPOSE_ATTRS[0],
            TRANSPOSE_ATTRS[1],
            REDUCE_ATTR,
            No,
            SIZE_ATTR,
        ],
    )
    .communicates(),
    node(
        "MatmulAllReduce",
        &[
            "x1",
            "x2",
            "bias?",
            "x3?",
            "antiquant_scale?",
            "antiquant_offset?",
            "dequant_scale?",
            "pertoken_scale?",
            "comm_quant_scale_1?",
            "comm_quant_scale_2?",
        ],
        &["y"],
        Infer::By(plain_product),
        matmul_all_reduce,
        &[
            A(2),
            A(0),
            A(1),
            A(3),
            GROUP_ATTR,
            O(0),
            TRANSPOSE_ATTRS[0],
            TRANSPOSE_ATTRS[1],
            REDUCE_ATTR,
            No,
            No,
            No,
            No,
            A(4),
            A(5),
            A(6),
            A(7),
            A(8),
            A(9),
        ],
    )
    .communicates(),
];
