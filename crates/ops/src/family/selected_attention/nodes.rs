//! Attention to chosen keys, and the choice of keys, by IR name.

use super::{indexer, sparse};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::table::ArgSource::{A, Attr, O};
use crate::table::{ArgSource, AttrDefault, Node, node};
use cairn_tensor::{DType, Dims, Layout};

const ALL: AttrDefault = AttrDefault::Int(i64::MAX);

const fn layout(name: &'static str) -> ArgSource {
    Attr(name, AttrDefault::Text("BSND"))
}

/// The number of heads of keys; the heads are the dimension before the last, in every layout.
fn key_heads(call: &Call<'_>, at: usize) -> Result<usize> {
    let dims = call.layout(at)?;
    match dims.dims() {
        [.., heads, _] if *heads > 0 => Ok(*heads),
        dims => {
            let name = call.parameter(at);
            Err(Error::invalid(format!("{name} has the sizes {dims:?}: expected 3 or 4")))
        }
    }
}

/// The result, and the statistics if they are wanted, else none.
fn attention_outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    let query = call.layout(0)?.packed();
    let heads = key_heads(call, 1)?;
    let stats = match (query.dims(), call.flag(17)?) {
        (_, false) => Dims::new(&[0]),
        ([tokens, all, _], _) => Dims::new(&[heads, *tokens, all / heads]),
        ([count, steps, all, _], _) => Dims::new(&[*count, heads, *steps, all / heads]),
        (dims, _) => {
            let name = call.parameter(0);
            return Err(Error::invalid(format!("{name} has the sizes {dims:?}: expected 3 or 4")));
        }
    };
    let stats = Layout::contiguous(DType::Float, &stats);
    Ok(vec![query, stats, stats])
}

/// The numbers of the keys, and their values if they are wanted, else none.
fn choice_outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (query, heads) = (call.layout(0)?, key_heads(call, 1)?);
    let count = call.int(8)?;
    let (Ok(count), true) = (usize::try_from(count), query.rank() >= 3) else {
        let name = call.parameter(8);
        return Err(Error::invalid(format!("{name} = {count} keys cannot be chosen")));
    };
    let mut dims = Dims::new(&query.dims()[..query.rank() - 2]);
    dims.push(heads);
    dims.push(count);
    let values = if call.flag(12)? { dims } else { Dims::new(&[0]) };
    Ok(vec![Layout::contiguous(DType::Int32, &dims), Layout::contiguous(query.dtype, &values)])
}

/// The operators of these families by IR name.
#[rustfmt::skip]
pub const NODES: &[Node] = &[
    node(
        "SparseFlashAttention",
        &[
            "query", "key", "value", "sparse_indices", "block_table?", "actual_seq_lengths_query?", "actual_seq_lengths_kv?",
            "query_rope?", "key_rope?", "sinks?",
        ],
        &["attention_out", "softmax_max", "softmax_sum"],
        Infer::By(attention_outputs),
        sparse::attention,
        &[
            A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(7), A(8), Attr("scale_value", AttrDefault::Required),
            Attr("sparse_block_size", AttrDefault::Int(1)), layout("layout_query"), layout("layout_kv"),
            Attr("sparse_mode", AttrDefault::Int(3)), Attr("pre_tokens", ALL), Attr("next_tokens", ALL),
            Attr("attention_mode", AttrDefault::Int(0)), Attr("return_softmax_lse", AttrDefault::Flag(false)),
            O(0), O(1), O(2), A(9),
        ],
    ),
    node(
        "LightningIndexer",
        &["query", "key", "weights", "actual_seq_lengths_query?", "actual_seq_lengths_key?", "block_table?"],
        &["sparse_indices", "sparse_values"],
        Infer::By(choice_outputs),
        indexer::choose,
        &[
            A(0), A(1), A(2), A(3), A(4), A(5), layout("layout_query"), layout("layout_key"),
            Attr("sparse_count", AttrDefault::Int(2048)), Attr("sparse_mode", AttrDefault::Int(3)), Attr("pre_tokens", ALL),
            Attr("next_tokens", ALL), Attr("return_values", AttrDefault::Flag(false)), O(0), O(1),
        ],
    ),
];
