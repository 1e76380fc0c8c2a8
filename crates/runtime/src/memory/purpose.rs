//! What memory is for, and for whom.

pub use cairn_record::entry::Purpose;

/// Who a block is for, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The id that the user gave the graph: two sessions may have the same.
    pub graph: Option<u32>,
    /// The loaded graph: [`crate::record::event::StepPlan::loaded`].
    pub loaded: Option<u64>,
    /// The operator, by the name the user knows.
    pub operator: Option<&'static str>,
}
