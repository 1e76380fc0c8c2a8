//! Shared pieces of the program tests.
