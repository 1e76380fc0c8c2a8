//! Names in entries: of functions, operators, nodes.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// A text that many entries share. Cloning it costs nothing, or a count.
#[derive(Clone)]
pub enum Name {
    /// A text of the program that records.
    Static(&'static str),
    /// A text that was read.
    Shared(Arc<str>),
}

impl Name {
    /// No name.
    pub const NONE: Name = Name::Static("");
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Name::Static(text) => text,
            Name::Shared(text) => text,
        }
    }
}

impl Default for Name {
    fn default() -> Name {
        Name::NONE
    }
}

impl From<&'static str> for Name {
    fn from(text: &'static str) -> Name {
        Name::Static(text)
    }
}

impl From<String> for Name {
    fn from(text: String) -> Name {
        Name::Shared(text.into())
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Name) -> bool {
        **self == **other
    }
}

impl Eq for Name {}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Name) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Name) -> std::cmp::Ordering {
        (**self).cmp(&**other)
    }
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&**self, f)
    }
}
