//! The two products of a feed-forward layer with an activation between them, of one or of several experts.
//!
//! Workspace: what the first product gives, in `f32`, what the activation makes of it, the sums of the second, and panels.

use super::groups::{Groups, ListKind};
use super::quantised::{brings_elements, refuse_quantised};
use crate::call::Call;
use crate::error::{Error, Fault, Result};
use crate::family::activation::{CUBIC, ROOT};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, B, No, O};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::map::{map1, map2};
use cairn_tensor::kernels::math::Real;
use cairn_tensor::kernels::matmul::{largest_scratch, product_within};
use cairn_tensor::parallel::Parallel;
use cairn_tensor::{DType, Layout, Scalar, View, ViewMut};

// Arguments: x, two weights, tokens of each expert, two biases, eight of quantised calls, activation, precision (not read),
// whether the tokens are ends rather than numbers, y.
const TOKENS: usize = 3;
const ACTIVATION: usize = 14;
const ENDS: usize = 16;
const OUT: usize = 17;

const TYPES: &[DType] = &[DType::Float16, DType::Bf16];

/// What stands between the two products.
#[derive(Clone, Copy)]
enum Activation {
    FastGelu,
    Gelu,
    Relu,
    Silu,
}

impl Activation {
    fn read(call: &Call<'_>) -> Result<Activation> {
        let name = call.parameter(ACTIVATION);
        Ok(match call.text(ACTIVATION)?.to_ascii_lowercase().as_str() {
            "fastgelu" => Activation::FastGelu,
            "gelu" => Activation::Gelu,
            "relu" => Activation::Relu,
            "silu" => Activation::Silu,
            gated @ ("geglu" | "swiglu" | "reglu") => {
                return Err(Error::invalid(format!(
                    "{name} = {gated:?} is refused: the function's documentation does not say which half of the columns is \
                     the gate"
                )));
            }
            other => {
                return Err(Error::invalid(format!(
                    "{name} = {other:?}: expected fastgelu, gelu, relu or silu"
                )));
            }
        })
    }

    fn apply(self, parallel: &dyn Parallel, out: ViewMut<'_>, x: View<'_>) {
        match self {
            Activation::FastGelu => {
                map1(parallel, out, x, |x: f32| x / (1.0 + Real::exp(-1.702 * x)));
            }
            Activation::Gelu => map1(parallel, out, x, |x: f32| {
                let inner = (x + CUBIC as f32 * x * x * x) * ROOT as f32;
                0.5 * x * (1.0 + Real::tanh(inner))
            }),
            Activation::Relu => map1(parallel, out, x, |x: f32| if x < 0.0 { 0.0 } else { x }),
            Activation::Silu => map1(parallel, out, x, |x: f32| x / (1.0 + Real::exp(-x))),
        }
    }
}

/// What one expert has of a tensor.
fn expert<'a>(view: &View<'a>, expert: usize) -> View<'a> {
    view.with_layout(view.layout().at(0, expert)).expect("one of its experts")
}

/// The first rows of a part of the workspace.
fn part(view: ViewMut<'_>, length: usize) -> ViewMut<'_> {
    let layout = view.layout().sliced(0, 0, length, 1);
    view.with_layout(layout).expect("no more rows than there are")
}

/// See the top of the file for the arguments.
fn ffn(call: &mut Call<'_>) -> Result<Plan> {
    refuse_quantised(call, &[6, 7, 8, 9, 10, 11, 12, 13])?;
    let activation = Activation::read(call)?;
    let out = call.output(OUT)?;
    let x = call.read(0, &[&out])?;
    call.expect_dtype(0, &x, TYPES)?;
    call.expect_same(OUT, &out, 0, &x)?;
    let wrong = |call: &Call<'_>, at: usize, layout: &Layout, want: &str| {
        let (name, dims) = (call.parameter(at), layout.dims());
        Error::invalid(format!("{name} has the sizes {dims:?}: expected {want}"))
    };
    let has_experts = brings_elements(call, TOKENS)
        || matches!(call.arg(TOKENS), crate::argument::Arg::Ints(values) if !values.is_empty());
    let rank = if has_experts { 3 } else { 2 };
    let (first, second) = (call.read(1, &[&out])?, call.read(2, &[&out])?);
    for (at, weight) in [(1, &first), (2, &second)] {
        call.expect_same(at, weight, 0, &x)?;
        if weight.rank() != rank {
            return Err(wrong(call, at, weight, if rank == 3 { "3" } else { "2" }));
        }
    }
    let as_experts = |layout: &Layout| if rank == 2 { layout.with(0) } else { *layout };
    let (w1, w2) = (as_experts(&first), as_experts(&second));
    let (experts, k1, n1) = (w1.dims()[0], w1.dims()[1], w1.dims()[2]);
    let n2 = w2.dims()[2];
    if w2.dims()[..2] != [experts, n1] {
        return Err(wrong(call, 2, &second, &format!("{experts} experts of {n1} rows")));
    }
    let rows = x.dims().split_last().filter(|(columns, rest)| **columns == k1 && !rest.is_empty());
    let Some(rows) = rows.map(|(_, rest)| rest.iter().product::<usize>()) else {
        return Err(wrong(call, 0, &x, &format!("rows of {k1}")));
    };
    let mut dims = cairn_tensor::Dims::new(x.dims());
    dims[x.rank() - 1] = n2;
    call.expect_dims(OUT, &out, &dims)?;
    let (Some(x_rows), Some(out_rows)) = (x.reshaped(&[rows, k1]), out.reshaped(&[rows, n2]))
    else {
        return Err(wrong(call, 0, &x, "rows one after the other"));
    };
    let bias = |call: &mut Call<'_>, at: usize, n: usize| {
        if !brings_elements(call, at) {
            return Ok(None);
        }
        let read = call.read(at, &[&out])?;
        call.expect_dtype(at, &read, &[x.dtype, DType::Float])?;
        let dims = [experts, n];
        call.expect_dims(at, &read, if rank == 3 { &dims } else { &dims[1..] })?;
        let layout = if rank == 3 { *read } else { read.with(0) };
        Ok(Some(read.with_layout(layout)))
    };
    let (bias1, bias2) = (bias(call, 4, n1)?, bias(call, 5, n2)?);
    let kind = if call.flag_or(ENDS, false)? { ListKind::Ends } else { ListKind::Lengths };
    let list = match has_experts {
        true => Some(Groups::read(call, TOKENS, kind, experts, &[&out])?),
        false => None,
    };
    if has_experts {
        first.touch_by_index(call);
        second.touch_by_index(call);
    }
    let float = DType::Float;
    let (hidden, active) = (call.scratch(float, &[rows, n1]), call.scratch(x.dtype, &[rows, n1]));
    let sums = call.scratch(float, &[rows, n2]);
    let panels = [(k1, n1), (n1, n2)]
        .map(|(k, n)| largest_scratch(float, x.dtype, x.dtype, [rows, n, k]))
        .into_iter()
        .max()
        .filter(|count| *count > 0)
        .map(|count| call.scratch(float, &[count]));
    let (x, out) = (x.with_layout(x_rows), out.with_layout(out_rows));
    let (first, second) = (first.with_layout(w1), second.with_layout(w2));
    let name = call.parameter(TOKENS);
    call.plan(move |memory| {
        let parallel = memory.parallel;
        let panels = panels.map(|one| memory.scratch(&one));
        let (a, w1, w2) = (x.view(memory), first.view(memory), second.view(memory));
        let (b1, b2) = (bias1.map(|one| one.view(memory)), bias2.map(|one| one.view(memory)));
        let run = |group: usize, rows: std::ops::Range<usize>| {
            let length = rows.len();
            let slice = |layout: &Layout| layout.sliced(0, rows.start, length, 1);
            let a = a.with_layout(slice(a.layout())).expect("rows of x");
            let target = memory.out(&out.with_layout(slice(out.layout())));
            let hidden = part(memory.scratch(&hidden), length);
            let (active, sums) =
                (part(memory.scratch(&active), length), part(memory.scratch(&sums), length));
            let product = |to: ViewMut<'_>, a, weight: &View<'_>, bias: Option<View<'_>>| {
                let bias = bias.map(|bias| expert(&bias, group));
                if let Some(bias) = bias {
                    let layout = bias.broadcast_to(to.dims()).expect("a number of each column");
                    copy(parallel, to, bias.with_layout(layout).expect("the same numbers"));
                }
                let beta = Scalar::from(i64::from(bias.is_some()));
                product_within(parallel, to, a, expert(weight, group), beta, panels);
            };
            product(hidden, a, &w1, b1);
            activation.apply(parallel, active, hidden.view());
            product(sums, active.view(), &w2, b2);
            map2(parallel, target, sums.view(), sums.view(), |x: f32, _: f32| x);
            Ok(())
        };
        match &list {
            None if rows > 0 => run(0, 0..rows),
            None => Ok(()),
            Some(list) => {
                let mut total = 0;
                list.visit(memory, rows, |_, range| {
                    total = range.end;
                    Ok(())
                })?;
                if total != rows {
                    return Err(Fault(format!(
                        "{name} gives {total} tokens to experts, but x has {rows}"
                    )));
                }
                list.visit(memory, rows, run)
            }
        }
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("FFN", ffn).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        A(7),
        A(8),
        A(9),
        A(10),
        A(11),
        A(12),
        A(13),
        A(14),
        A(15),
        B(false),
        A(16),
    ]),
    aclnn("FFNV2", ffn),
    aclnn("FFNV3", ffn),
];

fn output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (x, second) = (call.layout(0)?, call.layout(2)?);
    let mut dims = cairn_tensor::Dims::new(x.dims());
    if let (Some(last), Some(columns)) = (dims.last_mut(), second.dims().last()) {
        *last = *columns;
    }
    Ok(vec![Layout::contiguous(x.dtype, &dims)])
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[node(
    "FFN",
    &[
        "x",
        "weight1",
        "weight2",
        "expert_tokens?",
        "bias1?",
        "bias2?",
        "scale?",
        "offset?",
        "deq_scale1?",
        "deq_scale2?",
        "antiquant_scale1?",
        "antiquant_scale2?",
        "antiquant_offset1?",
        "antiquant_offset2?",
    ],
    &["y"],
    Infer::By(output),
    ffn,
    &[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        A(7),
        A(8),
        A(9),
        A(10),
        A(11),
        A(12),
        A(13),
        Attr("activation", AttrDefault::Required),
        No,
        Attr("tokens_index_flag", AttrDefault::Flag(false)),
        O(0),
        Attr("inner_precise", AttrDefault::Int(0)),
        Attr("output_dtype", AttrDefault::Int(-1)),
    ],
)];
