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
const ONES_2D: ArgSource = Attr("dilations", AttrDefault::Ints(&[1, 1, 1, 1]));
const ONES_3D: ArgSource = Attr("dilations", AttrDefault::Ints(&[1, 1, 1, 1, 1]));
const FORM_2D: ArgSource = Attr("data_format", AttrDefault::Text("NHWC"));
const FORM_3D: ArgSource = Attr("data_format", AttrDefault::Text("NDHWC"));
const BEYOND_2D: ArgSource = Attr("output_padding", AttrDefault::Ints(&[0, 0, 0, 0]));
const BEYOND_3D: ArgSource = Attr("output_padding", AttrDefault::Ints(&[0, 0, 0, 0, 0]));

const WINDOW: ArgSource = Attr("ksize", AttrDefault::Required);
const PARTS: ArgSource = Attr("deformable_groups", AttrDefault::Int(1));
const SHARES: ArgSource = Attr("modulated", AttrDefault::Flag(true));

const FORWARD: &[&str] = &["x", "filter", "bias?", "offset_w?"];
const FORWARD_2D: &[ArgSource] =
    &[A(0), A(1), No, A(2), A(3), STRIDES, PADS, ONES_2D, GROUPS, FORM_2D, No, OFFSET, O(0), I(2)];
const FORWARD_3D: &[ArgSource] =
    &[A(0), A(1), No, A(2), A(3), STRIDES, PADS, ONES_3D, GROUPS, FORM_3D, No, OFFSET, O(0), I(3)];
const TRANSPOSED: &[&str] = &["input_size", "x", "filter", "bias?", "offset_w?"];
const TRANSPOSED_2D: &[ArgSource] = &[
    A(0),
    A(1),
    A(2),
    A(3),
    A(4),
    STRIDES,
    PADS,
    ONES_2D,
    GROUPS,
    FORM_2D,
    BEYOND_2D,
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
    ONES_3D,
    GROUPS,
    FORM_3D,
    BEYOND_3D,
    OFFSET,
    O(0),
    I(3),
];
const GRADIENT_2D: &[ArgSource] =
    &[A(0), A(1), A(2), No, No, STRIDES, PADS, ONES_2D, GROUPS, FORM_2D, No, No, O(0), I(2)];
const GRADIENT_3D: &[ArgSource] =
    &[A(0), A(1), A(2), No, No, STRIDES, PADS, ONES_3D, GROUPS, FORM_3D, No, No, O(0), I(3)];
const OF_INPUT: &[&str] = &["input_size", "filter", "out_backprop"];
const OF_FILTER: &[&str] = &["x", "filter_size", "out_backprop"];

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

const fn of_input(name: &'static str, arg_sources: &'static [ArgSource]) -> Node {
    let infer = Infer::By(by_name::input_output);
    node(name, OF_INPUT, &["y"], infer, by_name::of_input, arg_sources).needs_values(&[0])
}

const fn of_filter(name: &'static str, arg_sources: &'static [ArgSource]) -> Node {
    let infer = Infer::By(by_name::filter_output);
    node(name, OF_FILTER, &["y"], infer, by_name::of_filter, arg_sources).needs_values(&[1])
}

/// With the sizes of the input as an attribute.
const fn to_input(name: &'static str, arg_sources: &'static [ArgSource]) -> Node {
    let infer = Infer::By(by_name::input_output);
    node(name, &["filter", "out_backprop"], &["y"], infer, by_name::of_input, arg_sources)
}

/// With the sizes of the filter as an attribute.
const fn to_filter(name: &'static str, arg_sources: &'static [ArgSource]) -> Node {
    let infer = Infer::By(by_name::filter_output);
    node(name, &["x", "out_backprop"], &["y"], infer, by_name::of_filter, arg_sources)
}

/// With the sizes of the output as an attribute.
const fn transposed_to(name: &'static str, arg_sources: &'static [ArgSource]) -> Node {
    let infer = Infer::By(by_name::transposed_output);
    node(name, FORWARD, &["y"], infer, by_name::transposed, arg_sources)
}

/// The operators of this family with sizes as attributes.
#[rustfmt::skip]
pub const SIZED_NODES: &[Node] = &[
    to_input("Conv2DBackpropInputD", &[
        INPUT_SIZE, A(0), A(1), No, No, STRIDES, PADS, ONES_2D, GROUPS, FORM_2D, No, No, O(0), I(2),
    ]),
    to_input("Conv3DBackpropInputD", &[
        INPUT_SIZE, A(0), A(1), No, No, STRIDES, PADS, ONES_3D, GROUPS, FORM_3D, No, No, O(0), I(3),
    ]),
    to_filter("Conv2DBackpropFilterD", &[
        A(0), FILTER_SIZE, A(1), No, No, STRIDES, PADS, ONES_2D, GROUPS, FORM_2D, No, No, O(0), I(2),
    ]),
    to_filter("Conv3DBackpropFilterD", &[
        A(0), FILTER_SIZE, A(1), No, No, STRIDES, PADS, ONES_3D, GROUPS, FORM_3D, No, No, O(0), I(3),
    ]),
    transposed_to("Conv2DTransposeD", &[
        INPUT_SIZE, A(0), A(1), A(2), A(3), STRIDES, PADS, ONES_2D, GROUPS, FORM_2D, BEYOND_2D, OFFSET, O(0), I(2),
    ]),
    transposed_to("Conv3DTransposeD", &[
        INPUT_SIZE, A(0), A(1), A(2), A(3), STRIDES, PADS, ONES_3D, GROUPS, FORM_3D, BEYOND_3D, OFFSET, O(0), I(3),
    ]),
];

/// Depthwise ones.
#[rustfmt::skip]
pub const DEPTHWISE_NODES: &[Node] = &[
    node("DepthwiseConv2D", FORWARD, &["y"], Infer::By(by_name::convolution_output), by_name::convolution, &[
        A(0), A(1), No, A(2), A(3), STRIDES, PADS, ONES_2D, No, FORM_2D, No, OFFSET, O(0), I(2), I(1),
    ]),
    node("DepthwiseConv2DBackpropInput", OF_INPUT, &["input_grad"], Infer::By(by_name::input_output), by_name::of_input, &[
        A(0), A(1), A(2), No, No, STRIDES, PADS, ONES_2D, No, FORM_2D, No, No, O(0), I(2), I(1),
    ])
    .needs_values(&[0]),
    node("DepthwiseConv2DBackpropInputD", &["filter", "out_backprop"], &["input_grad"], Infer::By(by_name::input_output), by_name::of_input, &[
        INPUT_SIZE, A(0), A(1), No, No, STRIDES, PADS, ONES_2D, No, FORM_2D, No, No, O(0), I(2), I(1),
    ]),
    node("DepthwiseConv2DBackpropFilter", &["input", "filter_size", "out_backprop"], &["filter_grad"], Infer::By(by_name::filter_output), by_name::of_filter, &[
        A(0), A(1), A(2), No, No, STRIDES, PADS, ONES_2D, No, FORM_2D, No, No, O(0), I(2), I(1),
    ])
    .needs_values(&[1]),
    node("DepthwiseConv2DBackpropFilterD", &["input", "out_backprop"], &["filter_grad"], Infer::By(by_name::filter_output), by_name::of_filter, &[
        A(0), FILTER_SIZE, A(1), No, No, STRIDES, PADS, ONES_2D, No, FORM_2D, No, No, O(0), I(2), I(1),
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
        &[O(0), A(0), A(1), WINDOW, STRIDES, PADS, ONES_2D, PARTS, SHARES, FORM_2D],
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
            WINDOW,
            STRIDES,
            PADS,
            ONES_2D,
            PARTS,
            SHARES,
            Attr("data_format", AttrDefault::Text("NCHW")),
            O(0),
            O(1),
        ],
    ),
    forward("Conv2D", FORWARD_2D),
    forward("Conv3D", FORWARD_3D),
    transposed("Conv2DTranspose", TRANSPOSED_2D),
    transposed("Conv3DTranspose", TRANSPOSED_3D),
    of_input("Conv2DBackpropInput", GRADIENT_2D),
    of_input("Conv3DBackpropInput", GRADIENT_3D),
    of_filter("Conv2DBackpropFilter", GRADIENT_2D),
    of_filter("Conv3DBackpropFilter", GRADIENT_3D),
];
