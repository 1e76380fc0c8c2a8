//! Recurrent networks: whole ones, cells, and single layers by IR name.

mod by_name;
mod cell;
mod gru_node;
mod layer;
mod lstm_node;
mod network;

use crate::table::{Node, Row};

/// The rows of whole networks and of cells.
pub const ROWS: [&[Row]; 2] = [network::ROWS, cell::ROWS];

/// The nodes of layers.
pub const NODES: [&[Node]; 2] = [lstm_node::NODES, gru_node::NODES];
