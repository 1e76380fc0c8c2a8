//! Names and lines of the frames of recorded stacks, from the files that were loaded then.

use std::{borrow::Cow, collections::BTreeMap, fs, path::Path};

use addr2line::Loader;
use cairn_record::{Name, entry::Frame};
use object::{Object, ObjectSegment};

/// The files that were looked into. One that is gone, or has changed since, gives no names or wrong ones.
#[derive(Default)]
pub struct Symbols {
    modules: BTreeMap<Name, Option<Module>>,
}

struct Module {
    loader: Loader,
    /// The lowest address of the file: offsets are counted from it.
    base: u64,
}

impl Symbols {
    /// A frame in words: the function, and its line where that is known; otherwise the file and the offset.
    pub fn describe(&mut self, frame: &Frame) -> String {
        match frame {
            Frame::Python { function, file, line } => {
                format!("{function} ({}:{line})", base_name(file))
            }
            Frame::Native { module, offset } => self
                .describe_native(module, *offset)
                .unwrap_or_else(|| format!("{}+{offset:#x}", base_name(module))),
        }
    }

    fn describe_native(&mut self, name: &Name, offset: u64) -> Option<String> {
        let module = self.modules.entry(name.clone()).or_insert_with(|| Module::open(name));
        let module = module.as_ref()?;
        let address = module.base.checked_add(offset)?;
        let frame = module.loader.find_frames(address).ok().and_then(|mut f| f.next().ok()?);
        let line = frame.as_ref().and_then(|frame| frame.location.as_ref()).and_then(|location| {
            Some(format!(" ({}:{})", base_name(location.file?), location.line?))
        });
        let of_debug = frame.as_ref().and_then(|frame| frame.function.as_ref());
        let of_debug = of_debug.and_then(|function| Some(function.demangle().ok()?.into_owned()));
        let function = of_debug.or_else(|| {
            let symbol = module.loader.find_symbol(address)?;
            Some(addr2line::demangle_auto(Cow::Borrowed(symbol), None).into_owned())
        })?;
        Some(match line {
            Some(line) => format!("{function}{line}"),
            None => format!("{function} in {}", base_name(name)),
        })
    }
}

impl Module {
    fn open(path: &str) -> Option<Module> {
        if !fs::metadata(path).ok()?.is_file() {
            return None;
        }
        let bytes = fs::read(path).ok()?;
        let lowest = object::File::parse(&bytes[..]).ok()?.segments().map(|s| s.address()).min()?;
        Some(Module { loader: Loader::new(path).ok()?, base: lowest & !0xfff })
    }
}

fn base_name(path: &str) -> String {
    let name = Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| "unknown".into())
}
