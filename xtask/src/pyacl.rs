//! The Python module `acl` in the toolkit: the library under the name that Python looks for, and type stubs made
//! from the same table as its functions.

use std::{fs, path::Path};

use anyhow::{Context, Result};

#[path = "../../python/stubs.rs"]
mod stubs;
#[allow(dead_code, reason = "shared with the build script of the module, which reads every field")]
#[path = "../../python/table.rs"]
mod table;

/// What cargo makes of the package, and what Python imports as `acl`.
pub const LIBRARY: (&str, &str) = ("libacl.so", "python/site-packages/acl.abi3.so");

/// The package of stubs, as type checkers look for it.
const STUBS: &str = "python/site-packages/acl-stubs";

/// The stubs: names in the toolkit, and what is in them.
pub fn stub_files(root: &Path) -> Result<Vec<(String, String)>> {
    let path = root.join("python/functions.txt");
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let files = stubs::files(&table::parse(&text));
    Ok(files.into_iter().map(|(name, text)| (format!("{STUBS}/{name}"), text)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stubs_say_what_the_table_says() {
        let files = stub_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
        let file = |name: &str| {
            let path = format!("{STUBS}/{name}.pyi");
            &files.iter().find(|(file, _)| *file == path).unwrap().1
        };
        assert!(
            file("rt").contains("def malloc(size: int, policy: int) -> Tuple[int, int]: ...\n")
        );
        assert!(file("op").contains("def destroy_attr(attr: int) -> None: ...\n"));
        assert!(
            file("__init__").contains("def init(config_path: Optional[str] = None) -> int: ...\n")
        );
        assert!(
            file("__init__")
                .contains("from . import rt as rt, op as op, mdl as mdl, util as util\n")
        );
        assert!(file("mdl").contains(
            "def get_input_dims(desc: int, index: int) -> Tuple[dict[str, Any], int]: ...\n"
        ));
    }
}
