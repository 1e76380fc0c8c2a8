//! `set_env.sh` in the shells that people use, and CMake.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use crate::{
    run::run,
    toolkit::{self, Toolkit, limit},
};

/// The shells that can source the file.
pub const SHELLS: [&str; 3] = ["bash", "zsh", "dash"];

const VARIABLES: [&str; 7] = [
    "ASCEND_HOME_PATH",
    "ASCEND_TOOLKIT_HOME",
    "ASCEND_OPP_PATH",
    "ASCEND_AICPU_PATH",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "PATH",
];

/// True if a program can be found.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Sources the file under `set -eu`, once and twice, with and without path lists that exist already.
pub fn set_env(toolkit: &Toolkit, shell: &str) -> Result<()> {
    for (name, path_list) in [("fresh", None), ("present", Some("/a b::/c:"))] {
        let once = sourced(toolkit, shell, name, path_list, 1)?;
        let twice = sourced(toolkit, shell, name, path_list, 2)?;
        ensure!(once == twice, "sourcing again changes\n{once:#?}\nto\n{twice:#?}");
        check(&toolkit.dir, &once, path_list.is_some())?;
    }
    Ok(())
}

/// The path by which the file is sourced stays: `latest` and `cann` are the same folder, and a link to the file
/// itself leads to it. `bin/setenv.bash` does the same.
pub fn kept_path(toolkit: &Toolkit) -> Result<()> {
    let link = scratch(toolkit, "a link to set_env.sh")?;
    let _ = fs::remove_file(&link);
    std::os::unix::fs::symlink(toolkit.dir.join("set_env.sh"), &link)?;
    let cases = [
        (toolkit.dir.join("latest/set_env.sh"), toolkit.dir.join("latest")),
        (toolkit.dir.join("cann/set_env.sh"), toolkit.dir.join("cann")),
        (toolkit.dir.join("latest/bin/setenv.bash"), toolkit.dir.join("latest")),
        (link, toolkit.dir.clone()),
    ];
    for (index, (file, expected)) in cases.iter().enumerate() {
        let script = format!("set -eu; . '{}'; echo \"=$ASCEND_HOME_PATH=\"", file.display());
        let mut command = toolkit.bare("bash");
        command.args(["-c", &script]);
        let log = scratch(toolkit, &format!("kept_path-{index}.log"))?;
        let output = run(&mut command, &log, limit())?.expect(0)?;
        ensure!(
            output.trim() == format!("={}=", expected.display()),
            "{}: {output}",
            file.display()
        );
    }
    Ok(())
}

/// The build line of the vendor's examples, which links one of the libraries `libopapi_*`; `lib64` has no library that
/// torch_npu takes for a package of operators.
pub fn parts(toolkit: &Toolkit) -> Result<()> {
    let names = fs::read_dir(toolkit.lib64())?.flatten().map(|entry| entry.file_name());
    let loaded: Vec<_> = names
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| name.starts_with("libopapi_") && name.ends_with(".so"))
        .collect();
    ensure!(loaded.is_empty(), "torch_npu would load {loaded:?}");
    let source = toolkit::root().join("tests/c/support/level2.c");
    for (index, folder) in ["lib64", "opp/lib64"].into_iter().enumerate() {
        for part in ["math", "nn", "transformer", "cv"] {
            let program = scratch(toolkit, &format!("part-{part}-{index}"))?;
            let script = format!(
                "set -eu\n. '{}/set_env.sh'\n\
                 g++ -x c '{}' -x none -I\"$ASCEND_HOME_PATH\"/include -I\"$ASCEND_HOME_PATH\"/include/aclnn \
                 -L\"$ASCEND_HOME_PATH/{folder}\" -L\"$ASCEND_HOME_PATH\"/lib64 -lopapi_{part} -lascendcl -lnnopbase \
                 -lplatform -lc_sec -lhcomm -lge_common_base -o '{}'\n'{}'\n",
                toolkit.dir.display(),
                source.display(),
                program.display(),
                program.display(),
            );
            let mut command = toolkit.bare("bash");
            command.args(["-c", &script]);
            let output = run(&mut command, &program.with_extension("log"), limit())?.expect(0)?;
            ensure!(output.contains("planned"), "{output}");
        }
    }
    Ok(())
}

/// The values of the variables after sourcing the file `times` times.
fn sourced(
    toolkit: &Toolkit,
    shell: &str,
    name: &str,
    path_list: Option<&str>,
    times: usize,
) -> Result<Vec<String>> {
    let file = toolkit.dir.join("set_env.sh");
    let source = format!(". '{}'\n", file.display());
    let print: String =
        VARIABLES.iter().map(|variable| format!("echo \"={variable} ${variable}\"\n")).collect();
    let script = format!("set -eu\n{}{print}echo '=done'\n", source.repeat(times));
    let mut command = toolkit.bare(shell);
    command.args(["-c", &script]).env_remove("LD_LIBRARY_PATH");
    if let Some(list) = path_list {
        command.env("LD_LIBRARY_PATH", list).env("PYTHONPATH", list);
    }
    let log = scratch(toolkit, &format!("set_env-{shell}-{name}-{times}.log"))?;
    let output = run(&mut command, &log, limit())?.expect(0)?;
    ensure!(output.ends_with("=done\n"), "the shell stopped early\n{output}");
    let lines = output.lines().filter(|line| line.starts_with('=')).map(str::to_owned);
    Ok(lines.collect())
}

fn check(dir: &Path, values: &[String], present: bool) -> Result<()> {
    let value = |name: &str| {
        let prefix = format!("={name} ");
        values.iter().find_map(|line| line.strip_prefix(&prefix)).unwrap_or_default()
    };
    let dir = dir.display().to_string();
    for name in ["ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"] {
        ensure!(value(name) == dir, "{name} is {}, expected {dir}", value(name));
    }
    let lists: [(&str, &[&str]); 3] = [
        ("LD_LIBRARY_PATH", &["lib64", "opp/lib64"]),
        ("PYTHONPATH", &["python/site-packages"]),
        ("PATH", &["bin"]),
    ];
    for (name, folders) in lists {
        let elements: Vec<_> = value(name).split(':').collect();
        let (first, rest) = elements.split_at(folders.len().min(elements.len()));
        let expected: Vec<_> = folders.iter().map(|folder| format!("{dir}/{folder}")).collect();
        ensure!(first == expected, "{name} begins with {first:?}");
        ensure!(!elements.contains(&""), "{name} has an empty element: {}", value(name));
        if present && name != "PATH" {
            ensure!(rest == ["/a b", "/c"], "{name} lost something: {}", value(name));
        }
    }
    Ok(())
}

/// The gcc line of the manual: source, compile, start.
pub fn gcc_line(toolkit: &Toolkit, shell: &str) -> Result<()> {
    let program = scratch(toolkit, &format!("line-{shell}"))?;
    let source = toolkit::root().join("tests/c/support/first.c");
    let script = format!(
        ". '{}/set_env.sh'\n\
         gcc '{}' -I\"$ASCEND_HOME_PATH\"/include -L\"$ASCEND_HOME_PATH\"/lib64 -lascendcl -o '{}'\n\
         '{}'\n",
        toolkit.dir.display(),
        source.display(),
        program.display(),
        program.display(),
    );
    let mut command = toolkit.bare(shell);
    command.args(["-c", &format!("set -eu\n{script}")]);
    let output = run(&mut command, &program.with_extension("log"), limit())?.expect(0)?;
    ensure!(output.contains("2 devices"), "{output}");
    Ok(())
}

/// The toolkit works wherever it is moved to, also into a folder with blanks in its name.
pub fn moved(toolkit: &Toolkit) -> Result<()> {
    let dir = scratch(toolkit, "a tool kit")?;
    let _ = fs::remove_dir_all(&dir);
    let mut copy = Command::new("cp");
    copy.arg("-a").arg(&toolkit.dir).arg(&dir);
    run(&mut copy, &scratch(toolkit, "copy.log")?, limit())?.expect(0)?;
    let moved = Toolkit { dir: dir.canonicalize()?, scratch: toolkit.scratch.join("moved") };
    for shell in SHELLS.into_iter().filter(|shell| is_installed(shell)) {
        set_env(&moved, shell).with_context(|| format!("in {shell}"))?;
        gcc_line(&moved, shell).with_context(|| format!("in {shell}"))?;
    }
    fs::remove_dir_all(&dir)?;
    Ok(())
}

/// A program finds the toolkit by `find_package(Cairn)` and records no absolute path.
pub fn cmake(toolkit: &Toolkit) -> Result<()> {
    let folder = scratch(toolkit, "cmake")?;
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    let source = toolkit::root().join("tests/c/support/first.c");
    let lists = format!(
        "cmake_minimum_required(VERSION 3.16)\nproject(first C)\nfind_package(Cairn REQUIRED)\n\
         add_executable(first {})\ntarget_link_libraries(first Cairn::ascendcl)\n",
        source.display()
    );
    fs::write(folder.join("CMakeLists.txt"), lists)?;
    let mut configure = toolkit.bare("cmake");
    configure.arg("-S").arg(&folder).arg("-B").arg(folder.join("build"));
    configure.arg(format!("-DCMAKE_PREFIX_PATH={}", toolkit.dir.display()));
    run(&mut configure, &folder.join("configure.log"), limit())?.expect(0)?;
    let mut build = toolkit.bare("cmake");
    build.arg("--build").arg(folder.join("build"));
    run(&mut build, &folder.join("build.log"), limit())?.expect(0)?;
    let program = folder.join("build/first");
    let output = run(&mut toolkit.clean(&program), &folder.join("run.log"), limit())?.expect(0)?;
    ensure!(output.contains("2 devices"), "{output}");
    let mut needed = Command::new("readelf");
    needed.arg("-d").arg(&program);
    let output = run(&mut needed, &folder.join("needed.log"), limit())?.expect(0)?;
    ensure!(output.contains("[libascendcl.so]"), "{output}");
    Ok(())
}

fn scratch(toolkit: &Toolkit, name: &str) -> Result<PathBuf> {
    fs::create_dir_all(&toolkit.scratch)?;
    Ok(toolkit.scratch.join(name))
}
