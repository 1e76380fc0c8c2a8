//! `cairn pooltest` on the pools of `tests/pools`: its verdicts are the file beside each. `CAIRN_BLESS=1` writes them again. A line
//! `// pooltest: --acl make` at the top of a pool names its interface and its factory.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use crate::{
    run::run,
    toolkit::{Toolkit, limit, root},
};

/// The pools, by name.
pub fn all(root: &Path) -> Result<Vec<PathBuf>> {
    let mut pools = Vec::new();
    for entry in fs::read_dir(root.join("tests/pools"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "c" || ending == "cc") {
            pools.push(path);
        }
    }
    pools.sort();
    Ok(pools)
}

/// The verdicts on a pool are those beside it, and the exit code says whether one is bad.
pub fn verdicts(toolkit: &Toolkit, source: &Path) -> Result<()> {
    let library = compile(toolkit, source)?;
    let first = fs::read_to_string(source)?.lines().next().unwrap_or_default().to_owned();
    let words: Vec<String> =
        match first.strip_prefix("// pooltest: ").map(|rest| rest.split_once(' ')) {
            Some(Some((door, function))) => {
                vec![door.to_owned(), format!("{}:{function}", library.display())]
            }
            _ => vec![library.display().to_string()],
        };
    let (text, code) = pooltest(toolkit, &library, &words)?;
    let text = without_figures(toolkit, &text);
    let golden = source.with_extension("txt");
    if env::var_os("CAIRN_BLESS").is_some() {
        fs::write(&golden, &text)?;
    }
    let expected = fs::read_to_string(&golden).with_context(|| {
        format!("no verdicts in {}; CAIRN_BLESS=1 writes them", golden.display())
    })?;
    ensure!(text == expected, "expected:\n{expected}\nbut it is:\n{text}");
    let is_broken = text.contains("\n  BROKEN ");
    ensure!(code == i32::from(is_broken), "it ended with {code}\n{text}");
    Ok(())
}

/// Cairn's own pool keeps every clause, through its doors for PyTorch and for ACL; `tests/pools/cairn_ge.cc` is the third.
pub fn own(toolkit: &Toolkit) -> Result<()> {
    let torch = ["libcairn_pool.so", "--malloc", "cairn_malloc", "--free", "cairn_free"];
    let acl = ["--acl", "libcairn_pool.so:cairn_pool_create_desc"];
    for (name, words) in [("own-torch", &torch[..]), ("own-acl", &acl[..])] {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let (text, code) = pooltest(toolkit, &toolkit.scratch.join(name), &words)?;
        ensure!(code == 0 && !text.contains("\n  note ") && !text.contains("\n  - "), "{text}");
        ensure!(text.contains("\ngpt_train\n") && text.contains("\ngpt_infer\n"), "{text}");
    }
    Ok(())
}

/// Every clause is broken by one of the pools.
pub fn every_clause_is_broken(toolkit: &Toolkit) -> Result<()> {
    let mut broken = BTreeSet::new();
    for pool in all(&root())? {
        let golden = fs::read_to_string(pool.with_extension("txt")).unwrap_or_default();
        let lines = golden.lines().filter_map(|line| line.strip_prefix("  BROKEN "));
        broken.extend(lines.filter_map(|line| Some(line.split_whitespace().next()?.to_owned())));
    }
    let mut command = toolkit.bare(toolkit.dir.join("bin/cairn"));
    let log = toolkit.scratch.join("pooltest-list.log");
    let list = run(command.args(["pooltest", "--list"]), &log, limit())?.expect(0)?;
    let clauses: BTreeSet<String> =
        list.lines().filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect();
    ensure!(clauses.len() > 15, "{list}");
    let unbroken: Vec<_> = clauses.difference(&broken).collect();
    ensure!(unbroken.is_empty(), "no pool breaks {unbroken:?}");
    Ok(())
}

/// A bad word, a library that is not there, and what is written into files.
pub fn files_and_errors(toolkit: &Toolkit) -> Result<()> {
    let source = root().join("tests/pools/crashes_on_zero.c");
    let library = compile(toolkit, &source)?.display().to_string();
    let call = |words: &[&str], code: i32| {
        let mut command = toolkit.bare(toolkit.dir.join("bin/cairn"));
        command.arg("pooltest").args(words).current_dir(&toolkit.scratch);
        run(&mut command, &toolkit.scratch.join("pooltest-files.log"), limit())?.expect(code)
    };
    let words = ["--only", "zero,load", "--json", "zero.json", "--junit", "zero.xml"];
    call(&[&[library.as_str()], &words[..]].concat(), 1)?;
    let json = fs::read_to_string(toolkit.scratch.join("zero.json"))?;
    ensure!(json.contains("\"broken\": 1") && json.contains("\"verdict\": \"kept\""), "{json}");
    let xml = fs::read_to_string(toolkit.scratch.join("zero.xml"))?;
    ensure!(xml.contains("tests=\"2\" failures=\"1\"") && xml.contains("size &gt; 0"), "{xml}");
    let text = call(&["/no/such.so"], 1)?;
    ensure!(text.contains("there is no /no/such.so"), "{text}");
    let text = call(&[&library, "--only", "speed"], 2)?;
    ensure!(text.contains("no clause is named `speed`"), "{text}");
    let text = call(&["--ge", "lib.so"], 1)?;
    ensure!(text.contains("`lib.so` is not LIB:FACTORY"), "{text}");
    let text = call(&[&library, "--only", "advise"], 1)?;
    ensure!(text.contains("none of these clauses is for pools with this interface"), "{text}");
    Ok(())
}

/// A pool as a library; compiled once for all who use it at a time.
pub fn compile(toolkit: &Toolkit, source: &Path) -> Result<PathBuf> {
    let stem = source.file_stem().unwrap_or_default().to_string_lossy();
    let is_cpp = source.extension().is_some_and(|ending| ending == "cc");
    fs::create_dir_all(&toolkit.scratch)?;
    let library = toolkit.scratch.join(format!("{stem}.so"));
    let built = library.with_extension(format!("{:?}.so", std::thread::current().id()));
    let mut command = toolkit.bare(if is_cpp { "g++" } else { "gcc" });
    command.arg(if is_cpp { "-std=c++17" } else { "-std=gnu11" });
    command.args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]);
    command.arg("-I").arg(toolkit.include());
    command.arg(source).arg("-o").arg(&built).arg("-L").arg(toolkit.lib64());
    command.args(["-lascendcl", "-lcairn_pool"]);
    run(&mut command, &built.with_extension("compile"), limit())?.expect(0)?;
    fs::rename(&built, &library)?;
    Ok(library)
}

/// What `cairn pooltest` prints, and its code.
fn pooltest(toolkit: &Toolkit, name: &Path, words: &[String]) -> Result<(String, i32)> {
    let mut command = toolkit.bare(toolkit.dir.join("bin/cairn"));
    command.arg("pooltest").args(words).args(["--idle-limit", "2"]);
    let outcome = run(&mut command, &name.with_extension("pooltest"), limit())?;
    let code = outcome.status.and_then(|status| status.code()).unwrap_or(-1);
    Ok((outcome.output, code))
}

/// The verdicts without what differs from run to run: figures, addresses, threads, paths, and what threads saw of a race.
fn without_figures(toolkit: &Toolkit, text: &str) -> String {
    let text = text.split("\n\ngpt_train\n").next().unwrap_or_default();
    let text = text
        .replace(&format!("{}/", toolkit.scratch.display()), "")
        .replace(&format!("{}/", root().display()), "");
    let mut out = String::new();
    let mut is_of_threads = false;
    for line in text.lines() {
        if !line.starts_with("     ") {
            is_of_threads = line.split_whitespace().nth(1) == Some("threads");
        } else if is_of_threads && !line.trim_start().starts_with("->") {
            continue;
        }
        out += &crate::checks::without_numbers(line);
    }
    out
}
