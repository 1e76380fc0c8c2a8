//! The environment that programs expect: what `set_env.sh` sets, computed.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    process::ExitCode,
};

use anyhow::Result;

use crate::toolkit::Toolkit;

/// Variables that name one folder of the toolkit.
const FOLDERS: [(&str, &str); 4] = [
    ("ASCEND_HOME_PATH", ""),
    ("ASCEND_TOOLKIT_HOME", ""),
    ("ASCEND_OPP_PATH", "opp"),
    ("ASCEND_AICPU_PATH", ""),
];

/// Variables that are lists of folders, of which ours come first, in this order.
pub const LISTS: [(&str, &[&str]); 3] = [
    ("LD_LIBRARY_PATH", &["lib64", "opp/lib64"]),
    ("PYTHONPATH", &["python/site-packages"]),
    ("PATH", &["bin"]),
];

/// The variables with their values, given what they are now.
pub fn variables(
    toolkit: &Toolkit,
    current: impl Fn(&str) -> Option<OsString>,
) -> Vec<(&'static str, OsString)> {
    let single = FOLDERS.map(|(name, folder)| (name, in_root(toolkit, folder)));
    let lists = LISTS.map(|(name, folders)| {
        let list = folders.iter().rev().fold(current(name).unwrap_or_default(), |list, folder| {
            to_front(&in_root(toolkit, folder), &list)
        });
        (name, list)
    });
    single.into_iter().chain(lists).collect()
}

/// The path of a folder of the toolkit.
fn in_root(toolkit: &Toolkit, folder: &str) -> OsString {
    match folder {
        "" => toolkit.root().into(),
        _ => toolkit.root().join(folder).into(),
    }
}

/// The list with `folder` in front, once, and without empty elements.
fn to_front(folder: &OsStr, list: &OsStr) -> OsString {
    let others = elements(list).filter(|element| !element.is_empty() && *element != folder);
    let all: Vec<_> = [folder].into_iter().chain(others).map(OsStr::as_bytes).collect();
    OsString::from_vec(all.join(&b':'))
}

/// The elements of a list of folders; none for an empty list.
pub fn elements(list: &OsStr) -> impl Iterator<Item = &OsStr> {
    let all = list.as_bytes().split(|&byte| byte == b':').map(OsStr::from_bytes);
    all.filter(move |_| !list.is_empty())
}

/// Prints the variables as commands for a POSIX shell.
pub fn print() -> Result<ExitCode> {
    for (name, value) in variables(&Toolkit::of_current_exe()?, |name| std::env::var_os(name)) {
        println!("export {name}={}", quote(&value.to_string_lossy()));
    }
    Ok(ExitCode::SUCCESS)
}

/// The value as one word of a shell.
fn quote(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn values_with(list: Option<&str>) -> Vec<(&'static str, String)> {
        let variables =
            variables(&Toolkit::at(Path::new("/opt/my kit")), |_| list.map(OsString::from));
        variables.into_iter().map(|(name, value)| (name, value.into_string().unwrap())).collect()
    }

    #[test]
    fn the_toolkit_comes_first_and_once() {
        let expected = [
            ("ASCEND_HOME_PATH", "/opt/my kit"),
            ("ASCEND_TOOLKIT_HOME", "/opt/my kit"),
            ("ASCEND_OPP_PATH", "/opt/my kit/opp"),
            ("ASCEND_AICPU_PATH", "/opt/my kit"),
            ("LD_LIBRARY_PATH", "/opt/my kit/lib64:/opt/my kit/opp/lib64"),
            ("PYTHONPATH", "/opt/my kit/python/site-packages"),
            ("PATH", "/opt/my kit/bin"),
        ];
        assert_eq!(values_with(None), expected.map(|(name, value)| (name, value.to_string())));
        assert_eq!(values_with(Some("")), values_with(None));
        let list = &values_with(Some(":/a::/opt/my kit/lib64:/b:"))[4].1;
        assert_eq!(list, "/opt/my kit/lib64:/opt/my kit/opp/lib64:/a:/b");
    }

    #[test]
    fn words_of_the_shell() {
        assert_eq!(quote("/opt/my kit"), "'/opt/my kit'");
        assert_eq!(quote("it's"), r"'it'\''s'");
        assert_eq!(elements(OsStr::new("")).count(), 0);
        assert_eq!(elements(OsStr::new(":")).count(), 2);
    }
}
