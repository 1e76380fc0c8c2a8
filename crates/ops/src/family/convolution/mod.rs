//! Convolutions, transposed ones, and their gradients.

mod by_name;
mod deformable;
mod plain;
mod steps;
pub(super) mod window;

use crate::infer::Infer;
use crate::table::ArgSource::{A, Attr, I, No, O};
use crate::table::{ArgSource, AttrDefault, Node, Row, aclnn, node};

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("Convolution", plain::convolution),
    aclnn("ConvolutionBackward", plain::convolution_backward),
    aclnn("ConvDepthwise2d", plain::depthwise),
    aclnn("ConvTbc", plain::time_first),
    aclnn("ConvTbcBackward", plain::time_first_backward),
    aclnn("DeformableConv2d", deformable::deformable),
    aclnn("DeformableConv2dBackward", deformable::deformable_backward),
];

const STRIDES: ArgSource = Attr("strides", AttrDefault::Required);
const PADS: ArgSource = Attr("pads", AttrDefault::Required);
const GROUPS: ArgSource = Attr("groups", AttrDefault::Int(1));
const OFFSET: ArgSource = Attr("offset_x", AttrDefault::Int(0));
const DILATIONS_2D: ArgSource = Attr("dilations", AttrDefault::Ints(&[1, 1, 1, 1]));
const DILATIONS_3D: ArgSource = Attr("dilations", AttrDefault::Ints(&[1, 1, 1, 1, 1]));
const FORMAT_2D: ArgSource = Attr("data_format", AttrDefault::Text("NHWC"));
const FORMAT_3D: ArgSource = Attr("data_format", AttrDefault::Text("NDHWC"));
const OUTPUT_PADDING_2D: ArgSource = Attr("output_padding", AttrDefault::Ints(&[0, 0, 0, 0]));
const OUTPUT_PADDING_3D: ArgSource = Attr("output_padding", AttrDefault::Ints(&[0, 0, 0, 0, 0]));

const KSIZE: ArgSource = Attr("ksize", AttrDefault::Required);
const DEFORMABLE_GROUPS: ArgSource = Attr("deformable_groups", AttrDefault::Int(1));
const MODULATED: ArgSource = Attr("modulated", AttrDefault::Flag(true));

const FORWARD: &[&str] = &["x", "filter", "bias?", "offset_w?"];
const FORWARD_2D: &[ArgSource] = &[
    A(0),
    A(1),
    No,
    A(2),
    A(3),
    STRIDES,
    PADS,
    DILATIONS_2D,
    GROUPS,
    FORMAT_2D,
    No,
    OFFSET,
    O(0),
    I(2),
];
const FORWARD_3D: &[ArgSource] = &[
    A(0),
    A(1),
    No,
    A(2),
    A(3),
    STRIDES,
    PADS,
    DILATIONS_3D,
    GROUPS,
    FORMAT_3D,
    No,
    OFFSET,
    O(0),
    I(3),
];
const TRANSPOSED: &[&str] = &["input_size", "x", "filter", "bias?", "offset_w?"];
const TRANSPOSED_2D: &[ArgSource] = &[
    A(0),
    A(1),
    A(2),
    A(3),
    A(4),
    STRIDES,
    PADS,
    DILATIONS_2D,
    GROUPS,
    FORMAT_2D,
    OUTPUT_PADDING_2D,
    OFFSET,
    O(0),
    I(2),
];
const TRANSPOSED_3D: &[ArgSource] = &[
    A(0),
    A(1),
    A(2),
    A(3),
    A(4),
    STRIDES,
    PADS,
    DILATIONS_3D,
    GROUPS,
    FORMAT_3D,
    OUTPUT_PADDING_3D,
    OFFSET,
    O(0),
    I(3),
];
const GRADIENT_2D: &[ArgSource] =
    &[A(0), A(1), A(2), No, No, STRIDES, PADS, DILATIONS_2D, GROUPS, FORMAT_2D, No, No, O(0), I(2)];
const GRADIENT_3D: &[ArgSource] =
    &[A(0), A(1), A(2), No, No, STRIDES, PADS, DILATIONS_3D, GROUPS, FORMAT_3D, No, No, O(0), I(3)];
const INPUT_GRADIENT: &[&str] = &["input_size", "filter", "out_backprop"];
const FILTER_GRADIENT: &[&str] = &["x", "filter_size", "out_backprop"];

const INPUT_SIZE: ArgSource = Attr("input_size", AttrDefault::Required);
const FILTER_SIZE: ArgSource = Attr("filter_size", AttrDefault::Required);

const fn forward(name: &'static str, arg_sources: &'static [ArgSource]) -> Node {
    let infer = Infer::By(by_name::convolution_output);
    node(name, FORWARD, &["y"], infer, by_name::convolution, arg_sources)
}

const fn transposed(name: &'static str, arg_sources: &'static [ArgSource]) -> Node {
    let infer = Infer::By(by_name::transposed_output);
    node(name, TRANSPOSED, &["y"], infer, by_name::transposed, arg_sources).needs_values(&[0])
}

const fn input_gradient(name: &'static str, arg_sources: &'static [ArgSource]) -> Node {
    let infer = Infer::By(by_name::infer_input_gradient);
    node(name, INPUT_GRADIENT, &["y"], infer, by_name::input_gradient, arg_sources)
        .needs_values(&[0])
}

const fn filter_gradient(name: &'static str, arg_sources: &'static [ArgSource]) -> Node {
    let infer = Infer::By(by_name::infer_filter_gradient);
    node(name, FILTER_GRADIENT, &["y"], infer, by_name::filter_gradient, arg_sources)
        .needs_values(&[1])
}

/// With the sizes of the input as an attribute.
const fn input_gradient_by_attribute(
    name: &'static str,
    arg_sources: &'static [ArgSource],
) -> Node {
    let infer = Infer::By(by_name::infer_input_gradient);
    node(name, &["filter", "out_backprop"], &["y"], infer, by_name::input_gradient, arg_sources)
}

/// With the sizes of the filter as an attribute.
const fn filter_gradient_by_attribute(
    name: &'static str,
    arg_sources: &'static [ArgSource],
) -> Node {
    let infer = Infer::By(by_name::infer_filter_gradient);
    node(name, &["x", "out_backprop"], &["y"], infer, by_name::filter_gradient, arg_sources)
}

/// With the sizes of the output as an attribute.
const fn transposed_by_attribute(name: &'static str, arg_sources: &'static [ArgSource]) -> Node {
    let infer = Infer::By(by_name::transposed_output);
    node(name, FORWARD, &["y"], infer, by_name::transposed, arg_sources)
}

/// The operators of this family with sizes as attributes.
#[rustfmt::skip]
pub const SIZED_NODES: &[Node] = &[
    input_gradient_by_attribute("Conv2DBackpropInputD", &[
        INPUT_SIZE, A(0), A(1), No, No, STRIDES, PADS, DILATIONS_2D, GROUPS, FORMAT_2D, No, No, O(0), I(2),
    ]),
    input_gradient_by_attribute("Conv3DBackpropInputD", &[
        INPUT_SIZE, A(0), A(1), No, No, STRIDES, PADS, DILATIONS_3D, GROUPS, FORMAT_3D, No, No, O(0), I(3),
    ]),
    filter_gradient_by_attribute("Conv2DBackpropFilterD", &[
        A(0), FILTER_SIZE, A(1), No, No, STRIDES, PADS, DILATIONS_2D, GROUPS, FORMAT_2D, No, No, O(0), I(2),
    ]),
    filter_gradient_by_attribute("Conv3DBackpropFilterD", &[
        A(0), FILTER_SIZE, A(1), No, No, STRIDES, PADS, DILATIONS_3D, GROUPS, FORMAT_3D, No, No, O(0), I(3),
    ]),
    transposed_by_attribute("Conv2DTransposeD", &[
        INPUT_SIZE, A(0), A(1), A(2), A(3), STRIDES, PADS, DILATIONS_2D, GROUPS, FORMAT_2D, OUTPUT_PADDING_2D, OFFSET, O(0), I(2),
    ]),
    transposed_by_attribute("Conv3DTransposeD", &[
        INPUT_SIZE, A(0), A(1), A(2), A(3), STRIDES, PADS, DILATIONS_3D, GROUPS, FORMAT_3D, OUTPUT_PADDING_3D, OFFSET, O(0), I(3),
    ]),
];

/// The depthwise operators of this family.
#[rustfmt::skip]
pub const DEPTHWISE_NODES: &[Node] = &[
    node("DepthwiseConv2D", FORWARD, &["y"], Infer::By(by_name::convolution_output), by_name::convolution, &[
        A(0), A(1), No, A(2), A(3), STRIDES, PADS, DILATIONS_2D, No, FORMAT_2D, No, OFFSET, O(0), I(2), I(1),
    ]),
    node("DepthwiseConv2DBackpropInput", INPUT_GRADIENT, &["input_grad"], Infer::By(by_name::infer_input_gradient), by_name::input_gradient, &[
        A(0), A(1), A(2), No, No, STRIDES, PADS, DILATIONS_2D, No, FORMAT_2D, No, No, O(0), I(2), I(1),
    ])
    .needs_values(&[0]),
    node("DepthwiseConv2DBackpropInputD", &["filter", "out_backprop"], &["input_grad"], Infer::By(by_name::infer_input_gradient), by_name::input_gradient, &[
        INPUT_SIZE, A(0), A(1), No, No, STRIDES, PADS, DILATIONS_2D, No, FORMAT_2D, No, No, O(0), I(2), I(1),
    ]),
    node("DepthwiseConv2DBackpropFilter", &["input", "filter_size", "out_backprop"], &["filter_grad"], Infer::By(by_name::infer_filter_gradient), by_name::filter_gradient, &[
        A(0), A(1), A(2), No, No, STRIDES, PADS, DILATIONS_2D, No, FORMAT_2D, No, No, O(0), I(2), I(1),
    ])
    .needs_values(&[1]),
    node("DepthwiseConv2DBackpropFilterD", &["input", "out_backprop"], &["filter_grad"], Infer::By(by_name::infer_filter_gradient), by_name::filter_gradient, &[
        A(0), FILTER_SIZE, A(1), No, No, STRIDES, PADS, DILATIONS_2D, No, FORMAT_2D, No, No, O(0), I(2), I(1),
    ]),
];

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "DeformableOffsets",
        &["x", "offsets"],
        &["y"],
        Infer::By(deformable::offsets_output),
        deformable::offsets,
        &[
            O(0),
            A(0),
            A(1),
            KSIZE,
            STRIDES,
            PADS,
            DILATIONS_2D,
            DEFORMABLE_GROUPS,
            MODULATED,
            FORMAT_2D,
        ],
    ),
    node(
        "DeformableOffsetsGrad",
        &["grad", "x", "offsets"],
        &["grad_x", "grad_offsets"],
        Infer::By(deformable::infer_offsets_gradients),
        deformable::offsets_backward,
        &[
            A(0),
            A(1),
            A(2),
            KSIZE,
            STRIDES,
            PADS,
            DILATIONS_2D,
            DEFORMABLE_GROUPS,
            MODULATED,
            Attr("data_format", AttrDefault::Text("NCHW")),
            O(0),
            O(1),
        ],
    ),
    forward("Conv2D", FORWARD_2D),
    forward("Conv3D", FORWARD_3D),
    node(
        "Conv3DV2",
        &["x", "filter", "bias?", "scale?", "offset?", "offset_w?"],
        &["y"],
        Infer::By(by_name::convolution_output),
        by_name::convolution,
        &[
            A(0),
            A(1),
            No,
            A(2),
            A(5),
            STRIDES,
            Attr("pads", AttrDefault::Ints(&[0; 6])),
            DILATIONS_3D,
            GROUPS,
            Attr("data_format", AttrDefault::Text("NCDHW")),
            No,
            OFFSET,
            O(0),
            I(3),
            No,
            A(3),
            A(4),
            Attr("pad_mode", AttrDefault::Text("SPECIFIC")),
            Attr("enable_hf32", AttrDefault::Flag(false)),
        ],
    ),
    transposed("Conv2DTranspose", TRANSPOSED_2D),
    transposed("Conv3DTranspose", TRANSPOSED_3D),
    input_gradient("Conv2DBackpropInput", GRADIENT_2D),
    input_gradient("Conv3DBackpropInput", GRADIENT_3D),
    filter_gradient("Conv2DBackpropFilter", GRADIENT_2D),
    filter_gradient("Conv3DBackpropFilter", GRADIENT_3D),
];
