//! The headers: their values and sizes, and that each compiles alone.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use crate::{abi, run::run, symbols, toolkit};

/// Sizes and values of the headers are those of the golden tables.
pub fn agree_with_tables(root: &Path) -> Result<()> {
    let source = scratch("abi.c", &abi::c_source(root))?;
    let mut command = Command::new("gcc");
    command.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]);
    command.arg("-I").arg(root.join("include")).arg(&source);
    compile(&mut command, &source)
}

/// Where the tables of facts lie beside the repository, they agree too.
pub fn agree_with_facts(root: &Path) -> Result<()> {
    let count = abi::compare_with_facts(root).map_err(anyhow::Error::msg)?;
    ensure!(count > 0, "nothing was compared");
    Ok(())
}

/// Every header that programs include, relative to `include/`.
pub fn all(root: &Path) -> Result<Vec<PathBuf>> {
    let include = root.join("include");
    let mut headers = Vec::new();
    let mut folders = vec![include.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "h") {
                headers.push(path.strip_prefix(&include)?.to_path_buf());
            }
        }
    }
    headers.sort();
    Ok(headers)
}

/// A header compiles alone, and twice, as strict C99 and as C++11.
pub fn compiles_alone(root: &Path, header: &Path) -> Result<()> {
    let name = header.display().to_string();
    let text =
        format!("#include \"{name}\"\n#include \"{name}\"\nint main(void) {{ return 0; }}\n");
    let source = scratch(&format!("{}.c", name.replace('/', "-")), &text)?;
    let languages: [&[&str]; 2] = [
        &["gcc", "-std=c99", "-pedantic", "-Wstrict-prototypes"],
        &["g++", "-std=c++11", "-pedantic", "-x", "c++"],
    ];
    for language in languages {
        let mut command = Command::new(language[0]);
        command.args(&language[1..]).args(["-Wall", "-Wextra", "-Werror", "-fsyntax-only"]);
        command.arg("-I").arg(root.join("include")).arg(&source);
        compile(&mut command, &source).with_context(|| format!("with {}", language.join(" ")))?;
    }
    Ok(())
}

/// A program that includes every op class registers none of them: the factory knows the built-in types, and static
/// registration of each would take most of the time of compiling the program.
pub fn op_classes_register_nothing(root: &Path) -> Result<()> {
    let source = scratch("all_ops.cc", "#include \"all_ops.h\"\nint main() { return 0; }\n")?;
    let object = source.with_extension("o");
    let mut command = Command::new("g++");
    command.args(["-std=c++17", "-O0", "-Wall", "-Wextra", "-Werror", "-c"]);
    command.arg("-I").arg(root.join("include"));
    command.arg("-I").arg(root.join("opp/built-in/op_graph/inc"));
    compile(command.arg(&source).arg("-o").arg(&object), &source)?;
    let registrations: Vec<String> = symbols::undefined(&object)?
        .into_iter()
        .filter(|name| name.contains("OperatorCreatorRegister"))
        .collect();
    ensure!(registrations.is_empty(), "it calls {registrations:?}");
    Ok(())
}

fn compile(command: &mut Command, source: &Path) -> Result<()> {
    run(command, &source.with_extension("log"), toolkit::limit())?.expect(0).map(drop)
}

fn scratch(name: &str, text: &str) -> Result<PathBuf> {
    let folder = toolkit::scratch();
    fs::create_dir_all(&folder)?;
    let path = folder.join(format!("header-{name}"));
    fs::write(&path, text)?;
    Ok(path)
}
