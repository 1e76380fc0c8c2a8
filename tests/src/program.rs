//! Programs in `c/` and `cpp/`, each compiled once and run once per environment; and those that users
//! read, in `examples/c` and `examples/cpp`, which have to end with 0 and print something. An example that takes
//! arguments is run by `tests/py/test_example.py`.
//!
//! The lines at the top of a program may give directives:
//!
//! ```text
//! // env: A=B C=D        one run with these variables; without any such line, one run without variables
//! // exit: N             the status that the program must end with, 0 when not given
//! // links: -ldl -lm     more for the linker
//! // nolink              without -lascendcl
//! // cxx                 compile a .c file as C++
//! // strings: both       compile and run it under either string ABI
//! // breaks: RULE RULE   rules of `cairn check` that it breaks on purpose
//! // unchecked: WHY      it cannot run under `cairn check`
//! ```

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::{
    models,
    run::run,
    toolkit::{Toolkit, limit},
};

/// One source file.
#[derive(Debug)]
pub struct Program {
    /// The folder and the name without its ending: `c::memory`.
    pub name: String,
    /// One entry per run.
    pub environments: Vec<Vec<(String, String)>>,
    source: PathBuf,
    exit: i32,
    links: Vec<String>,
    linked: bool,
    cxx: bool,
    strings: Strings,
    /// It is for users to read.
    pub is_example: bool,
    breaks: Vec<String>,
    /// It can run under `cairn check`.
    pub is_checked: bool,
    built: OnceLock<Result<PathBuf, String>>,
}

/// Which `std::string` a program is compiled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strings {
    CompilerDefault,
    Both,
    Old,
    New,
}

/// Every program of the repository, by name.
pub fn all(root: &Path) -> Result<Vec<Arc<Program>>> {
    let mut programs = Vec::new();
    for (folder, ending) in [("c", "c"), ("cpp", "cc")] {
        for entry in fs::read_dir(root.join("tests").join(folder))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == ending) {
                let read = Program::read(folder, path)?.for_each_string_abi();
                programs.extend(read.into_iter().map(Arc::new));
            }
        }
    }
    for (folder, ending) in [("c", "c"), ("cpp", "cc")] {
        for entry in fs::read_dir(root.join("examples").join(folder))? {
            let path = entry?.path();
            let is_source = path.extension().is_some_and(|extension| extension == ending);
            if is_source && !fs::read_to_string(&path)?.contains("argv[1]") {
                programs.push(Arc::new(Program::example(path)));
            }
        }
    }
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(programs)
}

impl Program {
    /// Reads a program and its directives.
    pub fn read(folder: &str, source: PathBuf) -> Result<Program> {
        let text = fs::read_to_string(&source)
            .with_context(|| format!("cannot read {}", source.display()))?;
        let mut program = Program::without_directives(folder, source);
        for line in text.lines().map_while(|line| line.strip_prefix("//")) {
            program
                .directive(line.trim())
                .with_context(|| format!("in {}: // {}", program.source.display(), line.trim()))?;
        }
        if program.environments.is_empty() {
            program.environments.push(Vec::new());
        }
        Ok(program)
    }

    /// The program, or one variant of it for each string ABI.
    fn for_each_string_abi(self) -> Vec<Program> {
        if self.strings != Strings::Both {
            return vec![self];
        }
        let variant = |ending: &str, strings| Program {
            name: format!("{}_{ending}", self.name),
            environments: self.environments.clone(),
            source: self.source.clone(),
            links: self.links.clone(),
            breaks: self.breaks.clone(),
            strings,
            built: OnceLock::new(),
            ..self
        };
        vec![variant("old_strings", Strings::Old), variant("new_strings", Strings::New)]
    }

    /// A program for users to read: its first lines are no directives.
    fn example(source: PathBuf) -> Program {
        Program {
            environments: vec![Vec::new()],
            links: Program::example_links(&source),
            is_example: true,
            ..Program::without_directives("examples", source)
        }
    }

    /// What an example is linked with, by the header of the graph engine that it includes.
    fn example_links(source: &Path) -> Vec<String> {
        let text = fs::read_to_string(source).unwrap_or_default();
        let libraries: &[&str] = match () {
            _ if text.contains("<ge/ge_api_v2.h>") => &["-lge_runner_v2", "-lgraph"],
            _ if text.contains("<ge/ge_api.h>") => &["-lge_runner", "-lgraph"],
            _ => &["-lcairn_pool"],
        };
        libraries.iter().map(|one| (*one).to_owned()).collect()
    }

    /// A program without directives.
    fn without_directives(folder: &str, source: PathBuf) -> Program {
        let stem = source.file_stem().unwrap_or_default().to_string_lossy();
        Program {
            name: format!("{folder}::{stem}"),
            environments: Vec::new(),
            cxx: source.extension().is_some_and(|extension| extension == "cc"),
            source,
            exit: 0,
            links: Vec::new(),
            linked: true,
            strings: Strings::CompilerDefault,
            is_example: false,
            breaks: Vec::new(),
            is_checked: true,
            built: OnceLock::new(),
        }
    }

    fn directive(&mut self, line: &str) -> Result<()> {
        let (key, value) = line.split_once(':').unwrap_or((line, ""));
        let words = value.split_whitespace();
        match key {
            "env" => {
                let pairs = words.map(|word| {
                    let (name, value) = word.split_once('=').context("a variable takes a value")?;
                    Ok((name.to_owned(), value.to_owned()))
                });
                self.environments.push(pairs.collect::<Result<_>>()?);
            }
            "exit" => self.exit = value.trim().parse()?,
            "links" => self.links.extend(words.map(str::to_owned)),
            "breaks" => self.breaks.extend(words.map(str::to_owned)),
            "unchecked" => self.is_checked = false,
            "nolink" => self.linked = false,
            "cxx" => self.cxx = true,
            "strings" if value.trim() == "both" => self.strings = Strings::Both,
            _ => bail!("no such directive"),
        }
        Ok(())
    }

    /// The file that the program is compiled from.
    pub fn source(&self) -> &Path {
        &self.source
    }

    /// The name of one run.
    pub fn trial(&self, environment: &[(String, String)]) -> String {
        if environment.is_empty() {
            return self.name.clone();
        }
        let pairs: Vec<_> =
            environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{} [{}]", self.name, pairs.join(" "))
    }

    /// Compiles the program against a toolkit, once.
    pub fn build(&self, toolkit: &Toolkit) -> Result<PathBuf> {
        let built = self.built.get_or_init(|| self.compile(toolkit).map_err(|e| format!("{e:#}")));
        built.clone().map_err(anyhow::Error::msg)
    }

    fn compile(&self, toolkit: &Toolkit) -> Result<PathBuf> {
        fs::create_dir_all(&toolkit.scratch)?;
        let program = toolkit.scratch.join(self.name.replace("::", "-"));
        let mut command = toolkit.bare(if self.cxx { "g++" } else { "gcc" });
        command.arg(if self.cxx { "-std=c++17" } else { "-std=c11" });
        // The op classes are large: without optimisation a program compiles in two thirds of the time.
        command.arg(if self.cxx { "-O0" } else { "-O1" });
        command.args(["-Wall", "-Wextra", "-Werror", "-pthread"]);
        command.arg("-I").arg(toolkit.include());
        command.arg("-I").arg(crate::toolkit::root().join("tests/c"));
        if self.cxx {
            command.arg("-I").arg(toolkit.dir.join("opp/built-in/op_graph/inc"));
        }
        match self.strings {
            Strings::Old => drop(command.arg("-D_GLIBCXX_USE_CXX11_ABI=0")),
            Strings::New => drop(command.arg("-D_GLIBCXX_USE_CXX11_ABI=1")),
            Strings::CompilerDefault | Strings::Both => {}
        }
        if self.cxx && self.source.extension().is_some_and(|extension| extension == "c") {
            command.args(["-x", "c++"]);
        }
        command.arg(&self.source).arg("-o").arg(&program);
        if self.linked {
            command.arg("-L").arg(toolkit.lib64()).arg("-lascendcl");
        }
        command.args(&self.links);
        run(&mut command, &program.with_extension("compile"), limit())?
            .expect(0)
            .context("it does not compile")?;
        Ok(program)
    }

    /// Compiles the program if that was not done, runs it in one of its environments and checks its status and output.
    pub fn test(&self, toolkit: &Toolkit, run_index: usize) -> Result<()> {
        let program = self.build(toolkit)?;
        let log = program.with_extension(format!("{run_index}.log"));
        self.run(toolkit, toolkit.clean(&program), run_index, &log)
    }

    /// The same under `cairn check`, and so with device memory that the program itself cannot touch: it breaks no rules but those
    /// that it says it breaks. What users read leaks nothing, either.
    pub fn check(&self, toolkit: &Toolkit, run_index: usize) -> Result<()> {
        let program = self.build(toolkit)?;
        let findings = program.with_extension(format!("{run_index}.json"));
        let _ = fs::remove_file(&findings);
        let mut command = toolkit.bare(toolkit.dir.join("bin/cairn"));
        command.args(["check", "--error-exitcode", "0", "--stacks", "--json"]).arg(&findings);
        if self.is_example {
            command.arg("--tool=contract,order,memory,leak");
        }
        command.arg("--").arg(&program);
        let log = program.with_extension(format!("{run_index}.check.log"));
        self.run(toolkit, command, run_index, &log)?;
        let found: Value = serde_json::from_str(&fs::read_to_string(&findings)?)?;
        for process in found.as_array().into_iter().flatten() {
            ensure!(process["incomplete"] == false, "{process:#}");
            for finding in process["findings"].as_array().into_iter().flatten() {
                let is_expected = self.breaks.iter().any(|rule| finding["rule"] == rule.as_str());
                ensure!(finding["severity"] == "note" || is_expected, "{finding:#}");
            }
        }
        Ok(())
    }

    /// Runs a command that is the program, or runs it, in one of its environments.
    fn run(
        &self,
        toolkit: &Toolkit,
        mut command: Command,
        run_index: usize,
        log: &Path,
    ) -> Result<()> {
        command.current_dir(&toolkit.scratch);
        command.env("CAIRN_HOST_MEMORY", unique_memory_limit());
        command.env(models::VARIABLE, models::folder(&toolkit.scratch)?);
        command.envs(self.environments[run_index].iter().cloned());
        let output = run(&mut command, log, limit())?.expect(self.exit)?;
        if self.is_example {
            ensure!(!output.trim().is_empty(), "it prints nothing");
            return Ok(());
        }
        let mut lines = output.lines();
        ensure!(lines.any(|line| line.starts_with("ok ")), "it checked nothing\n{output}");
        ensure!(!output.lines().any(|line| line.starts_with("FAILED ")), "it failed\n{output}");
        Ok(())
    }
}

/// A limit of memory that no other run has. Processes under one limit share it and see less free memory while others
/// hold some; programs that compare figures must not see those that run beside them.
fn unique_memory_limit() -> String {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let number = std::process::id() as usize + RUNS.fetch_add(1, Ordering::Relaxed);
    format!("{}kib", (8 << 20) + number)
}
