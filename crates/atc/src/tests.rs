//! Command lines on small models.

use super::run;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

mod onnx;

/// A folder of one test's own, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("cairn-atc-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// The path of a file in it.
    fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }

    /// A model that adds a constant and takes what is positive; its input has these sizes.
    fn model(&self, dims: &[onnx::Dim]) -> String {
        let path = self.path("net.onnx");
        fs::write(&path, onnx::model(dims)).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Status and output of a command line; what goes to the error stream follows.
fn atc(words: &[&str]) -> (i32, String) {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let (mut out, mut errors) = (Vec::new(), Vec::new());
    let status = run(&words, &mut out, &mut errors);
    out.extend(errors);
    (status, String::from_utf8(out).unwrap())
}

/// Builds the model with more flags.
fn build(folder: &Folder, model: &str, more: &[&str]) -> (i32, String) {
    let (model, output) = (format!("--model={model}"), format!("--output={}", folder.path("net")));
    let mut words = vec![model.as_str(), &output, "--framework=5", "--soc_version=Ascend310P3"];
    words.extend(more);
    atc(&words)
}

fn description(folder: &Folder) -> cairn_graph::offline::Description {
    let bytes = fs::read(folder.path("net.om")).unwrap();
    cairn_graph::offline::OfflineModel::read(&bytes, None).unwrap().description
}

use onnx::Dim::{Named, Size};

#[test]
fn a_static_model() {
    let folder = Folder::new();
    let model = folder.model(&[Size(2), Size(3)]);
    let (status, text) = build(&folder, &model, &[]);
    assert_eq!(status, 0, "{text}");
    assert!(text.starts_with("ATC start working now, please wait for a moment.\n...\n"), "{text}");
    assert!(text.ends_with("ATC run success, welcome to the next use.\n"), "{text}");
    let description = description(&folder);
    assert_eq!(description.name, "net");
    assert_eq!(description.inputs[0].dims, [2, 3]);
    assert_eq!(description.outputs[0].name, "act:0:y");
    assert!(!description.is_dynamic());
}

#[test]
fn sizes_of_the_command_line_replace_those_of_the_model() {
    let folder = Folder::new();
    let model = folder.model(&[Named("n"), Size(3)]);
    let (status, text) = build(&folder, &model, &["--input_shape", "x:5,3", "--input-format=ND"]);
    assert_eq!(status, 0, "{text}");
    assert_eq!(description(&folder).outputs[0].dims, [5, 3]);
    let (status, text) = build(&folder, &model, &["--input_shape=x:1~8,3"]);
    assert_eq!(status, 0, "{text}");
    let ranged = description(&folder);
    assert!(ranged.is_dynamic());
    assert_eq!(ranged.inputs[0].ranges, [(1, 8), (3, 3)]);
    assert_eq!(ranged.inputs[0].bytes, 8 * 3 * 4);
    let om = format!("--om={}", folder.path("net.om"));
    let (_, shown) = atc(&["--mode=6", &om]);
    assert!(shown.contains("range [1~8, 3]"), "{shown}");
}

#[test]
fn gears() {
    let folder = Folder::new();
    let model = folder.model(&[Size(1), Size(3)]);
    let (status, text) =
        build(&folder, &model, &["--input_shape=x:-1,3", "--dynamic_batch_size=1,4,2"]);
    assert_eq!(status, 0, "{text}");
    let batch = description(&folder);
    assert_eq!(batch.gears, cairn_graph::offline::Gears::Batch(vec![1, 4, 2]));
    assert_eq!(
        (&batch.inputs[0].dims[..], &batch.outputs[0].dims[..]),
        (&[-1, 3][..], &[4, 3][..])
    );
    assert_eq!(batch.output_dims, [vec![vec![1, 3]], vec![vec![4, 3]], vec![vec![2, 3]]]);
    let om = format!("--om={}", folder.path("net.om"));
    let (_, shown) = atc(&["--mode=6", &om]);
    assert!(shown.contains("x: float [-1, 3] ND, 48 bytes\n"), "{shown}");
    assert!(shown.contains(": 1;4;2\n") && !shown.contains("range"), "{shown}");
    let (status, text) = build(&folder, &model, &["--input_shape=x:-1,3", "--dynamic_dims=1;7"]);
    assert_eq!(status, 0, "{text}");
    assert_eq!(description(&folder).outputs[0].dims, [7, 3]);
}

#[test]
fn outputs_and_their_types() {
    let folder = Folder::new();
    let model = folder.model(&[Size(2), Size(3)]);
    for (out_nodes, name) in [("sum:0", "sum:0:s"), ("s", "sum:0:s"), ("act:0;sum:0", "act:0:y")] {
        let out_nodes = format!("--out_nodes={out_nodes}");
        let (status, text) = build(&folder, &model, &[&out_nodes, "--output_type=FP16"]);
        assert_eq!(status, 0, "{text}");
        let output = &description(&folder).outputs[0];
        assert_eq!((output.name.as_str(), output.bytes), (name, 2 * 3 * 2));
    }
    let (status, text) = build(&folder, &model, &["--out_nodes=nobody:0"]);
    assert!(status == 255 && text.contains("E10001") && text.contains("nobody:0"), "{text}");
}

#[test]
fn models_of_the_graph_engine() {
    let folder = Folder::new();
    let options = cairn_graph::onnx::ReadOptions::default();
    let graph = cairn_graph::onnx::read(onnx::model(&[Size(2), Size(3)]), &options).unwrap();
    let path = folder.path("net.air");
    fs::write(&path, cairn_graph::model::write(&graph)).unwrap();
    let (status, text) = build(&folder, &path, &["--framework=1", "--out_nodes=sum:0"]);
    assert_eq!(status, 0, "{text}");
    assert_eq!(description(&folder).outputs[0].name, "sum:0");
}

#[test]
fn models_are_shown() {
    let folder = Folder::new();
    let model = folder.model(&[Size(2), Size(3)]);
    assert_eq!(build(&folder, &model, &["--display_model_info=1"]).0, 0);
    let (om, json) = (folder.path("net.om"), folder.path("net.json"));
    let (om, json_flag) = (format!("--om={om}"), format!("--json={json}"));
    for source in [vec![om.as_str()], vec!["--framework=5", "--om", &model]] {
        let words: Vec<&str> = [vec!["--mode=1", json_flag.as_str()], source].concat();
        let (status, text) = atc(&words);
        assert_eq!(status, 0, "{text}");
        let text = fs::read_to_string(&json).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let kinds: Vec<&str> = (value["graph"][0]["op"].as_array().unwrap().iter())
            .map(|op| op["type"].as_str().unwrap())
            .collect();
        assert!(kinds.contains(&"Relu") && kinds.contains(&"Data"), "{kinds:?}");
    }
    let (status, text) = atc(&["--mode=6", &om]);
    assert_eq!(status, 0, "{text}");
    for part in [
        "Display Model Info start",
        "Ascend310P3",
        "5 (ONNX)",
        "--framework=5",
        "x: float",
        "Display Model Info end",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn flags_without_effect_are_named() {
    let folder = Folder::new();
    let model = folder.model(&[Size(2)]);
    let (status, text) =
        build(&folder, &model, &["--precision_mode=force_fp16", "--oo-level=O1", "--log=error"]);
    assert_eq!(status, 0, "{text}");
    let after = text.split("welcome").nth(1).unwrap();
    assert!(
        after.contains("--precision_mode=force_fp16") && after.contains("its own types"),
        "{text}"
    );
    assert!(after.contains("--oo_level=O1") && !after.contains("--log"), "{text}");
}

#[test]
fn wrong_values_are_named_with_their_number() {
    let folder = Folder::new();
    let model = folder.model(&[Size(2), Size(3)]);
    for (flags, parts) in [
        (&["--input_shape=z:2,3"][..], &["E10016", "--input_shape=z:2,3"][..]),
        (&["--input_shape=x2,3"], &["E10001", "--input_shape=x2,3"]),
        (
            &["--input_shape=x:-1,3", "--dynamic_batch_size=4"],
            &["E10035", "--dynamic_batch_size=4"],
        ),
        (&["--input_shape=x:2,-1", "--dynamic_batch_size=1,2"], &["E10018", "[2, -1]"]),
        (&["--dynamic_batch_size=1,2", "--dynamic_dims=1;2"], &["E10009", "--dynamic_batch_size"]),
        (
            &["--input_shape=x:-1,3", "--dynamic_dims=1,2;3,4"],
            &["E10037", "--dynamic_dims=1,2;3,4"],
        ),
        (&["--insert_op_conf=/no/aipp.cfg"], &["E13000", "--insert_op_conf=/no/aipp.cfg"]),
        (&["--external_weight=3"], &["E10001", "--external_weight=3"]),
        (&["--input_shape=x:2"], &["E10001", "[2, 3]"]),
        (&["--input_shape=x:-1,3", "--dynamic_batch_size=2,2"], &["E10039", "[2]"]),
        (
            &["--input_shape=x:-1,3", "--dynamic_image_size=1,2;3,4"],
            &["E10038", "--dynamic_image_size=1,2;3,4"],
        ),
        (
            &["--input_shape_range=x:[1~2,3]", "--dynamic_batch_size=1,2"],
            &["E10009", "input_shape_range"],
        ),
        (&["--input_shape=x:1~2,3", "--dynamic_batch_size=1,2"], &["E10009", "exclude"]),
        (&["--input_format=XYZ"], &["E10001", "--input_format=XYZ"]),
        (
            &["--input_shape=x:-1,3", "--dynamic_dims=1;2", "--input_format=NCHW"],
            &["E10001", "--input_format=NCHW: expected ND with --dynamic_dims=1;2"],
        ),
        (
            &["--dynamic_image_size=1,2;3,4", "--input_format=ND"],
            &["E10001", "--input_format=ND: expected NCHW or NHWC with --dynamic_image_size"],
        ),
        (&["--input_shape="], &["E10004", "--input_shape= is empty"]),
        (&["--output="], &["E10004", "--output"]),
        (&["--output=/tmp/"], &["E10021", "--output=/tmp/"]),
        (&["--framework="], &["E10007", "--framework is missing"]),
        (&["--mode=1", "--om=/no/such.om", "--json=x"], &["E13000", "/no/such.om"]),
        (&["--mode=1", "--om=/no/such.om"], &["E10004", "--json"]),
        (&["--singleop=a.json"], &["E10001", "--singleop=a.json"]),
        (&["--sparsity=2"], &["E10006", "--sparsity=2"]),
        (&["--allow_hf32=yes"], &["E10005", "--allow_hf32=yes"]),
        (&["--log=loud"], &["E10010", "--log=loud"]),
        (&["--framework=x"], &["E10003", "--framework=x"]),
        (&["--framework=0"], &["E10007", "Caffe"]),
        (&["--framework=3"], &["E10007", "TensorFlow"]),
        (&["--framework=7"], &["E10007", "--framework=7"]),
        (&["--soc_version="], &["E10054", "--soc_version"]),
        (&["--soc_version=Turing1"], &["E10001", "Turing1"]),
        (&["--model=/no/such.onnx"], &["E13000", "/no/such.onnx"]),
        (&["--model="], &["E10004", "--model"]),
        (&["--output=/proc/nowhere/x"], &["E13001", "/proc/nowhere/x.om"]),
        (&["--mode=3"], &["E10001", "--mode=3"]),
        (&["--mode=6"], &["E10004", "--om"]),
        (&["--precision_mode=fp7"], &["E10001", "--precision_mode=fp7"]),
        (
            &["--precision_mode=force_fp16", "--precision_mode_v2=origin"],
            &["E10009", "--precision_mode_v2"],
        ),
        (&["--output_type=FP7"], &["E10001", "FP7"]),
    ] {
        let (status, text) = build(&folder, &model, flags);
        assert!(
            status == 255 && text.contains("ATC run failed, Please check the detail log"),
            "{text}"
        );
        assert!(parts.iter().all(|part| text.contains(part)), "{flags:?}: {text}");
    }
    assert!(!PathBuf::from(folder.path("net.om")).exists());
}

/// A configuration of images, as a file.
fn aipp(folder: &Folder, text: &str) -> String {
    let path = folder.path("aipp.cfg");
    fs::write(&path, text).unwrap();
    format!("--insert_op_conf={path}")
}

#[test]
fn images_are_prepared() {
    let folder = Folder::new();
    let model = folder.model(&[Named("n"), Size(3), Size(4), Size(4)]);
    let text = "aipp_op { aipp_mode: static input_format: RGB888_U8 mean_chn_0: 5 }";
    let flag = aipp(&folder, text);
    let shape = "--input_shape=x:1,3,4,4";
    let (status, text) = build(&folder, &model, &[shape, &flag]);
    assert_eq!(status, 0, "{text}");
    let input = &description(&folder).inputs[0];
    assert_eq!((&input.dims[..], input.bytes), (&[1, 4, 4, 3][..], 48));
    assert_eq!(input.aipp.as_ref().unwrap().parameters.mean[0], 5);
    let (status, text) =
        build(&folder, &model, &["--input_shape=x:-1,3,4,4", "--dynamic_batch_size=1,2", &flag]);
    assert_eq!(status, 0, "{text}");
    assert_eq!(description(&folder).inputs[0].dims, [-1, 4, 4, 3]);

    fs::remove_file(folder.path("net.om")).unwrap();
    for (shape, more, conf, parts) in [
        ("x:1,3,4,4", "", "aipp_op { aipp_mode: dynamic }", &["E10001", "line 1", "dynamic"][..]),
        ("x:1,3,4,4", "", "\n\nnonsense", &["E10001", "line 3"]),
        ("x:1,4,4,4", "", "", &["E10001", "--insert_op_conf=", "4 channels"]),
        ("x:-1,3,4,4", "--dynamic_dims=1;2", "", &["E10009", "dynamic_dims"]),
        ("x:1~4,3,4,4", "", "", &["E10001", "not known"]),
    ] {
        let conf = if conf.is_empty() {
            "aipp_op { aipp_mode: static input_format: RGB888_U8 }"
        } else {
            conf
        };
        let flag = aipp(&folder, conf);
        let shape = format!("--input_shape={shape}");
        let mut flags = vec![shape.as_str(), &flag];
        flags.extend((!more.is_empty()).then_some(more));
        let (status, text) = build(&folder, &model, &flags);
        assert!(status == 255 && parts.iter().all(|part| text.contains(part)), "{conf}: {text}");
    }
    fs::write(folder.path("aipp.cfg"), b"\xff\xfe").unwrap();
    let (status, text) = build(&folder, &model, &[shape, &flag]);
    assert!(status == 255 && text.contains("E10001") && text.contains("UTF-8"), "{text}");
    assert!(!PathBuf::from(folder.path("net.om")).exists());
}

#[test]
fn weights_beside_the_model() {
    let folder = Folder::new();
    let path = folder.path("heavy.onnx");
    fs::write(&path, onnx::heavy_model(512)).unwrap();
    let sizes = |value: &str| -> (u64, Vec<(String, u64)>) {
        let _ = fs::remove_dir_all(folder.path("weight"));
        let flag = format!("--external_weight={value}");
        let (status, text) = build(&folder, &path, &[&flag]);
        assert_eq!(status, 0, "{text}");
        let files = fs::read_dir(folder.path("weight")).into_iter().flatten().map(|entry| {
            let entry = entry.unwrap();
            (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len())
        });
        (fs::metadata(folder.path("net.om")).unwrap().len(), files.collect())
    };
    let (inside, none) = sizes("0");
    assert!(none.is_empty());
    let (without, files) = sizes("1");
    assert!(without + 2048 < inside + 1024, "{without} beside {inside}");
    assert!(files.len() == 1 && files[0].0.starts_with("weight_") && files[0].1 == 2048);
    let (_, files) = sizes("2");
    assert_eq!(files, [("net_weight_combined".to_owned(), 2048)]);
    let bytes = fs::read(folder.path("net.om")).unwrap();
    let read = |folder| cairn_graph::offline::OfflineModel::read(&bytes, folder);
    assert!(read(Some(folder.0.as_path())).is_ok());
    let failure = read(None).err().unwrap();
    assert!(failure.text.contains("net_weight_combined"), "{}", failure.text);
}

#[test]
fn models_that_cannot_be_read() {
    let folder = Folder::new();
    let path = folder.path("bad.onnx");
    fs::write(&path, b"nonsense").unwrap();
    let (status, text) = build(&folder, &path, &[]);
    assert!(status == 255 && text.contains("E10041: "), "{text}");
    fs::write(&path, onnx::model_with("Frobnicate", &[Size(2)])).unwrap();
    let (status, text) = build(&folder, &path, &[]);
    assert!(status == 255 && text.contains("E16002: ") && text.contains("Frobnicate"), "{text}");
    for (bytes, part) in [(onnx::cycle(), "'b'"), (onnx::twice(), "'y'"), (Vec::new(), "empty")] {
        fs::write(&path, bytes).unwrap();
        let (status, text) = build(&folder, &path, &[]);
        assert!(status == 255 && text.contains("E10041: ") && text.contains(part), "{text}");
    }
    let whole = onnx::model(&[Size(2)]);
    for end in 1..whole.len() {
        fs::write(&path, &whole[..end]).unwrap();
        let (status, text) = build(&folder, &path, &[]);
        assert!(status == 0 || (status == 255 && text.contains("\nE1")), "{end}: {text}");
    }
    let om = format!("--om={path}");
    let (status, text) = atc(&["--mode=6", &om]);
    assert!(status == 255 && text.contains("E10041: "), "{text}");
}

#[test]
fn wrong_command_lines() {
    for words in [&["--modle=x"][..], &["net.onnx"], &["--model"]] {
        let (status, text) = atc(words);
        let lines: Vec<&str> = text.lines().collect();
        let [start, failed, error] = lines[..] else { panic!("{text}") };
        assert!(start.starts_with("ATC start working now") && failed.starts_with("ATC run failed"));
        assert!(
            status == 255 && error.starts_with("ERROR: ") && error.contains(words[0]),
            "{text}"
        );
    }
    let (status, text) = atc(&["--help"]);
    assert!(status == 0 && text.contains("--input_shape") && !text.contains("failed"), "{text}");
    assert!(!text.contains("ATC start"), "{text}");
}
