//! Elements divided by a power of the squares of neighbouring channels.

use super::avg_pool::REALS;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, O};
use crate::table::{AttrDefault, Node, node};
use cairn_tensor::kernels::element::Element;
use cairn_tensor::kernels::local_norm::{LocalNorm, local_norm};
use cairn_tensor::{Layout, with_real};

/// How many channels before and after each one belong to its window.
fn window(call: &Call<'_>) -> Result<(usize, usize)> {
    let (radius, size) = (call.int(2)?, call.int(7)?);
    let (at, size) = match size {
        0 => (2, radius.checked_mul(2).and_then(|both| both.checked_add(1)).unwrap_or(-1)),
        size => (7, size),
    };
    match usize::try_from(size) {
        Ok(size) if size > 0 => Ok(((size - 1) / 2, size / 2)),
        _ => {
            let (name, value) = (call.parameter(at), call.int(at)?);
            Err(Error::invalid(format!("{name} = {value} makes no window of channels")))
        }
    }
}

/// Arguments: x, out, radius of the window, bias, alpha, beta, what the window covers, channels in the window (0: by the
/// radius).
fn normalise(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(1)?;
    let x = call.read(0, &[&out])?;
    call.expect_dtype(0, &x, REALS)?;
    call.expect_same(1, &out, 0, &x)?;
    call.expect_dims(1, &out, x.dims())?;
    let region = call.text(6)?;
    if region != "ACROSS_CHANNELS" {
        let name = call.parameter(6);
        return Err(Error::invalid(format!("{name} = {region:?}: expected ACROSS_CHANNELS")));
    }
    if x.rank() < 2 {
        let (name, dims) = (call.parameter(0), x.dims());
        return Err(Error::invalid(format!("{name} {dims:?} has no dimension of channels")));
    }
    let (below, above) = window(call)?;
    let [bias, alpha, beta] = [call.float(3)?, call.float(4)?, call.float(5)?];
    let with_positions =
        |layout: &Layout| if layout.rank() == 2 { layout.with(2) } else { *layout };
    let (x, out) = (x.with_layout(with_positions(&x)), out.with_layout(with_positions(&out)));
    call.plan(move |memory| {
        let (from, to) = (x.view(memory), memory.out(&out));
        with_real!(out.dtype, C => {
            let [bias, alpha, beta] = [bias, alpha, beta].map(C::from_f64);
            let norm = LocalNorm { below, above, alpha, bias, beta };
            local_norm::<C>(memory.parallel, to, from, norm);
        });
        Ok(())
    })
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[node(
    "LRN",
    &["x"],
    &["y"],
    Infer::Like(0),
    normalise,
    &[
        A(0),
        O(0),
        Attr("depth_radius", AttrDefault::Int(5)),
        Attr("bias", AttrDefault::Float(1.0)),
        Attr("alpha", AttrDefault::Float(1.0)),
        Attr("beta", AttrDefault::Float(0.5)),
        Attr("norm_region", AttrDefault::Text("ACROSS_CHANNELS")),
        Attr("size", AttrDefault::Int(0)),
    ],
)];
