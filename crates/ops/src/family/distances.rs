//! Distances between rows of tensors, norms of slices, histograms.

use super::inputs::UnaliasedInput;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, O};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::access::PositionAccess;
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::distance::{
    Distance, condensed, histogram, pairs_backward, pairwise, pairwise_backward,
};
use cairn_tensor::kernels::map::map1;
use cairn_tensor::kernels::math::Real;
use cairn_tensor::kernels::number::Number;
use cairn_tensor::kernels::vector_norm::vector_norm;
use cairn_tensor::{DType, Dims, Layout, broadcast, with_real};

const REAL: &[DType] = &[DType::Float, DType::Float16, DType::Bf16, DType::Double];

/// The power of a distance (p of the p-norm).
fn read_distance(call: &Call<'_>, at: usize) -> Result<Distance> {
    let p = match call.arg(at) {
        crate::argument::Arg::Scalar(scalar) => scalar.as_f64(),
        _ => call.float(at)?,
    };
    match p >= 0.0 {
        true => Ok(Distance(p)),
        false => Err(Error::invalid(format!("{} = {p}: expected 0 or more", call.parameter(at)))),
    }
}

/// A tensor, repeated to these sizes of batches, as batches, rows, elements.
fn rows(
    call: &Call<'_>,
    at: usize,
    x: UnaliasedInput,
    batches: &[usize],
) -> Result<UnaliasedInput> {
    let mut dims = batches.to_vec();
    dims.extend_from_slice(&x.dims()[x.rank() - 2..]);
    let repeated = x.broadcast_to(&dims);
    let flat = [batches.iter().product(), dims[dims.len() - 2], dims[dims.len() - 1]];
    match repeated.and_then(|layout| layout.reshaped(&flat)) {
        Some(layout) => Ok(x.with_layout(layout)),
        None => {
            let (name, have) = (call.parameter(at), x.dims());
            Err(Error::invalid(format!("{name} {have:?} has batches that do not lie in a row")))
        }
    }
}

/// The sizes that the batches of two tensors of rows broadcast to.
fn batches(call: &Call<'_>, a: usize, x: &Layout, b: usize, y: &Layout) -> Result<Dims> {
    let fits = x.rank() >= 2 && y.rank() >= 2 && x.dims().last() == y.dims().last();
    let batch_dims =
        fits.then(|| broadcast(&x.dims()[..x.rank() - 2], &y.dims()[..y.rank() - 2])).flatten();
    batch_dims.ok_or_else(|| {
        let (first, second, x, y) = (call.parameter(a), call.parameter(b), x.dims(), y.dims());
        Error::invalid(format!("{first} {x:?} and {second} {y:?} are no rows of the same length"))
    })
}

/// Arguments: x, y, power, -, out.
fn cdist(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(4)?;
    let (x, y) = (call.read(0, &[&out])?, call.read(1, &[&out])?);
    for (at, one) in [(0, *x), (1, *y), (4, *out.layout())] {
        call.expect_dtype(at, &one, REAL)?;
    }
    let distance = read_distance(call, 2)?;
    let batch_dims = batches(call, 0, &x, 1, &y)?;
    let mut dims = batch_dims.to_vec();
    dims.extend([x.dims()[x.rank() - 2], y.dims()[y.rank() - 2]]);
    call.expect_dims(4, &out, &dims)?;
    let (x, y) = (rows(call, 0, x, &batch_dims)?, rows(call, 1, y, &batch_dims)?);
    let flat = [x.dims()[0], x.dims()[1], y.dims()[1]];
    let out = call.reshaped_output(out, &flat);
    call.plan(move |memory| {
        let (x, y) = (x.view(memory), y.view(memory));
        let target = out.out(memory);
        with_real!(x.dtype(), C => pairwise::<C>(memory.parallel, target, x, y, distance));
        out.write_back(memory);
        Ok(())
    })
}

/// Arguments: gradient, x, y, distances, power, out.
fn cdist_backward(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(5)?;
    let [grad, x, y, distances] = [0, 1, 2, 3].map(|at| call.read(at, &[&out]));
    let (grad, x, y, distances) = (grad?, x?, y?, distances?);
    for (at, one) in [(0, *grad), (1, *x), (2, *y), (3, *distances), (5, *out.layout())] {
        call.expect_dtype(at, &one, REAL)?;
    }
    let distance = read_distance(call, 4)?;
    let batch_dims = batches(call, 1, &x, 2, &y)?;
    let mut dims = batch_dims.to_vec();
    dims.extend([x.dims()[x.rank() - 2], y.dims()[y.rank() - 2]]);
    call.expect_dims(0, &grad, &dims)?;
    call.expect_dims(3, &distances, &dims)?;
    let mut expected = batch_dims.to_vec();
    expected.extend_from_slice(&x.dims()[x.rank() - 2..]);
    call.expect_dims(5, &out, &expected)?;
    let (x, y) = (rows(call, 1, x, &batch_dims)?, rows(call, 2, y, &batch_dims)?);
    let (grad, distances) =
        (rows(call, 0, grad, &batch_dims)?, rows(call, 3, distances, &batch_dims)?);
    let out = call.reshaped_output(out, x.dims());
    call.plan(move |memory| {
        let views = [x.view(memory), y.view(memory), distances.view(memory)];
        let (grad, target) = (grad.view(memory), out.out(memory));
        with_real!(x.dtype, C => pairwise_backward::<C>(memory.parallel, target, grad, views, distance));
        out.write_back(memory);
        Ok(())
    })
}

/// The gradient of distances of tensors that were expanded to the same sizes: the last dimension but one is summed.
/// Arguments: gradient, x, y, distances, power, out.
fn expanded_backward(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(5)?;
    let [grad, x, y, distances] = [0, 1, 2, 3].map(|at| call.read(at, &[&out]));
    let (grad, x, y, distances) = (grad?, x?, y?, distances?);
    if x.rank() < 2 {
        let (name, dims) = (call.parameter(1), x.dims());
        return Err(Error::invalid(format!(
            "{name} has the sizes {dims:?}: expected two dimensions or more"
        )));
    }
    for (at, one) in [(0, &grad), (1, &x), (2, &y), (3, &distances)] {
        call.expect_dtype(at, one, REAL)?;
        call.expect_dims(at, one, x.dims())?;
    }
    call.expect_same(5, &out, 1, &x)?;
    // torch_npu passes -1 for infinity.
    let distance = match call.float(4)? {
        -1.0 => Distance(f64::INFINITY),
        _ => read_distance(call, 4)?,
    };
    let (columns, length) = (x.dims()[x.rank() - 2], x.dims()[x.rank() - 1]);
    let rows: usize = x.dims()[..x.rank() - 2].iter().product();
    call.expect_dims(5, &out, &without_second_last(&x))?;
    let flat_inputs = [grad, x, y, distances].map(|one| call.flat_input(one));
    let out = call.reshaped_output(out, &[rows, length]);
    call.plan(move |memory| {
        let [grad, x, y, distances] = flat_inputs.map(|input| {
            let view = input.view(memory);
            let flat = view.layout().reshaped(&[rows, columns, length]);
            view.with_layout(flat.expect("elements in a line")).expect("the same elements")
        });
        let target = out.out(memory);
        with_real!(x.dtype(), C => pairs_backward::<C>(memory.parallel, target, grad, [x, y, distances], distance));
        out.write_back(memory);
        Ok(())
    })
}

/// The sizes without the last but one.
fn without_second_last(x: &Layout) -> Dims {
    let sizes = x.dims().iter().enumerate();
    sizes.filter(|(at, _)| at + 2 != x.rank()).map(|(_, size)| *size).collect()
}

fn expanded_backward_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let x = call.layout(1)?;
    Ok(vec![Layout::contiguous(x.dtype, &without_second_last(&x))])
}

/// Arguments: x, power, out.
fn pdist(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(2)?;
    let x = call.read(0, &[&out])?;
    call.expect_dtype(0, &x, REAL)?;
    call.expect_dtype(2, &out, REAL)?;
    let distance = read_distance(call, 1)?;
    let &[count, _] = x.dims() else {
        let (name, dims) = (call.parameter(0), x.dims());
        return Err(Error::invalid(format!(
            "{name} has the sizes {dims:?}: expected two dimensions"
        )));
    };
    let pairs = count.checked_mul(count.saturating_sub(1)).map_or(usize::MAX, |all| all / 2);
    call.expect_dims(2, &out, &[pairs])?;
    call.plan(move |memory| {
        let (x, out) = (x.view(memory), memory.out(&out));
        with_real!(x.dtype(), C => condensed::<C>(memory.parallel, out, x, distance));
        Ok(())
    })
}

/// Slices of a dimension, each shortened to a norm. Arguments: x, power, dimension, greatest norm, out.
fn renorm(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(4)?;
    let x = call.tensor(0)?;
    call.expect_dtype(0, &x, REAL)?;
    call.expect_dtype(4, &out, REAL)?;
    call.expect_dims(4, &out, x.dims())?;
    if x.rank() < 2 {
        let (name, dims) = (call.parameter(0), x.dims());
        return Err(Error::invalid(format!(
            "{name} has the sizes {dims:?}: expected two dimensions or more"
        )));
    }
    let dim = call.dim(2, x.rank())?;
    let (p, max_norm) = (call.scalar(1)?.as_f64(), call.scalar(3)?.as_f64());
    if !(p > 0.0 && max_norm >= 0.0) {
        let (power, norm) = (call.parameter(1), call.parameter(3));
        return Err(Error::invalid(format!(
            "{power} = {p} and {norm} = {max_norm}: expected more than 0, and 0 or more"
        )));
    }
    if x.count() == 0 {
        return call.nothing();
    }
    let x = call.in_place_input(x, &[&out]);
    call.plan(move |memory| {
        let (x, out) = (x.view(memory), memory.out(&out));
        for at in 0..x.dims()[dim] {
            let slice = x.with_layout(x.layout().at(dim, at)).expect("a part of it");
            let target = out.with_layout(out.layout().at(dim, at)).expect("a part of it");
            let norm = vector_norm(memory.parallel, slice, p);
            let factor = if norm > max_norm { max_norm / (norm + 1e-7) } else { 1.0 };
            with_real!(x.dtype(), C => {
                let factor = C::of(factor);
                map1(memory.parallel, target, slice, move |x: C| x.mul(factor));
            });
        }
        Ok(())
    })
}

/// Arguments: x, number of bins, least, greatest, out.
fn histc(call: &mut Call<'_>) -> Result<Plan> {
    let (out, bins) = (call.output(4)?, call.int(1)?);
    let x = call.read(0, &[&out])?;
    call.expect_numbers(0, &x)?;
    call.expect_numbers(4, &out)?;
    if bins < 1 || out.dims() != [bins as usize] {
        let (name, count, dims) = (call.parameter(1), call.parameter(4), out.dims());
        return Err(Error::invalid(format!(
            "{name} = {bins}: expected at least 1, and {count} has the sizes {dims:?}"
        )));
    }
    let (low, high) = (call.scalar(2)?.as_f64(), call.scalar(3)?.as_f64());
    if !(low.is_finite() && high.is_finite() && low <= high) {
        let (first, second) = (call.parameter(2), call.parameter(3));
        return Err(Error::invalid(format!("{first} = {low} and {second} = {high} are no range")));
    }
    let flat_x = call.flat_input(x);
    let counts = call.scratch(DType::Double, &[bins as usize]);
    let name = call.parameter(0);
    call.plan(move |memory| {
        let (flat_x, counts) = (flat_x.view(memory), memory.scratch(&counts));
        let (mut low, mut high) = (low, high);
        if low == high {
            let cells = PositionAccess::new(flat_x);
            let values = || (0..flat_x.count()).map(|at| cells.get::<f64>(&[at]));
            if values().any(|value| !value.is_finite()) {
                return Err(crate::error::Fault(format!(
                    "{name} has elements that are not finite, and no range is named"
                )));
            }
            (low, high) = (
                values().fold(f64::INFINITY, f64::min),
                values().fold(f64::NEG_INFINITY, f64::max),
            );
            if low >= high {
                (low, high) =
                    if flat_x.count() == 0 { (0.0, 1.0) } else { (low - 1.0, high + 1.0) };
            }
        }
        histogram(counts, flat_x, low, high);
        copy(memory.parallel, memory.out(&out), counts.view());
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("Cdist", cdist),
    aclnn("CdistBackward", cdist_backward),
    aclnn("Pdist", pdist),
    aclnn("PdistForward", pdist),
    aclnn("Renorm", renorm),
    aclnn("InplaceRenorm", renorm).with_args(&[A(0), A(1), A(2), A(3), A(0)]),
    aclnn("Histc", histc),
];

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[node(
    "CdistGrad",
    &["grad", "x1", "x2", "cdist"],
    &["y"],
    Infer::By(expanded_backward_output),
    expanded_backward,
    &[A(0), A(1), A(2), A(3), Attr("p", AttrDefault::Float(2.0)), O(0)],
)];
