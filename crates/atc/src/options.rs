//! The options of `aclgrphBuild*` and `aclgrphParse*`: the flags of the command under the keys of the graph engine.

use crate::flags::Flags;
use crate::{Problem, convert, settings, weights};
use cairn_graph::offline::ConvertOptions;

/// Keys and values.
pub type Pairs<'a> = [(&'a str, &'a str)];

/// The flag that each key of a build stands for.
const BUILD_KEYS: &[(&str, &str)] = &[
    ("ge.socVersion", "soc_version"),
    ("ge.exec.precision_mode", "precision_mode"),
    ("ge.exec.precision_mode_v2", "precision_mode_v2"),
    ("ge.opSelectImplmode", "op_select_implmode"),
    ("ge.optypelistForImplmode", "optypelist_for_implmode"),
    ("input_shape", "input_shape"),
    ("input_format", "input_format"),
    ("input_shape_range", "input_shape_range"),
    ("ge.inputHintShape", "input_hint_shape"),
    ("ge.dynamicBatchSize", "dynamic_batch_size"),
    ("ge.dynamicImageSize", "dynamic_image_size"),
    ("ge.dynamicDims", "dynamic_dims"),
    ("ge.insertOpFile", "insert_op_conf"),
    ("ge.outputDatatype", "output_type"),
    ("ge.outputNodeName", "out_nodes"),
    ("ge.externalWeight", "external_weight"),
    ("ge.exec.disableReuseMemory", "disable_reuse_memory"),
    ("log", "log"),
    ("ge.virtual_type", "virtual_type"),
    ("ge.engineType", "core_type"),
    ("ge.bufferOptimize", "buffer_optimize"),
    ("ge.enableCompressWeight", "enable_compress_weight"),
    ("ge.aicoreNum", "aicore_num"),
    ("ge.debugDir", "debug_dir"),
    ("ge.op_compiler_cache_dir", "op_compiler_cache_dir"),
    ("ge.op_compiler_cache_mode", "op_compiler_cache_mode"),
    ("ge.opDebugLevel", "op_debug_level"),
    ("ge.oo.level", "oo_level"),
];

/// The flag that each key of a parser stands for.
const PARSER_KEYS: &[(&str, &str)] = &[
    ("ge.INPUT_NODES_SET_FP16", "input_fp16_nodes"),
    ("is_input_adjust_hw_layout", "is_input_adjust_hw_layout"),
    ("is_output_adjust_hw_layout", "is_output_adjust_hw_layout"),
    ("output", "output"),
    ("ge.outputNodeName", "out_nodes"),
    ("enable_scope_fusion_passes", "enable_scope_fusion_passes"),
    ("input_shape", "input_shape"),
];

/// Chooses among formats of files; there is one.
const OFFLINE_MODE: &str = "ge.offlineMode";

/// Names of inputs, which a parser here takes from the model.
const INPUT_DATA_NAMES: &str = "input_data_names";

/// The name of a graph that a parser makes.
const GRAPH_NAME: &str = "tmpGraph";

/// What options of a build mean; the warnings name those without effect. Of two values of a key the last counts.
pub fn build_options(pairs: &Pairs<'_>) -> Result<(ConvertOptions, Vec<String>), Problem> {
    let mut warnings = Vec::new();
    let mut words = Vec::new();
    for (key, value) in pairs {
        match BUILD_KEYS.iter().find(|(known, _)| known == key) {
            Some((_, flag)) => words.push(format!("--{flag}={value}")),
            None if *key == OFFLINE_MODE && !matches!(*value, "" | "0") => {
                let text = format!("{key}={value}: only model files (.om) are written");
                return Err(Problem::new("E10001", text));
            }
            None => warnings.push(format!("{key}={value} has no effect: the key is not known")),
        }
    }
    let flags = checked(&words, BUILD_KEYS, &mut warnings)?;
    if !flags.get("soc_version").is_empty() {
        settings::soc_version(&flags).map_err(|problem| with_keys(problem, BUILD_KEYS))?;
    }
    let mut options = convert::options(&flags).map_err(|problem| with_keys(problem, BUILD_KEYS))?;
    let soc = flags.get("soc_version");
    options.attrs = vec![("soc_version", soc.to_owned())];
    let placement = flags.get("external_weight");
    if !matches!(placement, "" | "0") {
        options.attrs.push((weights::EXTERNAL_WEIGHT, placement.to_owned()));
    }
    Ok((options, warnings))
}

/// What options of a parser mean. Keys that it does not have are refused.
pub fn parser_options(pairs: &Pairs<'_>) -> Result<(ConvertOptions, Vec<String>), Problem> {
    let mut warnings = Vec::new();
    let mut words = Vec::new();
    for (key, value) in pairs {
        match PARSER_KEYS.iter().find(|(known, _)| known == key) {
            Some((_, flag)) => words.push(format!("--{flag}={value}")),
            None if *key == INPUT_DATA_NAMES => warnings
                .push(format!("{key}={value} has no effect: inputs have the names of the model")),
            None => {
                let known: Vec<&str> = PARSER_KEYS.iter().map(|(key, _)| *key).collect();
                let text = format!("{key}={value}: the keys of a parser are {}", known.join(", "));
                return Err(Problem::new("E10016", text));
            }
        }
    }
    let flags = checked(&words, PARSER_KEYS, &mut warnings)?;
    let name = match flags.get("output") {
        "" => GRAPH_NAME.to_owned(),
        name => name.to_owned(),
    };
    Ok((ConvertOptions { name, ..convert::options(&flags)? }, warnings))
}

/// A failure of the flags in the words of the keys.
pub fn in_build_keys(problem: Problem) -> Problem {
    with_keys(problem, BUILD_KEYS)
}

/// The same of a parser.
pub fn in_parser_keys(problem: Problem) -> Problem {
    with_keys(problem, PARSER_KEYS)
}

fn checked(
    words: &[String],
    keys: &[(&str, &str)],
    warnings: &mut Vec<String>,
) -> Result<Flags, Problem> {
    let flags = Flags::parse(words).map_err(|text| Problem::new("E10001", text))?;
    let mut found = Vec::new();
    settings::check(&flags, &mut found).map_err(|problem| with_keys(problem, keys))?;
    warnings.extend(found.into_iter().map(|text| replaced(text, keys)));
    Ok(flags)
}

fn with_keys(problem: Problem, keys: &[(&str, &str)]) -> Problem {
    Problem { text: replaced(problem.text, keys), ..problem }
}

/// A text with the keys in place of flags.
fn replaced(text: String, keys: &[(&str, &str)]) -> String {
    keys.iter().fold(text, |text, (key, flag)| match text.contains("--") {
        true => text.replace(&format!("--{flag}="), &format!("{key}=")),
        false => text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stand_for_flags() {
        let (options, warnings) = build_options(&[
            ("ge.socVersion", "Ascend910B1"),
            ("input_shape", "x:-1,3"),
            ("ge.dynamicBatchSize", "1,2"),
            ("ge.exec.precision_mode", "allow_mix_precision"),
            ("made.up", "1"),
        ])
        .unwrap();
        assert_eq!(options.shapes.dynamic_batch_size, "1,2");
        assert_eq!(options.shapes.input_shape, "x:-1,3");
        assert_eq!(warnings.len(), 2);
        assert!(warnings.iter().any(|text| text.contains("made.up=1")), "{warnings:?}");
        assert!(
            warnings.iter().any(|text| text.starts_with("ge.exec.precision_mode=")),
            "{warnings:?}"
        );
    }

    #[test]
    fn wrong_values_are_named_by_their_keys() {
        for (key, value) in [
            ("ge.exec.precision_mode", "fp7"),
            ("ge.insertOpFile", "a.cfg"),
            ("ge.externalWeight", "3"),
            ("ge.socVersion", "x"),
            ("ge.offlineMode", "7"),
        ] {
            let problem = build_options(&[(key, value)]).unwrap_err();
            assert!(problem.text.starts_with(&format!("{key}={value}: ")), "{problem:?}");
        }
        let problem = parser_options(&[("made.up", "1")]).unwrap_err();
        assert!(problem.code == "E10016" && problem.text.contains("made.up=1"), "{problem:?}");
        assert_eq!(parser_options(&[]).unwrap().0.name, "tmpGraph");
    }
}
