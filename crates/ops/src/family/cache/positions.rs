//! Rotary position embedding of queries and keys by their positions, with cosines and sines from a table.

use super::pages::check_indices;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::family::attention::check_scratch;
use crate::plan::Plan;
use crate::table::ArgSource::{A, I};
use crate::table::{Row, aclnn};
use cairn_tensor::kernels::access::PositionAccess;
use cairn_tensor::kernels::rotary_table::{TableRotation, rotate_tokens, table_scratch};
use cairn_tensor::{DType, Layout};

const TABLE: usize = 3;
const SECTIONS: usize = 4;
const HEAD: usize = 5;
const CACHE_FORM: usize = 7;

/// Which of three positions of a token a pair of features is rotated by.
#[derive(Clone, Copy)]
enum Sections {
    /// There is one position.
    One,
    /// The first pairs by the first, those before the second number by the second, the others by the third.
    InParts(usize, usize),
    /// By turns, before this pair; by the first after it.
    ByTurns(usize),
}

impl Sections {
    fn of(self, pair: usize) -> usize {
        match self {
            Sections::One => 0,
            Sections::InParts(first, _) if pair < first => 0,
            Sections::InParts(_, second) if pair < second => 1,
            Sections::InParts(..) => 2,
            Sections::ByTurns(end) if pair < end => pair % 3,
            Sections::ByTurns(_) => 0,
        }
    }
}

/// The sections of a call whose positions have this rank.
fn sections(call: &Call<'_>, positions: &Layout, pairs: usize) -> Result<Sections> {
    if positions.rank() == 1 {
        return Ok(Sections::One);
    }
    let (values, name) = (call.ints(SECTIONS)?, call.parameter(SECTIONS));
    let wrong =
        |expected: &str| Error::invalid(format!("{name} = {values:?}: expected {expected}"));
    if values.len() == 4 && values[3] > 0 {
        return Err(wrong(
            "three sections: the documentation of four wants a fourth row of positions, which has none",
        ));
    }
    let sizes: Vec<usize> = values.iter().filter_map(|one| usize::try_from(*one).ok()).collect();
    let total = sizes.iter().fold(0usize, |all, one| all.saturating_add(*one));
    if sizes.len() != values.len() || !matches!(values.len(), 3 | 4) || total != pairs {
        return Err(wrong(&format!("three sections of {pairs} pairs in all")));
    }
    match call.int(CACHE_FORM)? {
        0 => Ok(Sections::InParts(sizes[0], sizes[0] + sizes[1])),
        1 => Ok(Sections::ByTurns(3 * sizes[1])),
        other => {
            let name = call.parameter(CACHE_FORM);
            Err(Error::invalid(format!("{name} = {other}: 0 and 1 are known")))
        }
    }
}

/// Arguments: positions, queries, keys, table of cosines and sines, sections or absent, features of a head, whether pairs are
/// half a head apart, order of the sections, rotated queries and keys.
fn rotate(call: &mut Call<'_>) -> Result<Plan> {
    let outs = [call.output(8)?, call.output(9)?];
    let apart = [&outs[0], &outs[1]];
    let table = call.read_by_index(TABLE, &apart)?;
    const TYPES: &[DType] = &[DType::Float, DType::Float16, DType::Bf16];
    call.expect_dtype(TABLE, &table, TYPES)?;
    let size = call.int(HEAD)?;
    let features = usize::try_from(size).ok().filter(|size| *size > 0).unwrap_or(0);
    let fits = table.rank() == 2
        && features > 0
        && table.dims()[1] <= features
        && table.dims()[1].is_multiple_of(2);
    if !fits {
        let (name, head, have) = (call.parameter(TABLE), call.parameter(HEAD), table.dims());
        return Err(Error::invalid(format!(
            "{name} has the sizes {have:?}: expected positions, and an even number of features of at most {head} = {size}"
        )));
    }
    let positions = call.read_index(0, &apart)?;
    let tokens = positions.dims().last().copied().unwrap_or(0);
    let is_known = positions.rank() == 1 || (positions.rank() == 2 && positions.dims()[0] == 3);
    if !is_known {
        let (name, have) = (call.parameter(0), positions.dims());
        return Err(Error::invalid(format!(
            "{name} has the sizes {have:?}: expected tokens, or 3 and tokens"
        )));
    }
    let sections = sections(call, &positions, table.dims()[1] / 2)?;
    let halves = call.flag(6)?;
    let mut work = Vec::new();
    for (at, out) in outs.iter().enumerate() {
        let x = call.tensor(1 + at)?;
        call.expect_dtype(1 + at, &x, TYPES)?;
        call.expect_same(TABLE, &table, 1 + at, &x)?;
        let by_heads = |one: &Layout| {
            let [rows, columns] = *one.dims() else { return None };
            let heads = columns / features;
            let stride = one.strides()[1];
            (rows == tokens && heads * features == columns).then(|| {
                let strides = [one.strides()[0], features as isize * stride, stride];
                Layout::strided(one.dtype, &[rows, heads, features], &strides, one.offset)
            })
        };
        call.expect_dims(8 + at, out, x.dims())?;
        call.expect_same(8 + at, out, 1 + at, &x)?;
        let x = call.unaliased(x, &apart);
        let (Some(from), Some(to)) = (by_heads(&x), by_heads(out)) else {
            let (name, have) = (call.parameter(1 + at), x.dims());
            return Err(Error::invalid(format!(
                "{name} has the sizes {have:?}: expected {tokens} tokens and heads of {features} features"
            )));
        };
        work.push((x.with_layout(from), out.with_layout(to)));
    }
    let scratch = call.scratch(DType::Float, &table_scratch(tokens, features));
    let name = call.parameter(0);
    call.plan(move |memory| {
        check_scratch(&memory.scratch(&scratch))?;
        let positions = positions.view(memory);
        let table = table.view(memory);
        check_indices(&positions, name, 0, table.dims()[0])?;
        let numbers = PositionAccess::new(positions);
        let row = |token: usize, pair: usize| {
            let number: i64 = match sections {
                Sections::One => numbers.get(&[token]),
                sections => numbers.get(&[sections.of(pair), token]),
            };
            number as usize
        };
        let rotation = TableRotation { table, halves, row: &row };
        work.iter().for_each(|(x, _)| x.prepare(memory));
        for (x, out) in &work {
            let scratch = memory.scratch(&scratch);
            rotate_tokens(memory.parallel, memory.out(out), x.prepared(memory), &rotation, scratch);
        }
        Ok(())
    })
}

/// The rows of this file.
pub const ROWS: &[Row] = &[
    aclnn("RopeWithSinCosCache", rotate).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        I(0),
        A(7),
        A(8),
    ]),
    aclnn("RopeWithSinCosCacheV2", rotate),
];
