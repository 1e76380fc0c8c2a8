//! Operators that communicate: the nodes `Hcom*` of graphs, products of matrices with a collective in the same step, and
//! the exchange of tokens between the ranks of a mixture of experts.
//!
//! A plan of these names its groups; whoever runs it hands them to the kernel ([`Memory::groups`]). What is sent or
//! received lies in the tensors themselves where their elements lie one after the other, else in the workspace.

mod barrier;
mod buffer;
mod hcom;
mod matmul;
mod moe;

use crate::call::Call;
use crate::error::{Error, Result};
use crate::group::{GroupUse, MessageUse, Reduction};
use crate::table::{Node, Row};

use smallvec::SmallVec;

use buffer::{PackedInput, PackedOutput};

/// The rows of this family, by file.
pub const ROWS: &[&[Row]] = &[matmul::ROWS, barrier::ROWS, moe::ROWS];
/// The nodes of this family, by file.
pub const NODES: &[&[Node]] = &[hcom::NODES, matmul::NODES, barrier::NODES];

/// The longest name of a communicator.
const MAX_NAME: usize = 127;

impl Call<'_> {
    /// Says that the plan uses the group that an argument names, as one of so many ranks. Returns its place in
    /// [`crate::Memory::groups`].
    fn group(&mut self, at: usize, size: Option<usize>) -> Result<usize> {
        self.group_as(at, size, None)
    }

    /// The same, where the call also says which rank this is.
    fn group_as(&mut self, at: usize, size: Option<usize>, rank: Option<usize>) -> Result<usize> {
        let (parameter, name) = (self.parameter(at), self.text(at)?);
        if name.is_empty() || name.len() > MAX_NAME {
            return Err(Error::invalid(format!(
                "{parameter} = {name:?}: expected the name of a communicator, of 1 to {MAX_NAME} characters"
            )));
        }
        if size == Some(0) {
            return Err(Error::invalid(format!("{parameter} {name:?}: a group of 0 ranks")));
        }
        let name = name.into();
        let messages = SmallVec::new();
        self.groups.push(GroupUse { name, parameter, size, rank, is_collective: true, messages });
        Ok(self.groups.len() - 1)
    }

    /// Says that the plan sends to one rank of a group, or receives from one; no other takes part.
    fn group_of_two(&mut self, at: usize, peer: usize, receives: bool) -> Result<(usize, usize)> {
        let (name, rank) = (self.parameter(peer), self.int(peer)?);
        let Ok(rank) = usize::try_from(rank) else {
            return Err(Error::invalid(format!("{name} = {rank}: expected a rank")));
        };
        let group = self.group(at, None)?;
        let one = &mut self.groups[group];
        one.is_collective = false;
        one.messages.push(MessageUse { rank, receives });
        Ok((group, rank))
    }

    /// The reduction that an argument names.
    fn reduction(&self, at: usize) -> Result<Reduction> {
        let (parameter, name) = (self.parameter(at), self.text(at)?);
        Reduction::by_name(name).ok_or_else(|| {
            Error::invalid(format!("{parameter} = {name:?}: expected sum, prod, max or min"))
        })
    }

    /// A number of ranks.
    fn ranks(&self, at: usize) -> Result<usize> {
        let (parameter, size) = (self.parameter(at), self.int(at)?);
        usize::try_from(size).ok().filter(|size| *size > 0).ok_or_else(|| {
            Error::invalid(format!("{parameter} = {size}: expected a number of ranks"))
        })
    }

    /// Fails for an argument that is there: it belongs to a quantised form, which is not supported.
    fn expect_not_quantised(&self, at: usize) -> Result<()> {
        match self.has(at) {
            false => Ok(()),
            true => Err(Error::invalid(format!(
                "{} is there: quantised forms of this operator are not supported",
                self.parameter(at)
            ))),
        }
    }

    /// Fails for a description of ranks that have left the group: a group here keeps its ranks.
    fn expect_no_elastic_information(&self, at: usize) -> Result<()> {
        match self.has(at) {
            false => Ok(()),
            true => Err(Error::invalid(format!(
                "{} is there: groups that lose ranks while they run are not supported",
                self.parameter(at)
            ))),
        }
    }
}
