//! `aclOpExecutor`: a call that was planned, behind a handle, from its first phase to its second.

use super::argument::{DeferredAddresses, Origin};
use super::list::{self, List};
use super::operator::Operator;
use super::tensor::{self, Tensor};
use super::{nn_entry, nn_not_null};
use crate::abi::{aclOpExecutor, aclTensor, aclTensorList};
use crate::door::runtime;
use cairn_exec::Execution;
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::handle::HandleObject;
use cairn_runtime::record::site::Preparation;
use cairn_runtime::record::{Kind, Site, site};
use cairn_runtime::stream::Stream;
use smallvec::SmallVec;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What an executor handle names. It runs once, or as often as the user likes when it is repeatable.
pub struct Executor {
    operator: &'static Operator,
    /// The planned call.
    pub execution: Arc<Execution>,
    /// The call that planned it: the site of its tasks.
    site: Site,
    origins: SmallVec<[Origin; 6]>,
    addresses: Mutex<SmallVec<[usize; 6]>>,
    deferred: DeferredAddresses,
    repeatable: AtomicBool,
}

impl HandleObject for Executor {
    const KIND: &'static str = "executor";
}

impl Executor {
    /// An executor that runs once. Made inside of the call that plans.
    pub fn new(
        operator: &'static Operator,
        execution: Arc<Execution>,
        origins: SmallVec<[Origin; 6]>,
        deferred: DeferredAddresses,
    ) -> Executor {
        let (addresses, repeatable) = (Mutex::new(execution.addresses()), AtomicBool::new(false));
        let is_recorded = crate::process::started()
            .is_some_and(|runtime| runtime.shared.spine.has_listener(Kind::Submit));
        let site = Site { preparation: is_recorded.then(Preparation::now), ..site::keep() };
        Executor { operator, execution, site, origins, addresses, deferred, repeatable }
    }

    /// Queues the call with the user's workspace.
    pub fn submit(&self, stream: &Arc<Stream>, workspace: usize, size: u64) -> Result<()> {
        let expected = self.execution.workspace() as u64;
        if size < expected {
            return Err(Error::new(
                Code::OperatorInvalid,
                format!("workspaceSize = {size}: the first phase asked for {expected} bytes"),
            ));
        }
        if expected > 0 {
            nn_not_null(workspace as *const u8, "workspace")?;
        }
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if !self.deferred.is_empty() {
            self.resolve_addresses(&mut addresses)?;
        }
        let is_as_prepared =
            || !self.repeatable.load(Ordering::Acquire) && self.execution.addresses() == addresses;
        let preparation = self.site.preparation.filter(|_| is_as_prepared());
        let decided = addresses.len() as u32;
        let preparation = preparation.map(|it| Preparation { accesses: decided, ..it });
        let site = Site { preparation, ..self.site };
        site::with_site(site, || self.execution.submit(stream, &addresses, workspace)).map(drop)
    }

    /// Puts tensors that had no address when the call was planned where they are now.
    fn resolve_addresses(&self, addresses: &mut [usize]) -> Result<()> {
        for (at, address) in addresses.iter_mut().enumerate() {
            match self.deferred.resolve(*address) {
                None => {}
                Some((_, 0)) => {
                    let parameter = self.execution.parameter(at);
                    return Err(Error::new(
                        Code::OperatorNull,
                        format!("the address of {parameter} is null: a run needs one"),
                    ));
                }
                Some((offset, start)) => *address = start + offset,
            }
        }
        Ok(())
    }

    /// Moves a tensor, or one of a list, to other memory. `index` counts the arguments that
    /// `is_counted` chooses, `inner` those of a list; where the one at `index` has another handle, every one with the
    /// handle moves.
    fn relocate(
        &self,
        handle: usize,
        index: usize,
        inner: usize,
        is_counted: impl Fn(&Origin) -> bool,
        address: *mut c_void,
    ) -> Result<()> {
        nn_not_null(address, "addr")?;
        let at_index = self.origins.iter().filter(|origin| is_counted(origin)).nth(index);
        let exact = at_index.filter(|origin| origin.handle == handle);
        let candidates: SmallVec<[&Origin; 6]> = match exact {
            Some(one) => [one].into_iter().collect(),
            None => self.origins.iter().filter(|origin| origin.handle == handle).collect(),
        };
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = false;
        for origin in candidates {
            let argument = (origin.index, inner);
            found |= self.execution.relocate(&mut addresses, argument, address as usize);
        }
        match found {
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "{handle:#x} (index {index}) is no tensor that this executor of {} uses",
                self.operator.name
            ))),
        }
    }
}

/// Gives an executor to the user.
pub fn give(executor: Executor) -> Result<*mut aclOpExecutor> {
    Ok(runtime()?.handles.insert(Arc::new(executor))? as *mut aclOpExecutor)
}

fn find(handle: *const aclOpExecutor) -> Result<Arc<Executor>> {
    nn_not_null(handle, "executor")?;
    runtime()?.handles.get(handle as usize)
}

/// The executor for a second phase; it is ended unless it is repeatable.
pub fn take(handle: *mut aclOpExecutor, operator: &'static Operator) -> Result<Arc<Executor>> {
    let explain_reuse = |error: Error| match error.text.contains("destroyed") {
        true => Error {
            text: format!(
                "{}: an executor runs once, unless aclSetAclOpExecutorRepeatable was called",
                error.text
            ),
            ..error
        },
        false => error,
    };
    let executor = find(handle).map_err(explain_reuse)?;
    if !std::ptr::eq(executor.operator, operator) {
        return Err(Error::invalid(format!(
            "the executor {handle:p} is one of {}: pass it to that function",
            executor.operator.name
        )));
    }
    if executor.repeatable.load(Ordering::Acquire) {
        return Ok(executor);
    }
    runtime()?.handles.remove::<Executor>(handle as usize).map_err(explain_reuse)
}

/// Any argument.
fn any(_: &Origin) -> bool {
    true
}

/// Arguments that are not written.
fn input(origin: &Origin) -> bool {
    !origin.is_output
}

/// Arguments that are written.
fn output(origin: &Origin) -> bool {
    origin.is_output
}

fn move_tensor(
    executor: *mut aclOpExecutor,
    index: usize,
    tensor: *mut aclTensor,
    address: *mut c_void,
    is_counted: fn(&Origin) -> bool,
) -> Result<()> {
    let executor = find(executor)?;
    tensor::find(tensor, "tensor")?;
    executor.relocate(tensor as usize, index, 0, is_counted, address)
}

fn move_member(
    executor: *mut aclOpExecutor,
    index: usize,
    inner: usize,
    tensors: *mut aclTensorList,
    address: *mut c_void,
    is_counted: fn(&Origin) -> bool,
) -> Result<()> {
    let executor = find(executor)?;
    let list: Arc<List<Tensor>> = list::find(tensors as usize, "tensors")?;
    if inner >= list.0.len() {
        return Err(Error::invalid(format!(
            "relativeIndex = {inner} is out of range: there are {} tensors",
            list.0.len()
        )));
    }
    executor.relocate(tensors as usize, index, inner, is_counted, address)
}

/// Defines functions that move tensors of an executor, each under its name and its older one.
macro_rules! moves {
    ($($name:ident $older:ident = $is_counted:ident;)*; $($list:ident $older_list:ident = $is_list_counted:ident;)*) => {
        $(moves!(@tensor $name $is_counted); moves!(@tensor $older $is_counted);)*
        $(moves!(@list $list $is_list_counted); moves!(@list $older_list $is_list_counted);)*
    };
    (@tensor $name:ident $is_counted:ident) => {
        nn_entry! {
            /// Moves a tensor of an executor to other memory.
            fn $name(executor: *mut aclOpExecutor, index: usize, tensor: *mut aclTensor, address: *mut c_void) {
                move_tensor(executor, index, tensor, address, $is_counted)
            }
        }
    };
    (@list $name:ident $is_counted:ident) => {
        nn_entry! {
            /// Moves a tensor of a list of an executor to other memory.
            fn $name(
                executor: *mut aclOpExecutor,
                index: usize,
                inner: usize,
                tensors: *mut aclTensorList,
                address: *mut c_void,
            ) {
                move_member(executor, index, inner, tensors, address, $is_counted)
            }
        }
    };
}

moves! {
    aclSetTensorAddr AclSetTensorAddr = any;
    aclSetInputTensorAddr AclSetInputTensorAddr = input;
    aclSetOutputTensorAddr AclSetOutputTensorAddr = output;;
    aclSetDynamicTensorAddr AclSetDynamicTensorAddr = any;
    aclSetDynamicInputTensorAddr AclSetDynamicInputTensorAddr = input;
    aclSetDynamicOutputTensorAddr AclSetDynamicOutputTensorAddr = output;
}

nn_entry! {
    /// Lets an executor run any number of times.
    fn aclSetAclOpExecutorRepeatable(executor: *mut aclOpExecutor) {
        find(executor)?.repeatable.store(true, Ordering::Release);
        Ok(())
    }

    /// Destroys an executor.
    fn aclDestroyAclOpExecutor(executor: *mut aclOpExecutor) {
        nn_not_null(executor, "executor")?;
        runtime()?.handles.remove::<Executor>(executor as usize)?;
        Ok(())
    }
}
