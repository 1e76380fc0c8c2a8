//! Compiles the C++ side: the trampolines that stop exceptions, and the variadic log function.

fn main() {
    println!("cargo:rerun-if-changed=src/trampoline.cpp");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .file("src/trampoline.cpp")
        .flag_if_supported("-fvisibility=hidden")
        .warnings_into_errors(true)
        .compile("cairn_trampoline");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,now");
}
