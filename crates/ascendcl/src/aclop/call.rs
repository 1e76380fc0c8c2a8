//! A call by name: read from the user's arrays, and its shapes written back. What lies between is `cairn_exec::NamedCall`.

use super::attribute::{self, Value};
use super::operand;
use crate::abi::{aclDataBuffer, aclTensorDesc, aclopAttr, aclrtStream};
use crate::aclnn::values;
use crate::data_buffer::{self, Span};
use crate::door::{not_null, runtime, string};
use crate::tensor_desc::{self, Description, TensorDesc};
use cairn_exec::{NamedCall, NamedOutput, Shapes, Target};
use cairn_ops::{Attr, Node, Tensor, absent, nodes};
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::memory::registry::Domain;
use cairn_tensor::Layout;
use std::ffi::{c_char, c_int};
use std::sync::Arc;

/// The attribute that names the order of an image's dimensions. Where it is not set, the format of the first description
/// is the order.
const DATA_FORMAT: &str = "data_format";

/// The operator of a name.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
pub unsafe fn operator(name: *const c_char) -> Result<&'static Node> {
    // SAFETY: as the caller vouches.
    let name = unsafe { string(name, "opType") }?;
    nodes()
        .get(name.as_str())
        .copied()
        .ok_or_else(|| Error::new(Code::OperatorNotFound, absent(&name)))
}

/// An array of handles of the user.
///
/// # Safety
/// `list` is null or points to `count` handles.
unsafe fn handles<T>(list: *const *const T, count: c_int, name: &str) -> Result<Vec<*const T>> {
    let number = u64::try_from(count)
        .map_err(|_| Error::invalid(format!("{count} is no number of {name}")))?;
    if number > 0 {
        not_null(list, name)?;
    }
    // SAFETY: as the caller vouches.
    Ok(unsafe { values(list, number, name) }?.collect())
}

/// Descriptions of the user, by their handles.
///
/// # Safety
/// `list` is null or points to `count` handles.
pub unsafe fn descriptions(
    list: *const *const aclTensorDesc,
    count: c_int,
    name: &str,
) -> Result<Vec<Arc<TensorDesc>>> {
    // SAFETY: as the caller vouches.
    let list = unsafe { handles(list, count, name) }?;
    let one = |(at, handle)| tensor_desc::find(handle, &format!("{name}[{at}]"));
    list.into_iter().enumerate().map(one).collect()
}

/// Buffers of the user, by their handles; null is nothing.
///
/// # Safety
/// `list` is null or points to `count` handles.
pub unsafe fn buffers(
    list: *const *const aclDataBuffer,
    count: c_int,
    name: &str,
) -> Result<Vec<Option<Span>>> {
    // SAFETY: as the caller vouches.
    let list = unsafe { handles(list, count, name) }?;
    let one = |(at, handle): (usize, *const aclDataBuffer)| match handle.is_null() {
        true => Ok(None),
        false => Ok(Some(data_buffer::find(handle, &format!("{name}[{at}]"))?.span())),
    };
    list.into_iter().enumerate().map(one).collect()
}

/// An operator with copies of its descriptions and attributes.
#[derive(Clone)]
pub struct Call {
    node: &'static Node,
    inputs: Vec<Description>,
    outputs: Vec<Description>,
    attributes: Vec<(String, Attr)>,
}

impl Call {
    /// Copies of what the descriptions and attributes are now.
    pub fn new(
        node: &'static Node,
        inputs: &[Arc<TensorDesc>],
        outputs: &[Arc<TensorDesc>],
        attributes: *const aclopAttr,
    ) -> Result<Call> {
        let mut plain = Vec::new();
        for (name, value) in attribute::attributes_of(attributes)? {
            match value {
                Value::Plain(value) => plain.push((name, value)),
                Value::Lists | Value::Texts if node.attributes().any(|one| one == name) => {
                    let node = node.name;
                    return Err(Error::invalid(format!(
                        "{node}: the attribute {name} is no such list"
                    )));
                }
                Value::Lists | Value::Texts => {}
            }
        }
        let copies = |list: &[Arc<TensorDesc>]| list.iter().map(|one| one.lock().clone()).collect();
        let (inputs, outputs): (Vec<Description>, _) = (copies(inputs), copies(outputs));
        operand::check_lists(node, &inputs)?;
        plain.extend(operand::list_lengths(node, &inputs)?);
        let states_order = plain.iter().any(|(name, _)| name == DATA_FORMAT);
        if !states_order && node.attributes().any(|one| one == DATA_FORMAT) {
            let order = inputs.first().and_then(operand::order_of_dims);
            plain.extend(order.map(|order| (DATA_FORMAT.to_owned(), Attr::Text(order.into()))));
        }
        Ok(Call { node, inputs, outputs, attributes: plain })
    }

    /// With one more attribute.
    pub fn with_attribute(mut self, name: &str, value: Attr) -> Call {
        self.attributes.push((name.into(), value));
        self
    }

    fn named_call(&self) -> NamedCall<'_> {
        NamedCall { node: self.node, attributes: &self.attributes }
    }

    /// The inputs: descriptions with their buffers.
    fn read_inputs(
        &self,
        buffers: &[Option<Span>],
        read_operand: fn(&Description, Option<Span>, &str) -> Result<Option<Tensor>>,
    ) -> Result<Vec<Option<Tensor>>> {
        if buffers.len() != self.inputs.len() {
            let (have, expected) = (buffers.len(), self.inputs.len());
            return Err(Error::invalid(format!(
                "{have} input buffers for {expected} descriptions"
            )));
        }
        let one = |(at, (desc, buffer)): (usize, (&Description, &Option<Span>))| {
            let what = format!("{}: input {at}", self.node.name);
            read_operand(desc, *buffer, &what)
        };
        self.inputs.iter().zip(buffers).enumerate().map(one).collect()
    }

    /// The layouts that follow from the inputs.
    pub fn infer(&self, buffers: &[Option<Span>]) -> Result<Vec<Layout>> {
        let inputs = self.read_inputs(buffers, operand::known_tensor)?;
        self.named_call().infer(&inputs)
    }

    /// The outputs: descriptions with their buffers.
    fn outputs(&self, buffers: &[Option<Span>]) -> Result<Vec<NamedOutput>> {
        if buffers.len() != self.outputs.len() {
            let (have, expected) = (buffers.len(), self.outputs.len());
            return Err(Error::invalid(format!(
                "{have} output buffers for {expected} descriptions"
            )));
        }
        let one = |(at, (desc, buffer)): (usize, (&Description, &Option<Span>))| {
            let what = format!("{}: output {at}", self.node.name);
            let Span { address, length } = buffer.unwrap_or(Span { address: 0, length: 0 });
            Ok(NamedOutput { layout: operand::layout(desc, &what)?, address, bytes: length })
        };
        self.outputs.iter().zip(buffers).enumerate().map(one).collect()
    }

    /// Submits the call. Memory besides the buffers comes from the allocator of the stream. The shapes of the
    /// outputs, where they are requested, are written into `written_descs`.
    pub fn run(
        &self,
        inputs: &[Option<Span>],
        outputs: &[Option<Span>],
        stream: aclrtStream,
        (shapes, written_descs): (Shapes, &[Arc<TensorDesc>]),
    ) -> Result<()> {
        let runtime = runtime()?;
        let found = runtime.stream(stream as usize)?;
        let inputs = self.read_inputs(inputs, operand::input)?;
        let outputs = self.outputs(outputs)?;
        let target = Target::registered(runtime, found, Domain::Acl, stream as usize);
        let layouts = self.named_call().run(&target, &inputs, &outputs, shapes)?;
        if shapes == Shapes::Inferred {
            for (desc, layout) in written_descs.iter().zip(&layouts) {
                desc.lock().resize(layout.dims().iter().map(|dim| *dim as i64).collect());
            }
        }
        Ok(())
    }
}
