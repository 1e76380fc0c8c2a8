//! What can be wrong with a call, and what can go wrong while it runs.

/// Why a call is refused before anything runs. The text names parameter and value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A tensor, an address or another argument that must be there is null (161001 at the door).
    Null(String),
    /// An argument has a value, shape or type that the operator does not take (161002).
    Invalid(String),
    /// Planning needs the values of an argument, and they are not known before the graph runs (161002).
    NeedsValues(String),
}

impl Error {
    /// A value that the operator does not take.
    pub fn invalid(text: impl Into<String>) -> Error {
        Error::Invalid(text.into())
    }

    /// The text.
    pub fn text(&self) -> &str {
        match self {
            Error::Null(text) | Error::Invalid(text) | Error::NeedsValues(text) => text,
        }
    }
}

/// The result of reading arguments and planning.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong in the task, such as an index out of range. Surfaces at the next synchronize, with the
/// operator's name before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(pub String);

/// How a kernel ended.
pub type Outcome = std::result::Result<(), Fault>;
