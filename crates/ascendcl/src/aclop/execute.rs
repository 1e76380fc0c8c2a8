//! The ways to run an operator by name. Nothing is compiled, so they differ in what they write back.

use super::call::{Call, buffers, descriptions, operator};
use crate::abi::{
    aclDataBuffer, aclTensorDesc, aclopAttr, aclopCompileType, aclopEngineType, aclrtStream,
};
use crate::door::entry;
use crate::{data_buffer, tensor_desc};
use cairn_exec::Shapes;
use cairn_ops::Arg;
use cairn_runtime::error::{Code, Error, Result};
use std::ffi::{c_char, c_int};

/// What every way to run an operator is given.
struct OperatorArguments {
    name: *const c_char,
    inputs: (c_int, *const *const aclTensorDesc, *const *const aclDataBuffer),
    outputs: (c_int, *const *const aclTensorDesc, *const *const aclDataBuffer),
    attributes: *const aclopAttr,
    stream: aclrtStream,
}

impl OperatorArguments {
    /// # Safety
    /// The name is null or ends with NUL; the lists are null or have as many handles as their counts say.
    unsafe fn run(&self, shapes: Shapes) -> Result<()> {
        let (inputs, input_descs, input_buffers) = self.inputs;
        let (outputs, output_descs, output_buffers) = self.outputs;
        // SAFETY: as the caller vouches.
        unsafe {
            let node = operator(self.name)?;
            let written_descs = descriptions(output_descs, outputs, "outputDesc")?;
            let call = Call::new(
                node,
                &descriptions(input_descs, inputs, "inputDesc")?,
                &written_descs,
                self.attributes,
            )?;
            let inputs = buffers(input_buffers, inputs, "inputs")?;
            let outputs = buffers(output_buffers, outputs, "outputs")?;
            call.run(&inputs, &outputs, self.stream, (shapes, &written_descs))
        }
    }
}

entry! {
    /// Submits an operator.
    fn aclopExecute(
        name: *const c_char,
        inputs: c_int,
        input_descs: *const *const aclTensorDesc,
        input_buffers: *const *const aclDataBuffer,
        outputs: c_int,
        output_descs: *const *const aclTensorDesc,
        output_buffers: *const *mut aclDataBuffer,
        attributes: *const aclopAttr,
        stream: aclrtStream,
    ) {
        let inputs = (inputs, input_descs, input_buffers);
        let outputs = (outputs, output_descs, output_buffers.cast());
        // SAFETY: the caller passes a name and lists of these lengths, or null.
        unsafe { OperatorArguments { name, inputs, outputs, attributes, stream }.run(Shapes::Known) }
    }

    /// Submits an operator and writes the outputs' shapes back.
    fn aclopExecuteV2(
        name: *const c_char,
        inputs: c_int,
        input_descs: *mut *mut aclTensorDesc,
        input_buffers: *mut *mut aclDataBuffer,
        outputs: c_int,
        output_descs: *mut *mut aclTensorDesc,
        output_buffers: *mut *mut aclDataBuffer,
        attributes: *mut aclopAttr,
        stream: aclrtStream,
    ) {
        let inputs = (inputs, input_descs.cast_const().cast(), input_buffers.cast_const().cast());
        let outputs = (outputs, output_descs.cast_const().cast(), output_buffers.cast_const().cast());
        // SAFETY: the caller passes a name and lists of these lengths, or null.
        unsafe { OperatorArguments { name, inputs, outputs, attributes, stream }.run(Shapes::Inferred) }
    }

    /// Submits an operator; there is nothing to compile.
    fn aclopCompileAndExecute(
        name: *const c_char,
        inputs: c_int,
        input_descs: *const *const aclTensorDesc,
        input_buffers: *const *const aclDataBuffer,
        outputs: c_int,
        output_descs: *const *const aclTensorDesc,
        output_buffers: *const *mut aclDataBuffer,
        attributes: *const aclopAttr,
        _engine: aclopEngineType,
        _compile: aclopCompileType,
        _path: *const c_char,
        stream: aclrtStream,
    ) {
        let inputs = (inputs, input_descs, input_buffers);
        let outputs = (outputs, output_descs, output_buffers.cast());
        // SAFETY: the caller passes a name and lists of these lengths, or null.
        unsafe { OperatorArguments { name, inputs, outputs, attributes, stream }.run(Shapes::Known) }
    }

    /// Submits an operator and writes the outputs' shapes back; there is nothing to compile.
    fn aclopCompileAndExecuteV2(
        name: *const c_char,
        inputs: c_int,
        input_descs: *mut *mut aclTensorDesc,
        input_buffers: *mut *mut aclDataBuffer,
        outputs: c_int,
        output_descs: *mut *mut aclTensorDesc,
        output_buffers: *mut *mut aclDataBuffer,
        attributes: *mut aclopAttr,
        _engine: aclopEngineType,
        _compile: aclopCompileType,
        _path: *const c_char,
        stream: aclrtStream,
    ) {
        let inputs = (inputs, input_descs.cast_const().cast(), input_buffers.cast_const().cast());
        let outputs = (outputs, output_descs.cast_const().cast(), output_buffers.cast_const().cast());
        // SAFETY: the caller passes a name and lists of these lengths, or null.
        unsafe { OperatorArguments { name, inputs, outputs, attributes, stream }.run(Shapes::Inferred) }
    }

    /// Converts elements.
    fn aclopCast(
        from: *const aclTensorDesc,
        from_buffer: *const aclDataBuffer,
        to: *const aclTensorDesc,
        to_buffer: *mut aclDataBuffer,
        _truncate: u8,
        stream: aclrtStream,
    ) {
        let call = cast(from, to)?;
        let source = data_buffer::find(from_buffer, "srcBuffer")?.span();
        let target = data_buffer::find(to_buffer, "dstBuffer")?.span();
        call.run(&[Some(source)], &[Some(target)], stream, (Shapes::Known, &[]))
    }

    /// Writes the shapes and types that the outputs will have.
    fn aclopInferShape(
        name: *const c_char,
        inputs: c_int,
        input_descs: *mut *mut aclTensorDesc,
        input_buffers: *mut *mut aclDataBuffer,
        outputs: c_int,
        output_descs: *mut *mut aclTensorDesc,
        attributes: *mut aclopAttr,
    ) {
        // SAFETY: the caller passes a name and lists of these lengths, or null.
        unsafe {
            let node = operator(name)?;
            let written_descs = descriptions(output_descs.cast_const().cast(), outputs, "outputDesc")?;
            let from = descriptions(input_descs.cast_const().cast(), inputs, "inputDesc")?;
            let spans = buffers(input_buffers.cast_const().cast(), inputs, "inputs")?;
            let layouts = Call::new(node, &from, &[], attributes)?.infer(&spans)?;
            if layouts.len() < written_descs.len() {
                return Err(Error::invalid(format!(
                    "numOutputs = {}: {} has {}", written_descs.len(), node.name, layouts.len()
                )));
            }
            for (desc, layout) in written_descs.iter().zip(layouts) {
                let mut desc = desc.lock();
                desc.resize(layout.dims().iter().map(|dim| *dim as i64).collect());
                desc.dtype = layout.dtype;
            }
        }
        Ok(())
    }
}

/// The call of `Cast` between two descriptions.
pub fn cast(from: *const aclTensorDesc, to: *const aclTensorDesc) -> Result<Call> {
    let node = cairn_ops::nodes()
        .get("Cast")
        .ok_or_else(|| Error::new(Code::OperatorNotFound, "there is no operator Cast"))?;
    let (from, to) = (tensor_desc::find(from, "srcDesc")?, tensor_desc::find(to, "dstDesc")?);
    let dtype = to.lock().dtype;
    let call = Call::new(node, &[from], &[to], std::ptr::null())?;
    Ok(call.with_attribute("dst_type", Arg::Int(i64::from(dtype.number()))))
}
