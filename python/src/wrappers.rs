//! The functions that the build script makes from `functions.txt`, and those written by hand beside them.

#![allow(non_snake_case, clippy::too_many_arguments, reason = "the names and functions of C")]
#![allow(clippy::let_unit_value, reason = "functions of C that return nothing are no exception")]

use crate::{
    aipp::*,
    allocator::*,
    arguments::{Index, Lists, Number, Numbers, Pairs, Real, Reals, Text, Texts, text},
    interpreter::{without_gil, without_gil_checking_fork},
    library::{Library, c_functions},
    model_options::*,
    models::*,
    physical::*,
    structs::*,
    util::*,
};
use pyo3::prelude::*;
use std::ffi::c_char;

include!(concat!(env!("OUT_DIR"), "/wrappers.rs"));
