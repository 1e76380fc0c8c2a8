//! Bundles, files of several models: not supported, so each function fails as for a bundle that does not exist.

use super::source::ModelSource;
use crate::abi::{aclmdlBundleQueryInfo, aclmdlConfigHandle};
use crate::door::{entry, not_null, runtime, value_entry, write};
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::handle::HandleObject;
use std::ffi::{c_char, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

/// What a handle of a query result names. No query succeeds: it stays empty.
struct BundleInfo;

impl HandleObject for BundleInfo {
    const KIND: &'static str = "bundle query result";
}

fn find(info: *const aclmdlBundleQueryInfo) -> Result<Arc<BundleInfo>> {
    not_null(info, "queryInfo")?;
    runtime()?.handles.get(info as usize)
}

/// The error of a file: it is one model, no model, or a bundle.
fn refuse(source: &ModelSource) -> Result<()> {
    if source.is_bundle() {
        return Err(Error::new(
            Code::FeatureNotSupport,
            "bundles of several models are not supported: load each model from a file of its own",
        ));
    }
    source.describe()?;
    Err(Error::invalid("the file holds one model, and no bundle: load it by aclmdlLoadFromFile"))
}

fn unknown(bundle: u32) -> Result<()> {
    Err(Error::new(Code::BundleId, format!("bundleId = {bundle}: no bundle is loaded")))
}

value_entry! {
    /// An empty query result.
    fn aclmdlBundleCreateQueryInfo() -> *mut aclmdlBundleQueryInfo, else null_mut(), {
        Ok(runtime()?.handles.insert(Arc::new(BundleInfo))? as *mut aclmdlBundleQueryInfo)
    }
}

entry! {
    /// Destroys a query result.
    fn aclmdlBundleDestroyQueryInfo(info: *mut aclmdlBundleQueryInfo) {
        not_null(info, "queryInfo")?;
        runtime()?.handles.remove::<BundleInfo>(info as usize)?;
        Ok(())
    }

    /// The number of models: 0.
    fn aclmdlBundleGetQueryModelNum(info: *const aclmdlBundleQueryInfo, count: *mut usize) {
        find(info)?;
        // SAFETY: the caller passes room for the number, or null.
        unsafe { write(count, "modelNum", 0) }
    }

    /// The sizes of one of them.
    fn aclmdlBundleGetSize(
        info: *const aclmdlBundleQueryInfo,
        index: usize,
        work: *mut usize,
        weights: *mut usize,
    ) {
        find(info)?;
        not_null(work, "workSize")?;
        not_null(weights, "constWeightSize")?;
        Err(Error::invalid(format!("index = {index} is out of range: the query result has no model")))
    }

    /// The size of their variables.
    fn aclmdlBundleGetVarWeightSize(info: *const aclmdlBundleQueryInfo, bytes: *mut usize) {
        find(info)?;
        // SAFETY: the caller passes room for the number, or null.
        unsafe { write(bytes, "variableWeightSize", 0) }
    }

    /// Queries a file.
    fn aclmdlBundleQueryInfoFromFile(path: *const c_char, info: *mut aclmdlBundleQueryInfo) {
        not_null(path, "fileName")?;
        find(info)?;
        // SAFETY: the caller passes a string.
        refuse(&unsafe { ModelSource::of_path(path, "fileName") }?)
    }

    /// Queries host memory.
    fn aclmdlBundleQueryInfoFromMem(
        model: *const c_void,
        bytes: usize,
        info: *mut aclmdlBundleQueryInfo,
    ) {
        find(info)?;
        refuse(&ModelSource::of_memory(model, bytes)?)
    }

    /// Opens a file.
    fn aclmdlBundleInitFromFile(
        path: *const c_char,
        _variables: *mut c_void,
        _variable_bytes: usize,
        id: *mut u32,
    ) {
        not_null(path, "modelPath")?;
        not_null(id, "bundleId")?;
        // SAFETY: the caller passes a string.
        refuse(&unsafe { ModelSource::of_path(path, "modelPath") }?)
    }

    /// Opens host memory.
    fn aclmdlBundleInitFromMem(
        model: *const c_void,
        bytes: usize,
        _variables: *mut c_void,
        _variable_bytes: usize,
        id: *mut u32,
    ) {
        not_null(id, "bundleId")?;
        refuse(&ModelSource::of_memory(model, bytes)?)
    }

    /// Loads a file.
    fn aclmdlBundleLoadFromFile(path: *const c_char, id: *mut u32) {
        not_null(path, "modelPath")?;
        not_null(id, "bundleId")?;
        // SAFETY: the caller passes a string.
        refuse(&unsafe { ModelSource::of_path(path, "modelPath") }?)
    }

    /// Loads host memory.
    fn aclmdlBundleLoadFromMem(model: *const c_void, bytes: usize, id: *mut u32) {
        not_null(id, "bundleId")?;
        refuse(&ModelSource::of_memory(model, bytes)?)
    }

    /// Loads one model.
    fn aclmdlBundleLoadModel(bundle: u32, _index: usize, id: *mut u32) {
        not_null(id, "modelId")?;
        unknown(bundle)
    }

    /// Loads one model into memory of the user.
    fn aclmdlBundleLoadModelWithMem(
        bundle: u32,
        _index: usize,
        _work: *mut c_void,
        _work_bytes: usize,
        _weights: *mut c_void,
        _weight_bytes: usize,
        id: *mut u32,
    ) {
        not_null(id, "modelId")?;
        unknown(bundle)
    }

    /// Loads one model as configured.
    fn aclmdlBundleLoadModelWithConfig(
        bundle: u32,
        _index: usize,
        handle: *mut aclmdlConfigHandle,
        id: *mut u32,
    ) {
        not_null(handle, "handle")?;
        not_null(id, "modelId")?;
        unknown(bundle)
    }

    /// The number of models of a bundle.
    fn aclmdlBundleGetModelNum(bundle: u32, count: *mut usize) {
        not_null(count, "modelNum")?;
        unknown(bundle)
    }

    /// The id of a model.
    fn aclmdlBundleGetModelId(bundle: u32, _index: usize, id: *mut u32) {
        not_null(id, "modelId")?;
        unknown(bundle)
    }

    /// Unloads one model.
    fn aclmdlBundleUnloadModel(bundle: u32, _id: u32) {
        unknown(bundle)
    }

    /// Unloads a bundle.
    fn aclmdlBundleUnload(bundle: u32) {
        unknown(bundle)
    }
}
