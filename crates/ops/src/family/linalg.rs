//! Linear algebra: factors, inverses, determinants, triangular systems, of matrices in the last two dimensions.
//!
//! Workspace: the matrices of all batches in `f64` (16 bytes for complex ones), each of inputs and results once.

use crate::call::Call;
use crate::error::{Error, Fault, Result};
use crate::infer::Infer;
use crate::plan::{Memory, Operand, Plan, Scratch};
use crate::table::ArgSource::{A, Attr, B, No, O};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::linalg::{self, Field, Stack, Triangle};
use cairn_tensor::kernels::sequence::triangle;
use cairn_tensor::{DType, Dims, Layout, MAX_DIMS, broadcast};
use num_complex::Complex;

/// Types of elements that matrices may have.
const TYPES: &[DType] = &[
    DType::Float,
    DType::Double,
    DType::Float16,
    DType::Bf16,
    DType::Complex64,
    DType::Complex128,
];

/// The matrices of a tensor: the sizes of their batches, and their own.
#[derive(Clone, Copy)]
struct Matrices {
    batch: Dims,
    rows: usize,
    columns: usize,
}

impl Matrices {
    /// The matrices in the last two dimensions of a tensor of these types.
    fn of(call: &Call<'_>, at: usize, layout: &Layout, types: &[DType]) -> Result<Matrices> {
        call.expect_dtype(at, layout, types)?;
        let rank = layout.rank();
        if rank < 2 {
            let (name, dims) = (call.parameter(at), layout.dims());
            return Err(Error::invalid(format!(
                "{name} has the sizes {dims:?}: expected at least 2 dimensions"
            )));
        }
        let (batch, last) = layout.dims().split_at(rank - 2);
        Ok(Matrices { batch: Dims::new(batch), rows: last[0], columns: last[1] })
    }

    /// As [`Matrices::of`], of as many rows as columns.
    fn square(call: &Call<'_>, at: usize, layout: &Layout, types: &[DType]) -> Result<Matrices> {
        let shape = Matrices::of(call, at, layout, types)?;
        if shape.rows == shape.columns {
            return Ok(shape);
        }
        let (name, dims) = (call.parameter(at), layout.dims());
        Err(Error::invalid(format!(
            "{name} has the sizes {dims:?}: expected as many rows as columns"
        )))
    }

    fn count(&self) -> usize {
        self.batch.iter().product()
    }

    /// The batch sizes, then these.
    fn with(&self, last: &[usize]) -> Dims {
        self.batch.iter().copied().chain(last.iter().copied()).collect()
    }
}

/// A part of the workspace for matrices that kernels compute on.
#[derive(Clone, Copy)]
struct StackScratch {
    scratch: Scratch,
    /// Elements of a matrix.
    elements: usize,
    count: usize,
}

/// The matrices begin on a multiple of this.
const ALIGN: usize = 16;

impl StackScratch {
    fn new(call: &mut Call<'_>, item: usize, shape: &Matrices, dims: &[usize]) -> StackScratch {
        let sizes = shape.batch.iter().chain(dims);
        let bytes = sizes.copied().try_fold(item, usize::checked_mul);
        let bytes = bytes.and_then(|bytes| bytes.checked_add(ALIGN)).unwrap_or(usize::MAX);
        let scratch = call.scratch(DType::Uint8, &[bytes]);
        let elements = dims.iter().copied().fold(1, usize::saturating_mul);
        let count = shape.count();
        StackScratch { scratch, elements, count }
    }

    /// The matrices, once the kernel runs.
    fn stack<'m, F: Field>(&self, memory: &Memory<'m>) -> Stack<'m, F> {
        let bytes = memory.scratch_bytes(&self.scratch);
        let start = bytes.as_ptr().align_offset(ALIGN).min(bytes.len());
        Stack::new(&bytes[start..], self.count, self.elements).expect("room for all matrices")
    }
}

/// Runs `$body` with `$F` standing for the type that matrices of `$dtype` compute in.
macro_rules! with_field {
    ($dtype:expr, $F:ident => $body:expr) => {
        match $dtype.is_complex() {
            true => {
                type $F = Complex<f64>;
                $body
            }
            false => {
                type $F = f64;
                $body
            }
        }
    };
}

fn transposed(layout: &Layout) -> Layout {
    layout.transposed(layout.rank() - 2, layout.rank() - 1)
}

/// An output of these sizes and the type of an input.
fn result(call: &mut Call<'_>, at: usize, dims: &[usize], like: &Operand) -> Result<Operand> {
    let out = call.output(at)?;
    call.expect_dims(at, &out, dims)?;
    call.expect_same(at, &out, 0, like)?;
    Ok(out)
}

/// `out @ a = 1`. Arguments: a, out, whether the conjugate transpose of `a` is inverted.
fn inverse(call: &mut Call<'_>) -> Result<Plan> {
    let a = call.tensor(0)?;
    let shape = Matrices::square(call, 0, &a, TYPES)?;
    let out = result(call, 1, a.dims(), &a)?;
    let adjoint = call.flag_or(2, false)?;
    if out.count() == 0 {
        return call.nothing();
    }
    with_field!(a.dtype, F => {
        let n = shape.rows;
        let [from, to] = [0; 2].map(|_| StackScratch::new(call, size_of::<F>(), &shape, &[n, n]));
        call.plan(move |memory| {
            let (from, to) = (from.stack::<F>(memory), to.stack::<F>(memory));
            let source = if adjoint { transposed(a.layout()) } else { *a.layout() };
            copy(memory.parallel, from.view(a.dims()), memory.view_with_layout(&a, source));
            if adjoint {
                linalg::conjugate(memory.parallel, &from);
            }
            linalg::inverse(memory.parallel, &from, &to, n);
            copy(memory.parallel, memory.out(&out), to.view(a.dims()).view());
            Ok(())
        })
    })
}

/// The lower factor, or the upper one. Arguments: a, whether upper, out.
fn cholesky(call: &mut Call<'_>) -> Result<Plan> {
    let a = call.tensor(0)?;
    let shape = Matrices::square(call, 0, &a, TYPES)?;
    let upper = call.flag_or(1, false)?;
    let out = result(call, 2, a.dims(), &a)?;
    if out.count() == 0 {
        return call.nothing();
    }
    let name = call.parameter(0);
    with_field!(a.dtype, F => {
        let n = shape.rows;
        let matrices = StackScratch::new(call, size_of::<F>(), &shape, &[n, n]);
        call.plan(move |memory| {
            let stack = matrices.stack::<F>(memory);
            copy(memory.parallel, stack.view(a.dims()), memory.view(&a));
            if let Some(bad) = linalg::cholesky(memory.parallel, &stack, n) {
                return Err(Fault(format!("matrix {bad} of {name} is not positive definite")));
            }
            if upper {
                linalg::conjugate(memory.parallel, &stack);
            }
            let to = if upper { transposed(out.layout()) } else { *out.layout() };
            copy(memory.parallel, memory.out(&out.with_layout(to)), stack.view(a.dims()).view());
            Ok(())
        })
    })
}

/// The unitary and the upper factor. Arguments: a, mode (0: reduced, 1: complete, 2: the upper one alone), Q, R.
fn qr(call: &mut Call<'_>) -> Result<Plan> {
    let a = call.tensor(0)?;
    let shape = Matrices::of(call, 0, &a, TYPES)?;
    let (m, n) = (shape.rows, shape.columns);
    let mode = match call.arg(1) {
        crate::argument::Arg::Flag(complete) => i64::from(*complete),
        _ => call.int(1)?,
    };
    let columns = match mode {
        0 | 2 => m.min(n),
        1 => m,
        _ => {
            let name = call.parameter(1);
            return Err(Error::invalid(format!(
                "{name} = {mode}: expected 0 (reduced), 1 (complete) or 2 (R alone)"
            )));
        }
    };
    let q = match mode {
        2 => None,
        _ => Some(result(call, 2, &shape.with(&[m, columns]), &a)?),
    };
    let r = result(call, 3, &shape.with(&[columns, n]), &a)?;
    if r.count() == 0 && q.is_none_or(|q| q.count() == 0) {
        return call.nothing();
    }
    with_field!(a.dtype, F => {
        let item = size_of::<F>();
        let matrices = StackScratch::new(call, item, &shape, &[m, n]);
        let scales = StackScratch::new(call, item, &shape, &[m.min(n)]);
        let left = q.map(|_| StackScratch::new(call, item, &shape, &[m, columns]));
        call.plan(move |memory| {
            let stack = matrices.stack::<F>(memory);
            let factors = stack.view(a.dims());
            copy(memory.parallel, factors, memory.view(&a));
            let left = left.map(|matrices| matrices.stack::<F>(memory));
            let scales = scales.stack::<F>(memory);
            linalg::qr(memory.parallel, &stack, &scales, left.as_ref(), [m, n, columns]);
            if let (Some(q), Some(left)) = (&q, left) {
                copy(memory.parallel, memory.out(q), left.view(q.dims()).view());
            }
            let top = factors.layout().sliced(a.rank() - 2, 0, columns, 1);
            let top = factors.view().with_layout(top).expect("the first rows");
            copy(memory.parallel, memory.out(&r), top);
            Ok(())
        })
    })
}

/// Singular values and vectors. Arguments: a, whether bases are complete, whether vectors are wanted, sigma, u, v.
fn svd(call: &mut Call<'_>) -> Result<Plan> {
    let a = call.tensor(0)?;
    let shape = Matrices::of(call, 0, &a, TYPES)?;
    let (m, n) = (shape.rows, shape.columns);
    let (full, vectors) = (call.flag(1)?, call.flag(2)?);
    let sigma = call.output(3)?;
    let (max_size, min_size) = (m.max(n), m.min(n));
    call.expect_dims(3, &sigma, &shape.with(&[min_size]))?;
    call.expect_dtype(3, &sigma, &[a.dtype.real_part()])?;
    let basis_size = if full && vectors { max_size } else { min_size };
    let (cu, cv) = if full { (m, n) } else { (min_size, min_size) };
    let outs = match vectors {
        true => {
            let u = result(call, 4, &shape.with(&[m, cu]), &a)?;
            Some((u, result(call, 5, &shape.with(&[n, cv]), &a)?))
        }
        false => None,
    };
    if sigma.count() == 0 && outs.is_none_or(|(u, v)| u.count() == 0 && v.count() == 0) {
        return call.nothing();
    }
    let is_tall = m >= n;
    with_field!(a.dtype, F => {
        let item = size_of::<F>();
        let left = StackScratch::new(call, item, &shape, &[basis_size, max_size]);
        let right = StackScratch::new(call, item, &shape, &[min_size, min_size]);
        let values = StackScratch::new(call, size_of::<f64>(), &shape, &[min_size]);
        call.plan(move |memory| {
            let (left, right) = (left.stack::<F>(memory), right.stack::<F>(memory));
            let values = values.stack::<f64>(memory);
            // The columns of a tall matrix; of a wide one those of its conjugate transpose.
            let source = if is_tall { transposed(a.layout()) } else { *a.layout() };
            let basis = left.view(&shape.with(&[basis_size, max_size]));
            let columns = basis.layout().sliced(a.rank() - 2, 0, min_size, 1);
            let columns = basis.with_layout(columns).expect("the first rows");
            copy(memory.parallel, columns, memory.view_with_layout(&a, source));
            if !is_tall {
                linalg::conjugate(memory.parallel, &left);
            }
            linalg::svd(memory.parallel, &left, &right, &values, [max_size, min_size, basis_size]);
            copy(memory.parallel, memory.out(&sigma), values.view(sigma.dims()).view());
            if let Some((u, v)) = outs {
                let (long, short) = if is_tall { (u, v) } else { (v, u) };
                copy(memory.parallel, memory.out(&long.with_layout(transposed(long.layout()))), basis.view());
                let square = right.view(&shape.with(&[min_size, min_size])).view();
                copy(memory.parallel, memory.out(&short.with_layout(transposed(short.layout()))), square);
            }
            Ok(())
        })
    })
}

/// Sign and logarithm of determinants. Arguments: a, sign, log.
fn log_determinant(call: &mut Call<'_>) -> Result<Plan> {
    let a = call.tensor(0)?;
    let shape = Matrices::square(call, 0, &a, TYPES)?;
    let sign = result(call, 1, &shape.batch, &a)?;
    let log = call.output(2)?;
    call.expect_dims(2, &log, &shape.batch)?;
    call.expect_dtype(2, &log, &[a.dtype, a.dtype.real_part()])?;
    with_field!(a.dtype, F => {
        let n = shape.rows;
        let matrices = StackScratch::new(call, size_of::<F>(), &shape, &[n, n]);
        let signs = StackScratch::new(call, size_of::<F>(), &shape, &[]);
        let logs = StackScratch::new(call, size_of::<f64>(), &shape, &[]);
        call.plan(move |memory| {
            let (stack, signs) = (matrices.stack::<F>(memory), signs.stack::<F>(memory));
            let logs = logs.stack::<f64>(memory);
            copy(memory.parallel, stack.view(a.dims()), memory.view(&a));
            linalg::log_determinant(memory.parallel, &stack, &signs, &logs, n);
            copy(memory.parallel, memory.out(&sign), signs.view(&shape.batch).view());
            copy(memory.parallel, memory.out(&log), logs.view(&shape.batch).view());
            Ok(())
        })
    })
}

/// Determinants. Arguments: a, out.
fn determinant(call: &mut Call<'_>) -> Result<Plan> {
    let a = call.tensor(0)?;
    let shape = Matrices::square(call, 0, &a, TYPES)?;
    let out = result(call, 1, &shape.batch, &a)?;
    with_field!(a.dtype, F => {
        let n = shape.rows;
        let matrices = StackScratch::new(call, size_of::<F>(), &shape, &[n, n]);
        let results = StackScratch::new(call, size_of::<F>(), &shape, &[]);
        call.plan(move |memory| {
            let (stack, results) = (matrices.stack::<F>(memory), results.stack::<F>(memory));
            copy(memory.parallel, stack.view(a.dims()), memory.view(&a));
            linalg::determinant(memory.parallel, &stack, &results, n);
            copy(memory.parallel, memory.out(&out), results.view(&shape.batch).view());
            Ok(())
        })
    })
}

/// Solves `a @ x = b`. Arguments: b, a, whether upper, transposed, of a unit diagonal, x, the triangle of `a` that was read
/// (or absent), conjugated.
fn triangular_solve(call: &mut Call<'_>) -> Result<Plan> {
    let (b, a) = (call.tensor(0)?, call.tensor(1)?);
    let right = Matrices::of(call, 0, &b, TYPES)?;
    let left = Matrices::square(call, 1, &a, TYPES)?;
    call.expect_same(1, &a, 0, &b)?;
    let batch = broadcast(&left.batch, &right.batch).filter(|_| left.rows == right.rows);
    let Some(batch) = batch.filter(|batch| batch.len() + 2 <= MAX_DIMS) else {
        let (x, y) = (call.parameter(1), call.parameter(0));
        return Err(Error::invalid(format!(
            "{x} ({}) does not go with {y} ({})",
            a.layout(),
            b.layout()
        )));
    };
    let shape = Matrices { batch, rows: left.rows, columns: right.columns };
    let (n, columns) = (shape.rows, shape.columns);
    let kind = Triangle {
        upper: call.flag(2)?,
        transposed: call.flag(3)?,
        unit: call.flag(4)?,
        conjugated: call.flag_or(7, false)?,
    };
    let (dims_a, dims_x) = (shape.with(&[n, n]), shape.with(&[n, columns]));
    let x = result(call, 5, &dims_x, &b)?;
    let triangle_out = match call.has(6) {
        true => Some(result(call, 6, &dims_a, &b)?),
        false => None,
    };
    if x.count() == 0 && triangle_out.is_none_or(|triangle_out| triangle_out.count() == 0) {
        return call.nothing();
    }
    let (broadcast_a, broadcast_b) = (a.broadcast_to(&dims_a), b.broadcast_to(&dims_x));
    let (Some(broadcast_a), Some(broadcast_b)) = (broadcast_a, broadcast_b) else {
        unreachable!("sizes broadcast, as was checked");
    };
    with_field!(a.dtype, F => {
        let [matrices, solutions] = [n, columns].map(|last| StackScratch::new(call, size_of::<F>(), &shape, &[n, last]));
        call.plan(move |memory| {
            let (stack, solutions) = (matrices.stack::<F>(memory), solutions.stack::<F>(memory));
            let matrices = stack.view(&dims_a);
            copy(memory.parallel, matrices, memory.view_with_layout(&a, broadcast_a));
            copy(memory.parallel, solutions.view(&dims_x), memory.view_with_layout(&b, broadcast_b));
            linalg::solve_triangular(memory.parallel, &stack, &solutions, [n, columns], kind);
            copy(memory.parallel, memory.out(&x), solutions.view(&dims_x).view());
            if let Some(triangle_out) = &triangle_out {
                let out = memory.out(triangle_out);
                copy(memory.parallel, out, matrices.view());
                triangle(memory.parallel, out, out.view(), 0, !kind.upper);
            }
            Ok(())
        })
    })
}

fn infer_factors(call: &Call<'_>) -> Result<Vec<Layout>> {
    let a = call.layout(0)?;
    let shape = Matrices::of(call, 0, &a, TYPES)?;
    let columns = if call.flag(1)? { shape.rows } else { shape.rows.min(shape.columns) };
    let of = |rows, columns| Layout::contiguous(a.dtype, &shape.with(&[rows, columns]));
    Ok(vec![of(shape.rows, columns), of(columns, shape.columns)])
}

fn infer_values_and_vectors(call: &Call<'_>) -> Result<Vec<Layout>> {
    let a = call.layout(0)?;
    let shape = Matrices::of(call, 0, &a, TYPES)?;
    let min_size = shape.rows.min(shape.columns);
    let (cu, cv) = if call.flag(1)? { (shape.rows, shape.columns) } else { (min_size, min_size) };
    Ok(vec![
        Layout::contiguous(a.dtype.real_part(), &shape.with(&[min_size])),
        Layout::contiguous(a.dtype, &shape.with(&[shape.rows, cu])),
        Layout::contiguous(a.dtype, &shape.with(&[shape.columns, cv])),
    ])
}

fn infer_one_per_matrix(call: &Call<'_>) -> Result<Vec<Layout>> {
    let a = call.layout(0)?;
    let shape = Matrices::square(call, 0, &a, TYPES)?;
    Ok(vec![Layout::contiguous(a.dtype, &shape.batch); 2])
}

fn infer_determinants(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(infer_one_per_matrix(call)?.into_iter().take(1).collect())
}

/// As the right sides, which are argument 0.
fn infer_solutions(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![call.layout(0)?.packed()])
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("Inverse", inverse),
    aclnn("LinalgCholesky", cholesky),
    aclnn("LinalgQr", qr),
    aclnn("Svd", svd),
    aclnn("Slogdet", log_determinant),
    aclnn("TriangularSolve", triangular_solve),
];

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "MatrixInverse",
        &["x"],
        &["y"],
        Infer::Like(0),
        inverse,
        &[A(0), O(0), Attr("adjoint", AttrDefault::Flag(false))],
    ),
    node("Cholesky", &["x"], &["y"], Infer::Like(0), cholesky, &[A(0), B(false), O(0)]),
    node(
        "Qr",
        &["x"],
        &["q", "r"],
        Infer::By(infer_factors),
        qr,
        &[A(0), Attr("full_matrices", AttrDefault::Flag(false)), O(0), O(1)],
    ),
    node(
        "Svd",
        &["x"],
        &["sigma", "u", "v"],
        Infer::By(infer_values_and_vectors),
        svd,
        &[
            A(0),
            Attr("full_matrices", AttrDefault::Flag(false)),
            Attr("compute_uv", AttrDefault::Flag(true)),
            O(0),
            O(1),
            O(2),
        ],
    ),
    node(
        "LogMatrixDeterminant",
        &["x"],
        &["sign", "y"],
        Infer::By(infer_one_per_matrix),
        log_determinant,
        &[A(0), O(0), O(1)],
    ),
    node(
        "MatrixDeterminant",
        &["x"],
        &["y"],
        Infer::By(infer_determinants),
        determinant,
        &[A(0), O(0)],
    ),
    node(
        "MatrixTriangularSolve",
        &["matrix", "rhs"],
        &["y"],
        Infer::By(infer_solutions),
        solve_by_lower,
        &[
            A(1),
            A(0),
            Attr("lower", AttrDefault::Flag(true)),
            Attr("adjoint", AttrDefault::Flag(false)),
            B(false),
            O(0),
            No,
            B(false),
        ],
    ),
];

/// As [`triangular_solve`], where argument 2 says that the lower triangle is read, and argument 3 that its conjugate
/// transpose is solved.
fn solve_by_lower(call: &mut Call<'_>) -> Result<Plan> {
    let (lower, adjoint) = (call.flag(2)?, call.flag(3)?);
    call.replace(2, crate::argument::Arg::Flag(!lower));
    call.replace(7, crate::argument::Arg::Flag(adjoint));
    triangular_solve(call)
}
