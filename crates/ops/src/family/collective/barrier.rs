//! Barriers: operators that wait for every rank of a group and touch nothing.

use crate::call::Call;
use crate::error::Result;
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, No};
use crate::table::{AttrDefault, Node, Row, aclnn, node};

// Arguments: the tensor that the order of operators hangs on, group, ranks, elastic information.
const X: usize = 0;
const GROUP: usize = 1;
const SIZE: usize = 2;
const ELASTIC: usize = 3;

fn barrier(call: &mut Call<'_>) -> Result<Plan> {
    call.expect_no_elastic_information(ELASTIC)?;
    call.inout(X)?;
    let size = call.ranks(SIZE)?;
    let group = call.group(GROUP, Some(size))?;
    call.plan(move |memory| memory.groups[group].barrier())
}

/// The rows of this family. A time limit is the communicator's own.
pub const ROWS: &[Row] = &[
    aclnn("DistributeBarrier", barrier).with_args(&[A(0), A(1), A(2), No]),
    aclnn("DistributeBarrierV2", barrier).with_args(&[A(0), A(3), A(4), A(2)]),
];

/// The nodes of this family.
pub const NODES: &[Node] = &[node(
    "DistributeBarrier",
    &["x_ref", "time_out?", "elastic_info?"],
    &["x_ref"],
    Infer::Like(X),
    barrier,
    &[A(0), Attr("group", AttrDefault::Required), Attr("world_size", AttrDefault::Required), A(2)],
)
.writes_first()
.communicates()];
