//! What the program tests share.

pub mod abi;
pub mod checker;
pub mod checks;
pub mod commands;
pub mod headers;
pub mod ids;
pub mod models;
pub mod operators;
pub mod pictures;
pub mod pools;
pub mod program;
pub mod ranks;
pub mod records;
pub mod replays;
pub mod run;
pub mod shell;
pub mod structure;
pub mod symbols;
pub mod toolkit;
