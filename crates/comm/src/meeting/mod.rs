//! How the ranks of a communicator find each other.

pub mod root_info;
