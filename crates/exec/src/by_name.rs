//! A call of an operator by its name: inferred, planned, given memory, submitted, and waited for where the caller
//! wants sizes that depend on values.

use crate::execution::Execution;
use crate::host_input::HostInput;
use crate::outcome::Outcome;
use crate::refusal::{CallKind, refusal};
use crate::target::Target;
use cairn_ops::{Attr, Node, NodeArgs, Tensor};
use cairn_runtime::error::{Error, Result};
use cairn_tensor::Layout;
use std::sync::Arc;

/// An operator of the table with the attributes that were set, by name.
#[derive(Clone, Copy)]
pub struct NamedCall<'a> {
    /// The operator.
    pub node: &'static Node,
    /// Its attributes.
    pub attributes: &'a [(String, Attr)],
}

/// An output as the caller passes it.
#[derive(Clone, Copy, Debug)]
pub struct NamedOutput {
    /// Its elements, where the caller knows them.
    pub layout: Option<Layout>,
    /// Its first byte; 0 for none.
    pub address: usize,
    /// Bytes there.
    pub bytes: usize,
}

/// Whether the caller wants the shapes of the outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shapes {
    /// It knows them.
    Known,
    /// It asks for them; of an output whose sizes depend on values, after it ran.
    Inferred,
}

impl NamedCall<'_> {
    fn refused(&self, error: &cairn_ops::Error) -> Error {
        refusal(CallKind::ByName, self.node.name, error)
    }

    /// The layouts that follow from the inputs.
    pub fn infer(&self, inputs: &[Option<Tensor>]) -> Result<Vec<Layout>> {
        let args = NodeArgs { inputs, outputs: &[], attributes: self.attributes };
        self.node.infer(&args).map_err(|error| self.refused(&error))
    }

    /// Submits the call. Inputs that lie on the host are copied to the device. Copies and workspace lie in memory of
    /// the target's allocator, taken and given back on this thread, inside the call. Returns the layouts of the
    /// outputs if they are requested: where they depend on values the call waits for its own task, and for nothing
    /// else of the stream.
    pub fn run(
        &self,
        target: &Target<'_>,
        inputs: &[Option<Tensor>],
        outputs: &[NamedOutput],
        shapes: Shapes,
    ) -> Result<Vec<Layout>> {
        let mut layouts = Vec::new();
        if shapes == Shapes::Inferred || outputs.iter().any(|output| output.layout.is_none()) {
            layouts = self.infer(inputs)?;
        }
        let bound: Result<Vec<Tensor>> =
            outputs.iter().enumerate().map(|(at, one)| self.bind(at, one, &layouts)).collect();
        let bound = bound?;
        let args = NodeArgs { inputs, outputs: &bound, attributes: self.attributes };
        let plan = self.node.plan(&args).map_err(|error| self.refused(&error))?;
        let hosts = host_inputs(inputs);
        let waits = shapes == Shapes::Inferred && self.node.marks.sized_by_values;
        if !waits {
            Execution::new(self.node.name, plan, None).execute(target, &hosts)?;
            return Ok(layouts);
        }
        let outcome: Arc<Outcome> = Arc::default();
        let execution = Execution::watched(self.node.name, plan, outcome.clone(), None);
        let seq = execution.execute(target, &hosts)?;
        log::info!("{}: waits for its sizes, which depend on values", self.node.name);
        for ((index, inner), sizes) in outcome.wait(&target.stream, self.node.name, seq)? {
            let output = (index + inner).checked_sub(inputs.len());
            if let Some(layout) = output.and_then(|at| layouts.get_mut(at)) {
                *layout = Layout::contiguous(layout.dtype, &sizes);
            }
        }
        Ok(layouts)
    }

    /// The tensor of output `at`: its layout the caller's or the inferred one, its buffer large enough.
    fn bind(&self, at: usize, output: &NamedOutput, inferred: &[Layout]) -> Result<Tensor> {
        let what = || format!("{}: output {at}", self.node.name);
        let layout = output.layout.or_else(|| inferred.get(at).copied()).ok_or_else(|| {
            Error::invalid(format!("{}: its shape does not follow from the inputs", what()))
        })?;
        check_buffer(&what(), &layout, output.address, output.bytes)?;
        Ok(Tensor::new(layout, output.address))
    }
}

/// Fails for a buffer that is shorter than its tensor; a null one has no bytes to be short of. `what` is for texts.
pub fn check_buffer(what: &str, layout: &Layout, address: usize, have: usize) -> Result<()> {
    let expected = layout.bytes();
    match address != 0 && have < expected {
        true => Err(Error::invalid(format!(
            "{what} ({layout}) takes {expected} bytes, its buffer has {have}"
        ))),
        false => Ok(()),
    }
}

/// The inputs whose bytes lie on the host.
fn host_inputs(inputs: &[Option<Tensor>]) -> Vec<HostInput> {
    let with_bytes = inputs.iter().enumerate().filter_map(|(index, tensor)| {
        let bytes = tensor.as_ref()?.constant.clone()?;
        Some(HostInput { index, bytes })
    });
    with_bytes.collect()
}
