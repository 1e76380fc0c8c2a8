//! Mixtures of experts: experts are chosen ([`choice`]), tokens put in their order ([`routing`], [`permuting`],
//! [`routing_map`]), multiplied by their weights ([`grouped_matmul`], [`ffn`]), and the results summed ([`finalizing`]).

mod choice;
mod ffn;
mod finalizing;
mod grouped_matmul;
mod groups;
mod permuting;
mod quantised;
mod rerouting;
mod routing;
mod routing_map;

use crate::table::{Node, Row};

/// The rows of these families.
pub const ROWS: &[&[Row]] = &[
    choice::ROWS,
    ffn::ROWS,
    finalizing::ROWS,
    grouped_matmul::ROWS,
    permuting::ROWS,
    rerouting::ROWS,
    routing::ROWS,
    routing_map::ROWS,
];

/// Their operators by IR name.
pub const NODES: &[&[Node]] =
    &[choice::NODES, ffn::NODES, finalizing::NODES, rerouting::NODES, routing::NODES];
