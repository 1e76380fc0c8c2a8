//! Gloo, which communication between ranks is built on: the one that is installed (libgloo-dev), or else Debian's packages, downloaded and
//! unpacked under `target/`. That needs no root and changes nothing outside of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    env::consts::ARCH,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};

use crate::target_dir;

/// The package with the headers; the others follow from what packages say they need.
const PACKAGE: &str = "libgloo-dev";

/// What every system that can build the toolkit has.
const BASE_PACKAGES: [&str; 4] = ["libc6", "libgcc-s1", "libstdc++6", "adduser"];
const BASE_LIBRARIES: [&str; 9] = [
    "ld-linux",
    "libc.so",
    "libdl.so",
    "libgcc_s.so",
    "libm.so",
    "libpthread.so",
    "librt.so",
    "libstdc++.so",
    "linux-vdso",
];

/// A header that is there where Gloo is.
const HEADER: &str = "usr/include/gloo/rendezvous/context.h";

/// After a download that failed nobody tries again for this long.
const PAUSE: Duration = Duration::from_secs(600);

/// Where Gloo is.
pub struct Gloo {
    /// The folder of headers.
    pub include: PathBuf,
    /// Gloo first, then what it needs, by the names that the loader looks for.
    pub libraries: Vec<(String, PathBuf)>,
    /// The texts of their licences, by package.
    pub licences: BTreeMap<String, PathBuf>,
}

/// Finds Gloo or downloads it. `None`, and a loud text, if neither works.
pub fn find(root: &Path) -> Result<Option<Gloo>> {
    let system = Path::new("/");
    if system.join(HEADER).is_file()
        && let Ok(gloo) = Gloo::under(system)
    {
        return Ok(Some(gloo));
    }
    let folder = target_dir(root).join("gloo");
    let unpacked = folder.join("root");
    if !folder.join("complete").is_file() {
        let failed = folder.join("failed");
        let is_recent = |path: &Path| {
            fs::metadata(path)
                .and_then(|data| data.modified())
                .is_ok_and(|time| time.elapsed().is_ok_and(|age| age < PAUSE))
        };
        let result = match is_recent(&failed) {
            true => {
                fs::read_to_string(&failed).map_err(Into::into).and_then(|text| bail!("{text}"))
            }
            false => download(&folder).and_then(|()| Gloo::under(&unpacked).map(drop)),
        };
        if let Err(error) = result {
            fs::create_dir_all(&folder)?;
            if !is_recent(&failed) {
                fs::write(&failed, format!("{error:#}"))?;
            }
            eprintln!(
                "\nwarning: THE TOOLKIT IS BUILT WITHOUT GLOO: HCCL works with one rank only.\n  {error:#}\n  Install {PACKAGE} (Debian, \
                 Ubuntu), or give `apt-get download` a way to its packages, and run this again. To try at once: remove {}\n",
                failed.display()
            );
            return Ok(None);
        }
        fs::write(folder.join("complete"), "")?;
    }
    Gloo::under(&unpacked).map(Some)
}

impl Gloo {
    /// Gloo and what it needs below a folder, which is `/` or laid out like it.
    fn under(root: &Path) -> Result<Gloo> {
        let folders = library_folders(root);
        let locate = |name: &str| {
            let path = folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
            path.with_context(|| format!("{name} is in none of {folders:?}"))
        };
        let (soname, _) = dynamic_section(&locate("libgloo.so")?)?;
        let mut open = vec![soname.context("libgloo.so does not say its name")?];
        let mut libraries = Vec::<(String, PathBuf)>::new();
        while let Some(name) = open.pop() {
            let is_known = libraries.iter().any(|(known, _)| *known == name);
            if is_known || BASE_LIBRARIES.iter().any(|base| name.starts_with(base)) {
                continue;
            }
            let path = locate(&name)?;
            open.extend(dynamic_section(&path)?.1);
            libraries.push((name, path));
        }
        let licences = licences(root, &libraries)?;
        Ok(Gloo { include: root.join("usr/include"), libraries, licences })
    }
}

/// Where libraries lie below a root.
fn library_folders(root: &Path) -> Vec<PathBuf> {
    let triple = format!("{ARCH}-linux-gnu");
    let names = ["usr/local/lib", "usr/lib", "usr/lib64", "lib", "lib64"].map(String::from);
    let with_triple = [format!("usr/lib/{triple}"), format!("lib/{triple}")];
    names.into_iter().chain(with_triple).map(|name| root.join(name)).collect()
}

/// What a library calls itself, and what it needs.
fn dynamic_section(library: &Path) -> Result<(Option<String>, Vec<String>)> {
    let text = output(Command::new("readelf").arg("-dW").arg(library))?;
    let (mut soname, mut needed) = (None, Vec::new());
    for line in text.lines() {
        let Some(name) = line.split('[').nth(1).and_then(|rest| rest.split(']').next()) else {
            continue;
        };
        match () {
            _ if line.contains("(SONAME)") => soname = Some(name.to_string()),
            _ if line.contains("(NEEDED)") => needed.push(name.to_string()),
            _ => {}
        }
    }
    Ok((soname, needed))
}

/// The licence of the package of each library.
fn licences(root: &Path, libraries: &[(String, PathBuf)]) -> Result<BTreeMap<String, PathBuf>> {
    let docs = root.join("usr/share/doc");
    let packages: BTreeSet<String> = if root == Path::new("/") {
        let owner = |path: &PathBuf| {
            let path = path.canonicalize().unwrap_or_else(|_| path.clone());
            let owner = |path: &Path| output(Command::new("dpkg").arg("-S").arg(path)).ok();
            // A system with /lib linked to /usr/lib may know the file by the other name.
            let text = owner(&path).or_else(|| {
                owner(Path::new("/").join(path.strip_prefix("/usr").ok()?).as_path())
            })?;
            text.split(':').next().map(str::to_string)
        };
        libraries.iter().filter_map(|(_, path)| owner(path)).collect()
    } else {
        let names =
            fs::read_dir(&docs)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        names.collect::<Result<_>>()?
    };
    let texts = packages.into_iter().map(|package| {
        let path = docs.join(&package).join("copyright");
        (package, path)
    });
    Ok(texts.filter(|(_, path)| path.is_file()).collect())
}

/// Downloads the packages and unpacks them to `folder/root`.
fn download(folder: &Path) -> Result<()> {
    eprintln!("Gloo is not installed: downloading Debian's packages to {}", folder.display());
    let _ = fs::remove_dir_all(folder);
    let (packages, unpacked) = (folder.join("packages"), folder.join("root"));
    fs::create_dir_all(&packages)?;
    fs::create_dir_all(&unpacked)?;
    let (mut open, mut known) = (vec![PACKAGE.to_string()], BTreeSet::new());
    let mut lists = Lists { own: None, folder: folder.join("apt") };
    while let Some(package) = open.pop() {
        if !known.insert(package.clone()) {
            continue;
        }
        let file = lists.fetch(&package, &packages)?;
        run(Command::new("dpkg-deb").arg("-x").arg(&file).arg(&unpacked))?;
        let needed = output(Command::new("dpkg-deb").arg("-f").arg(&file).arg("Depends"))?;
        open.extend(dependencies(&needed));
    }
    Ok(())
}

/// The packages of a field `Depends` that the toolkit has to carry: no headers, nothing that each system has.
fn dependencies(field: &str) -> Vec<String> {
    let first_choice = |text: &str| {
        text.split(['|', ' ', '(', ':']).find(|word| !word.is_empty()).map(str::to_string)
    };
    let names = field.trim().split(',').filter_map(first_choice);
    names.filter(|name| !name.ends_with("-dev") && !BASE_PACKAGES.contains(&&**name)).collect()
}

/// The package lists: the system's, or own ones where it has none.
struct Lists {
    own: Option<Vec<String>>,
    folder: PathBuf,
}

impl Lists {
    /// Downloads a package to `target` and returns the file.
    fn fetch(&mut self, package: &str, target: &Path) -> Result<PathBuf> {
        let first = self.download(package, target);
        if first.is_err() && self.own.is_none() {
            self.update()?;
            self.download(package, target)?;
        } else {
            first?;
        }
        let prefix = format!("{package}_");
        for entry in fs::read_dir(target)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with(&prefix) && name.ends_with(".deb") {
                return Ok(path);
            }
        }
        bail!("apt-get downloaded no {package}")
    }

    fn download(&self, package: &str, target: &Path) -> Result<()> {
        run(apt_get(self.own.as_deref()).arg("download").arg(package).current_dir(target))
    }

    /// Fetches the lists of the system's sources into a folder of our own, which needs no root.
    fn update(&mut self) -> Result<()> {
        for name in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(self.folder.join(name))?;
        }
        let folder = self.folder.display();
        let options =
            vec![format!("Dir::State::lists={folder}/lists"), format!("Dir::Cache={folder}/cache")];
        run(apt_get(Some(&options)).arg("update"))?;
        self.own = Some(options);
        Ok(())
    }
}

fn apt_get(options: Option<&[String]>) -> Command {
    let mut command = Command::new("apt-get");
    command.args([
        "-q",
        "-o",
        "Acquire::Retries=1",
        "-o",
        "Acquire::http::Timeout=20",
        "-o",
        "APT::Sandbox::User=",
    ]);
    for option in options.unwrap_or_default() {
        command.arg("-o").arg(option);
    }
    command
}

/// Runs a command quietly; what it printed is in the error.
fn run(command: &mut Command) -> Result<()> {
    output(command).map(drop)
}

fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {name}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name} failed: {}", errors.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_what_the_toolkit_carries() {
        let field = "libc6 (>= 2.34), libgcc-s1 (>= 3.0), libhiredis0.14 (>= 0.14.0), libibverbs1:any | other, libhiredis-dev, libstdc++6\n";
        assert_eq!(dependencies(field), ["libhiredis0.14", "libibverbs1"]);
        assert!(dependencies("").is_empty());
    }
}
