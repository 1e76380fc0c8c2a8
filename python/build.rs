//! Makes the wrappers of `functions.txt`, and compiles the C++ side.

mod table;
mod wrappers;

fn main() {
    let bridge = ["../cpp/bridge.h", "../cpp/user_call.h"];
    let own = ["functions.txt", "table.rs", "wrappers.rs", "build.rs", "src/trampoline.cpp"];
    for file in own.iter().chain(&bridge) {
        println!("cargo::rerun-if-changed={file}");
    }
    let functions = table::parse(&std::fs::read_to_string("functions.txt").expect("functions.txt"));
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    std::fs::write(format!("{out}/wrappers.rs"), wrappers::source(&functions))
        .expect("a writable OUT_DIR");
    cc::Build::new()
        .cpp(true)
        .debug(false)
        .std("c++17")
        .include("../cpp")
        .file("src/trampoline.cpp")
        .flag_if_supported("-fvisibility=hidden")
        .warnings_into_errors(true)
        .compile("cairn_acl_trampoline");
}
