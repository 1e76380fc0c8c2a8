//! Runs the C and C++ programs under `tests/`.
fn main() {}
