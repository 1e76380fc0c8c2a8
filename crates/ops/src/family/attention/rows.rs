//! Table rows of the attention operators.

use super::{attention, gradients, infer_gradients, infer_outputs};
use crate::infer::Infer;
use crate::table::ArgSource::{A, Attr, No, O};
use crate::table::{ArgSource, AttrDefault, Node, Row, aclnn, node};

/// The rows of this family.
#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    aclnn("FlashAttentionScore", attention).with_args(&[
        A(0), A(1), A(2), A(3), A(4), A(6), A(8), A(9), A(10), A(11), A(12), A(13), A(15),
        No, A(7), No, No, No, No, No, No, No, No, No, A(16), A(17), A(19),
    ]),
    aclnn("FlashAttentionScoreV2", attention).with_args(&[
        A(0), A(1), A(2), A(3), A(4), A(6), A(10), A(11), A(12), A(13), A(14), A(15), A(17),
        A(18), A(7), No, No, A(8), A(9), No, No, No, No, No, A(19), A(20), A(22),
    ]),
    aclnn("FlashAttentionScoreV3", attention).with_args(&[
        A(0), A(1), A(2), A(3), A(4), A(6), A(11), A(12), A(13), A(14), A(15), A(16), A(18),
        A(19), A(8), No, No, A(9), A(10), No, No, A(7), No, No, A(20), A(21), A(23),
    ]),
    aclnn("FlashAttentionScoreV4", attention).with_args(&[
        A(0), A(1), A(2), A(3), A(4), A(6), A(18), A(19), A(20), A(21), A(22), A(23), A(25),
        A(27), A(13), A(14), A(15), A(16), A(17), A(7), A(8), A(12), A(28), A(29), A(31),
        A(32), A(34), A(9), A(10), A(11),
    ]),
    aclnn("FlashAttentionVarLenScore", attention).with_args(&[
        A(0), A(1), A(2), A(3), A(4), A(6), A(10), A(11), A(12), A(13), A(14), A(15), A(17),
        No, A(7), A(8), A(9), No, No, No, No, No, No, No, A(18), A(19), A(21),
    ]),
    aclnn("FlashAttentionVarLenScoreV2", attention).with_args(&[
        A(0), A(1), A(2), A(3), A(4), A(6), A(12), A(13), A(14), A(15), A(16), A(17), A(19),
        A(20), A(7), A(8), A(9), A(10), A(11), No, No, No, No, No, A(21), A(22), A(24),
    ]),
    aclnn("FlashAttentionVarLenScoreV3", attention).with_args(&[
        A(0), A(2), A(4), A(5), A(6), A(8), A(14), A(15), A(16), A(17), A(18), A(19), A(21),
        A(22), A(9), A(10), A(11), A(12), A(13), A(1), A(3), No, No, No, A(23), A(24),
        A(26),
    ]),
    aclnn("FlashAttentionVarLenScoreV4", attention).with_args(&[
        A(0), A(1), A(2), A(3), A(4), A(6), A(10), A(11), A(12), A(13), A(14), A(15), A(17),
        No, A(7), A(8), A(9), No, No, No, No, No, A(18), No, A(19), A(20), A(22),
    ]),
    aclnn("FlashAttentionVarLenScoreV5", attention).with_args(&[
        A(0), A(2), A(4), A(5), A(6), A(8), A(15), A(16), A(17), A(18), A(19), A(20), A(22),
        A(23), A(10), A(11), A(12), A(13), A(14), A(1), A(3), A(9), A(24), No, A(25), A(26),
        A(28),
    ]),
    aclnn("FlashAttentionScoreGrad", gradients).with_args(&[
        A(0), A(1), A(2), A(4), A(5), A(7), A(13), A(14), A(15), A(16), A(17), A(18), A(20),
        No, A(12), No, No, No, No, No, No, No, No, No, A(3), A(8), A(9), A(11), A(21),
        A(22), A(23), A(24),
    ]),
    aclnn("FlashAttentionScoreGradV2", gradients).with_args(&[
        A(0), A(1), A(2), A(4), A(5), A(7), A(15), A(16), A(17), A(18), A(19), A(20), A(22),
        A(23), A(12), No, No, A(13), A(14), No, No, No, No, No, A(3), A(8), A(9), A(11),
        A(24), A(25), A(26), A(27),
    ]),
    aclnn("FlashAttentionScoreGradV3", gradients).with_args(&[
        A(0), A(1), A(2), A(4), A(5), A(7), A(16), A(17), A(18), A(19), A(20), A(21), A(23),
        A(24), A(13), No, No, A(14), A(15), No, No, A(12), No, No, A(3), A(8), A(9), A(11),
        A(25), A(26), A(27), A(28), No, No, A(29),
    ]),
    aclnn("FlashAttentionScoreGradV4", gradients).with_args(&[
        A(0), A(1), A(2), A(4), A(5), A(7), A(25), A(26), A(27), A(28), A(29), A(30), A(33),
        A(34), A(20), A(21), A(22), A(23), A(24), A(13), A(14), A(12), A(31), A(35), A(3),
        A(8), A(9), A(11), A(38), A(39), A(40), A(43), A(41), A(42), A(44), A(15), A(16),
        A(17), A(18), A(19),
    ]),
    aclnn("FlashAttentionUnpaddingScoreGrad", gradients).with_args(&[
        A(0), A(1), A(2), A(4), A(5), A(7), A(15), A(16), A(17), A(18), A(19), A(20), A(22),
        No, A(12), A(13), A(14), No, No, No, No, No, No, No, A(3), A(8), A(9), A(11), A(23),
        A(24), A(25), A(26),
    ]),
    aclnn("FlashAttentionUnpaddingScoreGradV2", gradients).with_args(&[
        A(0), A(1), A(2), A(4), A(5), A(7), A(17), A(18), A(19), A(20), A(21), A(22), A(24),
        A(25), A(12), A(13), A(14), A(15), A(16), No, No, No, No, No, A(3), A(8), A(9),
        A(11), A(26), A(27), A(28), A(29),
    ]),
    aclnn("FlashAttentionUnpaddingScoreGradV3", gradients).with_args(&[
        A(0), A(2), A(4), A(6), A(7), A(9), A(19), A(20), A(21), A(22), A(23), A(24), A(26),
        A(27), A(14), A(15), A(16), A(17), A(18), A(1), A(3), No, No, No, A(5), A(10),
        A(11), A(13), A(28), A(30), A(32), A(33), A(29), A(31),
    ]),
    aclnn("FlashAttentionUnpaddingScoreGradV4", gradients).with_args(&[
        A(0), A(1), A(2), A(4), A(5), A(7), A(15), A(16), A(17), A(18), A(19), A(20), A(22),
        No, A(12), A(13), A(14), No, No, No, No, No, A(27), No, A(3), A(8), A(9), A(11),
        A(23), A(24), A(25), A(26),
    ]),
    aclnn("FlashAttentionUnpaddingScoreGradV5", gradients).with_args(&[
        A(0), A(2), A(4), A(6), A(7), A(9), A(20), A(21), A(22), A(23), A(24), A(25), A(27),
        A(28), A(15), A(16), A(17), A(18), A(19), A(1), A(3), A(14), A(29), No, A(5), A(10),
        A(11), A(13), A(30), A(32), A(34), A(35), A(31), A(33), A(36),
    ]),
];

const SCALE_VALUE: ArgSource = Attr("scale_value", AttrDefault::Float(1.0));
const KEEP_PROB: ArgSource = Attr("keep_prob", AttrDefault::Float(1.0));
const HEAD_NUM: ArgSource = Attr("head_num", AttrDefault::Required);
const INPUT_LAYOUT: ArgSource = Attr("input_layout", AttrDefault::Required);
const SPARSE_MODE: ArgSource = Attr("sparse_mode", AttrDefault::Int(0));
const PRE_TOKENS_FORWARD: ArgSource = Attr("pre_tockens", AttrDefault::Int(2_147_483_647));
const PRE_TOKENS_BACKWARD: ArgSource = Attr("pre_tockens", AttrDefault::Int(65_536));
const NEXT_TOKENS_FORWARD: ArgSource = Attr("next_tockens", AttrDefault::Int(2_147_483_647));
const NEXT_TOKENS_BACKWARD: ArgSource = Attr("next_tockens", AttrDefault::Int(65_536));

/// The operators of this family by IR name.
#[rustfmt::skip]
pub const NODES: &[Node] = &[
    node(
        "FlashAttentionScore",
        &[
            "query", "key", "value", "real_shift?", "drop_mask?", "padding_mask?", "atten_mask?",
            "prefix?", "actual_seq_qlen?", "actual_seq_kvlen?", "q_start_idx?", "kv_start_idx?",
        ],
        &["softmax_max", "softmax_sum", "softmax_out", "attention_out"],
        Infer::By(infer_outputs),
        attention,
        &[
            A(0), A(1), A(2), A(3), A(4), A(6), SCALE_VALUE, KEEP_PROB, PRE_TOKENS_FORWARD, NEXT_TOKENS_FORWARD,
            HEAD_NUM, INPUT_LAYOUT, SPARSE_MODE, No, A(7), A(8), A(9), No, No, No, No, No,
            No, No, O(0), O(1), O(3),
        ],
    )
    .needs_values(&[7, 8, 9]),
    node(
        "FlashAttentionScoreGrad",
        &[
            "query", "key", "value", "dy", "pse_shift?", "drop_mask?", "padding_mask?",
            "atten_mask?", "softmax_max?", "softmax_sum?", "softmax_in?", "attention_in?",
            "prefix?", "actual_seq_qlen?", "actual_seq_kvlen?", "q_start_idx?", "kv_start_idx?",
        ],
        &["dq", "dk", "dv", "dpse"],
        Infer::By(infer_gradients),
        gradients,
        &[
            A(0), A(1), A(2), A(4), A(5), A(7), SCALE_VALUE, KEEP_PROB, PRE_TOKENS_BACKWARD, NEXT_TOKENS_BACKWARD,
            HEAD_NUM, INPUT_LAYOUT, SPARSE_MODE, No, A(12), A(13), A(14), No, No, No, No,
            No, No, No, A(3), A(8), A(9), A(11), O(0), O(1), O(2), O(3),
        ],
    )
    .needs_values(&[12, 13, 14]),
];
