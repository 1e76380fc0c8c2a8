//! cairn-tensor
