//! What can go wrong, with the values that were wrong.

use crate::code::Code;
use cairn_runtime::error as runtime;
use std::fmt;

/// A failure as the user sees it: the code that the function returns, and a sentence that names the wrong value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The number that the C function returns.
    pub code: Code,
    /// The sentence.
    pub text: String,
}

/// The result of everything that can fail with a code.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error with this code and sentence.
    pub fn new(code: Code, text: impl Into<String>) -> Error {
        Error { code, text: text.into() }
    }

    /// A wrong value (1).
    pub fn parameter(text: impl Into<String>) -> Error {
        Error::new(Code::Parameter, text)
    }

    /// A required pointer is null (2).
    pub fn null(argument: &str) -> Error {
        Error::new(Code::Null, format!("the argument {argument} is null"))
    }

    /// Not supported (5).
    pub fn unsupported(text: impl Into<String>) -> Error {
        Error::new(Code::NotSupported, text)
    }

    /// The same error, said of something: `subject: text`.
    pub fn of(self, subject: impl fmt::Display) -> Error {
        Error { text: format!("{subject}: {}", self.text), ..self }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

impl From<runtime::Error> for Error {
    /// Memory that cannot be had stays that, everything else is the runtime's failure (15).
    fn from(error: runtime::Error) -> Error {
        let code = match error.code {
            runtime::Code::MemoryAllocation => Code::OutOfMemory,
            _ => Code::Runtime,
        };
        Error::new(code, error.text)
    }
}
