//! Table rows of attention for inference.

use super::{attention, infer_outputs, infer_result};
use crate::infer::Infer;
use crate::table::ArgSource::{A, Attr, B, Beyond, I, Listed, No, O};
use crate::table::{ArgSource, AttrDefault, Node, Row, aclnn, node};

/// As many tokens before or after a query as there are.
const ALL: ArgSource = I(2_147_483_647);

/// The rows of this family.
#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    aclnn("PromptFlashAttention", attention).with_args(&[
        A(0), A(1), A(2), A(3), A(4), A(5), No, No, No, No, No, No, No, No, No, No, No, No, A(6), A(7), A(8), A(9), A(10),
        A(11), I(0), No, No, B(false), I(0), A(12), No,
    ]),
    aclnn("PromptFlashAttentionV2", attention).with_args(&[
        A(0), A(1), A(2), A(3), A(4), A(5), A(6), No, No, No, No, No, No, No, No, No, No, No, A(12), A(13), A(14), A(15),
        A(16), A(17), A(18), No, No, B(false), I(0), A(19), No, A(7), A(8), A(9), A(10), A(11),
    ]),
    aclnn("PromptFlashAttentionV3", attention).with_args(&[
        A(0), A(1), A(2), A(3), A(4), A(5), A(6), No, No, No, No, No, No, No, No, No, No, No, A(12), A(13), A(14), A(15),
        A(16), A(17), A(18), A(19), No, B(false), I(0), A(20), No, A(7), A(8), A(9), A(10), A(11),
    ]),
    aclnn("IncreFlashAttention", attention).with_args(&[
        A(0), A(1), A(2), A(3), A(4), No, A(5), No, No, No, No, No, No, No, No, No, No, No, A(6), A(7), ALL, ALL, A(8),
        A(9), I(0), No, No, B(false), I(0), A(10), No,
    ]),
    aclnn("IncreFlashAttentionV2", attention).with_args(&[
        A(0), A(1), A(2), A(3), A(4), No, A(5), No, No, No, No, No, No, No, No, No, No, No, A(11), A(12), ALL, ALL, A(13),
        A(14), I(0), No, No, B(false), I(0), A(15), No, A(6), A(7), A(8), A(9), A(10),
    ]),
    aclnn("IncreFlashAttentionV3", attention).with_args(&[
        A(0), A(1), A(2), A(3), A(4), No, A(5), A(13), No, No, No, No, No, No, No, No, No, No, A(14), A(15), ALL, ALL,
        A(16), A(17), I(0), A(19), A(18), B(false), I(0), A(20), No, A(6), A(7), A(8), A(9), A(10), A(11), A(12),
    ]),
    aclnn("IncreFlashAttentionV4", attention).with_args(&[
        A(0), A(1), A(2), A(3), A(4), No, A(5), A(13), No, A(14), No, No, No, No, No, No, No, No, A(15), A(16), ALL, ALL,
        A(17), A(18), I(0), A(20), A(19), B(false), I(0), A(21), No, A(6), A(7), A(8), A(9), A(10), A(11), A(12),
    ]),
    aclnn("FusedInferAttentionScore", attention).with_args(&[
        A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(14), A(15), A(16), No, No, No, No, No, No, No, No, A(17), A(18), A(19),
        A(20), A(21), A(22), A(23), A(24), A(25), A(27), I(0), A(28), A(29), A(7), A(8), A(9), A(10), A(11), A(12), A(13),
        A(26),
    ]),
    aclnn("FusedInferAttentionScoreV2", attention).with_args(&[
        A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(14), A(15), A(16), A(21), A(22), A(23), No, No, No, No, No, A(24), A(25),
        A(26), A(27), A(28), A(29), A(30), A(31), A(32), A(34), I(0), A(37), A(38), A(7), A(8), A(9), A(10), A(11), A(12),
        A(13), A(17), A(18), A(19), A(20), A(33), A(35), A(36),
    ]),
    aclnn("FusedInferAttentionScoreV3", attention).with_args(&[
        A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(14), A(15), A(16), A(21), A(22), A(23), A(24), A(25), No, No, No, A(27),
        A(28), A(29), A(30), A(31), A(32), A(33), A(34), A(35), A(37), I(0), A(40), A(41), A(7), A(8), A(9), A(10), A(11),
        A(12), A(13), A(17), A(18), A(19), A(20), A(26), A(36), A(38), A(39),
    ]),
    aclnn("FusedInferAttentionScoreV4", attention).with_args(&[
        A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(14), A(15), A(16), A(21), A(22), A(23), A(24), A(25), A(28), No, No, A(29),
        A(30), A(31), A(32), A(33), A(34), A(35), A(36), A(37), A(39), I(0), A(43), A(44), A(7), A(8), A(9), A(10), A(11),
        A(12), A(13), A(17), A(18), A(19), A(20), A(26), A(27), A(38), A(40), A(41), A(42),
    ]),
    aclnn("FusedInferAttentionScoreV5", attention).with_args(&[
        A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(14), A(15), A(16), A(21), A(22), A(23), A(24), A(25), A(28), A(29), A(30),
        A(31), A(32), A(33), A(34), A(35), A(36), A(37), A(38), A(39), A(41), A(45), A(46), A(47), A(7), A(8), A(9), A(10),
        A(11), A(12), A(13), A(17), A(18), A(19), A(20), A(26), A(27), A(40), A(42), A(43), A(44),
    ]),
];

const HEADS: ArgSource = Attr("num_heads", AttrDefault::Required);
const SCALE_VALUE: ArgSource = Attr("scale_value", AttrDefault::Float(1.0));
const FORM: ArgSource = Attr("input_layout", AttrDefault::Text("BSH"));
const SPARSE: ArgSource = Attr("sparse_mode", AttrDefault::Int(0));
const BLOCK: ArgSource = Attr("block_size", AttrDefault::Int(0));
const fn precise(default: i64) -> ArgSource {
    Attr("inner_precise", AttrDefault::Int(default))
}
const fn groups(default: i64) -> ArgSource {
    Attr("num_key_value_heads", AttrDefault::Int(default))
}
const fn tokens(name: &'static str, default: i64) -> ArgSource {
    Attr(name, AttrDefault::Int(default))
}

/// The operators of this family by IR name.
#[rustfmt::skip]
pub const NODES: &[Node] = &[
    node(
        "PromptFlashAttention",
        &[
            "query", "key", "value", "pse_shift?", "atten_mask?", "actual_seq_lengths?", "actual_seq_lengths_kv?",
            "deq_scale1?", "quant_scale1?", "deq_scale2?", "quant_scale2?", "quant_offset2?",
        ],
        &["attention_out"],
        Infer::By(infer_result),
        attention,
        &[
            A(0), A(1), A(2), A(3), A(4), A(5), A(6), No, No, No, No, No, No, No, No, No, No, No, HEADS, SCALE_VALUE,
            tokens("pre_tokens", 214_748_647), tokens("next_tokens", 0), FORM, groups(1), SPARSE, precise(1), No, B(false),
            I(0), O(0), No, A(7), A(8), A(9), A(10), A(11),
        ],
    )
    .needs_values(&[5, 6]),
    node(
        "IncreFlashAttention",
        &[
            "query", "key[]", "value[]", "pse_shift?", "atten_mask?", "actual_seq_lengths?", "dequant_scale1?",
            "quant_scale1?", "dequant_scale2?", "quant_scale2?", "quant_offset2?", "antiquant_scale?", "antiquant_offset?",
            "block_table?", "kv_padding_size?",
        ],
        &["attention_out"],
        Infer::By(infer_result),
        attention,
        &[
            A(0), Listed(1), Listed(2), Beyond(3), Beyond(4), No, Beyond(5), Beyond(13), No, Beyond(14), No, No, No, No, No,
            No, No, No, HEADS, SCALE_VALUE, ALL, ALL, FORM, groups(1), I(0), precise(1), BLOCK, B(false), I(0), O(0), No,
            Beyond(6), Beyond(7), Beyond(8), Beyond(9), Beyond(10), Beyond(11), Beyond(12),
        ],
    )
    .needs_values(&[5]),
    node(
        "FusedInferAttentionScore",
        &[
            "query", "key[]", "value[]", "pse_shift?", "atten_mask?", "actual_seq_lengths?", "actual_seq_lengths_kv?",
            "dequant_scale1?", "quant_scale1?", "dequant_scale2?", "quant_scale2?", "quant_offset2?", "antiquant_scale?",
            "antiquant_offset?", "block_table?", "query_padding_size?", "kv_padding_size?", "key_antiquant_scale?",
            "key_antiquant_offset?", "value_antiquant_scale?", "value_antiquant_offset?", "key_shared_prefix?",
            "value_shared_prefix?", "actual_shared_prefix_len?", "query_rope?", "key_rope?", "key_rope_antiquant_scale?",
            "dequant_scale_query?", "learnable_sink?", "q_start_idx?", "kv_start_idx?",
        ],
        &["attention_out", "softmax_lse"],
        Infer::By(infer_outputs),
        attention,
        &[
            A(0), Listed(1), Listed(2), Beyond(3), Beyond(4), Beyond(5), Beyond(6), Beyond(14), Beyond(15), Beyond(16),
            Beyond(21), Beyond(22), Beyond(23), Beyond(24), Beyond(25), Beyond(28), Beyond(29), Beyond(30), HEADS,
            Attr("scale", AttrDefault::Float(1.0)), tokens("pre_tokens", 2_147_483_647), tokens("next_tokens", 2_147_483_647),
            FORM, groups(0), SPARSE, precise(0), BLOCK, Attr("softmax_lse_flag", AttrDefault::Flag(false)),
            Attr("pse_type", AttrDefault::Int(0)), O(0), O(1), Beyond(7), Beyond(8), Beyond(9), Beyond(10), Beyond(11),
            Beyond(12), Beyond(13), Beyond(17), Beyond(18), Beyond(19), Beyond(20), Beyond(26), Beyond(27),
        ],
    )
    .needs_values(&[5, 6, 23, 29, 30]),
];
