//! A call by name: read from the user's arrays, planned, run.

use super::attribute::{self, Value};
use super::operand;
use crate::abi::{aclDataBuffer, aclTensorDesc, aclopAttr, aclrtStream};
use crate::aclnn::values;
use crate::data_buffer::{self, Span};
use crate::door::{not_null, runtime, string};
use crate::tensor_desc::{self, Description, TensorDesc};
use cairn_exec::{Door, Execution, HostInput, Sized, refusal};
use cairn_ops::{Attr, Node, Passed, Tensor, nodes};
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::memory::registry::Domain;
use cairn_runtime::soc;
use cairn_tensor::Layout;
use std::ffi::{c_char, c_int};
use std::sync::{Arc, Mutex, PoisonError};

/// The operator of a name.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
pub unsafe fn operator(name: *const c_char) -> Result<&'static Node> {
    // SAFETY: as the caller vouches.
    let name = unsafe { string(name, "opType") }?;
    nodes().get(name.as_str()).copied().ok_or_else(|| {
        let text = format!("Cairn has no operator {name} (docs/operators.md says which it has)");
        Error::new(Code::OperatorNotFound, text)
    })
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

/// An output by its place, and the sizes that its values decided.
type Decided = (usize, Vec<usize>);

/// What is written back into the descriptions of the outputs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Back {
    /// Nothing.
    Nothing,
    /// The shapes; of an output whose sizes depend on values, after it ran.
    Shapes,
}

impl Call {
    /// Copies of what the descriptions and attributes are now.
    pub fn new(
        node: &'static Node,
        inputs: &[Arc<TensorDesc>],
        outputs: &[Arc<TensorDesc>],
        attributes: *const aclopAttr,
    ) -> Result<Call> {
        let mut known = Vec::new();
        for (name, value) in attribute::given(attributes)? {
            match value {
                Value::Plain(value) => known.push((name, value)),
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
        let (inputs, outputs) = (copies(inputs), copies(outputs));
        Ok(Call { node, inputs, outputs, attributes: known })
    }

    /// With one more attribute.
    pub fn with(mut self, name: &str, value: Attr) -> Call {
        self.attributes.push((name.into(), value));
        self
    }

    fn refused(&self, error: &cairn_ops::Error) -> Error {
        refusal(Door::ByName, self.node.name, error)
    }

    fn read(
        &self,
        buffers: &[Option<Span>],
        how: fn(&Description, Option<Span>, &str) -> Result<Option<Tensor>>,
    ) -> Result<Vec<Option<Tensor>>> {
        if buffers.len() != self.inputs.len() {
            let (have, wanted) = (buffers.len(), self.inputs.len());
            return Err(Error::invalid(format!("{have} input buffers for {wanted} descriptions")));
        }
        let one = |(at, (desc, buffer)): (usize, (&Description, &Option<Span>))| {
            let what = format!("{}: input {at}", self.node.name);
            how(desc, *buffer, &what)
        };
        self.inputs.iter().zip(buffers).enumerate().map(one).collect()
    }

    /// The layouts that follow from the inputs.
    pub fn infer(&self, buffers: &[Option<Span>]) -> Result<Vec<Layout>> {
        let inputs = self.read(buffers, operand::seen)?;
        let passed = Passed { inputs: &inputs, outputs: &[], attributes: &self.attributes };
        self.node.infer(&passed).map_err(|error| self.refused(&error))
    }

    fn outputs(
        &self,
        inputs: &[Option<Tensor>],
        buffers: &[Option<Span>],
        back: Back,
    ) -> Result<(Vec<Tensor>, Vec<Layout>)> {
        if buffers.len() != self.outputs.len() {
            let (have, wanted) = (buffers.len(), self.outputs.len());
            return Err(Error::invalid(format!("{have} output buffers for {wanted} descriptions")));
        }
        let what = |at: usize| format!("{}: output {at}", self.node.name);
        let mut layouts = Vec::new();
        for (at, desc) in self.outputs.iter().enumerate() {
            layouts.push(operand::layout(desc, &what(at))?);
        }
        let mut inferred = Vec::new();
        if back == Back::Shapes || layouts.iter().any(Option::is_none) {
            let passed = Passed { inputs, outputs: &[], attributes: &self.attributes };
            inferred = self.node.infer(&passed).map_err(|error| self.refused(&error))?;
        }
        let mut tensors = Vec::new();
        for (at, (layout, buffer)) in layouts.iter().zip(buffers).enumerate() {
            let what = what(at);
            let layout = layout.or_else(|| inferred.get(at).copied()).ok_or_else(|| {
                Error::invalid(format!("{what}: its shape does not follow from the inputs"))
            })?;
            let span = buffer.unwrap_or(Span { address: 0, length: 0 });
            tensors.push(operand::output(layout, span, &what)?);
        }
        Ok((tensors, inferred))
    }

    /// Submits the call. Memory besides the buffers comes from the allocator of the stream.
    pub fn run(
        &self,
        inputs: &[Option<Span>],
        outputs: &[Option<Span>],
        stream: aclrtStream,
        back: (Back, &[Arc<TensorDesc>]),
    ) -> Result<()> {
        let runtime = runtime()?;
        let target = runtime.stream(stream as usize)?;
        let inputs = self.read(inputs, operand::input)?;
        let (outputs, inferred) = self.outputs(&inputs, outputs, back.0)?;
        let passed = Passed { inputs: &inputs, outputs: &outputs, attributes: &self.attributes };
        let plan = self.node.plan(&passed).map_err(|error| self.refused(&error))?;
        let decided: Arc<Mutex<Vec<Decided>>> = Arc::default();
        let heard = decided.clone();
        let count = inputs.len();
        let sized: Sized = Box::new(move |(place, inner), dims| {
            let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
            heard.push(((place + inner).saturating_sub(count), dims.to_vec()));
        });
        let execution = Execution::new(self.node.name, plan, Some(sized));
        let hosts: Result<Vec<HostInput>> = hosts(&inputs, &runtime.shared.config.soc);
        let supply = runtime.supply_for(Domain::Acl, stream as usize, &target);
        execution.execute_with(&target, &supply, &hosts?)?;
        if back.0 == Back::Nothing {
            return Ok(());
        }
        for (desc, layout) in back.1.iter().zip(&inferred) {
            desc.lock().dims = layout.dims().iter().map(|dim| *dim as i64).collect();
        }
        if self.node.marks.sized_by_values {
            log::info!("{}: waits for its sizes, which depend on values", self.node.name);
            runtime.synchronize(&target, None)?;
            for (at, dims) in decided.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                if let Some(desc) = back.1.get(*at) {
                    desc.lock().dims = dims.iter().map(|dim| *dim as i64).collect();
                }
            }
        }
        Ok(())
    }
}

fn hosts(inputs: &[Option<Tensor>], soc: &str) -> Result<Vec<HostInput>> {
    let mut found = Vec::new();
    for (at, tensor) in inputs.iter().enumerate() {
        let Some(Tensor { constant: Some(bytes), .. }) = tensor else { continue };
        let length = bytes.len() as u64;
        let room = soc::tensor_room(soc, length).ok_or_else(|| {
            Error::invalid(format!("input {at} has {length} bytes: there is no such memory"))
        })?;
        found.push(HostInput { place: at, bytes: bytes.clone(), room });
    }
    Ok(found)
}
