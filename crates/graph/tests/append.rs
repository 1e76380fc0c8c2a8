//! Elementwise nodes behind a convolution or a product are computed in its store, and give what they give as steps of their own.

mod support;

use cairn_graph::executable::Kind;
use cairn_graph::ir::{Attr, Graph, Source};
use cairn_graph::session::RunMode;
use support::*;

/// A graph over inputs of these sizes, and the sizes of its outputs.
struct Case {
    build: fn(&mut GraphBuilder) -> Vec<Source>,
    inputs: &'static [&'static [i64]],
    outputs: &'static [&'static [i64]],
    /// Steps with and without fusing.
    steps: (usize, usize),
}

/// Numbers of both signs; zeros of both signs, infinities and NaN among them.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count)
        .map(|at| match (at * 31 + seed * 7) % 211 {
            3 => -0.0,
            5 if seed == 9 => f32::NAN,
            8 if seed == 9 => f32::INFINITY,
            other => (other as f32 * 0.37).sin() * 3.0,
        })
        .collect()
}

fn weights(builder: &mut GraphBuilder, dims: &[i64], seed: usize) -> Source {
    let values = numbers(dims.iter().product::<i64>() as usize, seed);
    builder.floats(dims, &values)
}

fn convolution(
    builder: &mut GraphBuilder,
    inputs: &[Source],
    [stride, pad, groups]: [i64; 3],
    format: &str,
) -> Source {
    let strides = if format == "NCHW" { [1, 1, stride, stride] } else { [1, stride, stride, 1] };
    let attrs = [
        ("strides", Attr::Ints(strides.to_vec())),
        ("pads", Attr::Ints(vec![pad; 4])),
        ("dilations", Attr::Ints(vec![1; 4])),
        ("groups", Attr::Int(groups)),
        ("data_format", Attr::Text(format.as_bytes().to_vec())),
    ];
    builder.node_with("Conv2D", inputs, &attrs)
}

/// Runs a case with and without fusing, and compares the bits of all outputs.
fn check(case: &Case) {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    for seed in [1, 9] {
        let inputs: Vec<_> = (case.inputs.iter().enumerate())
            .map(|(at, dims)| {
                let count = dims.iter().product::<i64>() as usize;
                device(fixture.floats(&numbers(count, seed + at * 100)), dims)
            })
            .collect();
        let mut results = Vec::new();
        for (id, level) in [(1, "O3"), (2, "O1")] {
            if seed == 1 {
                let mut builder = GraphBuilder::new("appended");
                let outputs = (case.build)(&mut builder);
                let graph: Graph = builder.outputs(&outputs);
                fixture.add(id, graph, &[("ge.oo.level", level)]);
            }
            let counts: Vec<usize> =
                case.outputs.iter().map(|dims| dims.iter().product::<i64>() as usize).collect();
            let out: Vec<_> = (counts.iter().zip(case.outputs))
                .map(|(count, dims)| device(fixture.allocate(count * 4), dims))
                .collect();
            fixture.run(id, RunMode::Stream, stream, &inputs, &out).unwrap();
            fixture.sync(stream).unwrap();
            let bits = |(one, count): (&cairn_graph::session::RunTensor, &usize)| {
                let values = fixture.read(one.address, *count);
                values.into_iter().map(f32::to_bits).collect::<Vec<u32>>()
            };
            results.push(out.iter().zip(&counts).map(bits).collect::<Vec<_>>());
        }
        assert_eq!(results[0], results[1], "with fusing and without");
    }
    let steps = |id| match &fixture.session.graph(id).unwrap().compiled().unwrap().kind {
        Kind::Static { program, .. } => program.steps.len(),
        Kind::Dynamic { .. } => panic!("sizes are known"),
    };
    assert_eq!((steps(1), steps(2)), case.steps);
}

#[test]
fn a_bound_behind_windows() {
    check(&Case {
        build: |builder| {
            let x = builder.data(&[2, 16, 9, 13]);
            let (filter, bias) = (weights(builder, &[40, 16, 3, 3], 2), weights(builder, &[40], 3));
            let y = convolution(builder, &[x, filter, bias], [1, 1, 1], "NCHW");
            vec![builder.node("Relu", &[y])]
        },
        inputs: &[&[2, 16, 9, 13]],
        outputs: &[&[2, 40, 9, 13]],
        steps: (1, 2),
    });
}

#[test]
fn two_bounds_behind_single_positions() {
    check(&Case {
        build: |builder| {
            let x = builder.data(&[1, 12, 8, 9]);
            let (filter, bias) = (weights(builder, &[50, 12, 1, 1], 2), weights(builder, &[50], 3));
            let y = convolution(builder, &[x, filter, bias], [1, 0, 1], "NCHW");
            let (low, high) = (builder.floats(&[], &[-1.0]), builder.floats(&[], &[6.0]));
            let y = builder.node("Maximum", &[y, low]);
            vec![builder.node("Minimum", &[y, high])]
        },
        inputs: &[&[1, 12, 8, 9]],
        outputs: &[&[1, 50, 8, 9]],
        steps: (1, 3),
    });
}

#[test]
fn a_sum_with_another_tensor() {
    check(&Case {
        build: |builder| {
            let (x, rest) = (builder.data(&[1, 32, 14, 14]), builder.data(&[1, 48, 7, 7]));
            let filter = weights(builder, &[48, 32, 3, 3], 2);
            let y = convolution(builder, &[x, filter], [2, 1, 1], "NCHW");
            let y = builder.node("Add", &[rest, y]);
            vec![builder.node("Relu", &[y])]
        },
        inputs: &[&[1, 32, 14, 14], &[1, 48, 7, 7]],
        outputs: &[&[1, 48, 7, 7]],
        steps: (1, 3),
    });
}

#[test]
fn functions_behind_single_channels() {
    check(&Case {
        build: |builder| {
            let x = builder.data(&[1, 12, 11, 20]);
            let filter = weights(builder, &[12, 1, 3, 3], 2);
            let y = convolution(builder, &[x, filter], [1, 1, 12], "NCHW");
            let y = builder.node("HardSwish", &[y]);
            let filter = weights(builder, &[12, 1, 5, 5], 4);
            let z = convolution(builder, &[y, filter], [2, 2, 12], "NCHW");
            let gate = builder.node("Sigmoid", &[z]);
            vec![builder.node("Mul", &[z, gate])]
        },
        inputs: &[&[1, 12, 11, 20]],
        outputs: &[&[1, 12, 6, 10]],
        steps: (2, 5),
    });
}

#[test]
fn channels_last_and_groups() {
    check(&Case {
        build: |builder| {
            let (x, rest) = (builder.data(&[1, 6, 7, 16]), builder.data(&[1, 6, 7, 24]));
            let filter = weights(builder, &[3, 3, 16, 24], 2);
            let y = convolution(builder, &[x, filter], [1, 1, 1], "NHWC");
            let y = builder.node("Relu", &[y]);
            vec![builder.node("Add", &[y, rest])]
        },
        inputs: &[&[1, 6, 7, 16], &[1, 6, 7, 24]],
        outputs: &[&[1, 6, 7, 24]],
        steps: (1, 3),
    });
    check(&Case {
        build: |builder| {
            let x = builder.data(&[1, 8, 9, 9]);
            let filter = weights(builder, &[40, 4, 3, 3], 2);
            let y = convolution(builder, &[x, filter], [1, 1, 2], "NCHW");
            let scale = weights(builder, &[40, 1, 1], 5);
            let y = builder.node("Mul", &[y, scale]);
            vec![builder.node("Tanh", &[y])]
        },
        inputs: &[&[1, 8, 9, 9]],
        outputs: &[&[1, 40, 9, 9]],
        steps: (1, 3),
    });
}

/// The function that exporters make of GELU, a row that is added and a tensor that is added, behind a product.
#[test]
fn a_row_a_function_and_a_tensor_behind_a_product() {
    check(&Case {
        build: |builder| {
            let (x, rest) = (builder.data(&[2, 15, 64]), builder.data(&[2, 15, 70]));
            let right = weights(builder, &[64, 70], 2);
            let y = builder.node("BatchMatMulV2", &[x, right]);
            let row = weights(builder, &[70], 3);
            let y = builder.node("Add", &[row, y]);
            let root = builder.floats(&[], &[std::f32::consts::SQRT_2]);
            let (one, half) = (builder.floats(&[], &[1.0]), builder.floats(&[], &[0.5]));
            let scaled = builder.node("RealDiv", &[y, root]);
            let erf = builder.node("Erf", &[scaled]);
            let sum = builder.node("Add", &[erf, one]);
            let product = builder.node("Mul", &[y, sum]);
            let gelu = builder.node("Mul", &[product, half]);
            vec![builder.node("Add", &[gelu, rest])]
        },
        inputs: &[&[2, 15, 64], &[2, 15, 70]],
        outputs: &[&[2, 15, 70]],
        steps: (1, 8),
    });
}

#[test]
fn other_sizes_between() {
    check(&Case {
        build: |builder| {
            let x = builder.data(&[6, 64]);
            let right = weights(builder, &[64, 66], 2);
            let y = builder.node("MatMul", &[x, right]);
            let sizes = builder.ints(&[2, 3, 66]);
            let y = builder.node("Reshape", &[y, sizes]);
            let table = weights(builder, &[3, 66], 4);
            let y = builder.node("Add", &[y, table]);
            vec![builder.node("Relu", &[y])]
        },
        inputs: &[&[6, 64]],
        outputs: &[&[2, 3, 66]],
        steps: (1, 3),
    });
}

#[test]
fn what_others_see_is_stored() {
    check(&Case {
        build: |builder| {
            let x = builder.data(&[1, 12, 8, 9]);
            let filter = weights(builder, &[50, 12, 1, 1], 2);
            let y = convolution(builder, &[x, filter], [1, 0, 1], "NCHW");
            let a = builder.node("Relu", &[y]);
            let b = builder.node("Tanh", &[a]);
            vec![a, b]
        },
        inputs: &[&[1, 12, 8, 9]],
        outputs: &[&[1, 50, 8, 9], &[1, 50, 8, 9]],
        steps: (2, 3),
    });
    check(&Case {
        build: |builder| {
            let x = builder.data(&[1, 12, 8, 9]);
            let filter = weights(builder, &[50, 12, 1, 1], 2);
            let y = convolution(builder, &[x, filter], [1, 0, 1], "NCHW");
            let a = builder.node("Relu", &[y]);
            let shares = builder.node("SoftmaxV2", &[y]);
            let b = builder.node("Tanh", &[shares]);
            vec![a, b]
        },
        inputs: &[&[1, 12, 8, 9]],
        outputs: &[&[1, 50, 8, 9], &[1, 50, 8, 9]],
        steps: (4, 4),
    });
}

/// A tensor that is the same again and again in between, and results that are broadcast themselves.
#[test]
fn broadcasts_of_other_kinds_are_steps_of_their_own() {
    check(&Case {
        build: |builder| {
            let x = builder.data(&[1, 12, 8, 9]);
            let filter = weights(builder, &[20, 12, 1, 1], 2);
            let y = convolution(builder, &[x, filter], [1, 0, 1], "NCHW");
            let other = weights(builder, &[20, 1, 9], 3);
            vec![builder.node("Add", &[y, other])]
        },
        inputs: &[&[1, 12, 8, 9]],
        outputs: &[&[1, 20, 8, 9]],
        steps: (2, 2),
    });
    check(&Case {
        build: |builder| {
            let (x, larger) = (builder.data(&[1, 64]), builder.data(&[5, 70]));
            let right = weights(builder, &[64, 70], 2);
            let y = builder.node("MatMul", &[x, right]);
            vec![builder.node("Add", &[y, larger])]
        },
        inputs: &[&[1, 64], &[5, 70]],
        outputs: &[&[5, 70]],
        steps: (2, 2),
    });
}
