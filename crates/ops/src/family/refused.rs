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

fn latent_preprocess(_: &mut Call<'_>) -> Result<Plan> {
    refused("its documents call the form without quantisation not implemented; MlaProlog is there")
}

fn index_divergence(_: &mut Call<'_>) -> Result<Plan> {
    refused("no document of it was found; SparseLightningIndexerGradKLLoss is there")
}

fn cached_convolution(_: &mut Call<'_>) -> Result<Plan> {
    refused(
        "its document is for Ascend 950 alone, and has outputs without history as zeros in one place and computed from zeros in \
         another; FusedCausalConv1d is there",
    )
}

fn convolution_step(_: &mut Call<'_>) -> Result<Plan> {
    refused(
        "its document is for Ascend 950 alone, and does not say what states longer than the history are kept as; FusedCausalConv1d \
         is there",
    )
}

fn compressed_and_windowed(_: &mut Call<'_>) -> Result<Plan> {
    refused(
        "its two documents have two lists of arguments, and differ in what remainders of compressed keys are for; \
         SparseFlashAttention is there",
    )
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("AdvanceStep", advance_step),
    aclnn("AdvanceStepV2", advance_step),
    aclnn("CausalConv1dFn", cached_convolution),
    aclnn("CausalConv1dUpdate", convolution_step),
    aclnn("MlaPreprocess", latent_preprocess),
    aclnn("MlaPreprocessV2", latent_preprocess),
    aclnn("MlaPrologV3", latent_prolog),
    aclnn("MlaPrologV3WeightNz", latent_prolog),
    aclnn("SparseFlashMla", compressed_and_windowed),
    aclnn("SparseLightningIndexerGradKLLossV2", index_divergence),
    aclnn("NsaCompressAttention", compressed_attention),
    aclnn("NsaCompressAttentionInfer", compressed_attention),
];
