//! Models without a session: `aclgrph*`, the parsers, and the command `atc`.

use super::abi::*;
use super::door::{list, show, status, text, warn};
use super::graph::graph;
use bytes::Bytes;
use cairn_atc::{
    Problem, build_options, in_build_keys, in_parser_keys, parser_options, save_model,
};
use cairn_graph::offline::{ConvertError, ModelFile, OfflineModel, Origin};
use cairn_graph::{Failure, Result, Status, model};
use cairn_runtime::lock::{Mutex, Rank};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};
use std::path::{Path, PathBuf};

/// Options that hold for every build; `None` before `aclgrphBuildInitialize`.
static OPTIONS: Mutex<Option<BTreeMap<String, String>>> = Mutex::new(Rank::Texts, None);

fn refused(problem: Problem) -> Failure {
    Failure::invalid(format!("{}: {}", problem.code, problem.text))
}

fn failed(error: ConvertError, in_keys: fn(Problem) -> Problem) -> Failure {
    let ConvertError { code, text } = error;
    let problem = in_keys(Problem { code, text });
    let status = match code {
        "E19999" | "E10041" | "E16001" | "E16002" => Status::Failed,
        _ => Status::ParamInvalid,
    };
    Failure::new(status, format!("{}: {}", problem.code, problem.text))
}

/// Keys and values of the caller.
///
/// # Safety
/// `texts` has `count` pairs that live for the call.
unsafe fn pairs(texts: *const CairnText, count: usize) -> BTreeMap<String, String> {
    // SAFETY: as the caller vouches.
    let texts = unsafe { list(texts, 2 * count) };
    texts
        .chunks_exact(2)
        // SAFETY: as the caller vouches.
        .map(|pair| unsafe { (text(pair[0]), text(pair[1])) })
        .collect()
}

fn borrowed(options: &BTreeMap<String, String>) -> Vec<(&str, &str)> {
    options.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

/// The options of all builds, and those of one.
fn merged(own: BTreeMap<String, String>) -> Result<BTreeMap<String, String>> {
    let mut options = OPTIONS
        .lock()
        .clone()
        .ok_or_else(|| Failure::failed("aclgrphBuildModel: call aclgrphBuildInitialize before"))?;
    options.extend(own);
    Ok(options)
}

fn warn_all(warnings: Vec<String>) {
    warnings.into_iter().for_each(warn);
}

fn folder(name: &str) -> Option<PathBuf> {
    (!name.is_empty()).then(|| PathBuf::from(name))
}

/// The model in these bytes: a file as it is, a model of ONNX or of the graph engine built.
fn model_of_bytes(
    bytes: &[u8],
    folder: Option<&Path>,
    options: &BTreeMap<String, String>,
) -> Result<Vec<u8>> {
    if bytes.starts_with(b"IMOD") {
        return match ModelFile::open(&bytes)?.has_weight_files() {
            true => Ok(OfflineModel::read(&bytes, folder)?.write()),
            false => OfflineModel::read_description(&bytes, folder).map(|_| bytes.to_vec()),
        };
    }
    let (options, warnings) = build_options(&borrowed(options)).map_err(refused)?;
    warn_all(warnings);
    let bytes = Bytes::copy_from_slice(bytes);
    let is_graph = model::read(bytes.clone()).is_ok();
    let origin = if is_graph { Origin::GraphEngine } else { Origin::Onnx };
    let fail = |error| failed(error, in_build_keys);
    let graph = options.read(origin, bytes, folder).map_err(fail)?;
    Ok(options.build(graph).map_err(fail)?.write())
}

status! {
    /// Options that hold for every build.
    fn CairnBuildStart(texts: *const CairnText, count: usize) {
        // SAFETY: the caller's texts live for the call.
        let options = unsafe { pairs(texts, count) };
        let (_, warnings) = build_options(&borrowed(&options)).map_err(refused)?;
        warn_all(warnings);
        *OPTIONS.lock() = Some(options);
        Ok(())
    }

    /// Forgets them.
    fn CairnBuildStop() {
        if OPTIONS.lock().take().is_none() {
            warn("aclgrphBuildFinalize: aclgrphBuildInitialize was not called before".to_owned());
        }
        Ok(())
    }

    /// Builds a model.
    fn CairnBuildModel(handle: *const CairnGraph, texts: *const CairnText, count: usize, context: *mut c_void, callback: CairnTextCallback) {
        // SAFETY: the caller's handle is live, and its texts live for the call.
        let (graph, own) = unsafe { (graph(handle)?.ir(), pairs(texts, count)) };
        let options = merged(own)?;
        let (options, warnings) = build_options(&borrowed(&options)).map_err(refused)?;
        warn_all(warnings);
        let model = options.build_graph(graph).map_err(|error| failed(error, in_build_keys))?;
        // SAFETY: the caller's function takes the context.
        unsafe { show(callback, context, &model.write()) };
        Ok(())
    }

    /// Builds a model of bytes.
    fn CairnBuildModelOfBytes(
        data: *const c_void,
        size: usize,
        folder_name: CairnText,
        texts: *const CairnText,
        count: usize,
        context: *mut c_void,
        callback: CairnTextCallback,
    ) {
        // SAFETY: what the caller passes lives for the call.
        let (bytes, name, own) = unsafe { (list(data.cast::<u8>(), size), text(folder_name), pairs(texts, count)) };
        let model = model_of_bytes(bytes, folder(&name).as_deref(), &merged(own)?)?;
        // SAFETY: the caller's function takes the context.
        unsafe { show(callback, context, &model) };
        Ok(())
    }

    /// Writes a model file.
    fn CairnModelSave(data: *const c_void, size: usize, path: CairnText) {
        // SAFETY: what the caller passes lives for the call.
        let (bytes, path) = unsafe { (list(data.cast::<u8>(), size), text(path)) };
        save_model(Path::new(&path), bytes)
    }

    /// Reads a model of ONNX.
    fn CairnGraphReadOnnx(
        handle: *mut CairnGraph,
        data: *const c_void,
        size: usize,
        folder_name: CairnText,
        texts: *const CairnText,
        count: usize,
    ) {
        // SAFETY: the caller's handle is live, and what it passes lives for the call.
        let (graph, bytes, name, options) = unsafe {
            (graph(handle)?, list(data.cast::<u8>(), size), text(folder_name), pairs(texts, count))
        };
        let (options, warnings) = parser_options(&borrowed(&options)).map_err(refused)?;
        warn_all(warnings);
        let bytes = Bytes::copy_from_slice(bytes);
        let read = options.read(Origin::Onnx, bytes, folder(&name).as_deref());
        let mut read = read.map_err(|error| failed(error, in_parser_keys))?;
        read.name = options.name;
        graph.replace(read);
        Ok(())
    }
}

/// The command `atc`.
///
/// # Safety
/// `arguments` has `count` texts that end with 0; the first is the program's name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn CairnAtc(count: i32, arguments: *const *const c_char) -> i32 {
    // SAFETY: as the caller vouches.
    let words = unsafe { list(arguments, usize::try_from(count).unwrap_or_default()) };
    let word = |word: &*const c_char| match word.is_null() {
        true => String::new(),
        // SAFETY: as the caller vouches.
        false => unsafe { CStr::from_ptr(*word) }.to_string_lossy().into_owned(),
    };
    let words: Vec<String> = words.iter().skip(1).map(word).collect();
    if let Some(level) = cairn_atc::log_level(&words) {
        // SAFETY: the command has one thread so far.
        unsafe { std::env::set_var("ASCEND_GLOBAL_LOG_LEVEL", level) };
    }
    cairn_runtime::logs::install();
    cairn_atc::run(&words, &mut std::io::stdout(), &mut std::io::stderr())
}

const _: signature::CairnAtc = CairnAtc;
