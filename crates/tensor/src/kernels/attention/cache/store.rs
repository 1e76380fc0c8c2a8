//! Where keys and values are: in tensors of sequences, or in the blocks of a paged cache.

use super::{Sequence, TILE};
use crate::kernels::access::PositionAccess;
use crate::kernels::small_product::Rows;
use crate::kernels::strip::load;
use crate::{DType, View};
use std::ops::Range;

/// Keys and values. Sizes of views: blocks (or batches), heads, chunks of features, positions, features of a chunk.
#[derive(Clone, Copy)]
pub struct Store<'a> {
    /// Keys, and more features of them.
    pub key: [Option<View<'a>>; 2],
    /// Values.
    pub value: [Option<View<'a>>; 2],
}

/// The blocks of a segment.
#[derive(Clone, Copy)]
pub enum Blocks<'a> {
    /// One block, from a position on.
    One(usize, usize),
    /// The blocks that a table of indices names, all of them full but the last.
    Paged(View<'a>),
}

/// Some keys of a sequence that lie in one store.
#[derive(Clone, Copy)]
pub struct Segment<'a> {
    /// The index of the store.
    pub store: usize,
    /// The blocks.
    pub blocks: Blocks<'a>,
    /// How many keys there are.
    pub length: usize,
}

/// Keys that follow each other in one block.
struct Run {
    store: usize,
    block: usize,
    position: usize,
    length: usize,
}

impl Segment<'_> {
    /// The keys from `at` on that are in one block.
    fn run(&self, stores: &[Store<'_>], at: usize) -> Run {
        let left = self.length - at;
        match self.blocks {
            Blocks::One(block, first) => {
                Run { store: self.store, block, position: first + at, length: left }
            }
            Blocks::Paged(table) => {
                let size = stores[self.store].block_size();
                let block = PositionAccess::new(table).get::<i64>(&[at / size]) as usize;
                let position = at % size;
                Run { store: self.store, block, position, length: left.min(size - position) }
            }
        }
    }
}

impl Store<'_> {
    /// Positions of a block.
    fn block_size(&self) -> usize {
        self.key[0].map_or(1, |key| key.dims()[3])
    }
}

/// Lines of elements without gaps, one for each key of a tile.
#[derive(Clone, Copy)]
pub(super) struct Lines {
    pub first: *const u8,
    /// Bytes from one to the next.
    pub pitch: usize,
    /// Bytes of one.
    pub length: usize,
    pub dtype: DType,
}

/// Which of the two a store has.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Key,
    Value,
}

impl Sequence<'_> {
    /// The segment that has a key, and the key's index in it.
    fn segment_of(&self, mut key: usize) -> (&Segment<'_>, usize) {
        for segment in &self.segments {
            if key < segment.length {
                return (segment, key);
            }
            key -= segment.length;
        }
        unreachable!("a key beyond all segments")
    }

    /// The tile that begins at a key and ends at `end` at the latest: where blocks are large it stays in one, so that
    /// it can be read where it is.
    pub(super) fn tile(&self, stores: &[Store<'_>], start: usize, end: usize) -> Range<usize> {
        let (segment, at) = self.segment_of(start);
        let run = segment.run(stores, at);
        let is_large = stores[run.store].block_size() >= TILE / 2;
        let length = if is_large { run.length } else { segment.length - at };
        start..(start + length.min(TILE)).min(end)
    }

    /// The keys or values of a tile: as they are when they are `f32` without gaps, else loaded into `buffer`, one after
    /// the other, `columns` apart.
    ///
    /// # Safety
    /// The blocks and heads are inside the stores, `buffer` holds the tile, and both outlive the result.
    pub(super) unsafe fn rows(
        &self,
        stores: &[Store<'_>],
        side: (Side, usize),
        tile: &Range<usize>,
        (buffer, columns): (&mut [f32], usize),
    ) -> Rows<*const f32> {
        let is_read = |lines: &Lines| {
            let first = lines.first.cast::<f32>();
            lines.dtype == DType::Float && first.is_aligned() && lines.pitch > 0
        };
        // SAFETY: as the caller guarantees.
        let lines = unsafe { self.lines_if(stores, side, tile, (buffer, columns), is_read) };
        Rows { first: lines.first.cast(), pitch: lines.pitch / size_of::<f32>() }
    }

    /// As [`Self::rows`], in their own type when it is `f32` or half, at any address.
    ///
    /// # Safety
    /// As of [`Self::rows`].
    pub(super) unsafe fn lines(
        &self,
        stores: &[Store<'_>],
        side: (Side, usize),
        tile: &Range<usize>,
        buffer: (&mut [f32], usize),
    ) -> Lines {
        let is_read =
            |lines: &Lines| matches!(lines.dtype, DType::Float | DType::Float16 | DType::Bf16);
        // SAFETY: as the caller guarantees.
        unsafe { self.lines_if(stores, side, tile, buffer, is_read) }
    }

    /// As [`Self::rows`]: as they are where they are without gaps and `is_read` says so.
    ///
    /// # Safety
    /// As of [`Self::rows`].
    unsafe fn lines_if(
        &self,
        stores: &[Store<'_>],
        (side, head): (Side, usize),
        tile: &Range<usize>,
        (buffer, columns): (&mut [f32], usize),
        is_read: impl Fn(&Lines) -> bool,
    ) -> Lines {
        let mut done = 0;
        while done < tile.len() {
            let (segment, at) = self.segment_of(tile.start + done);
            let mut run = segment.run(stores, at);
            run.length = run.length.min(tile.len() - done);
            let store = &stores[run.store];
            let parts = match side {
                Side::Key => &store.key,
                Side::Value => &store.value,
            };
            // SAFETY: as the caller guarantees.
            unsafe {
                if run.length == tile.len()
                    && let [Some(part), None] = parts
                    && let Some(lines) = direct(part, head, &run).filter(&is_read)
                {
                    return lines;
                }
                let lines = &mut buffer[done * columns..(done + run.length) * columns];
                let mut first = 0;
                for part in parts.iter().flatten() {
                    load_run(part, head, &run, (&mut *lines, columns), first);
                    first += part.dims()[2] * part.dims()[4];
                }
            }
            done += run.length;
        }
        let length = columns * size_of::<f32>();
        Lines { first: buffer.as_ptr().cast(), pitch: length, length, dtype: DType::Float }
    }
}

/// The address of the first row of a run.
///
/// # Safety
/// The run is inside the view.
unsafe fn first_row(part: &View<'_>, head: usize, run: &Run) -> *const u8 {
    let strides = part.strides();
    let offset = run.block as isize * strides[0]
        + head as isize * strides[1]
        + run.position as isize * strides[3];
    // SAFETY: as the caller guarantees.
    unsafe { part.first().offset(offset * part.item() as isize) }
}

/// The rows of a run where they are, if they have no gaps.
///
/// # Safety
/// As of [`first_row`].
unsafe fn direct(part: &View<'_>, head: usize, run: &Run) -> Option<Lines> {
    let (dims, strides, item) = (part.dims(), part.strides(), part.item());
    // SAFETY: as the caller guarantees.
    let first = unsafe { first_row(part, head, run) };
    let pitch = usize::try_from(strides[3]).ok()? * item;
    (dims[2] == 1 && (strides[4] == 1 || dims[4] == 1)).then_some(Lines {
        first,
        pitch,
        length: dims[4] * item,
        dtype: part.dtype(),
    })
}

/// Loads the rows of a run from column `first` of each line on.
///
/// # Safety
/// As of [`first_row`]; the lines hold the run.
unsafe fn load_run(
    part: &View<'_>,
    head: usize,
    run: &Run,
    (lines, columns): (&mut [f32], usize),
    first: usize,
) {
    let (dims, strides, item) = (part.dims(), part.strides(), part.item() as isize);
    let (chunks, inner) = (dims[2], dims[4]);
    // SAFETY: as the caller guarantees.
    unsafe {
        let from = first_row(part, head, run);
        if chunks == 1 && inner == columns && strides[4] == 1 && strides[3] == inner as isize {
            return load(part.dtype(), from, 1, lines);
        }
        for (row, line) in lines.chunks_exact_mut(columns).enumerate() {
            for chunk in 0..chunks {
                let offset = row as isize * strides[3] + chunk as isize * strides[2];
                let line = &mut line[first + chunk * inner..][..inner];
                load(part.dtype(), from.offset(offset * item), strides[4], line);
            }
        }
    }
}
