//! Names and lines of the frames of recorded stacks, from the files that were loaded then.

use std::{borrow::Cow, collections::BTreeMap, fmt, fs, path::Path};

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

/// Where a frame is in the sources, as far as that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// The function; of a frame without a name the library and the offset in it.
    pub function: String,
    /// The source file with its path, or the library.
    pub file: String,
    /// The line; `None` where only the library is known.
    pub line: Option<u32>,
}

impl SourceLine {
    /// The same without arguments of templates and functions, which can be longer than everything else.
    pub fn shortened(&self) -> SourceLine {
        let (mut short, mut depth) = (String::new(), 0u32);
        for letter in self.function.chars() {
            match letter {
                '<' | '(' => {
                    if depth == 0 && letter == '<' && !short.ends_with("operator") {
                        short.push_str("<..>");
                    }
                    depth += 1;
                }
                '>' | ')' => depth = depth.saturating_sub(1),
                _ if depth == 0 => short.push(letter),
                _ => {}
            }
        }
        let short = short.trim().trim_end_matches(" const").to_owned();
        SourceLine {
            function: if short.is_empty() { self.function.clone() } else { short },
            ..self.clone()
        }
    }
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = base_name(&self.file);
        match self.line {
            Some(line) => write!(f, "{} ({file}:{line})", self.function),
            None if self.function.starts_with(&file) => f.write_str(&self.function),
            None => write!(f, "{} in {file}", self.function),
        }
    }
}

impl Symbols {
    /// A frame in words: the function, and its line where that is known; otherwise the file and the offset.
    pub fn describe(&mut self, frame: &Frame) -> String {
        self.resolve(frame).to_string()
    }

    /// Where a frame is.
    pub fn resolve(&mut self, frame: &Frame) -> SourceLine {
        match frame {
            Frame::Python { function, file, line } => SourceLine {
                function: function.to_string(),
                file: file.to_string(),
                line: Some(*line),
            },
            Frame::Native { module, offset } => {
                self.resolve_native(module, *offset).unwrap_or_else(|| SourceLine {
                    function: format!("{}+{offset:#x}", base_name(module)),
                    file: module.to_string(),
                    line: None,
                })
            }
        }
    }

    fn resolve_native(&mut self, name: &Name, offset: u64) -> Option<SourceLine> {
        let module = self.modules.entry(name.clone()).or_insert_with(|| Module::open(name));
        let module = module.as_ref()?;
        let address = module.base.checked_add(offset)?;
        let frame = module.loader.find_frames(address).ok().and_then(|mut f| f.next().ok()?);
        let location = frame.as_ref().and_then(|frame| frame.location.as_ref());
        let line = location.and_then(|at| Some((at.file?.to_owned(), at.line?)));
        let of_debug = frame.as_ref().and_then(|frame| frame.function.as_ref());
        let of_debug = of_debug.and_then(|function| Some(function.demangle().ok()?.into_owned()));
        let function = of_debug.or_else(|| {
            let symbol = module.loader.find_symbol(address)?;
            Some(addr2line::demangle_auto(Cow::Borrowed(symbol), None).into_owned())
        })?;
        Some(match line {
            Some((file, line)) => SourceLine { function, file, line: Some(line) },
            None => SourceLine { function, file: name.to_string(), line: None },
        })
    }
}

/// The stacks of a record, each looked up once.
pub struct Stacks<'a> {
    recorded: &'a BTreeMap<u32, Vec<Frame>>,
    symbols: Symbols,
    resolved: BTreeMap<u32, Vec<SourceLine>>,
}

impl<'a> Stacks<'a> {
    /// Of a record's stacks by number.
    pub fn new(recorded: &'a BTreeMap<u32, Vec<Frame>>) -> Stacks<'a> {
        Stacks { recorded, symbols: Symbols::default(), resolved: BTreeMap::new() }
    }

    /// The frames of a stack, innermost first; none for a number that was not taken.
    pub fn lines(&mut self, number: u32) -> &[SourceLine] {
        let symbols = &mut self.symbols;
        self.resolved.entry(number).or_insert_with(|| {
            let frames = self.recorded.get(&number).map_or(&[][..], Vec::as_slice);
            frames.iter().map(|frame| symbols.resolve(frame)).collect()
        })
    }

    /// The same in words.
    pub fn describe(&mut self, number: u32) -> Vec<String> {
        self.lines(number).iter().map(SourceLine::to_string).collect()
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
