//! Distances between rows of tensors, norms of slices, histograms.

use super::inputs::UnaliasedInput;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, No, O};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::access::PositionAccess;
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::distance::{
    Distance, condensed, histogram, pairs_backward, pairwise, pairwise_backward,
};
use cairn_tensor::kernels::map::{fill_scalar, map1};
use cairn_tensor::kernels::math::Real;
use cairn_tensor::kernels::number::Number;
use cairn_tensor::kernels::vector_norm::vector_norm;
use cairn_tensor::{DType, Dims, Layout, Scalar, broadcast, with_real};

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
    let distance = power_or_infinity(call, 4)?;
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

/// A power, of which -1 is infinity: that is how torch_npu passes it.
fn power_or_infinity(call: &Call<'_>, at: usize) -> Result<Distance> {
    match call.float(at)? {
        -1.0 => Ok(Distance(f64::INFINITY)),
        _ => read_distance(call, at),
    }
}

/// Distances of all pairs of rows: of `[batches, rows, elements]` each, or of two tensors of the same four sizes, in which each row
/// meets its pair. Arguments: x, y, power, -, out.
fn distances_of_pairs(call: &mut Call<'_>) -> Result<Plan> {
    let distance = power_or_infinity(call, 2)?;
    let out = call.output(4)?;
    let (x, y) = (call.read(0, &[&out])?, call.read(1, &[&out])?);
    call.expect_dtype(0, &x, REAL)?;
    call.expect_same(1, &y, 0, &x)?;
    call.expect_same(4, &out, 0, &x)?;
    let flat = match (x.dims(), y.dims()) {
        (&[a, b, c, length], others) if others == x.dims() => [a * b * c, 1, length],
        (&[batches, rows, length], &[others, columns, same])
            if (batches, length) == (others, same) =>
        {
            call.expect_dims(4, &out, &[batches, rows, columns])?;
            let out = call.reshaped_output(out, &[batches, rows, columns]);
            return call.plan(move |memory| {
                let (x, y, to) = (x.view(memory), y.view(memory), out.out(memory));
                with_real!(x.dtype(), C => pairwise::<C>(memory.parallel, to, x, y, distance));
                out.write_back(memory);
                Ok(())
            });
        }
        (one, other) => {
            let (first, second) = (call.parameter(0), call.parameter(1));
            return Err(Error::invalid(format!(
                "{first} {one:?} and {second} {other:?}: expected batches of rows, or the same four sizes"
            )));
        }
    };
    call.expect_dims(4, &out, &x.dims()[..3])?;
    let (x, y) = (call.flat_input(x), call.flat_input(y));
    let out = call.reshaped_output(out, &[flat[0], 1, 1]);
    call.plan(move |memory| {
        let [x, y] = [x, y].map(|line| {
            let view = line.view(memory);
            let rows = view.layout().reshaped(&flat).expect("elements in a line");
            view.with_layout(rows).expect("the same elements")
        });
        let to = out.out(memory);
        with_real!(x.dtype(), C => pairwise::<C>(memory.parallel, to, x, y, distance));
        out.write_back(memory);
        Ok(())
    })
}

fn infer_distances(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (x, y) = (call.layout(0)?, call.layout(1)?);
    let dims = match (x.dims(), y.dims()) {
        (&[a, b, c, _], _) => [a, b, c],
        (&[batches, rows, _], &[_, columns, _]) => [batches, rows, columns],
        (one, other) => {
            let (first, second) = (call.parameter(0), call.parameter(1));
            return Err(Error::invalid(format!(
                "{first} {one:?} and {second} {other:?}: expected batches of rows, or the same four sizes"
            )));
        }
    };
    Ok(vec![Layout::contiguous(x.dtype, &dims)])
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

/// The power of a norm at 1, and at 3 how long a slice may be.
fn norm_and_limit(call: &Call<'_>) -> Result<(f64, f64)> {
    let (p, most) = (call.scalar(1)?.as_f64(), call.scalar(3)?.as_f64());
    if !(p > 0.0 && most >= 0.0) {
        let (power, norm) = (call.parameter(1), call.parameter(3));
        return Err(Error::invalid(format!(
            "{power} = {p} and {norm} = {most}: expected more than 0, and 0 or more"
        )));
    }
    Ok((p, most))
}

/// What a slice of this norm is multiplied by.
fn shortening(norm: f64, most: f64) -> f64 {
    if norm > most { most / (norm + 1e-7) } else { 1.0 }
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
    let (p, most) = norm_and_limit(call)?;
    if x.count() == 0 {
        return call.nothing();
    }
    let x = call.in_place_input(x, &[&out]);
    call.plan(move |memory| {
        let (x, out) = (x.view(memory), memory.out(&out));
        for at in 0..x.dims()[dim] {
            let slice = x.with_layout(x.layout().at(dim, at)).expect("a part of it");
            let target = out.with_layout(out.layout().at(dim, at)).expect("a part of it");
            let factor = shortening(vector_norm(memory.parallel, slice, p), most);
            with_real!(x.dtype(), C => {
                let factor = C::of(factor);
                map1(memory.parallel, target, slice, move |x: C| x.mul(factor));
            });
        }
        Ok(())
    })
}

/// As [`renorm`]; an output that has one element for each slice gets the factors that shorten them. Arguments: those of [`renorm`].
fn renorm_or_factors(call: &mut Call<'_>) -> Result<Plan> {
    let (x, to) = (call.layout(0)?, call.layout(4)?);
    let dim = call.dim(2, x.rank())?;
    let sizes = x.dims().iter().enumerate();
    let slices: Dims = sizes.map(|(at, size)| if at == dim { *size } else { 1 }).collect();
    if to.dims() != &slices[..] {
        return renorm(call);
    }
    let out = call.output(4)?;
    let x = call.read(0, &[&out])?;
    call.expect_dtype(0, &x, REAL)?;
    call.expect_dtype(4, &out, REAL)?;
    let (p, most) = norm_and_limit(call)?;
    call.plan(move |memory| {
        let (x, out) = (x.view(memory), memory.out(&out));
        for at in 0..slices.get(dim).copied().unwrap_or(0) {
            let slice = x.with_layout(x.layout().at(dim, at)).expect("a part of it");
            let factor = shortening(vector_norm(memory.parallel, slice, p), most);
            let to = out.with_layout(out.layout().at(dim, at)).expect("a part of it");
            fill_scalar(memory.parallel, to, Scalar::from(factor));
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

fn infer_condensed(call: &Call<'_>) -> Result<Vec<Layout>> {
    let x = call.layout(0)?;
    let &[count, _] = x.dims() else {
        let (name, dims) = (call.parameter(0), x.dims());
        return Err(Error::invalid(format!(
            "{name} has the sizes {dims:?}: expected two dimensions"
        )));
    };
    let pairs = count.saturating_mul(count.saturating_sub(1)) / 2;
    Ok(vec![Layout::contiguous(x.dtype, &[pairs])])
}

fn infer_bins(call: &Call<'_>) -> Result<Vec<Layout>> {
    let bins = call.int(1)?;
    let count = usize::try_from(bins).map_err(|_| {
        Error::invalid(format!("{} = {bins}: expected at least 1", call.parameter(1)))
    })?;
    let dtype = call.layout(0)?.dtype;
    let dtype = if dtype == DType::Float16 { DType::Float } else { dtype };
    Ok(vec![Layout::contiguous(dtype, &[count])])
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "CdistGrad",
        &["grad", "x1", "x2", "cdist"],
        &["y"],
        Infer::By(expanded_backward_output),
        expanded_backward,
        &[A(0), A(1), A(2), A(3), Attr("p", AttrDefault::Float(2.0)), O(0)],
    ),
    node(
        "Cdist",
        &["x1", "x2"],
        &["y"],
        Infer::By(infer_distances),
        distances_of_pairs,
        &[A(0), A(1), Attr("p", AttrDefault::Float(2.0)), No, O(0)],
    ),
    node(
        "Pdist",
        &["x"],
        &["y"],
        Infer::By(infer_condensed),
        pdist,
        &[A(0), Attr("p", AttrDefault::Float(2.0)), O(0)],
    ),
    node(
        "Renorm",
        &["x"],
        &["y"],
        Infer::Like(0),
        renorm_or_factors,
        &[
            A(0),
            Attr("p", AttrDefault::Required),
            Attr("dim", AttrDefault::Required),
            Attr("maxnorm", AttrDefault::Required),
            O(0),
        ],
    ),
    node(
        "Histogram",
        &["x"],
        &["y"],
        Infer::By(infer_bins),
        histc,
        &[
            A(0),
            Attr("bins", AttrDefault::Int(100)),
            Attr("min", AttrDefault::Float(0.0)),
            Attr("max", AttrDefault::Float(0.0)),
            O(0),
        ],
    ),
];
