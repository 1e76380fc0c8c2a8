//! Which allocator: the text that `--allocator` takes.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

/// The function of a library for PyTorch that takes memory, if none is named.
pub const MALLOC: &str = "my_malloc";
/// The function that gives it back.
pub const FREE: &str = "my_free";

/// An allocator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllocatorSpec {
    /// Cairn's own pool, `libcairn_pool.so` of the toolkit.
    Cairn,
    /// Malloc of the C library.
    Malloc,
    /// A library with the two functions that torch_npu's pluggable allocator takes.
    Torch {
        /// The library.
        library: PathBuf,
        /// Takes memory.
        malloc: String,
        /// Gives it back.
        free: String,
    },
    /// A library with a function that makes an allocator of the engine.
    Factory {
        /// The interface of the allocator.
        door: Door,
        /// The library.
        library: PathBuf,
        /// The function.
        function: String,
    },
}

/// The interfaces through which the engine takes a user's allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// `aclrtAllocatorDesc`.
    Acl,
    /// `ge::Allocator`.
    Ge,
}

impl Door {
    /// Its name in a spec.
    pub fn name(self) -> &'static str {
        match self {
            Door::Acl => "acl",
            Door::Ge => "ge",
        }
    }
}

/// What there is, for errors.
const KINDS: &str = "cairn, malloc, so:LIB, so:LIB:MALLOC:FREE, ge:LIB:FACTORY and acl:LIB:FACTORY";

impl AllocatorSpec {
    /// Malloc and free of a library, by their usual names.
    pub fn torch(library: &Path) -> AllocatorSpec {
        let (malloc, free) = (MALLOC.into(), FREE.into());
        AllocatorSpec::Torch { library: library.into(), malloc, free }
    }

    /// `LIB:FACTORY`.
    pub fn factory(door: Door, text: &str) -> Result<AllocatorSpec, String> {
        match text.rsplit_once(':') {
            Some((library, function)) if !library.is_empty() && !function.is_empty() => {
                Ok(AllocatorSpec::Factory {
                    door,
                    library: library.into(),
                    function: function.into(),
                })
            }
            _ => Err(format!("`{text}` is not LIB:FACTORY, such as libpool.so:make_pool")),
        }
    }

    /// The same with the library as the loader of another folder finds it: a file that is here by its whole path, any other
    /// name as it is.
    pub fn resolved(mut self) -> AllocatorSpec {
        if let AllocatorSpec::Torch { library, .. } | AllocatorSpec::Factory { library, .. } =
            &mut self
            && library.exists()
            && let Ok(absolute) = std::path::absolute(&library)
        {
            *library = absolute;
        }
        self
    }

    /// The library of the user, if there is one.
    pub fn library(&self) -> Option<&Path> {
        match self {
            AllocatorSpec::Torch { library, .. } | AllocatorSpec::Factory { library, .. } => {
                Some(library)
            }
            AllocatorSpec::Cairn | AllocatorSpec::Malloc => None,
        }
    }

    /// The spec with the library's name in place of its path.
    pub fn label(&self) -> String {
        let mut short = self.clone();
        if let AllocatorSpec::Torch { library, .. } | AllocatorSpec::Factory { library, .. } =
            &mut short
            && let Some(name) = library.file_name()
        {
            *library = name.into();
        }
        short.to_string()
    }
}

impl FromStr for AllocatorSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<AllocatorSpec, String> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        match (kind, rest) {
            ("cairn", "") => Ok(AllocatorSpec::Cairn),
            ("malloc", "") => Ok(AllocatorSpec::Malloc),
            ("so", "") => Err("so: takes a library, such as so:libpool.so".into()),
            ("so", rest) => match rest.rsplitn(3, ':').collect::<Vec<_>>()[..] {
                [library] => Ok(AllocatorSpec::torch(Path::new(library))),
                [free, malloc, library]
                    if ![free, malloc, library].iter().any(|part| part.is_empty()) =>
                {
                    Ok(AllocatorSpec::Torch {
                        library: library.into(),
                        malloc: malloc.into(),
                        free: free.into(),
                    })
                }
                _ => Err(format!("`{text}` is neither so:LIB nor so:LIB:MALLOC:FREE")),
            },
            ("ge", rest) => AllocatorSpec::factory(Door::Ge, rest),
            ("acl", rest) => AllocatorSpec::factory(Door::Acl, rest),
            _ => Err(format!("`{text}` is no allocator; there are {KINDS}")),
        }
    }
}

impl fmt::Display for AllocatorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AllocatorSpec::Cairn => f.write_str("cairn"),
            AllocatorSpec::Malloc => f.write_str("malloc"),
            AllocatorSpec::Torch { library, malloc, free } if malloc == MALLOC && free == FREE => {
                write!(f, "so:{}", library.display())
            }
            AllocatorSpec::Torch { library, malloc, free } => {
                write!(f, "so:{}:{malloc}:{free}", library.display())
            }
            AllocatorSpec::Factory { door, library, function } => {
                write!(f, "{}:{}:{function}", door.name(), library.display())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_is_its_own_text() {
        for text in
            ["cairn", "malloc", "so:/a/lib.so", "so:lib.so:take:give", "ge:l.so:f", "acl:/b/l.so:f"]
        {
            assert_eq!(text.parse::<AllocatorSpec>().unwrap().to_string(), text);
        }
        let spec: AllocatorSpec = "so:/a/lib.so:take:give".parse().unwrap();
        assert_eq!(spec.label(), "so:lib.so:take:give");
    }

    #[test]
    fn a_wrong_spec_is_named() {
        for (text, reason) in [
            ("jemalloc", "`jemalloc` is no allocator; there are cairn, malloc"),
            ("cairn:x", "`cairn:x` is no allocator"),
            ("so:", "so: takes a library"),
            ("so:lib.so:take", "`so:lib.so:take` is neither"),
            ("so:lib.so::", "`so:lib.so::` is neither"),
            ("ge:lib.so", "`lib.so` is not LIB:FACTORY"),
            ("acl:", "`` is not LIB:FACTORY"),
        ] {
            let error = text.parse::<AllocatorSpec>().unwrap_err();
            assert!(error.starts_with(reason), "{error}");
        }
    }
}
