//! The blocks of a cache and the slots of tokens in them, as operators of this family take them.

use crate::call::Call;
use crate::error::{Error, Fault, Outcome, Result};
use crate::family::inputs::UnaliasedInput;
use crate::family::scattering::origin;
use crate::plan::{Memory, Operand};
use cairn_tensor::kernels::access::PositionAccess;
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::{Layout, View, ViewMut};

/// Bytes of a chunk of features in a cache whose features are in chunks.
const CHUNK_BYTES: usize = 32;

/// A cache that rows are put into, in place or after a copy of it: blocks, heads, chunks, positions, features of a chunk.
pub(super) struct Pages {
    from: Option<UnaliasedInput>,
    pub operand: Operand,
    whole: Operand,
}

impl Pages {
    /// The cache that is argument `at` and becomes argument `out_at`, in place where that is absent. `place` says where its
    /// pages are.
    pub(super) fn new(
        call: &mut Call<'_>,
        at: usize,
        out_at: usize,
        place: impl Fn(&Call<'_>, &Layout) -> Result<Layout>,
    ) -> Result<Pages> {
        let (from, whole) = match call.has(out_at) {
            true => origin(call, at, out_at)?,
            false => (None, call.inout(at)?),
        };
        if from.is_none() {
            call.touch_by_index(&whole);
        }
        let operand = whole.with_layout(place(call, &whole)?);
        Ok(Pages { from, operand, whole })
    }

    /// Blocks, and positions of each.
    pub(super) fn sizes(&self) -> [usize; 2] {
        [self.operand.dims()[0], self.operand.dims()[3]]
    }

    /// The pages, which have what the cache had.
    pub(super) fn out<'m>(&self, memory: &Memory<'m>) -> ViewMut<'m> {
        if let Some(from) = &self.from {
            copy(memory.parallel, memory.out(&self.whole), from.view(memory));
        }
        memory.out(&self.operand)
    }
}

/// The error of a cache with other sizes than those expected.
pub(super) fn wrong_cache(call: &Call<'_>, at: usize, cache: &Layout, expected: &str) -> Error {
    let name = call.parameter(at);
    Error::invalid(format!("{name} ({cache}) is no cache: expected {expected}"))
}

/// A cache of blocks, positions, heads, features.
pub(super) fn by_positions(cache: &Layout) -> Option<Layout> {
    (cache.rank() == 4).then(|| cache.permuted(&[0, 2, 1, 3]).with(2))
}

/// A cache of blocks, chunks of all heads, positions, features of a chunk; or with heads before the chunks.
pub(super) fn by_chunks(cache: &Layout, heads: usize) -> Option<Layout> {
    let last = *cache.dims().last()?;
    if last * cache.item() != CHUNK_BYTES {
        return None;
    }
    match cache.rank() {
        5 if cache.dims()[1] == heads => Some(*cache),
        4 => {
            let (dims, strides) = (cache.dims(), cache.strides());
            let chunks = dims[1] / heads.max(1);
            let dims = (chunks * heads == dims[1])
                .then_some([dims[0], heads, chunks, dims[2], dims[3]])?;
            let head = chunks as isize * strides[1];
            let strides = [strides[0], head, strides[1], strides[2], strides[3]];
            Some(Layout::strided(cache.dtype, &dims, &strides, cache.offset))
        }
        _ => None,
    }
}

/// The memory of a cache of blocks, positions, heads, features as chunks of features: blocks, chunks, positions, features of
/// a chunk.
pub(super) fn in_chunks(cache: &Layout) -> Option<Layout> {
    let [blocks, positions, heads, features] = *cache.dims() else { return None };
    let inner = CHUNK_BYTES / cache.item();
    let fits = cache.is_contiguous() && heads == 1 && features.is_multiple_of(inner);
    let dims = fits.then_some([blocks, 1, features / inner, positions, inner])?;
    Some(Layout::contiguous(cache.dtype, &dims).from_offset(cache.offset))
}

/// Fails for the first index outside `least..size`, before anything is written.
pub(super) fn check_indices(index: &View<'_>, name: &str, least: i64, size: usize) -> Outcome {
    let rank = index.rank();
    let numbers = PositionAccess::new(*index);
    let mut position = vec![0; rank];
    for number in 0..index.count() {
        let mut rest = number;
        for dim in (0..rank).rev() {
            position[dim] = rest % index.dims()[dim];
            rest /= index.dims()[dim];
        }
        let value = numbers.get::<i64>(&position);
        if value < least || value >= size as i64 {
            let most = size as i64 - 1;
            return Err(Fault(format!(
                "{name}{position:?} = {value} is outside {least} to {most}"
            )));
        }
    }
    Ok(())
}

/// Fails for the first of these arguments that is there and has elements.
pub(super) fn expect_not_quantised(
    call: &Call<'_>,
    arguments: impl IntoIterator<Item = usize>,
) -> Result<()> {
    for at in arguments {
        if call.has(at) && call.layout(at)?.count() > 0 {
            let name = call.parameter(at);
            return Err(Error::invalid(format!(
                "{name}: quantised tensors are not known here; expected none"
            )));
        }
    }
    Ok(())
}
