//! Unsigned integers of more than 8 bits, which graphs and callers by IR name may compute with: in `u64`, cut to the bits
//! of the output's type.

use super::formula::{Formula, Kind};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::table::Bind;
use cairn_tensor::DType;
use cairn_tensor::kernels::element::is_wide_unsigned;
use cairn_tensor::kernels::number::Number;

macro_rules! unsigned {
    ($($(#[$doc:meta])* $name:ident = |$($x:ident),*| -> $result:ty { $body:expr })*) => {$(
        $(#[$doc])*
        pub const $name: Formula<{ <[&str]>::len(&[$(stringify!($x)),*]) }> = Formula {
            kind: Kind::Unsigned,
            defaults: &[],
            run: |_, args, _| args.map::<$(unsigned!(@type $x),)* $result>(|$($x: u64),*| $body),
            complex: None,
            known: None,
        };
    )*};
    (@type $x:ident) => { u64 };
}

unsigned! {
    /// x + y.
    ADD = |x, y| -> u64 { x.add(y) }
    /// x - y.
    SUB = |x, y| -> u64 { x.sub(y) }
    /// x y.
    MUL = |x, y| -> u64 { x.mul(y) }
    /// The quotient without its fraction; 0 by zero.
    DIV = |x, y| -> u64 { x.div_trunc(y) }
    /// What is left of a quotient; of one by zero, all of it.
    REMAINDER = |x, y| -> u64 { x.checked_rem(y).unwrap_or(x) }
    /// What is left of a quotient; 0 of one by zero.
    FMOD = |x, y| -> u64 { x.rem_trunc(y) }
    /// x to the power of y.
    POW = |x, y| -> u64 { x.power(y) }
    /// The lesser of two.
    MINIMUM = |x, y| -> u64 { x.min(y) }
    /// The greater of two.
    MAXIMUM = |x, y| -> u64 { x.max(y) }
    /// Bits of both.
    AND = |x, y| -> u64 { x & y }
    /// Bits of either.
    OR = |x, y| -> u64 { x | y }
    /// Bits of one.
    XOR = |x, y| -> u64 { x ^ y }
    /// Bits moved up; none are left after 64 places.
    LEFT_SHIFT = |x, y| -> u64 { if y < 64 { x << y } else { 0 } }
    /// Bits moved down; none are left after 64 places.
    RIGHT_SHIFT = |x, y| -> u64 { if y < 64 { x >> y } else { 0 } }
    /// x = y.
    EQ = |x, y| -> bool { x == y }
    /// x is not y.
    NE = |x, y| -> bool { x != y }
    /// x > y.
    GT = |x, y| -> bool { x > y }
    /// x >= y.
    GE = |x, y| -> bool { x >= y }
    /// x < y.
    LT = |x, y| -> bool { x < y }
    /// x <= y.
    LE = |x, y| -> bool { x <= y }
    /// The other bits.
    NOT = |x| -> u64 { !x }
    /// x itself.
    ABS = |x| -> u64 { x }
    /// 1, or 0 for 0.
    SIGN = |x| -> u64 { x.sign() }
    /// x between two bounds.
    CLAMP = |x, low, high| -> u64 { x.max(low).min(high) }
}

/// The plan of a formula for wide unsigned integers where the first of its `N` inputs are such, else another. Arguments:
/// the inputs, the output.
pub fn unsigned_or<const N: usize>(
    call: &mut Call<'_>,
    unsigned: &Formula<N>,
    other: Bind,
) -> Result<Plan> {
    let is_unsigned = |at: usize| call.layout(at).is_ok_and(|one| is_wide_unsigned(one.dtype));
    if !(0..N).any(is_unsigned) {
        return other(call);
    }
    let first = call.layout(0)?;
    for at in 1..N {
        call.expect_same(at, &call.layout(at)?, 0, &first)?;
    }
    unsigned.plan_at(call, std::array::from_fn(|at| at), &[], N)
}

impl Call<'_> {
    /// Fails for elements that are no unsigned integers of more than 8 bits.
    pub fn expect_wide_unsigned(&self, at: usize, dtype: DType) -> Result<()> {
        if is_wide_unsigned(dtype) {
            return Ok(());
        }
        let name = self.parameter(at);
        Err(Error::invalid(format!(
            "{name} has elements of type {dtype}; expected uint16, uint32 or uint64, as others have"
        )))
    }
}
