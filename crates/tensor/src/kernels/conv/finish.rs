//! What happens to sums before they are an output: a bias is added, and an epilogue is computed.

use super::by_channels_tile::BLOCK;
use super::{Task, is_aligned_f32};
use crate::kernels::epilogue::{self, Clipped, Epilogue};
use crate::kernels::strip::load_one;
use crate::{DType, View};

/// What is computed of sums.
#[derive(Clone, Copy, Default)]
pub struct Finish<'a> {
    /// What is added to each output channel: by groups and output channels.
    pub bias: Option<View<'a>>,
    /// What is computed of the results. The output is then of `f32`, and its elements leave no gaps.
    pub epilogue: Option<&'a Epilogue<'a>>,
}

impl<'a> Task<'a> {
    /// The bias of an output channel of a group; 0 without one.
    pub fn bias(&self, group: usize, channel: usize) -> f32 {
        self.finish.bias.as_ref().map_or(0.0, |bias| {
            let at = group as isize * bias.strides()[0] + channel as isize * bias.strides()[1];
            // SAFETY: group and channel are inside the bias.
            unsafe {
                match bias.dtype() {
                    DType::Float => bias.first().cast::<f32>().offset(at).read_unaligned(),
                    dtype => load_one(dtype, bias.first().offset(at * bias.item() as isize)),
                }
            }
        })
    }

    /// The bias of a block of output channels of a group, from `channel` on; zeros beyond the last one.
    pub fn biases(&self, group: usize, channel: usize) -> Option<[f32; BLOCK]> {
        let bias = self.finish.bias.as_ref()?;
        let mut values = [0.0; BLOCK];
        for (channel, slot) in (channel..bias.dims()[1]).zip(&mut values) {
            *slot = self.bias(group, channel);
        }
        Some(values)
    }

    /// The epilogue for kernels that compute it in registers, on positions side by side. [`Task::apply_epilogue`] computes any
    /// other.
    pub fn clipped(&self) -> Option<Clipped<'a>> {
        let is_direct = is_aligned_f32(&self.out) && self.out.strides()[5] == 1;
        self.finish.epilogue.filter(|_| is_direct)?.clipped(self.out.count())
    }

    /// Computes the epilogue of results that are stored: `channels` of a group, and `positions` along the last axis, from `offset` on.
    ///
    /// # Safety
    /// They are inside the output, and of this thread alone.
    pub unsafe fn apply_epilogue(&self, offset: isize, channels: usize, positions: usize) {
        let Some(epilogue) = self.finish.epilogue else { return };
        let strides = self.out.strides();
        let [channel, position] = [strides[2], strides[5]].map(isize::unsigned_abs);
        let (first, out) = (offset.unsigned_abs(), &self.out);
        let apply = |first, rows, pitch, length| {
            // SAFETY: as the caller guarantees.
            unsafe { epilogue.apply(out, epilogue::Block { first, rows, pitch, length }) };
        };
        match (channel, position) {
            (_, 1) => apply(first, channels, channel, positions),
            (1, _) => apply(first, positions, position, channels),
            _ => (0..positions).for_each(|at| apply(first + at * position, channels, channel, 1)),
        }
    }
}
