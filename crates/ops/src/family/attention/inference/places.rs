//! Where keys and values of inference are: in tensors of batches, in one for each sequence, packed, or in blocks.

use super::arguments::*;
use crate::call::Call;
use crate::error::{Error, Fault, Outcome, Result};
use crate::plan::{Memory, Operand};
use cairn_tensor::kernels::access::PositionAccess;
use cairn_tensor::kernels::attention::cache::Store;
use cairn_tensor::{DType, Layout};

const TYPES: &[DType] = &[DType::Float, DType::Float16, DType::Bf16];

/// The operands of one store, as blocks (or batches), heads, chunks, positions, features.
#[derive(Clone, Copy)]
pub(super) struct StoreOperands {
    key: Operand,
    rope: Option<Operand>,
    value: Operand,
}

impl StoreOperands {
    /// As kernels take it.
    pub(super) fn views<'a>(&self, memory: &Memory<'a>) -> Store<'a> {
        Store {
            key: [Some(memory.view(&self.key)), self.rope.map(|rope| memory.view(&rope))],
            value: [Some(memory.view(&self.value)), None],
        }
    }

    /// Blocks, or batches.
    pub(super) fn blocks(&self) -> usize {
        self.key.dims()[0]
    }

    /// Positions of each.
    pub(super) fn positions(&self) -> usize {
        self.key.dims()[3]
    }

    fn features_of(layout: &Layout) -> usize {
        layout.dims()[2] * layout.dims()[4]
    }

    /// Features of keys, then of values.
    pub(super) fn features(&self) -> [usize; 2] {
        let rope = self.rope.map_or(0, |rope| StoreOperands::features_of(&rope));
        [StoreOperands::features_of(&self.key) + rope, StoreOperands::features_of(&self.value)]
    }

    /// Says that values decide which keys are read.
    pub(super) fn touch_by_index(&self, call: &mut Call<'_>) {
        for operand in [Some(self.key), self.rope, Some(self.value)].iter().flatten() {
            call.touch_by_index(operand);
        }
    }

    /// Its operands.
    pub(super) fn operands(&self) -> impl Iterator<Item = Operand> + use<> {
        [Some(self.key), self.rope, Some(self.value)].into_iter().flatten()
    }
}

/// The cache of a paged sequence: blocks, positions and features of all heads; or blocks, heads, positions, features; or
/// blocks, heads, chunks, positions and the features of a chunk.
fn paged_layout(call: &Call<'_>, at: usize, layout: &Layout, heads: usize) -> Result<Layout> {
    let found = match layout.rank() {
        3 => split_heads(layout, heads).map(|layout| layout.permuted(&[0, 2, 1, 3]).with(2)),
        4 => Some(layout.with(2)),
        5 => Some(*layout),
        _ => None,
    };
    found.filter(|found| found.dims()[1] == heads).ok_or_else(|| {
        let name = call.parameter(at);
        Error::invalid(format!(
            "{name} ({layout}) is no cache of {heads} heads: expected blocks, positions, features of all heads; \
             or blocks, heads, positions, features; or blocks, heads, chunks, positions, features of a chunk"
        ))
    })
}

/// One tensor of keys or values in the order of the stores.
fn placed(
    call: &Call<'_>,
    at: usize,
    operand: Operand,
    groups: usize,
    paged: bool,
) -> Result<Operand> {
    call.expect_dtype(at, &operand, TYPES)?;
    let layout = match paged {
        true => paged_layout(call, at, &operand, groups)?,
        false => by_heads(call, at, &operand, forms(call)?.query, groups)?.with(2),
    };
    Ok(operand.with_layout(layout))
}

/// Fails unless two tensors have the same blocks, heads and positions.
fn expect_alike(
    call: &Call<'_>,
    at: usize,
    one: &Layout,
    as_at: usize,
    other: &Layout,
) -> Result<()> {
    let alike = [0, 1, 3].iter().all(|dim| one.dims()[*dim] == other.dims()[*dim]);
    if alike && one.dtype == other.dtype {
        return Ok(());
    }
    let (name, other_name) = (call.parameter(at), call.parameter(as_at));
    Err(Error::invalid(format!("{name} ({one}) does not fit {other_name} ({other})")))
}

/// The stores of all keys and values: one, or one for each sequence; then that of the prefix, if there is one.
pub(super) fn stores(
    call: &mut Call<'_>,
    groups: usize,
    paged: bool,
) -> Result<Vec<StoreOperands>> {
    let (keys, values) = (one_or_several(call, KEY)?, one_or_several(call, VALUE)?);
    let rope = given(call, KEY_ROPE)?;
    let has_query_rope = call.has(QUERY_ROPE) && call.layout(QUERY_ROPE)?.count() > 0;
    if rope.is_some() != has_query_rope {
        let (a, b) = (call.parameter(QUERY_ROPE), call.parameter(KEY_ROPE));
        return Err(Error::invalid(format!("{a} and {b}: both or none are expected")));
    }
    let (count, have) = (keys.len(), values.len());
    if count == 0 || count != have || (count > 1 && (paged || rope.is_some())) {
        let (a, b) = (call.parameter(KEY), call.parameter(VALUE));
        return Err(Error::invalid(format!(
            "{a} has {count} tensors, {b} has {have}: expected one of each, or as many as sequences without blocks"
        )));
    }
    let mut stores = Vec::with_capacity(count + 1);
    for (key, value) in keys.into_iter().zip(values) {
        let key = placed(call, KEY, key, groups, paged)?;
        let value = placed(call, VALUE, value, groups, paged)?;
        expect_alike(call, VALUE, &value, KEY, &key)?;
        let rope = match rope {
            None => None,
            Some(rope) => {
                let rope = placed(call, KEY_ROPE, rope, groups, paged)?;
                expect_alike(call, KEY_ROPE, &rope, KEY, &key)?;
                Some(rope)
            }
        };
        stores.push(StoreOperands { key, rope, value });
    }
    let features = stores[0].features();
    if stores.iter().any(|store| store.features() != features) {
        let name = call.parameter(KEY);
        return Err(Error::invalid(format!("the tensors of {name} differ in features")));
    }
    Ok(stores)
}

/// The keys and values that come before those of every sequence, and how many there are.
pub(super) fn prefix(
    call: &mut Call<'_>,
    groups: usize,
    first: &StoreOperands,
) -> Result<Option<(StoreOperands, usize)>> {
    let (key, value) = match (given(call, PREFIX_KEY)?, given(call, PREFIX_VALUE)?) {
        (None, None) => return Ok(None),
        (Some(key), Some(value)) => (key, value),
        _ => {
            let (a, b) = (call.parameter(PREFIX_KEY), call.parameter(PREFIX_VALUE));
            return Err(Error::invalid(format!("{a} and {b}: both or none are expected")));
        }
    };
    let key = placed(call, PREFIX_KEY, key, groups, false)?;
    let value = placed(call, PREFIX_VALUE, value, groups, false)?;
    expect_alike(call, PREFIX_VALUE, &value, PREFIX_KEY, &key)?;
    let store = StoreOperands { key, rope: None, value };
    if store.blocks() != 1 || store.features() != first.features() {
        let (name, other) = (call.parameter(PREFIX_KEY), call.parameter(KEY));
        return Err(Error::invalid(format!(
            "{name} ({}) is no prefix of {other} ({}): expected one batch with the same features",
            key.layout(),
            first.key.layout()
        )));
    }
    let most = store.positions();
    let lengths = if call.has(PREFIX_LENGTH) { call.ints(PREFIX_LENGTH)? } else { Vec::new() };
    let length = match lengths[..] {
        [] => most,
        [length] if usize::try_from(length).is_ok_and(|length| length <= most) => length as usize,
        _ => {
            let name = call.parameter(PREFIX_LENGTH);
            return Err(Error::invalid(format!(
                "{name} = {lengths:?}: expected one length of at most {most}"
            )));
        }
    };
    if length < most {
        store.touch_by_index(call);
    }
    Ok(Some((store, length)))
}

/// The table of blocks, whose values are read when it runs.
#[derive(Clone, Copy)]
pub(super) struct Table {
    pub operand: Operand,
    name: &'static str,
    /// Positions of a block, and how many blocks there are.
    size: usize,
    blocks: usize,
}

impl Table {
    /// The table of `sequences`, whose keys have these lengths.
    pub(super) fn new(
        call: &Call<'_>,
        operand: Operand,
        store: &StoreOperands,
        lengths: &[usize],
    ) -> Result<Table> {
        let (name, size, blocks) = (call.parameter(TABLE), store.positions(), store.blocks());
        call.expect_dtype(TABLE, &operand, &[DType::Int32, DType::Int64])?;
        let declared = call.int_or(BLOCK, size as i64)?;
        if declared != size as i64 || size == 0 {
            let (block, key) = (call.parameter(BLOCK), call.parameter(KEY));
            return Err(Error::invalid(format!(
                "{block} = {declared}: blocks of {key} have {size} positions"
            )));
        }
        let most = lengths.iter().map(|length| length.div_ceil(size)).max().unwrap_or(0);
        let [rows, columns] = match *operand.dims() {
            [rows, columns] => [rows, columns],
            _ => [0, 0],
        };
        if operand.rank() != 2 || rows != lengths.len() || columns < most {
            let (have, sequences) = (operand.dims(), lengths.len());
            return Err(Error::invalid(format!(
                "{name} has the sizes {have:?}: expected {sequences} sequences and at least {most} blocks"
            )));
        }
        Ok(Table { operand, name, size, blocks })
    }

    /// The blocks of a sequence.
    pub(super) fn row(&self, sequence: usize) -> Operand {
        self.operand.with_layout(self.operand.at(0, sequence))
    }

    /// Fails for the first block that is needed and is none, before anything is read or written.
    pub(super) fn check(&self, memory: &Memory<'_>, lengths: &[usize]) -> Outcome {
        let numbers = PositionAccess::new(memory.view(&self.operand));
        for (sequence, length) in lengths.iter().enumerate() {
            for at in 0..length.div_ceil(self.size) {
                let number = numbers.get::<i64>(&[sequence, at]);
                if !usize::try_from(number).is_ok_and(|number| number < self.blocks) {
                    let (name, blocks) = (self.name, self.blocks);
                    return Err(Fault(format!(
                        "{name}[{sequence}, {at}] = {number} is no block: the cache has {blocks}"
                    )));
                }
            }
        }
        Ok(())
    }
}
