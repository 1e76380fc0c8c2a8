//! The tests of `src/stacks`: the library itself is for C programs, and has no test build.
#![allow(dead_code, reason = "the library uses more of these files than their tests do")]

#[path = "../src/stacks/line_table.rs"]
mod line_table;
#[path = "../src/stacks/python_layout.rs"]
mod python_layout;
#[path = "../src/stacks/safe_read.rs"]
mod safe_read;
