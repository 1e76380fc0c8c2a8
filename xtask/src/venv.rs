//! The pinned Python environments: one with torch, torch_npu and pytest that the torch tests run in, a small one for
//! tests of the module `acl` where that was not made, one with the node tests of ONNX, one with onnxruntime's CANN
//! provider, and one with what the benches compare with.
//!
//! An environment is made once and kept in the user's cache folder as `venv-<key>`, where the key follows from its
//! lists of requirements: checkouts that pin the same versions share one environment (with torch several GiB), and
//! a changed pin makes a new one. A virtual environment cannot be moved, so it is built
//! where it stays: the file [`MARKER`] is written last, and a folder without it is built anew. A lock file beside the
//! folder keeps two runs from building at once.
//!
//! `pip` is called as an ordinary client: where packages come from is the user's own configuration.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// What the wheels are pinned for.
const PYTHON: &str = "3.11";

/// Marks a finished environment.
const MARKER: &str = ".complete";

/// Makes or finds the environment, or the one of [`onnxruntime`], and prints its interpreter on stdout.
pub fn run(root: &Path, ort: bool) -> Result<()> {
    let python = if ort { onnxruntime(root) } else { ensure(root) };
    println!("{}", python?.display());
    Ok(())
}

/// Makes or finds the environment that the checkout at `root` pins; the result is its interpreter.
///
/// Progress goes to stderr. Waits while another process builds the same environment.
pub fn ensure(root: &Path) -> Result<PathBuf> {
    let (requirements, nodeps) = requirement_files(root);
    environment(Some(&requirements), &nodeps)
}

/// The interpreter for tests of the module `acl`, which need no torch: the environment above where it was made before,
/// else a small one.
pub fn for_module(root: &Path) -> Result<PathBuf> {
    let (requirements, nodeps) = requirement_files(root);
    if let Some(python) = complete_environment(Some(&requirements), &nodeps)? {
        return Ok(python);
    }
    environment(None, &root.join("tests/py/requirements-nodeps.txt"))
}

/// The folder with the node tests of ONNX, in an environment of their own.
pub fn onnx_node_tests(root: &Path) -> Result<PathBuf> {
    let python = environment(None, &root.join("tests/onnx/requirements-nodeps.txt"))?;
    let packages = format!("lib/python{PYTHON}/site-packages");
    let folder = python.parent().and_then(Path::parent).map(|dir| dir.join(packages));
    let folder = folder.context("an environment has a folder")?.join("onnx/backend/test/data/node");
    ensure!(folder.is_dir(), "{} is not there", folder.display());
    Ok(folder)
}

/// The interpreter of the environment with onnxruntime's CANN provider.
pub fn onnxruntime(root: &Path) -> Result<PathBuf> {
    environment(None, &root.join("tests/ort/requirements-nodeps.txt"))
}

/// The lists of requirements of the environment with torch.
fn requirement_files(root: &Path) -> (PathBuf, PathBuf) {
    let folder = root.join("tests/torch");
    (folder.join("requirements.txt"), folder.join("requirements-nodeps.txt"))
}

/// The interpreter of an environment that is complete.
fn complete_environment(requirements: Option<&Path>, nodeps: &Path) -> Result<Option<PathBuf>> {
    let dir = crate::cache::folder()?.join(folder_name(requirements, nodeps)?);
    Ok(interpreter_in(&dir))
}

/// The interpreter in a folder of a complete environment. `exists` follows the link to the base interpreter, so an
/// environment whose Python is gone is built anew.
fn interpreter_in(dir: &Path) -> Option<PathBuf> {
    let python = dir.join("bin/python");
    (dir.join(MARKER).exists() && python.exists()).then_some(python)
}

/// The name of an environment's folder.
fn folder_name(requirements: Option<&Path>, nodeps: &Path) -> Result<String> {
    let read = |path: &Path| {
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    };
    let pinned = requirements.map_or(Ok(String::new()), read)?;
    Ok(format!("venv-{}", key(&pinned, &read(nodeps)?)))
}

/// Makes or finds an environment with what `requirements` names, and what `nodeps` names without its
/// dependencies; the result is its interpreter.
pub fn environment(requirements: Option<&Path>, nodeps: &Path) -> Result<PathBuf> {
    let name = folder_name(requirements, nodeps)?;
    let cache = crate::cache::folder()?;
    let dir = cache.join(&name);
    if let Some(python) = interpreter_in(&dir) {
        return Ok(python);
    }

    fs::create_dir_all(&cache).with_context(|| format!("cannot create {}", cache.display()))?;
    let _lock = lock(&cache.join(format!("{name}.lock")))?;
    if interpreter_in(&dir).is_none() {
        build(&dir, requirements, nodeps)
            .with_context(|| format!("no environment in {}", dir.display()))?;
    }
    Ok(dir.join("bin/python"))
}

/// Builds the environment in place; the caller holds its lock.
fn build(dir: &Path, requirements: Option<&Path>, nodeps: &Path) -> Result<()> {
    let base = find_python()?;
    let python = dir.join("bin/python");
    let marker = dir.join(MARKER);
    if marker.exists() {
        fs::remove_file(&marker)?;
    }
    eprintln!("venv: making {} (once; with torch a few minutes and several GiB)", dir.display());
    run_checked(Command::new(&base).args(["-m", "venv", "--clear"]).arg(dir))?;

    // Wheels only: nothing of a package runs while it is installed.
    let install = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-input",
        "--only-binary=:all:",
    ];
    if let Some(requirements) = requirements {
        eprintln!("venv: installing {}", requirements.display());
        run_checked(Command::new(&python).args(install).arg("-r").arg(requirements))?;
    }
    eprintln!("venv: installing {}", nodeps.display());
    run_checked(Command::new(&python).args(install).args(["--no-deps", "-r"]).arg(nodeps))?;

    fs::write(&marker, "")?;
    eprintln!("venv: done");
    Ok(())
}

/// Runs a command to its end. Its stdout goes to our stderr, because ours carries the result of [`run`].
fn run_checked(command: &mut Command) -> Result<()> {
    let status = command.stdin(Stdio::null()).stdout(std::io::stderr()).status();
    let status = status.with_context(|| format!("cannot run {command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

/// A base interpreter of the version that the wheels need.
fn find_python() -> Result<String> {
    let mut tried = Vec::new();
    for name in [format!("python{PYTHON}"), "python3".into(), "python".into()] {
        let probe = "import sys; print('%d.%d' % sys.version_info[:2])";
        match Command::new(&name).args(["-c", probe]).stderr(Stdio::null()).output() {
            Ok(output) if output.status.success() => {
                let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
                if version == PYTHON {
                    return Ok(name);
                }
                tried.push(format!("{name} is {version}"));
            }
            Ok(output) => tried.push(format!("{name}: {}", output.status)),
            Err(_) => tried.push(format!("no {name}")),
        }
    }
    bail!("the wheels are pinned for Python {PYTHON}: put it on PATH ({})", tried.join(", "))
}

/// Takes the lock, and says so if that means waiting. Dropping the file releases it.
fn lock(path: &Path) -> Result<File> {
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    if file.try_lock().is_err() {
        eprintln!("venv: waiting for another run that holds {}", path.display());
        file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
    }
    Ok(file)
}

/// Names an environment after what is installed in it: 16 hex digits (FNV-1a) over the lines that are not comments.
fn key(requirements: &str, nodeps: &str) -> String {
    let without_comments = |text: &str| {
        let lines =
            text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    let text = format!(
        "python {PYTHON}\n{}--no-deps\n{}",
        without_comments(requirements),
        without_comments(nodeps)
    );
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_follows_what_is_installed() {
        let pinned = key("torch==2.9.0\nnumpy==1.26.4\n", "torch_npu==2.9.0\n");
        assert_eq!(pinned.len(), 16);
        assert_eq!(pinned, key("# why\n  torch==2.9.0  \n\nnumpy==1.26.4", "torch_npu==2.9.0"));
        for other in [
            key("torch==2.9.1\nnumpy==1.26.4\n", "torch_npu==2.9.0\n"),
            key("torch==2.9.0\nnumpy==1.26.4\n", "torch_npu==2.9.0.post9\n"),
            key("torch==2.9.0\n", "numpy==1.26.4\ntorch_npu==2.9.0\n"),
            key("torch==2.9.0\nnumpy==1.26.4\ntorch_npu==2.9.0\n", ""),
        ] {
            assert_ne!(pinned, other);
        }
    }

    #[test]
    fn key_is_the_same_in_every_build() {
        assert_eq!(key("", ""), "7414193b2e6c78c4");
    }

    #[test]
    fn requirements_are_pinned() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for name in [
            "tests/torch/requirements.txt",
            "tests/torch/requirements-nodeps.txt",
            "tests/py/requirements-nodeps.txt",
            "tests/ort/requirements-nodeps.txt",
            "benches/requirements-nodeps.txt",
        ] {
            let text = fs::read_to_string(root.join(name)).unwrap();
            for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
                assert!(line.contains("=="), "{name}: {line}");
            }
        }
    }
}
