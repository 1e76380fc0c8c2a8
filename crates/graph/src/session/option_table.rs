//! The options that are known: what each takes, and where it has an effect.

use super::options::{self, Setting};
use crate::failure::Result;

/// The call that an option comes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// `GEInitialize`: for all sessions.
    Engine,
    /// The constructor of a session: for all of its graphs.
    Session,
    /// `AddGraph`.
    Graph,
    /// `LoadGraph`.
    Load,
}

/// One known option.
pub(super) struct KnownOption {
    pub(super) key: &'static str,
    values: AcceptedValues,
    effect: Effect,
}

/// The values of an option.
enum AcceptedValues {
    /// Any text: it is not checked.
    Any,
    /// One of these.
    OneOf(&'static [&'static str]),
    /// What this function accepts.
    Checked(fn(&Setting<'_>) -> Result<()>),
}

/// What an option changes.
enum Effect {
    /// Something, where it comes with one of these calls.
    At(&'static [Level]),
    /// Nothing. What these values ask for is always so.
    Always(&'static [&'static str]),
    /// Nothing.
    None,
    /// Nothing here: the framework that passes it acts on it.
    Framework,
}

use AcceptedValues::{Any, Checked, OneOf};
use Effect::{Always, At, Framework};
use Level::{Engine, Graph, Load, Session};

const SWITCH: AcceptedValues = OneOf(&["0", "1"]);
const BOOL: AcceptedValues = OneOf(&["true", "false"]);
const AT_COMPILATION: Effect = At(&[Engine, Session, Graph]);
const EVERYWHERE: Effect = At(&[Engine, Session, Graph, Load]);

const fn known(key: &'static str, values: AcceptedValues, effect: Effect) -> KnownOption {
    KnownOption { key, values, effect }
}

const fn ignored(key: &'static str, values: AcceptedValues) -> KnownOption {
    known(key, values, Effect::None)
}

/// Every known option.
static TABLE: &[KnownOption] = &[
    // With an effect.
    known(options::DEVICE, Checked(options::check_device), At(&[Engine, Session])),
    known(options::SESSION_DEVICE, Checked(options::check_device), At(&[Engine, Session])),
    known(options::HOST_INPUTS, Checked(options::check_host_inputs), EVERYWHERE),
    known(options::FROZEN_INPUTS, Checked(options::check_frozen_inputs), EVERYWHERE),
    known(options::REUSE, Checked(options::check_reuse), AT_COMPILATION),
    known(options::REFRESHABLE, SWITCH, AT_COMPILATION),
    known(options::STATIC_POLICY, OneOf(&["0", "1", "2", "3", "4"]), AT_COMPILATION),
    known(options::LEVEL, OneOf(&["O0", "O1", "O2", "O3"]), AT_COMPILATION),
    known(options::FOLDING, OneOf(&["true", "false", "1", "0"]), AT_COMPILATION),
    // Some values of which ask for what is always so.
    known("ge.constLifecycle", OneOf(&["graph", "session"]), Always(&["graph"])),
    known("ge.enableSingleStream", BOOL, Always(&["true"])),
    known("ge.exec.reuseZeroCopyMemory", SWITCH, Always(&["1"])),
    known("ge.oo.deadCodeElimination", OneOf(&["true", "false", "1", "0"]), Always(&["true", "1"])),
    // Without an effect on a CPU, or for what this engine does not have.
    ignored("ge.graphRunMode", SWITCH),
    ignored("ge.deterministic", SWITCH),
    ignored("ge.deterministicLevel", OneOf(&["0", "1", "2"])),
    ignored("ge.exec.atomicCleanPolicy", SWITCH),
    ignored("ge.exec.disableReuseMemory", SWITCH),
    ignored("ge.jit_compile", OneOf(&["0", "1", "2"])),
    ignored("ge.topoSortingMode", OneOf(&["0", "1", "2", "3"])),
    ignored("ge.exec.memoryOptimizationPolicy", Any),
    ignored("ge.exec.inputReuseMemIndexes", Any),
    ignored("ge.exec.outputReuseMemIndexes", Any),
    ignored("ge.exec.allTensorNotEmpty", Any),
    ignored("ge.exec.allow_hf32", Any),
    ignored("ge.exec.enableEngineParallel", Any),
    ignored("ge.exec.precision_mode", Any),
    ignored("ge.exec.precision_mode_v2", Any),
    ignored("ge.exec.static_model_ops_lower_limit", Any),
    ignored("ge.exec.dumpData", Any),
    ignored("ge.exec.dumpLayer", Any),
    ignored("ge.exec.dumpMode", Any),
    ignored("ge.exec.dumpPath", Any),
    ignored("ge.exec.dumpStep", Any),
    ignored("ge.exec.enableDump", Any),
    ignored("ge.aicoreNum", Any),
    ignored("ge.autoMultistreamParallelMode", Any),
    ignored("ge.bufferOptimize", Any),
    ignored("ge.debugDir", Any),
    ignored("ge.dynamicBatchSize", Any),
    ignored("ge.dynamicDims", Any),
    ignored("ge.dynamicImageSize", Any),
    ignored("ge.dynamicNodeType", Any),
    ignored("ge.enableCompressWeight", Any),
    ignored("ge.engineType", Any),
    ignored("ge.exportCompileStat", Any),
    ignored("ge.externalWeight", Any),
    ignored("ge.fusionSwitchFile", Any),
    ignored("ge.inputHintShape", Any),
    ignored("ge.inputShape", Any),
    ignored("ge.insertOpFile", Any),
    ignored("ge.offlineMode", Any),
    ignored("ge.opDebugLevel", Any),
    ignored("ge.opSelectImplmode", Any),
    ignored("ge.op_compiler_cache_dir", Any),
    ignored("ge.op_compiler_cache_mode", Any),
    ignored("ge.optimizationSwitch", Any),
    ignored("ge.optypelistForImplmode", Any),
    ignored("ge.outputDatatype", Any),
    ignored("ge.outputNodeName", Any),
    ignored("ge.quant_dumpable", Any),
    ignored("ge.socVersion", Any),
    ignored("ge.tiling_schedule_optimize", Any),
    ignored("ge.virtual_type", Any),
    ignored("op_debug_option", Any),
    // torchair's own, which it passes on.
    known("clone_input", Any, Framework),
    known("deadlock_check", Any, Framework),
    known("disable_mempool_reuse_in_same_fx", Any, Framework),
    known("enable_output_clone", Any, Framework),
    known("frozenInput", Any, Framework),
    known("frozen_parameter", Any, Framework),
    known("mode", Any, Framework),
    known("pattern_fusion_pass", Any, Framework),
    known("remove_noop_ops", Any, Framework),
    known("run_eagerly", Any, Framework),
    known("static_capture_size_limit", Any, Framework),
    known("torchair.disable_external_mem_base", Any, Framework),
];

/// The option of a key.
pub(super) fn find(key: &str) -> Option<&'static KnownOption> {
    TABLE.iter().find(|known| known.key == key)
}

impl KnownOption {
    /// Fails for a value that the option does not take.
    pub(super) fn check(&self, setting: &Setting<'_>) -> Result<()> {
        match &self.values {
            Any => Ok(()),
            OneOf(values) if values.contains(&setting.value) => Ok(()),
            OneOf(values) => setting.wrong(format!("expected one of {}", values.join(", "))),
            Checked(check) => check(setting),
        }
    }

    /// Whether a value has no effect where it is set.
    pub(super) fn is_without_effect(&self, value: &str, level: Level) -> bool {
        match &self.effect {
            At(levels) => !levels.contains(&level),
            Always(values) => !values.contains(&value),
            Effect::None => true,
            Framework => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_key_is_there_once() {
        let keys: BTreeSet<&str> = TABLE.iter().map(|known| known.key).collect();
        assert_eq!(keys.len(), TABLE.len());
    }
}
