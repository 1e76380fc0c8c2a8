//! Makes the wrappers of `functions.txt`.

mod table;
mod wrappers;

fn main() {
    for file in ["functions.txt", "table.rs", "wrappers.rs", "build.rs"] {
        println!("cargo::rerun-if-changed={file}");
    }
    let functions = table::parse(&std::fs::read_to_string("functions.txt").expect("functions.txt"));
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    std::fs::write(format!("{out}/wrappers.rs"), wrappers::source(&functions))
        .expect("a writable OUT_DIR");
}
