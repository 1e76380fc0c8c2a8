//! Windows that slide over positions: sizes, strides and padding as convolutions and pools state them.

use crate::onnx::builder::Value;
use crate::onnx::conversion::Conversion;

/// The window of a node over the positions of its input.
#[derive(Clone, Debug)]
pub struct Window {
    /// Sizes.
    pub kernel: Vec<i64>,
    /// Steps from one window to the next.
    pub strides: Vec<i64>,
    /// Distances between the elements of a window.
    pub dilations: Vec<i64>,
    /// Positions before and after, by dimension; less than 0 where some are left out.
    pub pads: Vec<(i64, i64)>,
}

/// Sizes, strides, distances and padding are at most this.
const MAX: i64 = i32::MAX as i64;

impl Window {
    /// Reads the attributes of a node whose window has these sizes. Padding that is to be found from sizes (`auto_pad`)
    /// needs those of the input.
    pub fn read(node: &Conversion<'_>, x: &Value, kernel: Vec<i64>) -> Result<Window, String> {
        Window::read_with(node, x, kernel, 0)
    }

    /// The same for a pool: where windows leave positions out, padding that is to be found is less than 0.
    pub fn read_pool(node: &Conversion<'_>, x: &Value, kernel: Vec<i64>) -> Result<Window, String> {
        Window::read_with(node, x, kernel, i64::MIN)
    }

    fn read_with(
        node: &Conversion<'_>,
        x: &Value,
        kernel: Vec<i64>,
        least: i64,
    ) -> Result<Window, String> {
        let mut window = Window::read_without_padding(node, kernel)?;
        let rank = window.kernel.len();
        let auto_pad = node.text("auto_pad", "NOTSET");
        node.expect_text("auto_pad", &auto_pad, &["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])?;
        match auto_pad.as_str() {
            "NOTSET" => {
                if let Some(pads) = node.ints("pads") {
                    if pads.len() != 2 * rank || !pads.iter().all(|pad| (-MAX..=MAX).contains(pad))
                    {
                        return Err(format!("pads is {pads:?} for {rank} dimensions of positions"));
                    }
                    window.pads = (0..rank).map(|at| (pads[at], pads[rank + at])).collect();
                }
            }
            "VALID" => {}
            side => {
                for at in 0..rank {
                    let size = node.known_dims_at(x, 2 + at)?;
                    let stride = window.strides[at];
                    let steps = (size + stride - 1) / stride;
                    let total = ((steps - 1) * stride + window.extent(at) - size).max(least);
                    window.pads[at] = split_padding(total, side == "SAME_UPPER");
                }
            }
        }
        Ok(window)
    }

    /// Reads the attributes without those of padding: there is none.
    pub fn read_without_padding(node: &Conversion<'_>, kernel: Vec<i64>) -> Result<Window, String> {
        let rank = kernel.len();
        let ones = vec![1; rank];
        let list = |name: &str| -> Result<Vec<i64>, String> {
            let values = node.ints(name).unwrap_or_else(|| ones.clone());
            match values.len() == rank && values.iter().all(|value| (1..=MAX).contains(value)) {
                true => Ok(values),
                false => Err(format!("{name} is {values:?} for {rank} dimensions of positions")),
            }
        };
        let (strides, dilations) = (list("strides")?, list("dilations")?);
        if !kernel.iter().all(|size| (1..=MAX).contains(size)) {
            return Err(format!("its window has the sizes {kernel:?}"));
        }
        let pads = vec![(0, 0); rank];
        Ok(Window { kernel, strides, dilations, pads })
    }

    /// How many positions a window covers.
    pub fn extent(&self, at: usize) -> i64 {
        (self.kernel[at] - 1) * self.dilations[at] + 1
    }

    /// Whether neighbouring elements of a window are neighbours in the input.
    pub fn is_dense(&self) -> bool {
        self.dilations.iter().all(|distance| *distance == 1)
    }

    /// Padding in the order of the graph engine: before and after each dimension.
    pub fn pads_by_dimension(&self) -> Vec<i64> {
        self.pads.iter().flat_map(|(before, after)| [*before, *after]).collect()
    }
}

/// Padding on both sides; an odd position goes to the end, or to the beginning. Of positions that are taken away, an odd
/// one is taken from the end.
pub fn split_padding(total: i64, odd_at_end: bool) -> (i64, i64) {
    let before = if odd_at_end { total / 2 } else { (total + 1) / 2 };
    (before, total - before)
}

/// Values for batch and channels, then those of the positions.
pub fn with_channels(values: &[i64]) -> Vec<i64> {
    [1, 1].iter().chain(values).copied().collect()
}
