//! Searches for inputs of `cairn_fuzz::ge_model`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cairn_fuzz::ge_model(data));
