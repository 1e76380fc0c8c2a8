//! What convolutions and windows as columns refuse, and the texts that say why.

use cairn_ops::{Arg, Error, NodeArgs, Tensor, nodes, rows};
use cairn_tensor::{DType, Layout};

const F: DType = DType::Float;

/// A tensor in a storage of its own, which a number identifies.
fn t(storage: usize, dtype: DType, dims: &[usize]) -> Arg {
    Arg::Tensor(Tensor::new(Layout::contiguous(dtype, dims), (storage + 1) << 40))
}

fn ints(values: &[i64]) -> Arg {
    Arg::Ints(values.to_vec())
}

const NAMES: &[&str] = &[
    "input",
    "weight",
    "bias",
    "stride",
    "padding",
    "dilation",
    "transposed",
    "outputPadding",
    "groups",
    "output",
    "cubeMathType",
];

/// The arguments of a valid convolution: 3x3 over 9x8, from 4 channels to 6.
fn valid_args() -> Vec<Arg> {
    vec![
        t(0, F, &[2, 4, 9, 8]),
        t(1, F, &[6, 4, 3, 3]),
        t(2, F, &[6]),
        ints(&[1, 1]),
        ints(&[1, 1]),
        ints(&[1, 1]),
        Arg::Flag(false),
        ints(&[0, 0]),
        Arg::Int(1),
        t(3, F, &[2, 6, 9, 8]),
        Arg::Int(1),
    ]
}

/// The text that refuses a call; empty when it is accepted.
fn refusal(name: &str, names: &[&'static str], args: Vec<Arg>) -> String {
    match rows()[name].plan(names, args.into()) {
        Ok(_) => String::new(),
        Err(error) => error.text().to_owned(),
    }
}

#[test]
fn bad_convolutions_are_refused() {
    assert_eq!(refusal("Convolution", NAMES, valid_args()), "");
    let huge = i64::MAX;
    let wrong: Vec<(usize, Arg, &str)> = vec![
        (0, t(0, F, &[4, 9]), "input [4, 9] has 2 dimensions"),
        (0, t(0, F, &[2, 5, 9, 8]), "do not fit with groups = 1"),
        (0, t(0, DType::Double, &[2, 4, 9, 8]), "has elements of type"),
        (0, t(0, DType::Int32, &[2, 4, 9, 8]), "has elements of type"),
        (0, t(0, F, &[2, 4, 0, 8]), "has no room along axis 0"),
        (0, Arg::Absent, "input"),
        (1, t(1, F, &[6, 4, 3]), "weight has the sizes [6, 4, 3]: expected 4 dimensions"),
        (1, t(1, F, &[6, 4, 12, 3]), "has no room along axis 0"),
        (1, t(1, DType::Bf16, &[6, 4, 3, 3]), ""),
        (2, t(2, F, &[5]), "bias [5] is no row of 6 numbers"),
        (2, Arg::Absent, ""),
        (3, ints(&[1]), "stride = [1] has 1 numbers: expected [2]"),
        (3, ints(&[0, 1]), "stride = [0, 1]: expected numbers from 1"),
        (3, ints(&[huge, 1]), "stride = [9223372036854775807, 1]: expected numbers from 1"),
        (3, Arg::Absent, "stride is null"),
        (4, ints(&[-1, 1]), "padding = [-1, 1]: expected numbers from 0"),
        (4, ints(&[1, 1, 1]), "padding = [1, 1, 1] has 3 numbers: expected [2, 4]"),
        (4, ints(&[huge, huge]), "padding"),
        (4, ints(&[i64::from(i32::MAX), 1]), "output has the sizes"),
        (5, ints(&[1, 0]), "dilation = [1, 0]: expected numbers from 1"),
        (5, ints(&[i64::from(i32::MAX), 1]), "has no room along axis 0"),
        (8, Arg::Int(0), "groups = 0 is outside 1 to 65535"),
        (8, Arg::Int(2), "do not fit with groups = 2"),
        (8, Arg::Int(-3), "groups = -3"),
        (9, t(3, F, &[2, 6, 8, 8]), "output has the sizes [2, 6, 8, 8]"),
        (9, t(3, DType::Float16, &[2, 6, 9, 8]), "output has elements of type"),
        (10, Arg::Int(7), "cubeMathType = 7 is outside 0 to 3"),
    ];
    for (at, arg, text) in wrong {
        let mut args = valid_args();
        args[at] = arg.clone();
        let have = refusal("Convolution", NAMES, args);
        assert!(have.contains(text) && have.is_empty() == text.is_empty(), "{arg:?}: '{have}'");
    }
}

#[test]
fn groups_that_do_not_divide_are_refused() {
    let mut args = valid_args();
    (args[1], args[8]) = (t(1, F, &[5, 2, 3, 3]), Arg::Int(2));
    args[2] = Arg::Absent;
    args[9] = t(3, F, &[2, 5, 9, 8]);
    let text = refusal("Convolution", NAMES, args);
    assert!(text.contains("do not fit with groups = 2"), "{text}");
}

#[test]
fn bad_transposed_convolutions_are_refused() {
    let with = |output_padding: &[i64], padding: &[i64], out: &[usize]| {
        let mut args = valid_args();
        args[1] = t(1, F, &[4, 6, 3, 3]);
        (args[3], args[4], args[6]) = (ints(&[2, 2]), ints(padding), Arg::Flag(true));
        (args[7], args[9]) = (ints(output_padding), t(3, F, out));
        refusal("Convolution", NAMES, args)
    };
    assert_eq!(with(&[1, 1], &[1, 1], &[2, 6, 18, 16]), "");
    assert!(
        with(&[2, 0], &[1, 1], &[2, 6, 19, 15])
            .contains("outputPadding = [2, 0]: expected less than")
    );
    assert!(with(&[0, 0], &[1, 1], &[2, 6, 18, 16]).contains("output has the sizes"));
    assert!(with(&[0, 0], &[20, 20], &[2, 6, 18, 16]).contains("has no room along axis 0"));
}

#[test]
fn bad_gradients_are_refused() {
    let names: &[&str] = &[
        "gradOutput",
        "input",
        "weight",
        "biasSizes",
        "stride",
        "padding",
        "dilation",
        "transposed",
        "outputPadding",
        "groups",
        "outputMask",
        "cubeMathType",
        "gradInput",
        "gradWeight",
        "gradBias",
    ];
    let valid_args = || {
        vec![
            t(0, F, &[2, 6, 9, 8]),
            t(1, F, &[2, 4, 9, 8]),
            t(2, F, &[6, 4, 3, 3]),
            ints(&[6]),
            ints(&[1, 1]),
            ints(&[1, 1]),
            ints(&[1, 1]),
            Arg::Flag(false),
            ints(&[0, 0]),
            Arg::Int(1),
            Arg::Flags(vec![true, true, true]),
            Arg::Int(0),
            t(3, F, &[2, 4, 9, 8]),
            t(4, F, &[6, 4, 3, 3]),
            t(5, F, &[6]),
        ]
    };
    assert_eq!(refusal("ConvolutionBackward", names, valid_args()), "");
    let wrong: Vec<(usize, Arg, &str)> = vec![
        (0, t(0, F, &[2, 6, 8, 8]), "gradOutput has the sizes"),
        (3, ints(&[5]), "biasSizes = [5]: expected [6]"),
        (10, Arg::Flags(vec![true]), "outputMask = [true] does not have three"),
        (12, Arg::Absent, "gradInput is null"),
        (12, t(3, F, &[2, 4, 9, 9]), "gradInput has the sizes"),
        (13, t(4, F, &[6, 4, 3, 2]), "gradWeight has the sizes"),
        (14, t(5, F, &[4]), "gradBias has the sizes"),
    ];
    for (at, arg, text) in wrong {
        let mut args = valid_args();
        args[at] = arg.clone();
        let have = refusal("ConvolutionBackward", names, args);
        assert!(have.contains(text), "{arg:?}: '{have}'");
    }
    let mut args = valid_args();
    args[10] = Arg::Flags(vec![false, true, false]);
    (args[3], args[12], args[14]) = (Arg::Absent, Arg::Absent, Arg::Absent);
    assert_eq!(refusal("ConvolutionBackward", names, args), "");
}

#[test]
fn bad_columns_are_refused() {
    let names: &[&str] = &["self", "kernelSize", "dilation", "padding", "stride", "out"];
    let valid_args = || {
        vec![
            t(0, F, &[2, 3, 6, 7]),
            ints(&[2, 3]),
            ints(&[1, 1]),
            ints(&[0, 0]),
            ints(&[1, 1]),
            t(1, F, &[2, 18, 25]),
        ]
    };
    assert_eq!(refusal("Im2col", names, valid_args()), "");
    let wrong: Vec<(usize, Arg, &str)> = vec![
        (0, t(0, F, &[6, 7]), "do not fit"),
        (1, ints(&[0, 3]), "kernelSize = [0, 3]: expected two numbers from 1"),
        (1, ints(&[9, 3]), "has no room"),
        (1, ints(&[2]), "kernelSize = [2]: expected two numbers"),
        (3, ints(&[-1, 0]), "padding = [-1, 0]: expected two numbers from 0"),
        (4, ints(&[1, 0]), "stride = [1, 0]"),
        (5, t(1, F, &[2, 18, 24]), "out has the sizes [2, 18, 24]: expected [2, 18, 25]"),
        (5, t(1, DType::Float16, &[2, 18, 25]), "out has elements of type"),
    ];
    for (at, arg, text) in wrong {
        let mut args = valid_args();
        args[at] = arg.clone();
        let have = refusal("Im2col", names, args);
        assert!(have.contains(text), "{arg:?}: '{have}'");
    }
}

#[test]
fn bad_attributes_are_refused_by_name() {
    let tensor = |storage: usize, dims: &[usize]| {
        Tensor::new(Layout::contiguous(F, dims), (storage + 1) << 40)
    };
    let refused = |attributes: &[(&str, Arg)]| -> String {
        let mut all = vec![
            ("strides".to_owned(), ints(&[1, 1, 1, 1])),
            ("pads".to_owned(), ints(&[1, 1, 1, 1])),
            ("data_format".to_owned(), Arg::Text("NCHW".into())),
        ];
        for (name, value) in attributes {
            all.retain(|(have, _)| have != name);
            all.push(((*name).to_owned(), value.clone()));
        }
        let inputs = [Some(tensor(0, &[2, 4, 9, 8])), Some(tensor(1, &[6, 4, 3, 3]))];
        let args = NodeArgs { inputs: &inputs, outputs: &[], attributes: &all };
        match nodes()["Conv2D"].infer(&args) {
            Ok(layouts) => {
                assert_eq!(layouts[0].dims(), [2, 6, 9, 8]);
                String::new()
            }
            Err(Error::Null(text) | Error::Invalid(text) | Error::NeedsValues(text)) => text,
        }
    };
    assert_eq!(refused(&[]), "");
    let format = Arg::Text("NC1HWC0".into());
    assert!(refused(&[("data_format", format)]).contains("data_format = \"NC1HWC0\""));
    assert!(refused(&[("strides", ints(&[2, 1, 1, 1]))]).contains("expected 1 for samples"));
    assert!(refused(&[("strides", ints(&[1, 1]))]).contains("strides = [1, 1] has 2 numbers"));
    assert!(refused(&[("pads", ints(&[1, 1]))]).contains("pads = [1, 1] has 2 numbers"));
    assert!(refused(&[("offset_x", Arg::Int(3))]).contains("offset_x"));
    assert!(refused(&[("groups", Arg::Int(3))]).contains("groups = 3"));
}
