//! What an ELF library says about itself, read from the file and never by loading it.

use std::{collections::BTreeSet, fs::File, path::Path};

use anyhow::{Context, Result};
use object::{
    Endianness, FileKind, Object, ObjectSymbol, ReadCache, ReadRef,
    elf::{DT_NEEDED, DT_SONAME, FileHeader64},
    read::elf::ElfFile,
};

/// The dynamic section and dynamic symbols of a 64-bit ELF file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Library {
    /// The name it gives itself, if any.
    pub soname: Option<String>,
    /// The libraries it names as needed, in its order.
    pub needed: Vec<String>,
    /// Symbols it offers to others.
    pub defined: BTreeSet<String>,
    /// Symbols it must find elsewhere.
    pub undefined: BTreeSet<String>,
    /// Symbols it uses when they are there.
    pub wished: BTreeSet<String>,
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
        let mut library = Library::default();
        let dynamic = file.elf_dynamic_table()?;
        for entry in dynamic.iter() {
            let text = || -> Result<String> {
                Ok(String::from_utf8_lossy(dynamic.string(entry)?).into_owned())
            };
            match entry.tag {
                DT_NEEDED => library.needed.push(text()?),
                DT_SONAME => library.soname = Some(text()?),
                _ => {}
            }
        }
        for symbol in file.dynamic_symbols() {
            let Ok(name) = symbol.name() else { continue };
            if name.is_empty() {
                continue;
            }
            let list = match (symbol.is_undefined(), symbol.is_weak()) {
                (true, true) => &mut library.wished,
                (true, false) => &mut library.undefined,
                (false, _) if symbol.is_global() => &mut library.defined,
                (false, _) => continue,
            };
            list.insert(name.to_string());
        }
        Ok(library)
    }
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
        assert!(library.wished.contains("HcclSend"));
        assert!(library.defined.contains("offered") && !library.defined.contains("kept"));
        assert_eq!(build("named", &["-Wl,-soname,libx.so.1"]).soname.as_deref(), Some("libx.so.1"));
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
