//! A model on a device: its memory, and runs of the gear that is set.

use super::build::CompiledModel;
use crate::executable::{Bases, LoadOptions, LoadedExecutable, OutputMemory, RunOutput, RunTensor};
use crate::failure::{Failure, Result};
use cairn_exec::Target;
use cairn_runtime::lock::{Mutex, Rank};

/// Memory that the program has for a model. It belongs to the program, and stays valid until the unload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelMemory {
    /// For intermediates and workspaces; [`CompiledModel::work_bytes`] of it.
    pub work: Option<usize>,
    /// For constants; [`CompiledModel::weight_bytes`] of it.
    pub weights: Option<usize>,
}

/// A loaded model. Its gears share memory, so that runs follow each other, whatever streams they are on.
pub struct LoadedModel {
    /// What was loaded.
    pub model: CompiledModel,
    /// One for each gear; the largest has the memory of all.
    loaded: Vec<LoadedExecutable>,
    /// Held while a run of a model with gears is submitted: what follows the last run is the next one.
    order: Mutex<()>,
}

impl CompiledModel {
    /// Takes memory for the model from the target's allocator, and fills it on the target's stream. `id` is the number
    /// that allocators see. Its constants are the load's: once that is done, nothing needs the file that they came from.
    pub fn load(
        self: CompiledModel,
        target: &Target<'_>,
        id: u32,
        memory: ModelMemory,
    ) -> Result<LoadedModel> {
        let first =
            Bases { constants: memory.weights, refreshable: memory.work, ..Bases::default() };
        let owner = self.executables[self.largest].load(
            target,
            &LoadOptions {
                id,
                bases: first,
                const_bytes: self.weight_bytes(),
                feature_bytes: self.work_bytes(),
                in_use: &[],
                is_last: true,
            },
        )?;
        let (constants, feature) = owner.addresses();
        let bases = Bases { constants, refreshable: feature, ..Bases::default() };
        let mut loaded = Vec::with_capacity(self.executables.len());
        for (at, executable) in self.executables.iter().enumerate() {
            if at != self.largest {
                let options = LoadOptions { id, bases, is_last: true, ..LoadOptions::default() };
                loaded.push(executable.load(target, &options)?);
            }
        }
        loaded.insert(self.largest, owner);
        Ok(LoadedModel { model: self, loaded, order: Mutex::new(Rank::Stage, ()) })
    }
}

impl LoadedModel {
    /// Runs a gear, or the largest if none is named: everything is submitted to the target's stream when it returns.
    /// `outputs` has memory of the caller by output, or is empty. A model whose sizes come with each run takes its
    /// memory from the target's allocator; one with gears holds a lock meanwhile, so that its target is no user's.
    pub fn run(
        &self,
        target: &Target<'_>,
        gear: Option<usize>,
        inputs: &[RunTensor],
        outputs: &[Option<OutputMemory>],
    ) -> Result<Vec<RunOutput>> {
        let owner = &self.loaded[self.model.largest];
        let loaded = match gear {
            None => owner,
            Some(gear) => self.loaded.get(gear).ok_or_else(|| {
                let count = self.loaded.len();
                Failure::invalid(format!("there is no gear {gear}: the model has {count}"))
            })?,
        };
        let executable = &loaded.executable;
        let inputs = (inputs.iter().enumerate())
            .map(|(at, tensor)| executable.input(at, tensor))
            .collect::<Result<Vec<_>>>()?;
        if self.loaded.len() == 1 {
            return loaded.run(target, &inputs, outputs);
        }
        let _order = self.order.lock();
        if !std::ptr::eq(loaded, owner) {
            owner.follow(&target.stream)?;
        }
        loaded.run(target, &inputs, outputs)
    }

    /// Gives all memory back, without waiting; queued work goes on, further runs fail.
    pub fn unload(&self) {
        let others = self.loaded.iter().enumerate().filter(|(at, _)| *at != self.model.largest);
        others.for_each(|(_, loaded)| loaded.unload());
        self.loaded[self.model.largest].unload();
    }
}
