//! Causal convolutions along sequences whose last steps are kept in a cache.

use crate::call::Call;
use crate::error::{Error, Fault, Outcome, Result};
use crate::family::inputs::UnaliasedInput;
use crate::infer::Infer;
use crate::plan::{Memory, Operand, Plan};
use crate::table::ArgSource::{A, Attr, B, O};
use crate::table::{ArgSource, AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::access::PositionAccess;
use cairn_tensor::kernels::causal_cache::{CachedConvolution, CachedSequence, convolve};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::{DType, Layout};

const TYPES: &[DType] = &[DType::Float16, DType::Bf16];

/// The number of weights of a channel. There is no other.
const TAPS: usize = 3;

// Arguments: x, weights, cache (read and written), starts, lines, first states (refused), bias (refused), accepted steps,
// computed steps, first and last block, block of the first state, activation, line of padding, mode of the run (not read),
// longest sequence (not read), residual, block size, mode, y.
const X: usize = 0;
const CACHE: usize = 2;
const STARTS: usize = 3;
const LINES: usize = 4;
const ACCEPTED: usize = 7;
const COMPUTED: usize = 8;
const FIRST: usize = 9;
const LAST: usize = 10;
const INITIAL: usize = 11;
const ACTIVATION: usize = 12;
const PADDING: usize = 13;
const RESIDUAL: usize = 16;
const BLOCK: usize = 17;
const MODE: usize = 18;
const OUT: usize = 19;
/// By name: what the cache is after all steps, in place of the one that is written.
const CACHE_OUT: usize = 20;
/// By name: whether steps that are left out stay in `y` as they are.
const KEEPS: usize = 21;

/// Numbers of each sequence, if they are there.
#[derive(Clone, Copy)]
struct Numbers {
    read: UnaliasedInput,
    name: &'static str,
}

impl Numbers {
    fn read(
        call: &mut Call<'_>,
        at: usize,
        count: usize,
        outs: &[&Operand],
    ) -> Result<Option<Numbers>> {
        if !call.has(at) {
            return Ok(None);
        }
        let read = call.read(at, outs)?;
        call.expect_dtype(at, &read, &[DType::Int32])?;
        call.expect_dims(at, &read, &[count])?;
        Ok(Some(Numbers { read, name: call.parameter(at) }))
    }
}

/// What says where sequences and their cached rows are.
#[derive(Clone, Copy)]
struct Directory {
    count: usize,
    steps: usize,
    /// The lines of the cache, and the rows of each.
    lines: usize,
    rows: usize,
    starts: Option<Numbers>,
    /// The lines of each sequence, one or a block of them.
    table: Option<(UnaliasedInput, &'static str)>,
    accepted: Option<Numbers>,
    computed: Option<Numbers>,
    /// First and last block of what is computed, and the block of the first state.
    blocks: Option<[Numbers; 3]>,
    block: usize,
    padding: i64,
    resets: bool,
}

/// The numbers of a directory, in memory.
struct Located<'a> {
    directory: Directory,
    starts: Option<PositionAccess<'a>>,
    table: Option<PositionAccess<'a>>,
    accepted: Option<PositionAccess<'a>>,
    computed: Option<PositionAccess<'a>>,
    blocks: Option<[PositionAccess<'a>; 3]>,
}

impl Directory {
    fn locate<'a>(&self, memory: &Memory<'a>) -> Located<'a> {
        let access = |one: Numbers| PositionAccess::new(one.read.view(memory));
        Located {
            directory: *self,
            starts: self.starts.map(access),
            table: self.table.map(|(read, _)| PositionAccess::new(read.view(memory))),
            accepted: self.accepted.map(access),
            computed: self.computed.map(access),
            blocks: self.blocks.map(|blocks| blocks.map(access)),
        }
    }
}

impl Located<'_> {
    /// The steps of a sequence.
    fn steps(&self, number: usize) -> (i64, i64) {
        match &self.starts {
            Some(starts) => (starts.get(&[number]), starts.get(&[number + 1])),
            None => {
                let each = self.directory.steps / self.directory.count.max(1);
                ((number * each) as i64, ((number + 1) * each) as i64)
            }
        }
    }

    /// The number in the table of lines, of a block where the table has blocks.
    fn line(&self, number: usize, block: i64) -> i64 {
        match &self.table {
            None => number as i64,
            Some(table) if self.blocks.is_some() => table.get(&[number, block.max(0) as usize]),
            Some(table) => table.get(&[number]),
        }
    }

    /// The first and last block of a sequence, and that of its first state.
    fn blocks(&self, number: usize) -> [i64; 3] {
        self.blocks.map_or([0; 3], |blocks| blocks.map(|one| one.get(&[number])))
    }

    /// The sequence with this number; `None` where there is none, `Some(None)` for one that is left out.
    fn sequence(&self, number: usize) -> Option<Option<CachedSequence>> {
        if number >= self.directory.count {
            return None;
        }
        let [_, last, initial] = self.blocks(number);
        let (start, end) = self.steps(number);
        let (read_line, write_line) = (self.line(number, initial), self.line(number, last));
        let padding = self.directory.padding;
        if self.table.is_some() && (read_line == padding || write_line == padding) {
            return Some(None);
        }
        let computed = self.computed.map(|one| one.get::<i64>(&[number]));
        let offset = match (computed, &self.accepted) {
            (Some(0), _) => None,
            (_, Some(accepted)) => Some(accepted.get::<i64>(&[number]).max(1) as usize - 1),
            _ => Some(self.directory.rows - (TAPS - 1)),
        };
        let length = (end - start).max(0) as usize;
        let zeros = match (self.directory.resets, computed) {
            (true, Some(computed)) => (TAPS as i64 - 1 - computed).clamp(0, length as i64) as usize,
            _ => 0,
        };
        let [start, read_line, write_line] =
            [start, read_line, write_line].map(|one| one.max(0) as usize);
        Some(Some(CachedSequence { start, length, read_line, write_line, offset, zeros }))
    }

    /// The line of the cache and the step that a full block ends before.
    fn fill(&self, number: usize, chunk: usize) -> Option<(i64, i64)> {
        self.blocks.as_ref()?;
        let [first, last, _] = self.blocks(number);
        let count = (last - first).max(0);
        if chunk as i64 >= count {
            return None;
        }
        let (start, end) = self.steps(number);
        let (length, block) = (end - start, self.directory.block as i64);
        let computed = self.computed.map_or(0, |one| one.get::<i64>(&[number]));
        let rest = (length - (block - computed.rem_euclid(block))).rem_euclid(block);
        let full = if rest == 0 { length - block } else { length - rest };
        let step = full - (count - chunk as i64 - 1) * block;
        Some((self.line(number, first + chunk as i64), step))
    }

    /// Fails where a number leads out of the tensors.
    fn check(&self) -> Outcome {
        let Directory { count, steps, lines, rows, .. } = self.directory;
        let fail = |name: &str, number: usize, value: i64, low: i64, high: i64| {
            Err(Fault(format!("{name}[{number}] = {value} is outside {low} to {high}")))
        };
        for number in 0..count {
            let (start, end) = self.steps(number);
            if let Some(starts) = &self.directory.starts {
                if start < 0 || start > steps as i64 {
                    return fail(starts.name, number, start, 0, steps as i64);
                }
                if end < start || end > steps as i64 {
                    return fail(starts.name, number + 1, end, start, steps as i64);
                }
            }
            let width = self
                .directory
                .table
                .map_or(1, |(read, _)| read.dims().get(1).copied().unwrap_or(1));
            if let Some(names) = &self.directory.blocks {
                for (name, value) in names.iter().zip(self.blocks(number)) {
                    if !(0..width as i64).contains(&value) {
                        return fail(name.name, number, value, 0, width as i64 - 1);
                    }
                }
            }
            let computed = self.computed.map_or(0, |one| one.get::<i64>(&[number]));
            if let (Some(name), true) = (&self.directory.computed, computed < 0) {
                return fail(name.name, number, computed, 0, i64::from(i32::MAX));
            }
            let Some(Some(sequence)) = self.sequence(number) else { continue };
            let [_, last, initial] = self.blocks(number);
            for line in [self.line(number, initial), self.line(number, last)] {
                if !(0..lines as i64).contains(&line) {
                    let name =
                        self.directory.table.map_or("the number of sequences", |(_, name)| name);
                    return fail(name, number, line, 0, lines as i64 - 1);
                }
            }
            if let (Some(accepted), Some(offset)) = (&self.directory.accepted, sequence.offset) {
                let value: i64 = self.accepted.map_or(1, |one| one.get(&[number]));
                if value < 1 || offset + TAPS - 1 > rows {
                    return fail(accepted.name, number, value, 1, (rows + 2 - TAPS) as i64);
                }
            }
            let mut chunk = 0;
            while let Some((line, step)) = self.fill(number, chunk) {
                if !(0..lines as i64).contains(&line) {
                    let name = self.directory.table.map_or("", |(_, name)| name);
                    return fail(name, number, line, 0, lines as i64 - 1);
                }
                if step < 0 || step > sequence.length as i64 {
                    let length = sequence.length;
                    return Err(Fault(format!(
                        "sequence {number} of {length} steps has no block that ends before step {step}"
                    )));
                }
                chunk += 1;
            }
        }
        Ok(())
    }
}

/// See the top of the file for the arguments. Without `y` the results go to `x`.
fn fused(call: &mut Call<'_>) -> Result<Plan> {
    for at in [5, 6] {
        if call.has(at) {
            let name = call.parameter(at);
            return Err(Error::invalid(format!(
                "{name} is there: the function's documentation does not support it"
            )));
        }
    }
    if call.int_or(ACTIVATION, 0)? != 0 {
        let (name, value) = (call.parameter(ACTIVATION), call.int(ACTIVATION)?);
        return Err(Error::invalid(format!("{name} = {value}: there is no activation but 0")));
    }
    let in_place = !call.has(OUT);
    let out = if in_place { call.inout(X)? } else { call.output(OUT)? };
    let cache = if call.has(CACHE_OUT) { call.output(CACHE_OUT)? } else { call.inout(CACHE)? };
    let outs = [&out, &cache];
    let before = match call.has(CACHE_OUT) {
        true => {
            let read = call.tensor(CACHE)?;
            call.expect_dims(CACHE_OUT, &cache, read.dims())?;
            Some(call.unaliased(read, &[&out]))
        }
        false => None,
    };
    let x = if in_place { None } else { Some(call.read(X, &outs)?) };
    let layout = call.layout(X)?;
    call.expect_dtype(X, &layout, TYPES)?;
    call.expect_same(CACHE, &cache, X, &layout)?;
    if !in_place {
        call.expect_same(OUT, &out, X, &layout)?;
        call.expect_dims(OUT, &out, layout.dims())?;
    } else if call.shares(&cache, &out) {
        return Err(Error::invalid("the cache shares memory with x"));
    }
    let weights = call.read(1, &outs)?;
    call.expect_same(1, &weights, X, &layout)?;
    let (steps, channels, batches) = match layout.dims() {
        [steps, channels] => (*steps, *channels, None),
        [batches, each, channels] => (batches * each, *channels, Some(*batches)),
        dims => {
            let name = call.parameter(X);
            return Err(Error::invalid(format!("{name} has the sizes {dims:?}: expected 2 or 3")));
        }
    };
    call.expect_dims(1, &weights, &[TAPS, channels])?;
    let &[lines, rows, _] = cache.dims() else {
        let (name, dims) = (call.parameter(CACHE), cache.dims());
        return Err(Error::invalid(format!("{name} has the sizes {dims:?}: expected 3")));
    };
    call.expect_dims(CACHE, &cache, &[lines, rows, channels])?;
    if rows < TAPS - 1 {
        let name = call.parameter(CACHE);
        return Err(Error::invalid(format!(
            "{name} has {rows} rows: expected at least {}",
            TAPS - 1
        )));
    }
    let count = match (call.has(STARTS), batches) {
        (true, _) => call.layout(STARTS)?.count().saturating_sub(1),
        (false, Some(batches)) => batches,
        (false, None) => {
            let name = call.parameter(STARTS);
            return Err(Error::Null(format!("{name} is null: where do sequences begin?")));
        }
    };
    let starts = match batches {
        Some(_) => None,
        None => Numbers::read(call, STARTS, count + 1, &outs)?,
    };
    let block_numbers = [
        Numbers::read(call, FIRST, count, &outs)?,
        Numbers::read(call, LAST, count, &outs)?,
        Numbers::read(call, INITIAL, count, &outs)?,
    ];
    let computed = Numbers::read(call, COMPUTED, count, &outs)?;
    let blocks = match (block_numbers, call.has(LINES) && computed.is_some()) {
        ([Some(first), Some(last), Some(initial)], true) => Some([first, last, initial]),
        _ => None,
    };
    let table = match call.has(LINES) {
        true => {
            let read = call.read(LINES, &outs)?;
            call.expect_dtype(LINES, &read, &[DType::Int32])?;
            let fits = match (read.dims(), blocks.is_some()) {
                ([have], false) => *have == count,
                ([have, _], true) => *have == count,
                _ => false,
            };
            if !fits {
                let (name, dims) = (call.parameter(LINES), read.dims());
                return Err(Error::invalid(format!(
                    "{name} has the sizes {dims:?}: expected a line for each of {count} sequences, or with blocks a row"
                )));
            }
            Some((read, call.parameter(LINES)))
        }
        false => None,
    };
    let mode = call.int_or(MODE, 0)?;
    if !(0..=1).contains(&mode) || (mode == 1 && computed.is_none()) {
        let (name, other) = (call.parameter(MODE), call.parameter(COMPUTED));
        return Err(Error::invalid(format!("{name} = {mode}: expected 0, or 1 with {other}")));
    }
    let block = call.int_or(BLOCK, 128)?;
    let Some(block) = usize::try_from(block).ok().filter(|block| *block >= 2) else {
        let name = call.parameter(BLOCK);
        return Err(Error::invalid(format!("{name} = {block}: expected 2 or more")));
    };
    let directory = Directory {
        count,
        steps,
        lines,
        rows,
        starts,
        table,
        accepted: Numbers::read(call, ACCEPTED, count, &outs)?,
        computed,
        blocks,
        block,
        padding: call.int_or(PADDING, -1)?,
        resets: mode == 1,
    };
    let residual = call.flag_or(RESIDUAL, true)?;
    let dims = [steps, channels];
    let no_rows = |call: &Call<'_>, at: usize| {
        Error::invalid(format!("{} has no steps in order", call.parameter(at)))
    };
    let flat = out.reshaped(&dims).ok_or_else(|| no_rows(call, if in_place { X } else { OUT }))?;
    let out = out.with_layout(flat);
    let x = match x {
        Some(read) => {
            let flat = read.reshaped(&dims).ok_or_else(|| no_rows(call, X))?;
            Some(read.with_layout(flat))
        }
        None => None,
    };
    if before.is_none() {
        call.touch_by_index(&cache);
    }
    let keeps = call.flag_or(KEEPS, false)?;
    if table.is_some() && !keeps {
        call.touch_by_index(&out);
    }
    call.plan(move |memory| {
        let located = directory.locate(memory);
        located.check()?;
        let target = memory.out(&out);
        if let Some(before) = &before {
            before.prepare(memory);
        }
        if let Some(read) = &x {
            read.prepare(memory);
            if keeps {
                copy(memory.parallel, target, read.prepared(memory));
            }
        }
        if let Some(before) = before {
            copy(memory.parallel, memory.out(&cache), before.prepared(memory));
        }
        let tensors = CachedConvolution {
            x: x.map_or(target.view(), |read| read.prepared(memory)),
            weights: weights.view(memory),
            cache: memory.out(&cache),
            out: target,
            residual,
        };
        let fills = |number: usize, chunk: usize| {
            let (line, step) = located.fill(number, chunk)?;
            Some((line.max(0) as usize, step.max(0) as usize))
        };
        convolve(memory.parallel, &tensors, |number| located.sequence(number), fills);
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] =
    &[aclnn("FusedCausalConv1d", fused), aclnn("InplaceFusedCausalConv1d", fused)];

/// The cache, and results like the steps.
fn outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![call.layout(CACHE)?.packed(), call.layout(X)?.packed()])
}

/// The inputs of the operators by IR name.
const INPUTS: &[&str] = &[
    "x",
    "weight",
    "conv_states",
    "query_start_loc?",
    "cache_indices?",
    "initial_state_mode?",
    "bias?",
    "num_accepted_tokens?",
    "num_computed_tokens?",
    "block_idx_first_scheduled_token?",
    "block_idx_last_scheduled_token?",
    "initial_state_idx?",
];

/// Where they find their arguments.
#[rustfmt::skip]
const fn sources(keeps: bool) -> [ArgSource; 22] { [
    A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(7), A(8), A(9), A(10), A(11),
    Attr("activation_mode", AttrDefault::Int(0)), Attr("pad_slot_id", AttrDefault::Int(-1)),
    Attr("run_mode", AttrDefault::Int(0)), Attr("max_query_len", AttrDefault::Int(-1)),
    Attr("residual_connection", AttrDefault::Int(1)), Attr("block_size", AttrDefault::Int(128)),
    Attr("conv_mode", AttrDefault::Int(0)), O(1), O(0), B(keeps),
] }

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "FusedCausalConv1d",
        INPUTS,
        &["conv_states", "y"],
        Infer::By(outputs),
        fused,
        &const { sources(false) },
    ),
    node(
        "InplaceFusedCausalConv1d",
        INPUTS,
        &["conv_states", "x"],
        Infer::By(outputs),
        fused,
        &const { sources(true) },
    )
    .writes(&[(0, 2), (1, 0)]),
];
