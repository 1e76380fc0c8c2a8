//! Why a call of the graph engine failed.

use cairn_runtime::error::Error;

/// A failure as the user meets it: the engine's code, and a sentence that names the values at fault and what
/// to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The `ge::Status`.
    pub status: Status,
    /// The sentence.
    pub text: String,
}

/// What a call of the engine gives.
pub type Result<T> = std::result::Result<T, Failure>;

/// The codes of the graph engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Status {
    /// Something failed.
    Failed = 0xFFFF_FFFF,
    /// An argument is not taken.
    ParamInvalid = 1_343_225_857,
    /// Memory could not be had.
    OutOfMemory = 1_343_225_957,
    /// The engine was not initialised.
    NotInitialised = 1_343_229_963,
    /// The graph is running.
    IsRunning = 1_343_242_244,
    /// There is no such graph.
    NotExist = 1_343_242_242,
    /// There is a graph of that id.
    AlreadyExist = 1_343_242_243,
    /// This is not possible for the graph as it is.
    Unsupported = 1_343_242_281,
    /// The graph is not compiled.
    NotBuilt = 1_343_242_295,
    /// Done before, and possible only once.
    Repeat = 1_343_242_306,
}

impl Failure {
    /// A failure with this code.
    pub fn new(status: Status, text: impl Into<String>) -> Failure {
        Failure { status, text: text.into() }
    }

    /// A failure without a code of its own.
    pub fn failed(text: impl Into<String>) -> Failure {
        Failure::new(Status::Failed, text)
    }

    /// An argument that is not taken.
    pub fn invalid(text: impl Into<String>) -> Failure {
        Failure::new(Status::ParamInvalid, text)
    }

    /// The same failure, with words in front of its text.
    pub fn within(mut self, context: impl std::fmt::Display) -> Failure {
        self.text = format!("{context}: {}", self.text);
        self
    }

    /// The same failure, with a graph's label in front of its text, unless the text has it.
    pub fn naming(self, label: &str) -> Failure {
        if self.text.contains(label) { self } else { self.within(label) }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::failed(error.text)
    }
}
