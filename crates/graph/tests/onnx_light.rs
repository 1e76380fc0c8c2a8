//! The networks of ONNX's own wheel, whose weights are all alike, beside the node tests that `CAIRN_ONNX_NODES` names. Three of the
//! nine, all with `CAIRN_TESTS=deep`.

mod support;

use cairn_graph::ir::{Constant, Desc};
use cairn_graph::onnx::{self, ReadOptions};
use cairn_tensor::DType;
use std::path::Path;
use support::Machine;
use support::onnx::{compare, outputs_of};

/// The networks; those of a short run first.
const NETWORKS: [&str; 9] = [
    "squeezenet",
    "shufflenet",
    "resnet50",
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "vgg19",
    "zfnet512",
];

/// How many of them a short run has.
const SHORT: usize = 3;

/// Numbers from 0 to before 1 in equal steps.
fn counted(dims: &[i64]) -> Constant {
    let count: i64 = dims.iter().product();
    let bytes: Vec<u8> =
        (0..count).flat_map(|at| (at as f32 / count as f32).to_le_bytes()).collect();
    Constant { desc: Desc::new(DType::Float, dims), bytes: bytes.into() }
}

#[test]
fn networks_of_onnx() {
    let Ok(folder) = std::env::var("CAIRN_ONNX_NODES") else {
        println!("CAIRN_ONNX_NODES is not set: no networks");
        return;
    };
    let folder = Path::new(&folder).with_file_name("light");
    let is_deep = std::env::var("CAIRN_TESTS").is_ok_and(|depth| depth == "deep");
    let machine = Machine::with_memory("Ascend910B1", 4 << 30);
    for name in &NETWORKS[..if is_deep { NETWORKS.len() } else { SHORT }] {
        let bytes = std::fs::read(folder.join(format!("light_{name}.onnx"))).unwrap();
        let expected = std::fs::read(folder.join(format!("light_{name}_output_0.pb"))).unwrap();
        let expected = onnx::read_tensor(expected).unwrap();
        let made =
            outputs_of(&machine, bytes, &ReadOptions::default(), &[counted(&[1, 3, 224, 224])])
                .unwrap_or_else(|text| panic!("{name}: {text}"));
        compare(&made, &[expected]).unwrap_or_else(|text| panic!("{name}: {text}"));
        println!("passed\t{name}");
    }
}
