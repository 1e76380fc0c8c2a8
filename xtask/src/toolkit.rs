//! `cargo xtask toolkit`: the folder that programs see as CANN.
//!
//! ```text
//! DIR/set_env.sh  version.info  ascend_toolkit_install.info
//!     latest, cann -> DIR itself, for programs that want such a name in the path
//!     lib64/   libascendcl.so, libge_runner.so, links to them; libcairn_pool.so; cmake/Cairn/
//!              libopapi_math.a and others, for the linker: see PARTS
//!     lib64/comm/ libcairn_comm.so, Gloo and what it needs, their licences; not there without Gloo
//!     share/cmake -> lib64/cmake, for systems where CMake does not look into lib64
//!     include/ bin/ runtime/ compiler/; include/aclnnop/level2: links to the headers above it
//!     python/site-packages/ the module acl and its type stubs
//!     opp/lib64/ libopapi_math.so and others, for programs that name them
//!     opp/built-in/op_graph/inc, op_proto/inc -> it: a class for every operator
//!     <arch>-linux/ -> the same include and lib64
//! ```
//!
//! Nothing in it names an absolute path, so the folder may be moved. A file that changed is written
//! beside the old one and renamed over it: a process that has the old one mapped keeps it.

use std::{
    collections::BTreeSet,
    env::consts::ARCH,
    fs, io,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use crate::{
    comm, ge_runner, pyacl,
    step::{self, cargo},
    target_dir,
};

/// The libraries, each with the names that are links to it. The loader tells libraries apart by
/// inode, so all names of one row share one state. No name may begin with `libopapi_`: see [`PARTS`].
const LIBRARIES: [(&str, &[&str]); 2] = [
    (
        "libascendcl.so",
        &[
            "libacl_cblas.so",
            "libacl_mdl.so",
            "libacl_op_compiler.so",
            "libacl_op_executor.so",
            "libacl_rt.so",
            "libacl_tdt_channel.so",
            "libacl_tdt_queue.so",
            "libascend_dump.so",
            "libascend_hal.so",
            "libhccl.so",
            "libhcomm.so",
            "libms_tools_ext.so",
            "libmsprofiler.so",
            "libnnopbase.so",
            "libopapi.so",
            "libprofapi.so",
            "libruntime.so",
        ],
    ),
    (
        "libge_runner.so",
        &[
            "lib_caffe_parser.so",
            "libascend_protobuf.so",
            "libc_sec.so",
            "libexe_graph.so",
            "libfmk_onnx_parser.so",
            "libfmk_parser.so",
            "libge_common_base.so",
            "libge_compiler.so",
            "libge_runner_v2.so",
            "libgraph.so",
            "libgraph_base.so",
            "liblowering.so",
            "libmetadef.so",
            "libopp_registry.so",
            "libplatform.so",
            "libregister.so",
        ],
    ),
];

/// Parts into which CANN splits `libopapi.so`, and which build lines name: `-lopapi_math`.
///
/// torch_npu takes every `libopapi_*.so` in `lib64` for a package of operators, in the order of the folder and
/// ahead of `libopapi.so`: ours would hide those that a user puts there. So `lib64` holds archives of these names,
/// which are scripts that lead the linker to `libopapi.so`, and the libraries lie in [`PARTS_DIR`], where build lines
/// look too and `LD_LIBRARY_PATH` leads.
const PARTS: [&str; 4] = ["opapi_cv", "opapi_math", "opapi_nn", "opapi_transformer"];

/// Where libraries with the names of [`PARTS`] lie.
const PARTS_DIR: &str = "opp/lib64";

/// Names by which the folder is also found.
const ALSO_NAMED: [&str; 2] = ["cann", "latest"];

/// Folders that programs look for, empty as they are.
const FOLDERS: [&str; 4] = ["opp/vendors", "runtime", "compiler", "python/site-packages"];

/// Folders of headers that older programs name with `external/` before them.
const EXTERNAL: [&str; 6] = ["exe_graph", "ge", "ge_common", "graph", "parser", "register"];

/// What tells a toolkit of ours from any other folder.
const MARKER: &str = "version.info";

/// How the libraries are built.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// For users: optimized.
    Release,
    /// For `cargo xtask test`: what [`crate::test::build`] leaves, with assertions and checked lock ranks.
    Dev,
    /// For `cargo xtask demo`: as soon as possible, without the standalone pool, the Python module and communication.
    Demo,
}

/// Where the toolkit goes when nobody says where.
pub fn default_dir(root: &Path) -> PathBuf {
    target_dir(root).join("toolkit")
}

/// Where the toolkit that tests use goes.
pub fn test_dir(root: &Path) -> PathBuf {
    target_dir(root).join("test-toolkit")
}

/// Builds the libraries and the command and assembles `dir`; returns its absolute path.
///
/// A folder that holds something else is refused. Running programs keep the files they have open.
pub fn assemble(root: &Path, dir: &Path, build: Build) -> Result<PathBuf> {
    let dir = std::path::absolute(dir)?;
    check_ours(&dir)?;
    let (build_dir, comm_files) = std::thread::scope(|scope| {
        let classes = scope.spawn(|| {
            ge_runner::compile(root)?;
            if build == Build::Demo { Ok(Vec::new()) } else { comm::build(root) }
        });
        let compiled = compile(root, build);
        let comm_files = classes.join().expect("compiling does not panic")?;
        Ok::<_, anyhow::Error>((compiled?, comm_files))
    })?;
    let templates = root.join("toolkit");
    let mut folder = Folder { dir: dir.clone(), placed: BTreeSet::new() };

    folder.copy(&templates.join(MARKER), MARKER)?;
    for name in FOLDERS {
        fs::create_dir_all(dir.join(name))?;
    }
    folder.copy(&build_dir.join("libascendcl.so"), "lib64/libascendcl.so")?;
    let ge_runner = ge_runner::link(root, &dir.join("lib64"))?;
    folder.copy(&ge_runner, "lib64/libge_runner.so")?;
    let hook = ge_runner::KERNEL_HOOK;
    folder.copy(&ge_runner::link_kernel_hook(root)?, &format!("lib64/{hook}"))?;
    for (file, name) in comm_files {
        folder.copy(&file, &name)?;
    }
    for (library, names) in LIBRARIES {
        for name in names {
            folder.link(library, &format!("lib64/{name}"))?;
        }
    }
    for part in PARTS {
        folder.link("../../lib64/libascendcl.so", &format!("{PARTS_DIR}/lib{part}.so"))?;
        let script = "/* A script for the linker. */\nINPUT(-lopapi)\n";
        folder.write(&format!("lib64/lib{part}.a"), script.as_bytes(), 0o644)?;
    }
    for name in ["CairnConfig.cmake", "CairnConfigVersion.cmake"] {
        folder.copy(&templates.join("cmake").join(name), &format!("lib64/cmake/Cairn/{name}"))?;
    }
    folder.link("../lib64/cmake", "share/cmake")?;
    let include = root.join("include");
    for header in files_under(&include)? {
        let name = header.strip_prefix(&include)?.to_string_lossy().into_owned();
        folder.copy(&header, &format!("include/{name}"))?;
        if let Some(operator) = name.strip_prefix("aclnnop/") {
            folder
                .link(&format!("../{operator}"), &format!("include/aclnnop/level2/{operator}"))?;
        }
    }
    for name in EXTERNAL {
        folder.link(&format!("../{name}"), &format!("include/external/{name}"))?;
    }
    let operators = root.join("opp");
    for header in files_under(&operators)? {
        let name = header.strip_prefix(&operators)?.to_string_lossy().into_owned();
        folder.copy(&header, &format!("opp/{name}"))?;
    }
    folder.link("../op_graph/inc", "opp/built-in/op_proto/inc")?;
    folder.copy(&build_dir.join("cairn"), "bin/cairn")?;
    folder.link("cairn", "bin/npu-smi")?;
    folder.copy(&ge_runner::link_atc(root, &dir.join("lib64"))?, "bin/atc")?;
    if build != Build::Demo {
        folder.copy(&build_dir.join("libcairn_pool.so"), "lib64/libcairn_pool.so")?;
        folder.copy(&build_dir.join(pyacl::LIBRARY.0), pyacl::LIBRARY.1)?;
        for (name, text) in pyacl::stub_files(root)? {
            folder.write(&name, text.as_bytes(), 0o644)?;
        }
    }
    folder.copy(&templates.join("set_env.sh"), "set_env.sh")?;
    folder.copy(&templates.join("bin/setenv.bash"), "bin/setenv.bash")?;
    for name in ALSO_NAMED {
        folder.link(".", name)?;
    }
    let info =
        fs::read_to_string(templates.join("ascend_toolkit_install.info"))?.replace("@ARCH@", ARCH);
    folder.write("ascend_toolkit_install.info", info.as_bytes(), 0o644)?;
    for name in ["include", "lib64", "ascend_toolkit_install.info"] {
        folder.link(&format!("../{name}"), &format!("{ARCH}-linux/{name}"))?;
    }
    folder.prune()?;
    Ok(dir)
}

/// Compiles the libraries and the command; returns the folder they are in.
fn compile(root: &Path, build: Build) -> Result<PathBuf> {
    const CORE: [&str; 4] = ["-p", "cairn-ascendcl", "-p", "cairn-cli"];
    // Half of the time goes into optimizing the loops of all operators, of which a demo runs a handful.
    const UNOPTIMIZED: &str = "profile.dev.package.cairn-ops.opt-level=0";
    const REST: [&str; 4] = ["-p", "cairn-plugin", "-p", "cairn-python"];
    let (mut command, folder) = match build {
        Build::Release => (cargo(root, &["build", "--release"]), "release"),
        Build::Dev => (crate::test::build(root), "debug"),
        Build::Demo => (cargo(root, &["build", "--config", UNOPTIMIZED]), "debug"),
    };
    if build != Build::Dev {
        command.args(CORE);
    }
    if build == Build::Release {
        command.args(REST);
    }
    step::run(&mut command)?;
    Ok(target_dir(root).join(folder))
}

/// Fails for a folder that is neither empty nor a toolkit of ours.
fn check_ours(dir: &Path) -> Result<()> {
    let empty = match fs::read_dir(dir) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => return Err(error).with_context(|| format!("cannot use {}", dir.display())),
    };
    let has_marker =
        || fs::read_to_string(dir.join(MARKER)).is_ok_and(|text| text.contains("Cairn"));
    if !empty && !has_marker() {
        bail!(
            "{} holds something that is no toolkit of Cairn: name an empty or a new folder",
            dir.display()
        );
    }
    Ok(())
}

/// Every regular file below `dir`, sorted; none when there is no such folder.
pub(crate) fn files_under(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other.with_context(|| format!("cannot read {}", folder.display()))?,
        };
        for entry in entries {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => folders.push(entry.path()),
                false => files.push(entry.path()),
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The folder under construction, and what was placed in it.
struct Folder {
    dir: PathBuf,
    placed: BTreeSet<PathBuf>,
}

impl Folder {
    fn copy(&mut self, from: &Path, name: &str) -> Result<()> {
        let context = || format!("cannot read {}", from.display());
        let mode = fs::metadata(from).with_context(context)?.permissions().mode() & 0o777;
        self.write(name, &fs::read(from).with_context(context)?, mode)
    }

    /// Leaves a file that is right as it is: its inode, too, means something to running programs.
    fn write(&mut self, name: &str, bytes: &[u8], mode: u32) -> Result<()> {
        let path = self.place(name)?;
        let same_mode = fs::symlink_metadata(&path)
            .is_ok_and(|old| old.is_file() && old.permissions().mode() & 0o777 == mode);
        if same_mode && fs::read(&path).is_ok_and(|old| old == bytes) {
            return Ok(());
        }
        let new_path = temporary(&path);
        fs::write(&new_path, bytes)
            .with_context(|| format!("cannot write {}", new_path.display()))?;
        fs::set_permissions(&new_path, fs::Permissions::from_mode(mode))?;
        rename(&new_path, &path)
    }

    fn link(&mut self, target: &str, name: &str) -> Result<()> {
        let path = self.place(name)?;
        if fs::read_link(&path).is_ok_and(|old| old == Path::new(target)) {
            return Ok(());
        }
        let new_path = temporary(&path);
        symlink(target, &new_path)
            .with_context(|| format!("cannot link {}", new_path.display()))?;
        rename(&new_path, &path)
    }

    fn place(&mut self, name: &str) -> Result<PathBuf> {
        let path = self.dir.join(name);
        fs::create_dir_all(path.parent().expect("a name in a folder"))?;
        self.placed.insert(path.clone());
        Ok(path)
    }

    /// Removes what an earlier version placed and this one did not.
    fn prune(&self) -> Result<()> {
        for folder in ["bin", "include", "lib64", "opp/built-in", PARTS_DIR] {
            for file in files_under(&self.dir.join(folder))? {
                if !self.placed.contains(&file) {
                    fs::remove_file(&file)
                        .with_context(|| format!("cannot remove {}", file.display()))?;
                }
            }
        }
        Ok(())
    }
}

/// A path beside `path` to write to before it is renamed.
fn temporary(path: &Path) -> PathBuf {
    let name = path.file_name().expect("the path names a file").to_string_lossy();
    let new_path = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let _ = fs::remove_file(&new_path);
    new_path
}

fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).with_context(|| format!("cannot replace {}", to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn scratch(name: &str) -> Folder {
        let dir = std::env::temp_dir().join(format!("cairn-toolkit-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir(&dir).unwrap();
        Folder { dir, placed: BTreeSet::new() }
    }

    #[test]
    fn unchanged_files_stay_and_changed_ones_get_a_new_inode() {
        let mut folder = scratch("inode");
        let inode = |folder: &Folder| fs::metadata(folder.dir.join("lib64/a.so")).unwrap().ino();
        folder.write("lib64/a.so", b"one", 0o755).unwrap();
        let open_file = fs::File::open(folder.dir.join("lib64/a.so")).unwrap();
        let first = inode(&folder);
        folder.write("lib64/a.so", b"one", 0o755).unwrap();
        assert_eq!(inode(&folder), first);
        folder.write("lib64/a.so", b"two", 0o755).unwrap();
        assert_ne!(inode(&folder), first);
        assert_eq!(io::read_to_string(&open_file).unwrap(), "one");
        fs::remove_dir_all(folder.dir).unwrap();
    }

    #[test]
    fn leftovers_go_and_a_file_becomes_a_link() {
        let mut folder = scratch("prune");
        folder.write("lib64/old.so", b"old", 0o755).unwrap();
        folder.write("lib64/b.so", b"copy", 0o755).unwrap();
        folder.write("opp/mine", b"kept", 0o644).unwrap();
        folder.placed.clear();
        folder.write("lib64/a.so", b"one", 0o755).unwrap();
        folder.link("a.so", "lib64/b.so").unwrap();
        folder.link("a.so", "lib64/b.so").unwrap();
        folder.prune().unwrap();
        assert!(!folder.dir.join("lib64/old.so").exists());
        assert!(folder.dir.join("opp/mine").exists());
        assert_eq!(fs::read_link(folder.dir.join("lib64/b.so")).unwrap(), Path::new("a.so"));
        fs::remove_dir_all(folder.dir).unwrap();
    }

    #[test]
    fn foreign_folders_are_refused() {
        let mut folder = scratch("foreign");
        assert!(check_ours(&folder.dir).is_ok());
        assert!(check_ours(&folder.dir.join("new")).is_ok());
        folder.write("precious", b"", 0o644).unwrap();
        assert!(check_ours(&folder.dir).unwrap_err().to_string().contains("no toolkit"));
        folder.write(MARKER, b"package_name=Cairn\n", 0o644).unwrap();
        assert!(check_ours(&folder.dir).is_ok());
        fs::remove_dir_all(folder.dir).unwrap();
    }

    #[test]
    fn no_name_looks_like_custom_operators() {
        for (_, names) in LIBRARIES {
            assert!(names.iter().all(|name| !name.starts_with("libopapi_")));
            assert!(names.is_sorted());
        }
    }
}
