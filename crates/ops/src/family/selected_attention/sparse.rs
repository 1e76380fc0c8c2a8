//! Attention to chosen keys, with rotary features.

use super::sequences::{Arrangement, LocatedSequences, SequenceArguments, Sequences};
use super::{TYPES, as_rows, expect_only, three};
use crate::call::Call;
use crate::error::{Error, Fault, Outcome, Result};
use crate::family::inputs::UnaliasedInput;
use crate::plan::{Memory, Operand, Plan};
use cairn_tensor::kernels::access::{PositionAccess, PositionAccessMut};
use cairn_tensor::kernels::selected_attention::{MOST_FEATURES, Selected, attend};
use cairn_tensor::{DType, Layout};

/// The blocks of keys that each query attends to.
#[derive(Clone, Copy)]
pub(super) struct Chosen {
    read: UnaliasedInput,
    rows: Layout,
    size: usize,
    name: &'static str,
}

impl Chosen {
    /// Reads the numbers and the size of a block, for queries and heads of keys.
    pub(super) fn read(
        call: &mut Call<'_>,
        [at, size_at]: [usize; 2],
        sizes: [usize; 2],
        outs: &[&Operand],
    ) -> Result<Chosen> {
        let size = call.int(size_at)?;
        let Some(size) = usize::try_from(size).ok().filter(|size| *size > 0) else {
            let name = call.parameter(size_at);
            return Err(Error::invalid(format!("{name} = {size}: expected a number above 0")));
        };
        Ok(Chosen { size, ..Chosen::of_keys(call, at, sizes, outs)? })
    }

    /// As [`Chosen::read`], where blocks are single keys.
    pub(super) fn of_keys(
        call: &mut Call<'_>,
        at: usize,
        [queries, key_heads]: [usize; 2],
        outs: &[&Operand],
    ) -> Result<Chosen> {
        let read = call.read(at, outs)?;
        call.expect_dtype(at, &read, &[DType::Int32])?;
        let rows = as_rows(call, at, &read)?;
        call.expect_dims(at, &rows, &[queries, key_heads, rows.dims()[2]])?;
        Ok(Chosen { read, rows, size: 1, name: call.parameter(at) })
    }

    /// How many blocks each query has.
    pub(super) fn count(&self) -> usize {
        self.rows.dims()[2]
    }

    /// Fails for a block that the keys of its sequence do not have.
    pub(super) fn check(&self, memory: &Memory<'_>, located: &LocatedSequences<'_>) -> Outcome {
        let Chosen { size, name, .. } = *self;
        let chosen = PositionAccess::new(self.read.with_layout(self.rows).view(memory));
        let &[queries, key_heads, count] = self.rows.dims() else { return Ok(()) };
        for query in 0..queries {
            let Some((at, _)) = located.visible(query) else { continue };
            let (first, last) = located.keys(at);
            let blocks = ((last - first) as usize).div_ceil(size);
            for head in 0..key_heads {
                for at in 0..count {
                    let value: i64 = chosen.get(&[query, head, at]);
                    if value < -1 || value >= blocks as i64 {
                        let last = blocks as i64 - 1;
                        return Err(Fault(format!(
                            "{name}[{query}, {head}, {at}] = {value} is outside -1 to {last}"
                        )));
                    }
                }
            }
        }
        Ok(())
    }

    /// The rows of the chosen keys of a query, as the kernels want them, once they are checked.
    pub(super) fn rows<'a>(
        &self,
        memory: &Memory<'a>,
        located: &'a LocatedSequences<'_>,
    ) -> impl Fn(usize, usize, usize) -> Option<Option<usize>> + Sync + 'a {
        let chosen = PositionAccess::new(self.read.with_layout(self.rows).prepared(memory));
        let (size, count) = (self.size, self.rows.dims()[2]);
        move |query, head, number| {
            let (at, seen) = located.visible(query)?;
            let block = number / size;
            if block >= count {
                return None;
            }
            let place = usize::try_from(chosen.get::<i64>(&[query, head, block])).ok()?;
            let key = place * size + number % size;
            Some((key < seen).then(|| located.row(at, key)))
        }
    }
}

/// Sums of exponentials and greatest products have the sizes key heads, tokens, group, or with batches in front: as queries, or
/// batches and steps, then key heads and group.
pub(super) fn statistics(
    call: &Call<'_>,
    at: usize,
    one: &Layout,
    sequences: &Sequences,
    [queries, key_heads, group]: [usize; 3],
) -> Result<Layout> {
    call.expect_dtype(at, one, &[DType::Float])?;
    match sequences.query {
        Arrangement::Packed => {
            call.expect_dims(at, one, &[key_heads, queries, group])?;
            Ok(one.transposed(0, 1))
        }
        _ => {
            let (count, steps) = (sequences.count, sequences.query_steps);
            call.expect_dims(at, one, &[count, key_heads, steps, group])?;
            Ok(one.transposed(1, 2))
        }
    }
}

/// Arguments: query, key, value, chosen, table, lengths of queries, lengths of keys, rotary queries, rotary keys, scale, size of a
/// block, layouts of queries and keys, mode, two windows, attention's mode, whether statistics are wanted, out, greatest
/// products, sums, sinks (refused).
pub(super) fn attention(call: &mut Call<'_>) -> Result<Plan> {
    if call.has(21) {
        let name = call.parameter(21);
        return Err(Error::invalid(format!(
            "{name} is there: the function's documentation has it for Ascend 950 alone"
        )));
    }
    expect_only(call, 16, &[2])?;
    let out = call.output(18)?;
    let stats = match call.flag(17)? {
        true => Some([call.output(19)?, call.output(20)?]),
        false => None,
    };
    let mut outs = vec![&out];
    outs.extend(stats.iter().flatten());
    let (query, key, value) = (call.read(0, &outs)?, call.read(1, &outs)?, call.read(2, &outs)?);
    call.expect_dtype(0, &query, TYPES)?;
    for (at, one) in [(1, &key), (2, &value)] {
        call.expect_same(at, one, 0, &query)?;
    }
    call.expect_dims(2, &value, key.dims())?;
    call.expect_same(18, &out, 0, &query)?;
    call.expect_dims(18, &out, query.dims())?;
    let at = SequenceArguments {
        lengths: [5, 6],
        table: Some(4),
        layouts: [11, 12],
        paged: "PA_BSND",
        bounds: false,
        mode: 13,
        windows: [14, 15],
        widths: &[i64::MAX],
    };
    let sequences = Sequences::read(call, &at, &query, &key, &outs)?;
    let (query_rows, key_rows) = (as_rows(call, 0, &query)?, as_rows(call, 1, &key)?);
    let value_rows = as_rows(call, 2, &value)?;
    let [queries, heads, features] = three(call, 0, query_rows.dims())?;
    let [_, key_heads, key_features] = three(call, 1, key_rows.dims())?;
    if key_heads == 0 || !heads.is_multiple_of(key_heads) || key_features != features {
        let (a, b) = (call.parameter(0), call.parameter(1));
        return Err(Error::invalid(format!(
            "{a} has {heads} heads of {features}, {b} {key_heads} of {key_features}"
        )));
    }
    let (rotary_query, rotary_key) = (call.read(7, &outs)?, call.read(8, &outs)?);
    call.expect_same(7, &rotary_query, 0, &query)?;
    call.expect_same(8, &rotary_key, 0, &query)?;
    let rotary = [as_rows(call, 7, &rotary_query)?, as_rows(call, 8, &rotary_key)?];
    let more = rotary[0].dims()[2];
    call.expect_dims(7, &rotary[0], &[queries, heads, more])?;
    call.expect_dims(8, &rotary[1], &[sequences.key_rows, key_heads, more])?;
    if features + more > MOST_FEATURES {
        return Err(Error::invalid(format!(
            "{features} and {more} features: expected at most {MOST_FEATURES}"
        )));
    }
    let chosen = Chosen::read(call, [3, 10], [queries, key_heads], &outs)?;
    let group = heads / key_heads;
    let mut stat_layouts = [*query; 2];
    if let Some(stats) = &stats {
        for ((at, one), layout) in [19, 20].into_iter().zip(stats).zip(&mut stat_layouts) {
            let sizes = [queries, key_heads, group];
            *layout = statistics(call, at, one.layout(), &sequences, sizes)?;
        }
    }
    for one in [&key, &value, &rotary_key] {
        one.touch_by_index(call);
    }
    let scale = call.float(9)? as f32;
    let out_rows = as_rows(call, 18, out.layout())?;
    let out = out.with_layout(out_rows);
    let steps = sequences.query_steps.max(1);
    let is_packed = sequences.query == Arrangement::Packed;
    call.plan(move |memory| {
        let located = sequences.locate(memory);
        located.check()?;
        chosen.check(memory, &located)?;
        let rows = chosen.rows(memory, &located);
        let tensors = Selected {
            query: query.with_layout(query_rows).view(memory),
            key: key.with_layout(key_rows).view(memory),
            value: value.with_layout(value_rows).view(memory),
            rotary: Some((
                rotary_query.with_layout(rotary[0]).view(memory),
                rotary_key.with_layout(rotary[1]).view(memory),
            )),
            scale,
        };
        let targets = stats.map(|stats| {
            let [a, b] = stats;
            [(a, stat_layouts[0]), (b, stat_layouts[1])]
                .map(|(one, layout)| PositionAccessMut::new(memory.out(&one.with_layout(layout))))
        });
        let put = |query: usize, head: usize, most: f32, sum: f32| {
            let Some([greatest, sums]) = &targets else { return };
            let (key_head, member) = (head / group, head % group);
            if is_packed {
                greatest.set(&[query, key_head, member], most);
                sums.set(&[query, key_head, member], sum);
            } else {
                let at = [query / steps, query % steps, key_head, member];
                greatest.set(&at, most);
                sums.set(&at, sum);
            }
        };
        attend(memory.parallel, memory.out(&out), &tensors, rows, put);
        Ok(())
    })
}
