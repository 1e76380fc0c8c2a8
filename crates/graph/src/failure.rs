//! Why a call of the graph engine failed.

use cairn_runtime::error::{Code, Error};
use cairn_runtime::memory::registry::Domain;

/// A failure as the user meets it: its code in either domain, and a sentence that names the values at fault and
/// what to do.
///
/// What the runtime refused keeps the runtime's code on the way up: out of memory stays out of memory for a user
/// of the ACL domain. The graph engine's own interface has one code for all of these, `FAILED`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The `ge::Status`: the code of the GE domain.
    pub status: Status,
    /// The `aclError`: the code of the ACL domain.
    pub code: Code,
    /// The sentence.
    pub text: String,
}

/// What a call of the engine gives.
pub type Result<T> = std::result::Result<T, Failure>;

/// The codes of the graph engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Something failed.
    Failed,
    /// An argument is not taken.
    ParamInvalid,
    /// The engine was not initialised.
    NotInitialised,
    /// The graph is running.
    IsRunning,
    /// There is no such graph.
    NotExist,
    /// There is a graph of that id.
    AlreadyExist,
    /// This is not possible for the graph as it is.
    Unsupported,
    /// The graph is not compiled.
    NotBuilt,
    /// Done before, and possible only once.
    Repeat,
    /// What an operator of the program's own gave; not 0.
    Custom(u32),
}

impl Status {
    /// The number in C++.
    pub fn number(self) -> u32 {
        match self {
            Status::Failed => 0xFFFF_FFFF,
            Status::ParamInvalid => 1_343_225_857,
            Status::NotInitialised => 1_343_229_963,
            Status::IsRunning => 1_343_242_244,
            Status::NotExist => 1_343_242_242,
            Status::AlreadyExist => 1_343_242_243,
            Status::Unsupported => 1_343_242_281,
            Status::NotBuilt => 1_343_242_295,
            Status::Repeat => 1_343_242_306,
            Status::Custom(number) => number,
        }
    }
}

impl Failure {
    /// A failure with this code.
    pub fn new(status: Status, text: impl Into<String>) -> Failure {
        let code = match status {
            Status::ParamInvalid => Code::InvalidParam,
            Status::Unsupported => Code::FeatureNotSupport,
            _ => Code::GeFailure,
        };
        Failure { status, code, text: text.into() }
    }

    /// A failure without a code of its own.
    pub fn failed(text: impl Into<String>) -> Failure {
        Failure::new(Status::Failed, text)
    }

    /// An argument that is not taken.
    pub fn invalid(text: impl Into<String>) -> Failure {
        Failure::new(Status::ParamInvalid, text)
    }

    /// The number that a user of this domain gets.
    pub fn number(&self, domain: Domain) -> u32 {
        match domain {
            Domain::Acl => self.code as u32,
            Domain::Ge => self.status.number(),
        }
    }

    /// The same failure, with words in front of its text.
    pub fn in_context(mut self, context: impl std::fmt::Display) -> Failure {
        self.text = format!("{context}: {}", self.text);
        self
    }

    /// The same failure, with a graph's label in front of its text, unless the text has it.
    pub fn with_label(self, label: &str) -> Failure {
        if self.text.contains(label) { self } else { self.in_context(label) }
    }
}

impl From<Error> for Failure {
    fn from(Error { code, text }: Error) -> Failure {
        Failure { status: Status::Failed, code, text }
    }
}

impl From<Failure> for Error {
    fn from(Failure { code, text, .. }: Failure) -> Error {
        Error { code, text }
    }
}
