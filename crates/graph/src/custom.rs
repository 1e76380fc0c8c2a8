//! Operators of the program's own: types that it registers, each with a function that computes it.
//!
//! The engine knows such an operator by this trait alone. A node of its type is a node of a dynamic graph, whatever its
//! sizes: when a run comes to it, what is before it is submitted, and the function is called on the thread of the run. It
//! takes its outputs and its scratch memory from the [`CustomCall`], and submits its work to the run's stream.

use crate::failure::{Failure, Result};
use crate::ir::{Attr, Presence};
use cairn_runtime::lock::{Mutex, Rank};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

pub use crate::run::dynamic::{CustomCall, CustomTensor};

/// What the program declares of a type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Declaration {
    /// Inputs, in order.
    pub inputs: Vec<(String, Presence)>,
    /// Outputs, in order. One with the name of an input is that input, written in place.
    pub outputs: Vec<(String, Presence)>,
    /// Attributes, in order, with their defaults.
    pub attrs: Vec<(String, Option<Attr>)>,
    /// The declared indices of inputs whose values have to be in memory when the operator is called, not only on their way
    /// there in the order of the stream.
    pub needs_values: Vec<usize>,
}

/// An operator of the program's own. It is called on any thread, on several at a time.
pub trait CustomOperator: Send + Sync {
    /// What is declared of it; `None` if nothing is. Asked whenever a graph with it is compiled.
    fn declaration(&self) -> Option<Declaration>;

    /// Fails if it cannot be called. Asked whenever a graph with it is compiled.
    fn prepare(&self) -> Result<()>;

    /// Computes: makes the outputs and submits what fills them.
    fn execute(&self, call: &mut CustomCall<'_>) -> Result<()>;
}

/// An operator with the type that it was registered for.
#[derive(Clone)]
pub struct Registration {
    /// Its type.
    pub kind: &'static str,
    /// What computes it.
    pub operator: Arc<dyn CustomOperator>,
}

/// The operators that the program registered, by type. They stay until the process ends.
pub struct CustomOperators(Mutex<BTreeMap<&'static str, Arc<dyn CustomOperator>>>);

impl Default for CustomOperators {
    fn default() -> CustomOperators {
        CustomOperators(Mutex::new(Rank::Custom, BTreeMap::new()))
    }
}

impl fmt::Debug for CustomOperators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.lock().keys()).finish()
    }
}

impl CustomOperators {
    /// Registers an operator. The first of a type stays: a second one is refused.
    pub fn register(&self, kind: &str, operator: Arc<dyn CustomOperator>) -> Result<()> {
        if kind.is_empty() {
            return Err(Failure::invalid("the type of a custom operator is empty"));
        }
        let mut operators = self.0.lock();
        if operators.contains_key(kind) {
            return Err(Failure::failed(format!(
                "a custom operator of type {kind} is registered already: the first one stays"
            )));
        }
        // Types outlive whatever names them: the memory of a run is known by the name of its operator.
        operators.insert(String::leak(kind.to_owned()), operator);
        Ok(())
    }

    /// The operator of a type.
    pub fn get(&self, kind: &str) -> Option<Registration> {
        let operators = self.0.lock();
        let (kind, operator) = operators.get_key_value(kind)?;
        Some(Registration { kind, operator: operator.clone() })
    }
}
