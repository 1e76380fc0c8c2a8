//! The kinds of operators.

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $value:literal, $function:literal;)*) => {
        /// Which operator: the numbers are those of `HcclCMDType`, where it has one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum OperatorKind {
            $($(#[$doc])* $name = $value,)*
        }

        impl OperatorKind {
            /// The operator with this number.
            pub fn from_number(number: u8) -> Option<OperatorKind> {
                match number {
                    $($value => Some(OperatorKind::$name),)*
                    _ => None,
                }
            }

            /// The name of its C function.
            pub const fn name(self) -> &'static str {
                match self {
                    $(OperatorKind::$name => $function,)*
                }
            }
        }
    };
}

kinds! {
    /// From the root to all.
    Broadcast = 1, "HcclBroadcast";
    /// Reduced, for all.
    AllReduce = 2, "HcclAllReduce";
    /// Reduced, for the root.
    Reduce = 3, "HcclReduce";
    /// To one rank.
    Send = 4, "HcclSend";
    /// From one rank.
    Receive = 5, "HcclRecv";
    /// Everybody's, for all.
    AllGather = 6, "HcclAllGather";
    /// Reduced, a part for each.
    ReduceScatter = 7, "HcclReduceScatter";
    /// A part of everybody's for each, by lists of counts.
    AllToAllV = 8, "HcclAlltoAllV";
    /// The same by a matrix of counts.
    AllToAllVC = 9, "HcclAlltoAllVC";
    /// The same in equal parts.
    AllToAll = 10, "HcclAlltoAll";
    /// From the root, a part for each.
    Scatter = 12, "HcclScatter";
    /// Several sends and receives.
    Batch = 13, "HcclBatchSendRecv";
    /// As `AllGather`, by a list of counts.
    AllGatherV = 16, "HcclAllGatherV";
    /// As `ReduceScatter`, by a list of counts.
    ReduceScatterV = 17, "HcclReduceScatterV";
    /// Nothing moves, all wait for all.
    Barrier = 200, "HcclBarrier";
    /// A task that does more than communicate: its number; its steps have kinds of their own.
    Fused = 201, "a fused operator";
}

impl OperatorKind {
    /// Whether it has a root.
    pub fn has_root(self) -> bool {
        matches!(self, OperatorKind::Broadcast | OperatorKind::Reduce | OperatorKind::Scatter)
    }

    /// Whether it has lists of counts.
    pub fn has_lists(self) -> bool {
        matches!(
            self,
            OperatorKind::AllToAllV
                | OperatorKind::AllToAllVC
                | OperatorKind::AllGatherV
                | OperatorKind::ReduceScatterV
        )
    }

    /// Whether it is made of single messages between two ranks, and does not involve all.
    pub fn is_single(self) -> bool {
        matches!(self, OperatorKind::Send | OperatorKind::Receive | OperatorKind::Batch)
    }
}
