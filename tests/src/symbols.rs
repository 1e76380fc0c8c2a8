//! What the libraries of the toolkit export.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use object::{Object, ObjectSection, ObjectSymbol};

use crate::toolkit::Toolkit;

/// The libraries that the wheels and common programs name.
const NAMES: [&str; 21] = [
    "lib_caffe_parser.so",
    "libacl_op_compiler.so",
    "libacl_rt.so",
    "libacl_tdt_channel.so",
    "libascend_hal.so",
    "libascendcl.so",
    "libc_sec.so",
    "libfmk_onnx_parser.so",
    "libfmk_parser.so",
    "libge_common_base.so",
    "libge_compiler.so",
    "libge_runner.so",
    "libgraph.so",
    "libhccl.so",
    "libhcomm.so",
    "libmsprofiler.so",
    "libnnopbase.so",
    "libopapi.so",
    "libopp_registry.so",
    "libplatform.so",
    "libruntime.so",
];

/// Symbols of CANN's safe string functions: `libge_runner.so` has them.
const SECUREC: [&str; 8] = [
    "memcpy_s",
    "memset_s",
    "snprintf_s",
    "sprintf_s",
    "strcat_s",
    "strcpy_s",
    "strncpy_s",
    "vsnprintf_s",
];

/// The text lists of the symbols that releases of torch_npu leave to CANN.
pub fn lists(root: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(root.join("tests/golden/symbols"))?;
    let mut lists = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    lists.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    lists.sort();
    Ok(lists)
}

/// Every symbol of a list that is not of another library is defined in `libascendcl.so`.
pub fn resolves(toolkit: &Toolkit, list: &Path) -> Result<()> {
    let defined = defined(&toolkit.lib64().join("libascendcl.so"))?;
    let text = fs::read_to_string(list)?;
    let expected: Vec<_> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#') && !is_of_other_library(line))
        .collect();
    ensure!(expected.len() > 30, "only {} symbols in the list", expected.len());
    let missing: Vec<_> = expected.iter().filter(|name| !defined.contains(**name)).collect();
    ensure!(missing.is_empty(), "{} symbols are missing: {missing:?}", missing.len());
    Ok(())
}

/// `ge::` and `atb::` names, the C++ run time, and securec.
fn is_of_other_library(symbol: &str) -> bool {
    symbol.starts_with("_Z") || SECUREC.contains(&symbol)
}

/// `libge_runner.so` exports what torch_npu's libraries need of the graph engine, and what programs look up.
pub fn graph_engine(root: &Path, toolkit: &Toolkit) -> Result<()> {
    let defined = defined(&toolkit.lib64().join("libge_runner.so"))?;
    let list = fs::read_to_string(root.join("tests/golden/graph_engine.txt"))?;
    let listed = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let expected: Vec<&str> = listed.chain(SECUREC).collect();
    ensure!(expected.len() > 100, "only {} symbols in the list", expected.len());
    let missing: Vec<_> = expected.iter().filter(|name| !defined.contains(**name)).collect();
    ensure!(missing.is_empty(), "{} symbols are missing: {missing:?}", missing.len());
    Ok(())
}

/// Every name exists and leads to one of the two library files; neither has a SONAME.
pub fn names(toolkit: &Toolkit) -> Result<()> {
    let lib64 = toolkit.lib64();
    for name in NAMES {
        let path = lib64.join(name);
        let library =
            path.canonicalize().with_context(|| format!("{} is not there", path.display()))?;
        let library = library.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_ours = ["libascendcl.so", "libge_runner.so"].contains(&library.as_str());
        ensure!(is_ours, "{name} leads to {library}");
    }
    for library in ["libascendcl.so", "libge_runner.so"] {
        let bytes = fs::read(lib64.join(library))?;
        let soname = elf_soname(&bytes)?;
        ensure!(soname.is_none(), "{library} has the SONAME {}", soname.unwrap_or_default());
    }
    Ok(())
}

/// `libcairn_pool.so` exports what `cairn/pool.h` declares and nothing else, has no SONAME, and needs
/// nothing but the system: it finds ACL in the program.
pub fn pool(toolkit: &Toolkit) -> Result<()> {
    let library = toolkit.lib64().join("libcairn_pool.so");
    let header = fs::read_to_string(toolkit.include().join("cairn/pool.h"))?;
    let name = |line: &str| {
        let head = line.split('(').next().unwrap_or_default();
        head.rsplit([' ', '*']).next().unwrap_or_default().to_owned()
    };
    let declared: BTreeSet<String> = header
        .lines()
        .filter(|line| !line.starts_with([' ', '/', '#']) && line.contains('('))
        .map(name)
        .collect();
    let defined = defined(&library)?;
    ensure!(declared.len() > 10, "only {declared:?} are declared");
    ensure!(defined == declared, "it exports {defined:?}, the header declares {declared:?}");
    let bytes = fs::read(&library)?;
    ensure!(dynamic(&bytes, object::elf::DT_SONAME)?.is_empty(), "it has a SONAME");
    let needed = dynamic(&bytes, object::elf::DT_NEEDED)?;
    let system =
        ["libc.so.", "libgcc_s.so.", "libdl.so.", "libpthread.so.", "libm.so.", "ld-linux"];
    let is_system = |name: &String| system.iter().any(|prefix| name.starts_with(prefix));
    ensure!(!needed.is_empty() && needed.iter().all(is_system), "it needs {needed:?}");
    Ok(())
}

/// The names that a library defines for others.
pub fn defined(library: &Path) -> Result<BTreeSet<String>> {
    let bytes = fs::read(library).with_context(|| format!("cannot read {}", library.display()))?;
    let file = object::File::parse(&*bytes)?;
    let symbols = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
    symbols.map(|symbol| Ok(symbol.name()?.to_owned())).collect()
}

/// The functions of the core that only say that Cairn lacks them: the library has a list, a line each.
pub fn refused(library: &Path) -> Result<BTreeSet<String>> {
    let bytes = fs::read(library).with_context(|| format!("cannot read {}", library.display()))?;
    let file = object::File::parse(&*bytes)?;
    let list = file.dynamic_symbols().find(|symbol| symbol.name() == Ok("cairn_refused"));
    let list = list.context("the library has no list of what it refuses")?;
    let (address, size) = (list.address(), list.size());
    let data = file.sections().find_map(|section| section.data_range(address, size).ok().flatten());
    let text = str::from_utf8(data.context("the list lies in no section")?)?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// The names that an object file or a library takes from others.
pub fn undefined(file: &Path) -> Result<BTreeSet<String>> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let file = object::File::parse(&*bytes)?;
    let symbols = file.symbols().filter(|symbol| symbol.is_undefined());
    symbols.map(|symbol| Ok(symbol.name()?.to_owned())).collect()
}

fn elf_soname(bytes: &[u8]) -> Result<Option<String>> {
    Ok(dynamic(bytes, object::elf::DT_SONAME)?.pop())
}

/// The names that the dynamic section gives with a tag.
fn dynamic(bytes: &[u8], tag: object::elf::DynamicTag) -> Result<Vec<String>> {
    use object::{
        Endianness, elf,
        read::elf::{Dyn, FileHeader, SectionHeader},
    };
    let header = elf::FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let Some((entries, strings)) = sections.dynamic(endian, bytes)? else { return Ok(Vec::new()) };
    let strings = sections.section(strings)?.data(endian, bytes)?;
    let named = entries.iter().filter(|entry| entry.d_tag(endian) == tag);
    Ok(named
        .map(|entry| {
            let rest = &strings[entry.d_val(endian) as usize..];
            let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
            String::from_utf8_lossy(&rest[..end]).into_owned()
        })
        .collect())
}
