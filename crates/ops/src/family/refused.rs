//! Functions that are refused whatever they are called with: what they compute is not documented well enough to build it.

use crate::call::Call;
use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::table::{Row, aclnn};

/// The refusal, with what its documentation lacks.
fn refused(what: &str) -> Result<Plan> {
    Err(Error::invalid(format!(
        "Cairn refuses this function: {what} (docs/operators.md says more)"
    )))
}

fn advance_step(_: &mut Call<'_>) -> Result<Plan> {
    refused("its documents have no usable formula for the slots")
}

fn latent_prolog(_: &mut Call<'_>) -> Result<Plan> {
    refused("its three documents have three lists of arguments; MlaPrologV2WeightNz is there")
}

fn compressed_attention(_: &mut Call<'_>) -> Result<Plan> {
    refused("its documents do not say where selected blocks begin to count, nor what topkMask does")
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("AdvanceStep", advance_step),
    aclnn("MlaPrologV3WeightNz", latent_prolog),
    aclnn("NsaCompressAttention", compressed_attention),
    aclnn("NsaCompressAttentionInfer", compressed_attention),
];
