//! Mixtures of experts: experts are chosen ([`choice`]), tokens put in their order ([`routing`], [`permuting`],
//! [`routing_map`]), multiplied by their weights ([`grouped_matmul`], [`ffn`]; [`placing`]
//! is for experts in several places), and the results summed ([`finalizing`],
//! [`finalizing_gradients`]).

mod choice;
mod ffn;
mod finalizing;
mod finalizing_gradients;
mod grouped_matmul;
mod grouped_nodes;
mod groups;
mod permuting;
mod places;
mod placing;
mod quantised;
mod rerouting;
mod routing;
mod routing_map;
mod routing_map_gradients;

use crate::table::{Node, Row};

/// The rows of these families.
pub const ROWS: &[&[Row]] = &[
    choice::ROWS,
    ffn::ROWS,
    finalizing::ROWS,
    grouped_matmul::ROWS,
    permuting::ROWS,
    placing::ROWS,
    rerouting::ROWS,
    routing::ROWS,
    routing_map::ROWS,
    routing_map_gradients::ROWS,
];

/// Their operators by IR name.
pub const NODES: &[&[Node]] = &[
    choice::NODES,
    ffn::NODES,
    finalizing::NODES,
    grouped_nodes::NODES,
    placing::NODES,
    rerouting::NODES,
    routing::NODES,
];
