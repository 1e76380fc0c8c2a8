//! What the program called: the C++ function behind each function of the bridge.

use super::abi::*;

/// Functions of the bridge that one function of C++ stands for, without the prefix `Cairn`. Where `Session` and
/// `GeSession` share one, the name is that of `Session`.
const NAMES: &[(&str, &str)] = &[
    ("EngineStart", "GEInitialize"),
    ("EngineStop", "GEFinalize"),
    ("SessionNew", "Session::Session"),
    ("SessionEnd", "Session::~Session"),
    ("SessionAddGraph", "Session::AddGraph"),
    ("SessionRemoveGraph", "Session::RemoveGraph"),
    ("SessionBuildGraph", "Session::BuildGraph"),
    ("SessionCompileGraph", "Session::CompileGraph"),
    ("SessionModel", "GeSession::GetCompiledModel"),
    ("SessionCallback", "Session::RegisterCallBackFunc"),
    ("SessionLoadGraph", "Session::LoadGraph"),
    ("SessionSetBase", "Session::UpdateGraphFeatureMemoryBase"),
    ("SessionJson", "Session::GraphDebugJSONPrint"),
    ("SessionNeedsRebuild", "Session::IsGraphNeedRebuild"),
    ("SessionRegister", "Session::RegisterExternalAllocator"),
    ("SessionUnregister", "Session::UnregisterExternalAllocator"),
    ("SessionRun", "Session::RunGraph"),
    ("SessionRunAsync", "Session::RunGraphAsync"),
    ("SessionVariables", "Session::GetVariables"),
    ("SessionSummary", "Session::GetCompiledGraphSummary"),
    ("OutputsRelease", "the end of a graph's output"),
    ("BlockFree", "the end of a graph's output"),
    ("CustomRegister", "CustomOpCreatorRegister"),
    ("CallMakeOutput", "EagerOpExecutionContext::MallocOutputTensor"),
    ("CallReferOutput", "EagerOpExecutionContext::MakeOutputRefInput"),
    ("BuildStart", "aclgrphBuildInitialize"),
    ("BuildStop", "aclgrphBuildFinalize"),
    ("BuildModel", "aclgrphBuildModel"),
    ("BuildModelOfBytes", "aclgrphBuildModelFromData"),
    ("ModelCheck", "aclgrphSaveModel"),
    ("GraphReadOnnx", "aclgrphParseONNX"),
    ("CallWorkspace", "EagerOpExecutionContext::MallocWorkSpace"),
];

/// Classes whose functions are not distinguished: they build graphs and touch no memory of a device.
const CLASSES: &[(&str, &str)] = &[
    ("Graph", "ge::Graph"),
    ("Node", "ge::GNode"),
    ("Operator", "ge::Operator"),
    ("Summary", "CompiledGraphSummary"),
];

const fn starts_with(text: &[u8], start: &[u8]) -> bool {
    if text.len() < start.len() {
        return false;
    }
    let mut at = 0;
    while at < start.len() {
        if text[at] != start[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// What the program called when it reached a function of the bridge; of one that is in no list, its own name.
pub const fn of(bridge: &'static str) -> &'static str {
    let (_, name) = bridge.as_bytes().split_at("Cairn".len());
    let mut at = 0;
    while at < NAMES.len() {
        let known = NAMES[at].0.as_bytes();
        if known.len() == name.len() && starts_with(name, known) {
            return NAMES[at].1;
        }
        at += 1;
    }
    let mut at = 0;
    while at < CLASSES.len() {
        if starts_with(name, CLASSES[at].0.as_bytes()) {
            return CLASSES[at].1;
        }
        at += 1;
    }
    bridge
}

/// Which function runs a graph in this mode.
pub fn of_run(mode: CairnRun) -> &'static str {
    match mode {
        CAIRN_RUN_STREAM => "Session::RunGraphWithStreamAsync",
        CAIRN_RUN_LOADED => "Session::ExecuteGraphWithStreamAsync",
        CAIRN_RUN_STREAM_V2 => "GeSession::RunGraphWithStreamAsync",
        CAIRN_RUN_HOST_V2 => "GeSession::RunGraph",
        _ => "Session::RunGraph",
    }
}

/// Which function runs a graph on a thread of the engine.
pub fn of_async_run(is_v2: bool) -> &'static str {
    if is_v2 { "GeSession::RunGraphAsync" } else { "Session::RunGraphAsync" }
}

/// Which function loads a graph; that of the second version compiles it first.
pub fn of_load(compiles: bool) -> &'static str {
    if compiles { "GeSession::LoadGraph" } else { "Session::LoadGraph" }
}

/// Which function gives a graph memory.
pub fn of_base(base: CairnBase) -> &'static str {
    match base {
        CAIRN_BASE_CONST => "Session::SetGraphConstMemoryBase",
        CAIRN_BASE_FIXED => "Session::SetGraphFixedFeatureMemoryBase",
        CAIRN_BASE_REFRESHABLE => "Session::UpdateGraphRefreshableFeatureMemoryBase",
        _ => "Session::UpdateGraphFeatureMemoryBase",
    }
}

const fn equals(text: &str, other: &str) -> bool {
    text.len() == other.len() && starts_with(text.as_bytes(), other.as_bytes())
}

const _: () = {
    assert!(equals(of("CairnSessionRun"), "Session::RunGraph"));
    assert!(equals(of("CairnSessionRunAsync"), "Session::RunGraphAsync"));
    assert!(equals(of("CairnGraphAddNode"), "ge::Graph"));
    assert!(equals(of("CairnEngineFail"), "CairnEngineFail"));
};
