//! Searches for inputs of `cairn_fuzz::meeting`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cairn_fuzz::meeting(data));
