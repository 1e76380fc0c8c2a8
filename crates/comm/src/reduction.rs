//! How the elements of several ranks become one.

use crate::error::{Error, Result};

/// A reduction, with the number that `HcclReduceOp` gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Reduction {
    /// The sum; integers wrap.
    Sum = 0,
    /// The product; integers wrap.
    Product = 1,
    /// The greatest; NaN if one is.
    Max = 2,
    /// The least; NaN if one is.
    Min = 3,
}

impl Reduction {
    /// Every reduction.
    pub const ALL: [Reduction; 4] =
        [Reduction::Sum, Reduction::Product, Reduction::Max, Reduction::Min];

    /// The reduction with this number of `HcclReduceOp`; another one is not supported (5).
    pub fn from_number(number: i32) -> Result<Reduction> {
        usize::try_from(number)
            .ok()
            .and_then(|index| Reduction::ALL.get(index))
            .copied()
            .ok_or_else(|| {
                Error::unsupported(format!(
                    "the reduction {number} is none of HcclReduceOp (0 to 3)"
                ))
            })
    }

    /// Its name in texts.
    pub const fn name(self) -> &'static str {
        match self {
            Reduction::Sum => "sum",
            Reduction::Product => "prod",
            Reduction::Max => "max",
            Reduction::Min => "min",
        }
    }
}
