//! Attention to blocks of keys, of sequences whose ends the host knows; and its gradients.
//!
//! Workspace of the gradients: themselves, in `f32`.

use super::{TYPES, expect_only, three};
use crate::call::Call;
use crate::error::{Error, Fault, Outcome, Result};
use crate::family::inputs::UnaliasedInput;
use crate::plan::{Memory, Operand, Plan};
use cairn_tensor::kernels::access::{PositionAccess, PositionAccessMut};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::kernels::selected_attention::{
    MOST_FEATURES, Selected, SelectedGradients, attend, gradients,
};
use cairn_tensor::{DType, Scalar};

/// Ends of sequences that the host knows: the first and last row of the sequence of each row.
fn ends(call: &Call<'_>, at: usize, rows: usize) -> Result<Vec<usize>> {
    let (values, name) = (call.ints(at)?, call.parameter(at));
    let mut before = 0;
    for value in &values {
        match usize::try_from(*value).ok().filter(|end| (before..=rows).contains(end)) {
            Some(end) => before = end,
            None => {
                return Err(Error::invalid(format!(
                    "{name} = {values:?}: {value} is outside {before} to {rows}"
                )));
            }
        }
    }
    if before != rows {
        return Err(Error::invalid(format!(
            "{name} = {values:?} ends at {before}: expected {rows}"
        )));
    }
    Ok(values.iter().map(|one| *one as usize).collect())
}

/// What forward and backward of the attention to blocks have in common.
#[derive(Clone)]
struct Blocks {
    query: UnaliasedInput,
    key: UnaliasedInput,
    value: UnaliasedInput,
    chosen: UnaliasedInput,
    mask: Option<UnaliasedInput>,
    is_causal: bool,
    query_ends: Vec<usize>,
    key_ends: Vec<usize>,
    size: usize,
    count: usize,
    scale: f32,
    name: &'static str,
}

/// Where the arguments of the attention to blocks are.
struct BlockArguments {
    chosen: usize,
    mask: usize,
    query_ends: usize,
    key_ends: usize,
    scale: usize,
    heads: usize,
    layout: usize,
    mode: usize,
    size: usize,
    count: usize,
}

impl Blocks {
    fn read(call: &mut Call<'_>, at: &BlockArguments, outs: &[&Operand]) -> Result<Blocks> {
        let layout = call.text(at.layout)?;
        if layout != "TND" {
            let name = call.parameter(at.layout);
            return Err(Error::invalid(format!("{name} = {layout:?}: expected TND")));
        }
        let (query, key, value) = (call.read(0, outs)?, call.read(1, outs)?, call.read(2, outs)?);
        call.expect_dtype(0, &query, TYPES)?;
        call.expect_same(1, &key, 0, &query)?;
        call.expect_same(2, &value, 0, &query)?;
        let [queries, heads, features] = three(call, 0, query.dims())?;
        let [rows, key_heads, _] = three(call, 1, key.dims())?;
        let [_, _, width] = three(call, 2, value.dims())?;
        call.expect_dims(1, &key, &[rows, key_heads, features])?;
        call.expect_dims(2, &value, &[rows, key_heads, width])?;
        let named = call.int(at.heads)?;
        if key_heads == 0 || !heads.is_multiple_of(key_heads) || named != heads as i64 {
            let name = call.parameter(at.heads);
            return Err(Error::invalid(format!(
                "{name} = {named}, but queries have {heads} heads and keys {key_heads}"
            )));
        }
        if features > MOST_FEATURES || width > MOST_FEATURES {
            return Err(Error::invalid(format!(
                "{features} features: expected at most {MOST_FEATURES}"
            )));
        }
        let query_ends = ends(call, at.query_ends, queries)?;
        let key_ends = ends(call, at.key_ends, rows)?;
        if query_ends.len() != key_ends.len() {
            let (a, b) = (call.parameter(at.query_ends), call.parameter(at.key_ends));
            return Err(Error::invalid(format!("{a} and {b} have different lengths")));
        }
        let (size, count) = (call.int(at.size)?, call.int(at.count)?);
        let (Some(size), Some(count)) =
            (usize::try_from(size).ok().filter(|one| *one > 0), usize::try_from(count).ok())
        else {
            let name = call.parameter(at.size);
            return Err(Error::invalid(format!("{name} = {size}: expected a number above 0")));
        };
        let chosen = call.read(at.chosen, outs)?;
        call.expect_dtype(at.chosen, &chosen, &[DType::Int32])?;
        call.expect_dims(at.chosen, &chosen, &[queries, key_heads, count])?;
        let mode = expect_only(call, at.mode, &[0, 2])?;
        let has_mask = call.has(at.mask);
        let mask = match has_mask && mode == 0 {
            true => {
                let read = call.read(at.mask, outs)?;
                call.expect_dtype(at.mask, &read, &[DType::Bool, DType::Uint8])?;
                let longest = |ends: &[usize]| {
                    let starts = std::iter::once(0).chain(ends.iter().copied());
                    starts.zip(ends).map(|(start, end)| end - start).max().unwrap_or(0)
                };
                let (s1, s2) = (longest(&query_ends), longest(&key_ends));
                if read.rank() != 2 || read.dims()[0] < s1 || read.dims()[1] < s2 {
                    let (name, dims) = (call.parameter(at.mask), read.dims());
                    return Err(Error::invalid(format!(
                        "{name} has the sizes {dims:?}: expected at least {:?}",
                        [s1, s2]
                    )));
                }
                Some(read)
            }
            false => None,
        };
        key.touch_by_index(call);
        value.touch_by_index(call);
        Ok(Blocks {
            query,
            key,
            value,
            chosen,
            mask,
            is_causal: has_mask && mode == 2,
            query_ends,
            key_ends,
            size,
            count,
            scale: call.float(at.scale)? as f32,
            name: call.parameter(at.chosen),
        })
    }

    /// The first query and the keys of the sequence that a query belongs to.
    fn sequence(&self, query: usize) -> (usize, std::ops::Range<usize>) {
        let at = self.query_ends.partition_point(|end| *end <= query);
        let start = |ends: &[usize]| if at == 0 { 0 } else { ends[at - 1] };
        (start(&self.query_ends), start(&self.key_ends)..self.key_ends[at])
    }

    fn check(&self, memory: &Memory<'_>) -> Outcome {
        let chosen = PositionAccess::new(self.chosen.view(memory));
        for query in 0..self.query.dims()[0] {
            let blocks = self.sequence(query).1.len().div_ceil(self.size);
            for head in 0..self.key.dims()[1] {
                for at in 0..self.count {
                    let value: i64 = chosen.get(&[query, head, at]);
                    if !(0..blocks as i64).contains(&value) {
                        let (name, last) = (self.name, blocks as i64 - 1);
                        return Err(Fault(format!(
                            "{name}[{query}, {head}, {at}] = {value} is outside 0 to {last}"
                        )));
                    }
                }
            }
        }
        Ok(())
    }

    /// The rows of the chosen keys of a query, as the kernels want them.
    fn rows<'a>(
        &'a self,
        memory: &Memory<'a>,
    ) -> impl Fn(usize, usize, usize) -> Option<Option<usize>> + Sync + 'a {
        let chosen = PositionAccess::new(self.chosen.prepared(memory));
        let mask = self.mask.map(|read| PositionAccess::new(read.view(memory)));
        move |query, head, number| {
            let (block, at) = (number / self.size, number % self.size);
            if block >= self.count {
                return None;
            }
            let (first, keys) = self.sequence(query);
            let place = chosen.get::<i64>(&[query, head, block]).max(0) as usize * self.size + at;
            let step = query - first;
            let hidden = place >= keys.len()
                || (self.is_causal && place > step)
                || mask.as_ref().is_some_and(|mask| mask.get::<bool>(&[step, place]));
            Some((!hidden).then_some(keys.start + place))
        }
    }

    fn tensors<'a>(&self, memory: &Memory<'a>) -> Selected<'a> {
        Selected {
            query: self.query.view(memory),
            key: self.key.view(memory),
            value: self.value.view(memory),
            rotary: None,
            scale: self.scale,
        }
    }
}

/// Arguments: query, key, value, chosen blocks, mask, ends of queries, ends of keys, scale, heads, layout, mode, size of a block,
/// number of blocks, greatest products, sums, out.
pub(super) fn attention(call: &mut Call<'_>) -> Result<Plan> {
    let (greatest, sums, out) = (call.output(13)?, call.output(14)?, call.output(15)?);
    let at = BlockArguments {
        chosen: 3,
        mask: 4,
        query_ends: 5,
        key_ends: 6,
        scale: 7,
        heads: 8,
        layout: 9,
        mode: 10,
        size: 11,
        count: 12,
    };
    let blocks = Blocks::read(call, &at, &[&greatest, &sums, &out])?;
    let (queries, heads) = (blocks.query.dims()[0], blocks.query.dims()[1]);
    call.expect_dims(15, &out, &[queries, heads, blocks.value.dims()[2]])?;
    call.expect_same(15, &out, 0, &blocks.query)?;
    for (at, one) in [(13, &greatest), (14, &sums)] {
        call.expect_dims(at, one, &[queries, heads, 8])?;
        call.expect_dtype(at, one, &[DType::Float])?;
    }
    call.plan(move |memory| {
        blocks.check(memory)?;
        let stats = [greatest, sums].map(|one| PositionAccessMut::new(memory.out(&one)));
        let put = |query: usize, head: usize, most: f32, sum: f32| {
            stats[0].put_line(&[query, head, 0], &[most; 8]);
            stats[1].put_line(&[query, head, 0], &[sum; 8]);
        };
        let rows = blocks.rows(memory);
        attend(memory.parallel, memory.out(&out), &blocks.tensors(memory), rows, put);
        Ok(())
    })
}

/// Arguments: query, key, value, out, gradient, greatest products, sums, chosen blocks, ends of queries, ends of keys, mask,
/// scale, size of a block, number of blocks, heads, layout, mode, out of query, out of key, out of value.
pub(super) fn attention_gradients(call: &mut Call<'_>) -> Result<Plan> {
    let targets = [call.output(17)?, call.output(18)?, call.output(19)?];
    let outs = [&targets[0], &targets[1], &targets[2]];
    let at = BlockArguments {
        chosen: 7,
        mask: 10,
        query_ends: 8,
        key_ends: 9,
        scale: 11,
        heads: 14,
        layout: 15,
        mode: 16,
        size: 12,
        count: 13,
    };
    let blocks = Blocks::read(call, &at, &outs)?;
    let (queries, heads) = (blocks.query.dims()[0], blocks.query.dims()[1]);
    let (out, grad) = (call.read(3, &outs)?, call.read(4, &outs)?);
    for (at, one) in [(3, &out), (4, &grad)] {
        call.expect_dims(at, one, &[queries, heads, blocks.value.dims()[2]])?;
        call.expect_same(at, one, 0, &blocks.query)?;
    }
    let (greatest, sums) = (call.read(5, &outs)?, call.read(6, &outs)?);
    for (at, one) in [(5, &greatest), (6, &sums)] {
        call.expect_dims(at, one, &[queries, heads, 8])?;
        call.expect_dtype(at, one, &[DType::Float])?;
    }
    let sources = [&blocks.query, &blocks.key, &blocks.value];
    for ((at, one), source) in [17, 18, 19].into_iter().zip(&targets).zip(sources) {
        call.expect_dims(at, one, source.dims())?;
        call.expect_dtype(at, one, &[blocks.query.dtype, DType::Float])?;
    }
    let scratch = targets.map(|one| call.scratch(DType::Float, one.dims()));
    call.plan(move |memory| {
        blocks.check(memory)?;
        let parallel = memory.parallel;
        let [query, key, value] = scratch.map(|one| memory.scratch(&one));
        [key, value].iter().for_each(|one| fill_scalar(parallel, *one, Scalar::from(0)));
        let given =
            SelectedGradients { out: out.view(memory), grad: grad.view(memory), query, key, value };
        let greatest = PositionAccess::new(greatest.view(memory));
        let sums = PositionAccess::new(sums.view(memory));
        let stats = |query: usize, head: usize| {
            (greatest.get::<f32>(&[query, head, 0]), sums.get::<f32>(&[query, head, 0]))
        };
        gradients(parallel, &blocks.tensors(memory), &given, stats, blocks.rows(memory));
        for (target, sums) in targets.iter().zip([query, key, value]) {
            copy(parallel, memory.out(target), sums.view());
        }
        Ok(())
    })
}
