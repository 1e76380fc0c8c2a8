//! What a graph says about a tensor: type, format, sizes that may be unknown.

use super::Attrs;
use cairn_tensor::{DType, Format, Layout, MAX_DIMS};
use std::fmt;

/// A size that is not known before the graph runs.
pub const UNKNOWN: i64 = -1;

/// The one size of a tensor whose number of dimensions is not known.
pub const UNKNOWN_RANK: i64 = -2;

/// A description of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Desc {
    /// The IR's name of the input or output; empty where nobody gave one.
    pub name: String,
    /// The type of the elements; [`DType::Undefined`] where it is not known.
    pub dtype: DType,
    /// The memory format.
    pub format: Format,
    /// The format in the source framework.
    pub origin_format: Format,
    /// Where the tensor is: 0 on the host, 1 on the device.
    pub placement: i32,
    /// Sizes, [`UNKNOWN`] ones among them; `[UNKNOWN_RANK]` when their number is not known.
    pub dims: Vec<i64>,
    /// The sizes in the source framework.
    pub origin_dims: Vec<i64>,
    /// Attributes of the tensor itself.
    pub attrs: Attrs,
}

impl Default for Desc {
    fn default() -> Desc {
        Desc {
            name: String::new(),
            dtype: DType::Float,
            format: Format::ND,
            origin_format: Format::ND,
            placement: 0,
            dims: Vec::new(),
            origin_dims: Vec::new(),
            attrs: Attrs::new(),
        }
    }
}

impl Desc {
    /// Takes type, formats, placement and sizes from another; keeps its own name and attributes.
    pub fn copy_type_and_shape_from(&mut self, other: Desc) {
        let (name, attrs) = (std::mem::take(&mut self.name), std::mem::take(&mut self.attrs));
        *self = Desc { name, attrs, ..other };
    }

    /// A tensor of these sizes.
    pub fn new(dtype: DType, dims: &[i64]) -> Desc {
        Desc { dtype, dims: dims.to_vec(), origin_dims: dims.to_vec(), ..Desc::default() }
    }

    /// A tensor with a layout's type and sizes.
    pub fn from_layout(layout: &Layout) -> Desc {
        let dims: Vec<i64> = layout.dims().iter().map(|dim| *dim as i64).collect();
        Desc::new(layout.dtype, &dims)
    }

    /// A tensor whose shape is unknown.
    pub fn unknown(dtype: DType) -> Desc {
        Desc::new(dtype, &[UNKNOWN_RANK])
    }

    /// A tensor with a layout's type and number of dimensions, whose sizes are unknown.
    pub fn of_rank(layout: &Layout) -> Desc {
        Desc::new(layout.dtype, &vec![UNKNOWN; layout.rank()])
    }

    /// Whether all sizes are known.
    pub fn is_known(&self) -> bool {
        self.dims.iter().all(|dim| *dim >= 0)
    }

    /// Whether the number of dimensions is known.
    pub fn has_rank(&self) -> bool {
        self.dims != [UNKNOWN_RANK]
    }

    /// The contiguous layout; `None` if a size is unknown, there are too many dimensions, the tensor is too large, or
    /// elements are smaller than a byte.
    pub fn layout(&self) -> Option<Layout> {
        if self.dims.len() > MAX_DIMS || self.dtype.size_in_bytes().is_none() {
            return None;
        }
        let dims: Option<Vec<usize>> =
            self.dims.iter().map(|dim| usize::try_from(*dim).ok()).collect();
        let dims = dims?;
        let item = self.dtype.size_in_bytes()?;
        let bytes = dims.iter().try_fold(item, |bytes, dim| bytes.checked_mul(*dim))?;
        (bytes <= isize::MAX as usize).then(|| Layout::contiguous(self.dtype, &dims))
    }

    /// Whether a tensor with these sizes fits: every known size is equal.
    pub fn accepts(&self, dims: &[i64]) -> bool {
        !self.has_rank()
            || (self.dims.len() == dims.len()
                && self
                    .dims
                    .iter()
                    .zip(dims)
                    .all(|(expected, dim)| *expected < 0 || expected == dim))
    }
}

impl fmt::Display for Desc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.has_rank() {
            true => write!(f, "{} {:?}", self.dtype, self.dims),
            false => write!(f, "{} of unknown rank", self.dtype),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_sizes_have_to_fit() {
        let desc = Desc::new(DType::Float, &[-1, 8]);
        assert!(desc.accepts(&[3, 8]) && !desc.accepts(&[3, 9]) && !desc.accepts(&[8]));
        assert!(Desc::unknown(DType::Float).accepts(&[1, 2, 3]));
        assert!(desc.layout().is_none());
        assert_eq!(Desc::new(DType::Float, &[2, 3]).layout().unwrap().bytes(), 24);
        assert!(Desc::new(DType::Float, &[i64::MAX, 8]).layout().is_none());
    }
}
