//! Operators that the user registers, which derive from `ge::EagerExecuteOp`.

use super::abi::*;
use super::door::{borrowed, engine, list, object, plain, release, status, text};
use super::operator::operator;
use super::value::{dtype, number, show_attr};
use crate::trampoline::call_user;
use cairn_graph::custom::{CustomCall, CustomOperator, CustomTensor, Declaration};
use cairn_graph::ir::{Desc, Operator};
use cairn_graph::{Failure, Result, Status};
use cairn_runtime::memory::external::CallbackException;
use cairn_tensor::Format;
use std::ffi::c_void;
use std::sync::Arc;

/// An operator of the user, with the C++ side's functions to call it.
struct GeOperator(CairnCustomOperator);

// SAFETY: the C++ side vouches that its functions may be called on any thread.
unsafe impl Send for GeOperator {}
// SAFETY: likewise, on several at a time.
unsafe impl Sync for GeOperator {}

/// The failure of a run whose custom operator threw an exception.
fn thrown(function: &str, CallbackException(text): CallbackException) -> Failure {
    let text = if text.is_empty() { text } else { format!(": {text}") };
    Failure::failed(format!("its {function} threw an exception{text}"))
}

impl CustomOperator for GeOperator {
    fn declaration(&self) -> Option<Declaration> {
        // SAFETY: the C++ side gave this function for this owner; what it gives is an operator that is ours, or null.
        let declared = unsafe { (self.0.declared?)(self.0.owner) };
        // SAFETY: as above.
        let found = unsafe { operator(declared) }.ok().cloned()?;
        // SAFETY: it was handed over to us.
        unsafe { release::<Arc<Operator>, _>(declared) };
        unsafe extern "C" fn push_input(context: *mut c_void, input: usize) {
            // SAFETY: the context is the list below.
            unsafe { &mut *context.cast::<Vec<usize>>() }.push(input);
        }
        let mut needs_values: Vec<usize> = Vec::new();
        if let Some(show) = self.0.needs_values {
            // SAFETY: the C++ side gave this function for this owner, and calls back before it returns.
            unsafe { show(self.0.owner, (&raw mut needs_values).cast(), Some(push_input)) };
        }
        let parts = found.parts();
        let attrs = parts.ir_attrs.iter().map(|(name, _, value)| (name.clone(), value.clone()));
        Some(Declaration {
            inputs: parts.ir_inputs.clone(),
            outputs: parts.ir_outputs.clone(),
            attrs: attrs.collect(),
            needs_values,
        })
    }

    fn prepare(&self) -> Result<()> {
        let mut readiness = CAIRN_READY;
        let prepared = call_user(&|| (), |call_context| {
            // SAFETY: the C++ side gave this function for this owner.
            let has_returned = unsafe {
                self.0.prepare.map(|call| call(self.0.owner, &mut readiness, call_context))
            };
            has_returned == Some(true)
        });
        prepared.map_err(|exception| thrown("constructor", exception))?;
        match readiness {
            CAIRN_READY => Ok(()),
            CAIRN_NO_OBJECT => Err(Failure::failed("its creator gave no object")),
            _ => Err(Failure::new(
                Status::Unsupported,
                "its class does not derive from ge::EagerExecuteOp: there is no function Execute to call",
            )),
        }
    }

    fn execute(&self, call: &mut CustomCall<'_>) -> Result<()> {
        let inputs: Vec<CairnRunTensor> = call.inputs().iter().map(input_tensor).collect();
        let outputs: Vec<Desc> = call.outputs().to_vec();
        let outputs: Vec<CairnRunTensor> = outputs.iter().map(described_output).collect();
        let node = call.node().to_owned();
        let (input_counts, output_counts) =
            (call.input_counts().to_vec(), call.output_counts().to_vec());
        let info = CairnCallInfo {
            node: borrowed(node.as_bytes()),
            type_: borrowed(call.kind().as_bytes()),
            stream: call.stream() as *mut c_void,
            inputs: inputs.as_ptr(),
            input_count: inputs.len(),
            input_counts: input_counts.as_ptr(),
            declared_inputs: input_counts.len(),
            outputs: outputs.as_ptr(),
            output_count: outputs.len(),
            output_counts: output_counts.as_ptr(),
            declared_outputs: output_counts.len(),
            attr_count: call.attrs().len(),
        };
        let mut code = 0;
        let handle: *mut CairnCall = std::ptr::from_mut(call).cast();
        let called = call_user(&|| (), |call_context| {
            // SAFETY: the C++ side gave this function for this owner; what it is called with lives until it returns.
            let has_returned = unsafe {
                self.0
                    .execute
                    .map(|call| call(self.0.owner, handle, &info, &mut code, call_context))
            };
            has_returned == Some(true)
        });
        called.map_err(|exception| thrown("Execute", exception))?;
        match code {
            0 => Ok(()),
            code => Err(Failure::new(
                Status::Custom(code),
                format!("its Execute gave the code {code} ({code:#x})"),
            )),
        }
    }
}

/// A tensor as the operator gets it.
fn input_tensor(tensor: &CustomTensor) -> CairnRunTensor {
    CairnRunTensor {
        data: tensor.address as *mut c_void,
        bytes: tensor.bytes,
        dtype: number(tensor.dtype),
        format: Format::ND.0,
        is_on_host: false,
        is_described: true,
        dims: tensor.dims.as_ptr(),
        rank: tensor.dims.len(),
    }
}

/// An output before it is made.
fn described_output(desc: &Desc) -> CairnRunTensor {
    CairnRunTensor {
        data: std::ptr::null_mut(),
        bytes: 0,
        dtype: number(desc.dtype),
        format: desc.format.0,
        is_on_host: false,
        is_described: true,
        dims: desc.dims.as_ptr(),
        rank: desc.dims.len(),
    }
}

/// The call behind a handle.
///
/// # Safety
/// The handle is null, or one that an operator was called with and that has not returned; one thread uses it.
unsafe fn call_mut<'a>(handle: *mut CairnCall) -> Result<&'a mut CustomCall<'a>> {
    // SAFETY: as the caller vouches.
    unsafe { handle.cast::<CustomCall<'a>>().as_mut() }
        .ok_or_else(|| Failure::invalid("the call is null"))
}

/// Writes an address where the caller wants it.
///
/// # Safety
/// `to` is null or points to an address.
unsafe fn write_address(to: *mut *mut c_void, address: usize) {
    if !to.is_null() {
        // SAFETY: as the caller vouches.
        unsafe { to.write(address as *mut c_void) };
    }
}

status! {
    /// Registers an operator.
    fn CairnCustomRegister(kind: CairnText, op: *const CairnCustomOperator) {
        // SAFETY: the caller's text lives for the call, and its functions for good.
        let (kind, op) = unsafe { (text(kind), op.as_ref()) };
        let Some(op) = op else { return Err(Failure::invalid("the operator is null")) };
        engine().custom.register(&kind, Arc::new(GeOperator(*op)))
    }

    /// Makes an output.
    fn CairnCallMakeOutput(call: *mut CairnCall, index: usize, tensor: *const CairnRunTensor, address: *mut *mut c_void) {
        // SAFETY: the caller's call has not returned, and its tensor lives for this one.
        let (call, tensor, dims) = unsafe {
            let tensor = object::<CairnRunTensor, _>(tensor, "tensor")?;
            (call_mut(call)?, tensor, list(tensor.dims, tensor.rank))
        };
        let desc = Desc { format: Format(tensor.format), ..Desc::new(dtype(tensor.dtype)?, dims) };
        let output = call.make_output(index, &desc)?;
        // SAFETY: the caller passes a pointer to an address.
        unsafe { write_address(address, output) };
        Ok(())
    }

    /// Lets an output be an input.
    fn CairnCallReferOutput(call: *mut CairnCall, output: usize, input: usize) {
        // SAFETY: the caller's call has not returned.
        unsafe { call_mut(call) }?.refer_output(output, input).map(drop)
    }

    /// Takes scratch memory.
    fn CairnCallWorkspace(call: *mut CairnCall, bytes: usize, address: *mut *mut c_void) {
        // SAFETY: the caller's call has not returned.
        let scratch = unsafe { call_mut(call) }?.workspace(bytes)?;
        // SAFETY: the caller passes a pointer to an address.
        unsafe { write_address(address, scratch) };
        Ok(())
    }
}

plain! {
    /// Shows the value of a declared attribute.
    fn CairnCallAttr(call: *const CairnCall, index: usize, context: *mut c_void, callback: CairnValueCallback) -> bool, else false, {
        // SAFETY: the caller's call has not returned.
        let call = unsafe { object::<CustomCall<'_>, _>(call, "call") }?;
        let Some(Some(value)) = call.attrs().get(index) else { return Ok(false) };
        // SAFETY: the caller's function takes the context.
        unsafe { show_attr(callback, context, value) };
        Ok(true)
    }
}
