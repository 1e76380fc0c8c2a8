//! The op classes: headers of `opp/built-in/op_graph/inc`, from the operators of the table.
//!
//! `cpp/operators.txt` holds what the IR declares of every operator there is. One of the table that has no
//! row yet gets it from the facts in the data folder, else from the table. Rows that are there
//! stay as they are. The classes register nothing: the factory of `libge_runner.so` makes these types from the same
//! rows, and static registration of each took most of the time of compiling a program.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail};
use cairn_ops::AttrDefault;

const ROWS: &str = "cpp/operators.txt";
const HEADERS: &str = "opp/built-in/op_graph/inc";

/// What graphs have besides the operators of the table.
const GRAPH_ONLY: [&str; 13] = [
    "Assign",
    "Case",
    "Const",
    "ConstPlaceHolder",
    "Constant",
    "Data",
    "If",
    "NetOutput",
    "NoOp",
    "PartitionedCall",
    "RefData",
    "Variable",
    "While",
];

/// The header of each type, as CANN sorts them; every other type is in the first.
const HEADER_OF_TYPES: [(&str, &str); 16] = [
    ("elewise_calculation_ops.h", ""),
    (
        "array_ops.h",
        "Bitcast BroadcastTo Const ConstPlaceHolder Constant Data Empty Expand ExpandDims FlattenV2 Identity NetOutput \
         NonZero OneHot Rank RefData Reshape SearchSorted Shape Size Squeeze TensorMove Unsqueeze ViewCopy",
    ),
    ("control_flow_ops.h", "NoOp"),
    ("functional_ops.h", "Case If PartitionedCall While"),
    ("math_ops.h", "IsFinite IsInf IsNan Lerp NanToNum"),
    (
        "matrix_calculation_ops.h",
        "BatchMatMul BatchMatMulV2 Dot GEMM Ger InplaceIndexAdd MatMul MatMulV2 ScatterElements ScatterNdUpdate",
    ),
    (
        "nn_calculation_ops.h",
        "Conv2D Conv2DBackpropFilter Conv2DBackpropInput Conv2DTranspose Conv3D Conv3DBackpropFilter Conv3DV2 \
         Conv3DBackpropInput Conv3DTranspose DeformableConv2D DepthwiseConv2D",
    ),
    (
        "nn_norm_ops.h",
        "BatchNormGradV3 BatchNormV3 GroupNormGrad GroupNormV2 LayerNormGradV3 LayerNormV4 LogSoftmaxGrad \
         LogSoftmaxV2 LpNormV2 MseLoss MseLossGrad NLLLoss NLLLossGrad RmsNorm RmsNormGrad SoftmaxGrad SoftmaxV2",
    ),
    ("nn_training_ops.h", "FlashAttentionScore FlashAttentionScoreGrad"),
    (
        "nonlinear_fuc_ops.h",
        "Elu EluGradV2 FastGelu FastGeluGrad Gelu GeluGrad GeluGradV2 GeluV2 HardSigmoid HardSigmoidGrad HardSwish \
         HardSwishGrad HardtanhGrad LeakyRelu LeakyReluGrad LogSigmoid LogSigmoidGrad Mish MishGrad PRelu Relu \
         ReluGrad Selu Sigmoid SigmoidGrad Softplus Softsign Swish SwishGrad Tanh TanhGrad ThresholdGradV2D \
         ThresholdV2",
    ),
    ("pad_ops.h", "Fill Pad PadV3"),
    (
        "random_ops.h",
        "DropOutDoMask MultinomialWithReplacement StatelessBernoulli StatelessDropOutGenMask \
         StatelessRandomNormalV2 StatelessRandomUniformV2",
    ),
    (
        "reduce_ops.h",
        "ReduceAll ReduceAny ReduceMax ReduceMean ReduceMeanD ReduceMeanWithCast ReduceMin ReduceProd ReduceStdV2 \
         ReduceSum ReduceSumD",
    ),
    (
        "selection_ops.h",
        "Cummax Cummin Cumprod Cumsum EmbeddingDenseGrad Gather GatherElements GatherV2 LinSpace MaskedFill \
         MaskedSelect Range ReverseV2 Select SelectV2 Slice Sort StridedSlice StridedSliceV2 Tile TileD TopKV2 Tril Triu",
    ),
    ("split_combination_ops.h", "ConcatD ConcatV2 Pack SplitD SplitV Unpack"),
    ("state_ops.h", "Assign Variable"),
];

/// Headers by which newer versions of CANN offer a part of the classes each.
const PART_HEADERS: [&str; 5] = [
    "ops_proto_cv.h",
    "ops_proto_legacy.h",
    "ops_proto_math.h",
    "ops_proto_nn.h",
    "ops_proto_transformer.h",
];

/// What the IR declares of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ir {
    /// With `?` at the end of an optional one and `[]` of a dynamic one.
    inputs: Vec<String>,
    outputs: Vec<String>,
    attributes: Vec<Attribute>,
    /// Graphs of its own, with `[]` at the end of a dynamic one.
    graphs: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Attribute {
    name: String,
    /// Its type in an op class, one of [`KINDS`].
    kind: String,
    /// `None`: it is required.
    default: Option<String>,
}

const KINDS: [&str; 12] = [
    "Bool",
    "Bytes",
    "Float",
    "Int",
    "ListBool",
    "ListFloat",
    "ListInt",
    "ListListInt",
    "ListType",
    "String",
    "Tensor",
    "Type",
];

type Rows = BTreeMap<String, Ir>;

fn names(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(String::from).collect()
}

impl Attribute {
    /// `name!:Kind` or `name:Kind, default`.
    fn parse(text: &str) -> Result<Attribute> {
        let (name, rest) = text.split_once(':').with_context(|| format!("'{text}' has no type"))?;
        let (kind, default) = match rest.split_once(',') {
            Some((kind, default)) => (kind.trim(), Some(default.trim().to_string())),
            None => (rest.trim(), None),
        };
        let kind = if kind == "int" { "Int" } else { kind };
        if !KINDS.contains(&kind) {
            bail!("'{text}': the type {kind} is none of {KINDS:?}");
        }
        let default = default.map(|default| match (kind, default.as_str()) {
            ("Bool", "False" | "0") => "false".into(),
            ("Bool", "True" | "1") => "true".into(),
            _ if kind.starts_with("List") => default.replace('[', "{").replace(']', "}"),
            _ => default.replace('\'', "\""),
        });
        let name = name.trim();
        let default = if name.ends_with('!') { None } else { default };
        Ok(Attribute { name: name.trim_end_matches('!').into(), kind: kind.into(), default })
    }

    fn text(&self) -> String {
        match &self.default {
            Some(default) => format!("{}:{}, {default}", self.name, self.kind),
            None => format!("{}!:{}", self.name, self.kind),
        }
    }
}

impl Ir {
    /// From inputs, outputs and attributes; attributes that begin with `_` are no part of the IR.
    fn parse(inputs: &str, outputs: &str, attributes: &str) -> Result<Ir> {
        let attributes = attributes.split(';').map(str::trim);
        let attributes = attributes.filter(|one| !one.is_empty() && !one.starts_with('_'));
        Ok(Ir {
            inputs: names(inputs),
            outputs: names(outputs),
            attributes: attributes.map(Attribute::parse).collect::<Result<_>>()?,
            graphs: Vec::new(),
        })
    }

    fn of_table(node: &cairn_ops::Node) -> Result<Ir> {
        let strings = |names: &[&str]| names.iter().map(|name| (*name).to_string()).collect();
        let mut attributes: Vec<Attribute> = Vec::new();
        for (name, default) in node.attribute_defaults() {
            let (kind, default) = match default {
                AttrDefault::Int(value) => ("Int", value.to_string()),
                AttrDefault::Float(value) => ("Float", format!("{value:?}")),
                AttrDefault::Flag(value) => ("Bool", value.to_string()),
                AttrDefault::Ints(values) => {
                    let values: Vec<String> = values.iter().map(i64::to_string).collect();
                    ("ListInt", format!("{{{}}}", values.join(", ")))
                }
                AttrDefault::Text(text) => ("String", format!("\"{text}\"")),
                AttrDefault::Required | AttrDefault::None => {
                    bail!("there is no type of {}'s attribute {name}", node.name)
                }
            };
            if attributes.iter().all(|known| known.name != name) {
                let default = Some(default);
                attributes.push(Attribute { name: name.into(), kind: kind.into(), default });
            }
        }
        let (inputs, outputs) = (strings(node.inputs), strings(node.outputs));
        Ok(Ir { inputs, outputs, attributes, graphs: Vec::new() })
    }
}

fn read(root: &Path) -> Result<Rows> {
    let text = std::fs::read_to_string(root.join(ROWS)).unwrap_or_default();
    let mut rows = Rows::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let fields: Vec<&str> = line.split('|').collect();
        let [name, inputs, outputs, attributes, ref graphs @ ..] = fields[..] else {
            bail!("{ROWS}: '{line}' is not `type | inputs | outputs | attributes`");
        };
        let mut ir =
            Ir::parse(inputs, outputs, attributes).with_context(|| format!("{ROWS}: '{line}'"))?;
        ir.graphs = names(&graphs.concat());
        rows.insert(name.trim().into(), ir);
    }
    Ok(rows)
}

/// The rows of facts in the data folder.
fn facts(root: &Path) -> Result<Rows> {
    let Some(file) = crate::data::facts(root, "ge_ops.tsv")? else {
        return Ok(Rows::new());
    };
    let mut rows = Rows::new();
    for line in std::fs::read_to_string(file)?.lines().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        if let [name, _, inputs, outputs, attributes, ..] = fields[..]
            && let Ok(ir) = Ir::parse(inputs, outputs, attributes)
        {
            rows.insert(name.into(), ir);
        }
    }
    Ok(rows)
}

/// Adds what the table has and the rows lack, and drops what neither it nor graphs have.
fn complete(root: &Path, rows: &mut Rows) -> Result<()> {
    let required: BTreeSet<&str> = cairn_ops::nodes().keys().copied().chain(GRAPH_ONLY).collect();
    rows.retain(|name, _| required.contains(name.as_str()));
    let mut facts = facts(root)?;
    let mut unknown = Vec::new();
    for name in required {
        if rows.contains_key(name) {
            continue;
        }
        let ir = match (facts.remove(name), cairn_ops::nodes().get(name)) {
            (Some(ir), _) => Ok(ir),
            (None, Some(node)) => Ir::of_table(node),
            (None, None) => bail!("no row of {name}: write it into {ROWS}"),
        };
        match ir {
            Ok(ir) => drop(rows.insert(name.into(), ir)),
            Err(error) => unknown.push(format!("{error:#}")),
        }
    }
    if !unknown.is_empty() {
        bail!("write these rows into {ROWS}:\n{}", unknown.join("\n"));
    }
    Ok(())
}

fn row_list(rows: &Rows) -> String {
    let mut text = String::from(
        "# type | inputs | outputs | attributes | graphs. `?`: optional, `[]`: dynamic, `!`: required. `cargo xtask gen` adds \
         what the table has.\n",
    );
    for (name, ir) in rows {
        let attributes: Vec<String> = ir.attributes.iter().map(Attribute::text).collect();
        let (inputs, outputs) = (ir.inputs.join(", "), ir.outputs.join(", "));
        let mut row = format!("{name} | {inputs} | {outputs} | {}", attributes.join("; "));
        if !ir.graphs.is_empty() {
            row = format!("{} | {}", row.trim_end(), ir.graphs.join(", "));
        }
        let _ = writeln!(text, "{}", row.trim_end());
    }
    text
}

fn header_of(name: &str) -> &'static str {
    let found =
        HEADER_OF_TYPES.iter().find(|(_, types)| types.split_whitespace().any(|one| one == name));
    found.map_or(HEADER_OF_TYPES[0].0, |(header, _)| header)
}

fn class(name: &str, ir: &Ir) -> String {
    let mut text = format!("REG_OP({name})\n");
    let mut add_call = |call: String| {
        let _ = writeln!(text, "    .{call}");
    };
    for input in &ir.inputs {
        let bare = input.trim_end_matches(['?', '[', ']']);
        let kind = match input.strip_prefix(bare) {
            Some("?") => "OPTIONAL_INPUT",
            Some("[]") => "DYNAMIC_INPUT",
            _ => "INPUT",
        };
        add_call(format!("{kind}({bare}, TensorType::ALL())"));
    }
    for output in &ir.outputs {
        let bare = output.trim_end_matches("[]");
        let kind = if bare == output { "OUTPUT" } else { "DYNAMIC_OUTPUT" };
        add_call(format!("{kind}({bare}, TensorType::ALL())"));
    }
    for Attribute { name, kind, default } in &ir.attributes {
        add_call(match default {
            Some(default) => format!("ATTR({name}, {kind}, {default})"),
            None => format!("REQUIRED_ATTR({name}, {kind})"),
        });
    }
    for graph in &ir.graphs {
        let bare = graph.trim_end_matches("[]");
        let kind = if bare == graph { "GRAPH" } else { "DYNAMIC_GRAPH" };
        add_call(format!("{kind}({bare})"));
    }
    add_call(format!("CAIRN_OP_END_BUILT_IN({name})"));
    text
}

fn guard(file: &str) -> String {
    format!("CAIRN_OP_GRAPH_{}", file.to_uppercase().replace('.', "_"))
}

fn header(file: &str, rows: &[(&String, &Ir)]) -> String {
    let guard = guard(file);
    let mut text = format!(
        "/*\n * Op classes. Generated by cargo xtask gen from {ROWS}.\n */\n#ifndef {guard}\n#define {guard}\n\n\
         #include \"graph/operator_reg.h\"\n\nnamespace ge {{\n"
    );
    for (name, ir) in rows {
        let _ = write!(text, "\n{}", class(name, ir));
    }
    text.push_str("\n}  // namespace ge\n\n#endif\n");
    text
}

/// A header by which newer versions of CANN offer a part of the classes: here it offers them all.
fn part_header(file: &str) -> String {
    let guard = guard(file);
    format!(
        "/*\n * Every op class, by another name. Generated by cargo xtask gen.\n */\n#ifndef {guard}\n#define {guard}\n\n\
         #include \"all_ops.h\"\n\n#endif\n"
    )
}

/// Every generated file with its text.
pub fn files(root: &Path) -> Result<Vec<(String, String)>> {
    let mut rows = read(root)?;
    complete(root, &mut rows)?;
    let mut headers: BTreeMap<&str, Vec<(&String, &Ir)>> = BTreeMap::new();
    for (name, ir) in &rows {
        headers.entry(header_of(name)).or_default().push((name, ir));
    }
    for (file, _) in HEADER_OF_TYPES {
        headers.entry(file).or_default();
    }
    let guard = guard("all_ops.h");
    let includes: Vec<String> =
        headers.keys().map(|file| format!("#include \"{file}\"\n")).collect();
    let all = format!(
        "/*\n * Every op class. Generated by cargo xtask gen.\n */\n#ifndef {guard}\n#define {guard}\n\n{}\n#endif\n",
        includes.concat()
    );
    let mut files =
        vec![(ROWS.to_string(), row_list(&rows)), (format!("{HEADERS}/all_ops.h"), all)];
    for (file, types) in headers {
        files.push((format!("{HEADERS}/{file}"), header(file, &types)));
    }
    for file in PART_HEADERS {
        files.push((format!("{HEADERS}/{file}"), part_header(file)));
    }
    Ok(files)
}

/// Headers that are there and would not be written.
pub fn obsolete_files(root: &Path, files: &[(String, String)]) -> Result<Vec<String>> {
    super::obsolete_files(root, HEADERS, files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_classes() {
        let ir = Ir::parse(
            "x, bias?, rest[]",
            "y",
            "axis!:Int; scale:Float, 1.0; _seen:String, 'a'; list:ListInt, [1, 2]",
        )
        .unwrap();
        let text = class("Some", &ir);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(
            lines,
            [
                "REG_OP(Some)",
                ".INPUT(x, TensorType::ALL())",
                ".OPTIONAL_INPUT(bias, TensorType::ALL())",
                ".DYNAMIC_INPUT(rest, TensorType::ALL())",
                ".OUTPUT(y, TensorType::ALL())",
                ".REQUIRED_ATTR(axis, Int)",
                ".ATTR(scale, Float, 1.0)",
                ".ATTR(list, ListInt, {1, 2})",
                ".CAIRN_OP_END_BUILT_IN(Some)",
            ]
        );
        assert!(Ir::parse("x", "y", "axis:Odd, 1").is_err());
    }

    #[test]
    fn rows_read_back_as_written() {
        let rows = Rows::from([(
            "Some".to_string(),
            Ir::parse("x, bias?", "y[]", "axis!:Int; text:String, \"a\"").unwrap(),
        )]);
        let mut other = Ir::parse("x[]", "y[]", "").unwrap();
        other.graphs = names("then_branch, branches[]");
        assert!(class("Other", &other).contains(".DYNAMIC_GRAPH(branches)"));
        let other = row_list(&Rows::from([("Other".to_string(), other)]));
        assert!(other.ends_with("Other | x[] | y[] | | then_branch, branches[]\n"), "{other}");
        let line = row_list(&rows);
        assert!(
            line.ends_with("Some | x, bias? | y[] | axis!:Int; text:String, \"a\"\n"),
            "{line}"
        );
    }
}
