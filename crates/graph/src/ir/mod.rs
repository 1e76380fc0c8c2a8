//! The graph as its author wrote it.

mod attr;
mod desc;
mod graph;
mod operator;

pub use attr::{Attr, Attrs, Constant};
pub use desc::{Desc, UNKNOWN, UNKNOWN_RANK};
pub use graph::{CONST, DATA, Graph, NET_OUTPUT, NO_OP, Node, NodeId, Source};
pub use operator::{GraphOperators, LinkError, Operator, Parts, Port, Presence};
