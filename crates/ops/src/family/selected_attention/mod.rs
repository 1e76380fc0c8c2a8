//! Attention to keys that indices select ([`blocks`], [`infer_blocks`], [`sparse`]), the gradients of that ([`gradients`]), and the
//! choice of the keys that matter most ([`indexer`]) with its own ([`index_gradients`]).

mod blocks;
mod gradients;
mod index_gradients;
mod indexer;
mod infer_blocks;
mod nodes;
mod sequences;
mod sparse;

pub use nodes::NODES;

use crate::call::Call;
use crate::error::{Error, Result};
use crate::table::ArgSource::{self, A, I};
use crate::table::{Row, aclnn};
use cairn_tensor::{DType, Layout};

const TYPES: &[DType] = &[DType::Float16, DType::Bf16];

/// The sizes of a tensor of rows, heads and features.
fn three(call: &Call<'_>, at: usize, dims: &[usize]) -> Result<[usize; 3]> {
    <[usize; 3]>::try_from(dims).map_err(|_| {
        let name = call.parameter(at);
        Error::invalid(format!("{name} has the sizes {dims:?}: expected 3"))
    })
}

/// Fails for a number that is not the one there is.
fn expect_only(call: &Call<'_>, at: usize, allowed: &[i64]) -> Result<i64> {
    let value = call.int(at)?;
    if allowed.contains(&value) {
        return Ok(value);
    }
    let name = call.parameter(at);
    Err(Error::invalid(format!("{name} = {value}: expected one of {allowed:?}")))
}

/// Rows, heads and features of a tensor whose first dimensions are rows.
fn as_rows(call: &Call<'_>, at: usize, layout: &Layout) -> Result<Layout> {
    let rank = layout.rank();
    let dims = layout.dims();
    let rows = (rank >= 3).then(|| dims[..rank - 2].iter().product());
    let flat = rows.and_then(|rows| layout.reshaped(&[rows, dims[rank - 2], dims[rank - 1]]));
    flat.ok_or_else(|| {
        let name = call.parameter(at);
        Error::invalid(format!("{name} ({layout}) has no rows in order"))
    })
}

#[rustfmt::skip]
const SPARSE_V2: &[ArgSource] = &[
    A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(7), A(8), A(10), A(11), A(12), A(13), A(14), A(15), A(16), A(17), A(18), A(19),
    A(20), A(21), A(9),
];

#[rustfmt::skip]
const INDEXER_V2: &[ArgSource] = &[
    A(0), A(1), A(2), A(3), A(4), A(8), A(13), A(14), A(11), A(15), I(i64::MAX), I(i64::MAX), A(17), A(18), A(19), A(5), A(6),
    A(7), A(9), A(16),
];

/// The rows of these families.
pub const ROWS: &[Row] = &[
    aclnn("NsaSelectedAttention", blocks::attention),
    aclnn("NsaSelectedAttentionGrad", blocks::attention_gradients),
    aclnn("SparseFlashAttention", sparse::attention),
    aclnn("SparseFlashAttentionV2", sparse::attention).with_args(SPARSE_V2),
    aclnn("SparseFlashAttentionGrad", gradients::attention_gradients),
    aclnn("NsaSelectedAttentionInfer", infer_blocks::attention),
    aclnn("LightningIndexer", indexer::choose),
    aclnn("LightningIndexerV2", indexer::choose_of_compressed).with_args(INDEXER_V2),
    aclnn("LightningIndexerGrad", index_gradients::gradients),
    aclnn("DenseLightningIndexerSoftmaxLse", index_gradients::statistics_of_all),
    aclnn("SparseLightningIndexerGradKLLoss", index_gradients::divergence_of_chosen),
    aclnn("DenseLightningIndexerGradKLLoss", index_gradients::divergence_of_all),
];
