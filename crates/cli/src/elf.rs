//! What an ELF library says about itself, read from the file and never by loading it.

use std::{collections::BTreeSet, fs::File, path::Path};

use anyhow::{Context, Result};
use object::{
    Endianness, FileKind, Object, ObjectSection, ObjectSymbol, ReadCache, ReadRef, SectionKind,
    elf::{self, DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME, FileHeader64},
    read::elf::{ElfFile, FileHeader},
};

use crate::cann;

/// The data of `libascendcl.so` that names the functions which only refuse, a line each.
const REFUSED: &str = "cairn_refused";

/// The longest name that is taken for a symbol.
const MAX_NAME: usize = 200;

/// The dynamic section and dynamic symbols of a 64-bit ELF file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Library {
    /// The processor it is for, as the file numbers it.
    pub machine: u16,
    /// Folders in which it looks for the libraries it needs, as written.
    pub run_path: Vec<String>,
    /// The name it gives itself, if any.
    pub soname: Option<String>,
    /// The libraries it names as needed, in its order.
    pub needed: Vec<String>,
    /// Symbols it offers to others.
    pub defined: BTreeSet<String>,
    /// Symbols it must find elsewhere.
    pub undefined: BTreeSet<String>,
    /// Symbols it uses when they are there.
    pub weak: BTreeSet<String>,
    /// Texts in a library that uses `dlsym` which are names of CANN's symbols: it may look them up at run time.
    pub looked_up: BTreeSet<String>,
    /// Symbols it offers that do nothing but refuse, where it says so.
    pub refused: BTreeSet<String>,
}

/// The name of a processor by its number in an ELF file.
pub fn machine_name(machine: u16) -> String {
    match elf::Machine(machine) {
        elf::EM_X86_64 => "x86_64".into(),
        elf::EM_AARCH64 => "aarch64".into(),
        elf::EM_RISCV => "riscv64".into(),
        elf::EM_LOONGARCH => "loongarch64".into(),
        elf::EM_PPC64 => "ppc64".into(),
        elf::EM_S390 => "s390x".into(),
        elf::Machine(other) => format!("processor {other}"),
    }
}

impl Library {
    /// Reads the file; only the parts that are needed, so size does not matter.
    pub fn read(path: &Path) -> Result<Library> {
        let context = || format!("cannot read {}", path.display());
        let file = File::open(path).with_context(context)?;
        let cache = ReadCache::new(file);
        Library::parse(&cache).with_context(context)
    }

    fn parse<'data, R: ReadRef<'data>>(data: R) -> Result<Library> {
        let kind = FileKind::parse(data).context("not an ELF file")?;
        anyhow::ensure!(kind == FileKind::Elf64, "not a 64-bit ELF file but {kind:?}");
        let file = ElfFile::<FileHeader64<Endianness>, R>::parse(data)?;
        let machine = file.elf_header().e_machine(file.endian()).0;
        let mut library = Library { machine, ..Library::default() };
        let dynamic = file.elf_dynamic_table()?;
        for entry in dynamic.iter() {
            let text = || -> Result<String> {
                Ok(String::from_utf8_lossy(dynamic.string(entry)?).into_owned())
            };
            match entry.tag {
                DT_NEEDED => library.needed.push(text()?),
                DT_SONAME => library.soname = Some(text()?),
                DT_RPATH | DT_RUNPATH => {
                    library.run_path.extend(text()?.split(':').map(String::from))
                }
                _ => {}
            }
        }
        for symbol in file.dynamic_symbols() {
            let Ok(name) = symbol.name() else { continue };
            if name.is_empty() {
                continue;
            }
            let list = match (symbol.is_undefined(), symbol.is_weak()) {
                (true, true) => &mut library.weak,
                (true, false) => &mut library.undefined,
                (false, _) if symbol.is_global() => &mut library.defined,
                (false, _) => continue,
            };
            list.insert(name.to_string());
            if name == REFUSED && !symbol.is_undefined() {
                library.refused = refused(&file, symbol.address(), symbol.size());
            }
        }
        if library.undefined.contains("dlsym") || library.weak.contains("dlsym") {
            library.looked_up = looked_up(&file);
        }
        Ok(library)
    }
}

/// The names in the data at an address, a line each.
fn refused<'data>(file: &impl Object<'data>, address: u64, size: u64) -> BTreeSet<String> {
    let mut data =
        file.sections().filter_map(|section| section.data_range(address, size).ok().flatten());
    let text = String::from_utf8_lossy(data.next().unwrap_or_default()).into_owned();
    text.lines().map(String::from).collect()
}

/// Names of CANN's symbols among the constant texts of a file.
fn looked_up<'data>(file: &impl Object<'data>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let has_texts = |kind| matches!(kind, SectionKind::ReadOnlyData | SectionKind::ReadOnlyString);
    for section in file.sections().filter(|section| has_texts(section.kind())) {
        let Ok(data) = section.data() else { continue };
        for text in
            data.split(|byte| *byte == 0).filter(|text| (4..=MAX_NAME).contains(&text.len()))
        {
            let is_name = text.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
            if let Ok(name) = std::str::from_utf8(text)
                && is_name
                && cann::is_symbol(name)
            {
                found.insert(name.to_string());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, process::Command};

    const SOURCE: &str = "\
int aclInit(const char *);
int HcclSend(void) __attribute__((weak));
__attribute__((visibility(\"default\"))) int offered(void) { return HcclSend ? aclInit(0) : 0; }
__attribute__((visibility(\"hidden\"))) int kept(void) { return 1; }
";

    fn build(name: &str, arguments: &[&str]) -> Library {
        let base = std::env::temp_dir().join(format!("cairn-elf-{}-{name}", std::process::id()));
        let (source, library) = (base.with_extension("c"), base.with_extension("so"));
        fs::write(&source, SOURCE).unwrap();
        let mut compiler = Command::new("cc");
        compiler
            .args(["-shared", "-fPIC", "-nostdlib", "-o"])
            .arg(&library)
            .arg(&source)
            .args(arguments);
        assert!(compiler.status().unwrap().success());
        let read = Library::read(&library).unwrap();
        fs::remove_file(source).unwrap();
        fs::remove_file(library).unwrap();
        read
    }

    #[test]
    fn symbols_and_needs_are_read() {
        let library = build("plain", &["-Wl,--no-as-needed", "-lc"]);
        assert_eq!(library.soname, None);
        assert_eq!(library.needed, ["libc.so.6"]);
        assert_eq!(library.undefined, BTreeSet::from(["aclInit".to_string()]));
        assert!(library.weak.contains("HcclSend"));
        assert!(library.defined.contains("offered") && !library.defined.contains("kept"));
        assert_eq!(build("named", &["-Wl,-soname,libx.so.1"]).soname.as_deref(), Some("libx.so.1"));
    }

    #[test]
    fn what_is_looked_up_and_refused_is_read() {
        let base = std::env::temp_dir().join(format!("cairn-elf-{}-lookup", std::process::id()));
        let (source, library) = (base.with_extension("c"), base.with_extension("so"));
        let text = "void *dlsym(void *, const char *);\n\
                    const char cairn_refused[] = \"aclOne\\nHcclTwo\\n\";\n\
                    void *find(void) { return (char *)dlsym(0, \"aclrtMalloc\") - (long)dlsym(0, \"my own\"); }\n";
        fs::write(&source, text).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-nostdlib", "-Wl,-rpath,$ORIGIN:/opt", "-o"]);
        assert!(compiler.arg(&library).arg(&source).status().unwrap().success());
        let read = Library::read(&library).unwrap();
        fs::remove_file(source).unwrap();
        fs::remove_file(library).unwrap();
        assert_eq!(read.looked_up, BTreeSet::from(["aclrtMalloc".to_string()]));
        assert!(read.refused.contains("aclOne") && read.refused.contains("HcclTwo"));
        assert_eq!(read.run_path, ["$ORIGIN", "/opt"]);
        assert_eq!(machine_name(read.machine), std::env::consts::ARCH);
        assert_eq!(machine_name(elf::EM_AARCH64.0), "aarch64");
    }

    #[test]
    fn other_files_are_refused_by_name() {
        let path = std::env::temp_dir().join(format!("cairn-elf-{}-text", std::process::id()));
        fs::write(&path, "GROUP ( libc.so.6 )").unwrap();
        let error = format!("{:#}", Library::read(&path).unwrap_err());
        assert!(error.contains("not an ELF file") && error.contains("text"), "{error}");
        fs::write(&path, b"\x7fELF\x02\x01\x01").unwrap();
        assert!(Library::read(&path).is_err());
        fs::remove_file(&path).unwrap();
        assert!(format!("{:#}", Library::read(&path).unwrap_err()).contains("text"));
    }
}
