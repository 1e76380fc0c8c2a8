//! The engine, sessions, and the graphs of a session up to their load.

use super::abi::*;
use super::door::{engine, fail_with, list, plain, runtime, show, status, take, text, warn};
use super::graph::graph;
use super::names;
use super::value::desc;
use cairn_graph::ir::Desc;
use cairn_graph::session::{Base, Level, Options, SharedGraph};
use cairn_graph::{Failure, Result};
use cairn_runtime::lock::{Mutex, Rank};
use cairn_runtime::record::site;
use std::ffi::c_void;
use std::sync::Arc;

/// The options of a call; those without an effect leave a warning.
///
/// # Safety
/// There are twice `count` texts that live for the call.
unsafe fn options(texts: *const CairnText, count: usize, level: Level) -> Result<Options> {
    // SAFETY: as the caller vouches.
    let pairs = unsafe { list(texts, count * 2) }.chunks_exact(2).map(|pair| {
        // SAFETY: as the caller vouches.
        unsafe { (text(pair[0]), text(pair[1])) }
    });
    let options = Options::new(pairs)?;
    if let Some(warning) = options.without_effect(level) {
        warn(format!("{}: {warning}", site::current().entry));
    }
    Ok(options)
}

/// # Safety
/// There are `count` descriptions that live for the call.
unsafe fn descs(from: *const CairnDesc, count: usize) -> Result<Vec<Desc>> {
    // SAFETY: as the caller vouches.
    unsafe { list(from, count).iter().map(|one| desc(one)).collect() }
}

/// In a child of a process that used devices: shows why nothing works.
fn show_forked(context: *mut c_void, callback: CairnTextCallback) {
    if crate::process::forked() {
        // SAFETY: the caller's function takes the context.
        unsafe { show(callback, context, crate::door::FORKED.to_bytes()) };
    }
}

status! {
    /// Starts the engine.
    fn CairnEngineStart(texts: *const CairnText, count: usize) {
        // SAFETY: the caller's texts live for the call.
        let options = unsafe { options(texts, count, Level::Engine) }?;
        engine().start(runtime()?, options)
    }

    /// Stops the engine and ends its sessions.
    fn CairnEngineStop() {
        engine().stop();
        Ok(())
    }

    /// A new session.
    fn CairnSessionNew(texts: *const CairnText, count: usize, session: *mut u64) {
        // SAFETY: the caller passes a pointer to a number.
        let out = unsafe { session.as_mut() }.ok_or_else(|| Failure::invalid("the session is null"))?;
        *out = 0;
        // SAFETY: the caller's texts live for the call.
        *out = engine().open(runtime()?, unsafe { options(texts, count, Level::Session) }?)?;
        Ok(())
    }

    /// Destroys a session and its graphs.
    fn CairnSessionEnd(session: u64) {
        engine().close(session)
    }

    /// Adds a graph.
    fn CairnSessionAddGraph(session: u64, id: u32, handle: *mut CairnGraph, texts: *const CairnText, count: usize, is_copy: bool) {
        let session = engine().session(session)?;
        // SAFETY: the caller's handle is live, and its texts live for the call.
        let (graph, options) = unsafe { (graph(handle)?, options(texts, count, Level::Graph)?) };
        let shared: SharedGraph = match is_copy {
            true => Arc::new(Mutex::new(Rank::Graph, graph.ir())),
            false => graph.shared().clone(),
        };
        session.add(id, shared, options)
    }

    /// Removes a graph.
    fn CairnSessionRemoveGraph(session: u64, id: u32) {
        engine().session(session)?.remove(id)
    }

    /// Compiles and loads, for host tensors.
    fn CairnSessionBuildGraph(session: u64, id: u32, inputs: *const CairnDesc, count: usize) {
        let session = engine().session(session)?;
        let entry = session.graph(id)?;
        // SAFETY: the caller's descriptions live for the call.
        entry.compile(unsafe { descs(inputs, count) }?)?;
        session.load(&entry, 0, &Options::default(), false).map(drop)
    }

    /// Compiles.
    fn CairnSessionCompileGraph(session: u64, id: u32, is_v2: bool, inputs: *const CairnDesc, count: usize) {
        let entry = engine().session(session)?.graph(id)?;
        if !is_v2 {
            entry.check_no_variables()?;
        }
        // SAFETY: the caller's descriptions live for the call.
        entry.compile(unsafe { descs(inputs, count) }?).map(drop)
    }

    /// The bytes of a model of a compiled graph.
    fn CairnSessionModel(session: u64, id: u32, context: *mut c_void, callback: CairnTextCallback) {
        let model = engine().session(session)?.graph(id)?.compiled()?.model()?;
        // SAFETY: the caller's function takes the context.
        unsafe { show(callback, context, &model) };
        Ok(())
    }

    /// Checks a callback and warns: nothing here calls it.
    fn CairnSessionCallback(session: u64, key: CairnText, is_null: bool) {
        engine().session(session)?;
        // SAFETY: the caller's text lives for the call.
        let key = unsafe { text(key) };
        if is_null {
            return Err(Failure::failed(format!("RegisterCallBackFunc: the callback for {key:?} is null")));
        }
        match key.as_str() {
            "Summary" | "Save" => {
                warn(format!("RegisterCallBackFunc: the callback for {key:?} is never called: no operator here calls back"));
                Ok(())
            }
            _ => Err(Failure::failed(format!(
                "RegisterCallBackFunc: there is no key {key:?}: \"Summary\" and \"Save\" are taken"
            ))),
        }
    }

    /// Loads.
    fn CairnSessionLoadGraph(session: u64, id: u32, texts: *const CairnText, count: usize, stream: *mut c_void, compiles: bool) called(names::of_load(compiles)) {
        let session = engine().session(session)?;
        let entry = session.graph(id)?;
        // SAFETY: the caller's texts live for the call.
        let options = unsafe { options(texts, count, Level::Load) }?;
        if compiles {
            entry.compile(Vec::new())?;
        } else {
            entry.compiled()?;
            session.stream(stream as usize)?;
        }
        session.load(&entry, stream as usize, &options, true).map(drop)
    }

    /// Sets memory that the application provides.
    fn CairnSessionSetBase(session: u64, id: u32, base: CairnBase, with_type: bool, kind: i32, memory: *const c_void, size: usize) called(names::of_base(base)) {
        let entry = engine().session(session)?.graph(id)?;
        let base = match base {
            CAIRN_BASE_CONST => Base::Const,
            CAIRN_BASE_FEATURE => Base::Feature,
            CAIRN_BASE_FIXED => Base::Fixed,
            CAIRN_BASE_REFRESHABLE => Base::Refreshable,
            other => return Err(Failure::invalid(format!("{other} is no base"))),
        };
        let warning = entry.set_base(base, with_type.then_some(kind), memory as usize, size as u64)?;
        warning.into_iter().for_each(warn);
        Ok(())
    }

    /// A loaded graph as JSON.
    fn CairnSessionJson(session: u64, id: u32, _flags: u32, context: *mut c_void, callback: CairnTextCallback) {
        let json = engine().session(session)?.graph(id)?.loaded()?.executable().json();
        // SAFETY: the caller's function takes the context.
        unsafe { show(callback, context, json.as_bytes()) };
        Ok(())
    }
}

plain! {
    /// Keeps the error message of a failure that the C++ side found.
    fn CairnEngineFail(code: CairnStatus, why: CairnText) -> CairnStatus, else code, {
        // SAFETY: the caller's text lives for the call.
        fail_with(code, unsafe { text(why) });
        Ok(code)
    }

    /// Shows this thread's failures. In a child of a process that used devices: why nothing works.
    fn CairnEngineErrors(context: *mut c_void, callback: CairnTextCallback) -> (), else show_forked(context, callback), {
        // SAFETY: the caller's function takes the context.
        unsafe { show(callback, context, take(false).as_bytes()) };
        Ok(())
    }

    /// Shows this thread's warnings.
    fn CairnEngineWarnings(context: *mut c_void, callback: CairnTextCallback) {
        // SAFETY: the caller's function takes the context.
        unsafe { show(callback, context, take(true).as_bytes()) };
        Ok(())
    }

    /// Whether a graph has to be built: until it is compiled, and if there is none of the id.
    fn CairnSessionNeedsRebuild(session: u64, id: u32) -> bool, else true, {
        Ok(engine().session(session)?.graph(id)?.compiled().is_err())
    }
}
