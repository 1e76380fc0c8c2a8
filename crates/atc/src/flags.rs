//! The flags, and command lines made of them.

use std::collections::BTreeMap;

/// What values a flag takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Any text.
    Text,
    /// A whole number.
    Number,
    /// 0 or 1.
    Bit,
    /// true or false.
    Truth,
    /// true or false; without a value, true.
    Switch,
    /// One of these.
    OneOf(&'static [&'static str]),
}

/// What a flag does here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// What it says.
    Full,
    /// Nothing: it tunes what an NPU does.
    None,
    /// Nothing: models are computed in their own types.
    Precision,
    /// Refused when it is set; the text says why.
    Refused(&'static str),
}

use Effect::{Full, None as NoEffect, Precision, Refused};
use Values::{Bit, Number, OneOf, Switch, Text, Truth};

/// One flag.
pub struct Flag {
    /// Its name, with `_` between words.
    pub name: &'static str,
    /// What it takes.
    pub values: Values,
    /// What it does.
    pub effect: Effect,
}

const fn flag(name: &'static str, values: Values, effect: Effect) -> Flag {
    Flag { name, values, effect }
}

/// Every flag.
pub const FLAGS: &[Flag] = &[
    flag("help", Switch, Full),
    flag("model", Text, Full),
    flag("weight", Text, Full),
    flag("output", Text, Full),
    flag("framework", Number, Full),
    flag("mode", Number, Full),
    flag("om", Text, Full),
    flag("json", Text, Full),
    flag("soc_version", Text, Full),
    flag("input_shape", Text, Full),
    flag("input_shape_range", Text, Full),
    flag("dynamic_batch_size", Text, Full),
    flag("dynamic_image_size", Text, Full),
    flag("dynamic_dims", Text, Full),
    flag("input_format", Text, Full),
    flag("out_nodes", Text, Full),
    flag("output_type", Text, Full),
    flag("insert_op_conf", Text, Full),
    flag("log", OneOf(&["debug", "info", "warning", "error", "null"]), Full),
    flag("display_model_info", Bit, Full),
    flag("external_weight", OneOf(&["0", "1", "2"]), Full),
    flag("precision_mode", OneOf(PRECISION_MODES), Precision),
    flag("precision_mode_v2", OneOf(PRECISION_MODES_V2), Precision),
    flag("op_precision_mode", Text, Precision),
    flag("modify_mixlist", Text, Precision),
    flag("keep_dtype", Text, Precision),
    flag("customize_dtypes", Text, Precision),
    flag("allow_hf32", Truth, Precision),
    flag("op_select_implmode", OneOf(IMPLEMENTATIONS), Precision),
    flag("optypelist_for_implmode", Text, Precision),
    flag(
        "singleop",
        Text,
        Refused(
            "models of single operators are not supported: call aclop* or aclnn* without a model",
        ),
    ),
    flag("input_fp16_nodes", Text, Refused("inputs keep the types that they have in the model")),
    flag(
        "is_input_adjust_hw_layout",
        Text,
        Refused("inputs keep the format that they have in the model"),
    ),
    flag(
        "is_output_adjust_hw_layout",
        Text,
        Refused("outputs keep the format that they have in the model"),
    ),
    flag(
        "cal_conf",
        Text,
        Refused("quantizing a model by calibration is not supported: quantize it before"),
    ),
    flag(
        "compression_optimize_conf",
        Text,
        Refused("quantizing or compressing a model is not supported: quantize it before"),
    ),
    flag("op_name_map", Text, Refused("it is for Caffe, whose models are not read")),
    flag("raw_ge_options", Text, Refused("give the options as flags of their own")),
    flag("raw_ge_options_ignore_unsupported", Switch, NoEffect),
    flag("input_hint_shape", Text, NoEffect),
    flag("check_report", Text, NoEffect),
    flag("target", Text, NoEffect),
    flag("disable_reuse_memory", Bit, NoEffect),
    flag("auto_tune_mode", Text, NoEffect),
    flag("jit_compile", OneOf(&["0", "1", "2"]), NoEffect),
    flag("optimization_switch", Text, NoEffect),
    flag("static_model_ops_lower_limit", Number, NoEffect),
    flag("virtual_type", Bit, NoEffect),
    flag("core_type", OneOf(&["AiCore", "VectorCore"]), NoEffect),
    flag("aicore_num", Text, NoEffect),
    flag(
        "buffer_optimize",
        OneOf(&["l1_optimize", "l2_optimize", "off_optimize", "l1_and_l2_optimize"]),
        NoEffect,
    ),
    flag("fusion_switch_file", Text, NoEffect),
    flag("op_debug_config", Text, NoEffect),
    flag("save_original_model", Truth, NoEffect),
    flag("enable_small_channel", Bit, NoEffect),
    flag("enable_compress_weight", Truth, NoEffect),
    flag("enable_attr_compression", Truth, NoEffect),
    flag("compress_weight_conf", Text, NoEffect),
    flag("sparsity", Bit, NoEffect),
    flag("enable_single_stream", Truth, NoEffect),
    flag("ac_parallel_enable", Bit, NoEffect),
    flag("tiling_schedule_optimize", Bit, NoEffect),
    flag("dump_mode", Bit, NoEffect),
    flag("op_debug_level", OneOf(&["0", "1", "2", "3", "4"]), NoEffect),
    flag("enable_scope_fusion_passes", Text, NoEffect),
    flag("debug_dir", Text, NoEffect),
    flag("status_check", Bit, NoEffect),
    flag("op_compiler_cache_dir", Text, NoEffect),
    flag("op_compiler_cache_mode", OneOf(&["enable", "disable", "force"]), NoEffect),
    flag("mdl_bank_path", Text, NoEffect),
    flag("op_bank_path", Text, NoEffect),
    flag("device_id", Number, NoEffect),
    flag("shape_generalized_build_mode", OneOf(&["shape_generalized", "shape_precise"]), NoEffect),
    flag("atomic_clean_policy", Bit, NoEffect),
    flag("deterministic", Bit, NoEffect),
    flag("deterministic_level", OneOf(&["0", "1", "2"]), NoEffect),
    flag("host_env_os", Text, NoEffect),
    flag("host_env_cpu", Text, NoEffect),
    flag("cluster_config", Text, NoEffect),
    flag("hccl_sub_comm_config", Text, NoEffect),
    flag("quant_dumpable", Bit, NoEffect),
    flag("is_weight_clip", Bit, NoEffect),
    flag("oo_level", OneOf(&["O0", "O1", "O2", "O3"]), NoEffect),
    flag("build_config", Text, NoEffect),
];

const PRECISION_MODES: &[&str] = &[
    "force_fp16",
    "force_fp32",
    "cube_fp16in_fp32out",
    "allow_mix_precision",
    "allow_mix_precision_fp16",
    "allow_mix_precision_bf16",
    "allow_fp32_to_fp16",
    "allow_fp32_to_bf16",
    "must_keep_origin_dtype",
];

const PRECISION_MODES_V2: &[&str] = &[
    "fp16",
    "origin",
    "cube_fp16in_fp32out",
    "mixed_float16",
    "mixed_bfloat16",
    "cube_hif8",
    "mixed_hif8",
];

const IMPLEMENTATIONS: &[&str] =
    &["high_precision", "high_performance", "high_precision_for_all", "high_performance_for_all"];

/// The flag of a name.
pub fn find(name: &str) -> Option<&'static Flag> {
    FLAGS.iter().find(|flag| flag.name == name)
}

/// The flags of a command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags(BTreeMap<&'static str, String>);

impl Flags {
    /// Reads a command line: `--name=value` or `--name value`, one dash or two, `-` or `_` between words. Of two that
    /// set a flag the last counts. The text of an error names the word at fault.
    pub fn parse(arguments: &[String]) -> Result<Flags, String> {
        let mut flags = BTreeMap::new();
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let Some(rest) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else {
                return Err(format!("'{word}' is no flag: flags begin with '--'"));
            };
            let (name, value) = match rest.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (rest, None),
            };
            let flag = find(&name.replace('-', "_"))
                .ok_or_else(|| format!("there is no flag '{word}'; `atc --help` lists them"))?;
            let value = match (value, flag.values) {
                (Some(value), _) => value,
                (None, Switch) => "true".to_owned(),
                (None, _) => match words.next() {
                    Some(next) if !next.starts_with("--") => next.clone(),
                    _ => return Err(format!("the flag '{word}' has no value")),
                },
            };
            flags.insert(flag.name, value);
        }
        Ok(Flags(flags))
    }

    /// The value of a flag; empty if it was not set.
    pub fn get(&self, name: &str) -> &str {
        debug_assert!(find(name).is_some(), "{name}");
        self.0.get(name).map_or("", |value| value.trim())
    }

    /// Whether a switch is on.
    pub fn is_on(&self, name: &str) -> bool {
        matches!(self.get(name), "true" | "1")
    }

    /// The flags that were set, with their values.
    pub fn set(&self) -> impl Iterator<Item = (&'static Flag, &str)> {
        self.0.iter().filter_map(|(name, value)| Some((find(name)?, value.trim())))
    }
}

/// The text of `--help`.
pub fn help() -> String {
    let mut text = String::from(
        "Converts a model of ONNX, or of the graph engine, into a model file (.om) for aclmdl*.\n\n\
         atc --model=net.onnx --framework=5 --output=net --soc_version=Ascend310P3\n\
         atc --mode=1 --om=net.om --json=net.json\n\
         atc --mode=6 --om=net.om\n",
    );
    type Group = (&'static str, fn(&Effect) -> bool);
    let groups: [Group; 4] = [
        ("Flags", |effect| *effect == Full),
        ("Accepted, without effect: models are computed in their own types", |effect| {
            *effect == Precision
        }),
        ("Accepted, without effect: they tune an NPU", |effect| *effect == NoEffect),
        ("Refused", |effect| matches!(effect, Refused(_))),
    ];
    for (title, belongs) in groups {
        text.push_str(&format!("\n{title}:\n"));
        for flag in FLAGS.iter().filter(|flag| belongs(&flag.effect)) {
            let values = match flag.values {
                OneOf(values) => values.join("|"),
                Bit => "0|1".to_owned(),
                Truth => "true|false".to_owned(),
                Number => "NUMBER".to_owned(),
                Text => "TEXT".to_owned(),
                Switch => String::new(),
            };
            let equals = if values.is_empty() { "" } else { "=" };
            text.push_str(&format!("  --{}{equals}{values}\n", flag.name));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Flags, String> {
        Flags::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn flags_have_several_spellings() {
        let flags =
            parse("--model=a.onnx -framework 5 --input-shape x:-1 --help --output=a=b").unwrap();
        assert_eq!(flags.get("model"), "a.onnx");
        assert_eq!(flags.get("framework"), "5");
        assert_eq!(flags.get("input_shape"), "x:-1");
        assert_eq!(flags.get("output"), "a=b");
        assert!(flags.is_on("help") && flags.get("om").is_empty());
        assert_eq!(parse("--mode=1 --mode=6").unwrap().get("mode"), "6");
    }

    #[test]
    fn wrong_words_are_named() {
        for (line, part) in [
            ("--modell=x", "--modell=x"),
            ("word", "'word'"),
            ("--model", "no value"),
            ("--om --json=x", "--om"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn every_name_is_there_once() {
        for (at, flag) in FLAGS.iter().enumerate() {
            assert!(FLAGS[..at].iter().all(|other| other.name != flag.name), "{}", flag.name);
        }
        assert_eq!(FLAGS.len(), 84);
        assert!(help().contains("--insert_op_conf"));
    }
}
