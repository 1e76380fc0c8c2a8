//! cairn-runtime
