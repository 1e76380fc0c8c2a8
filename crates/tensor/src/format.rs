//! How the elements of a tensor are laid out in memory.

use std::fmt;

/// A format by the number that `aclFormat` gives it. Any number is kept, since CANN adds formats
/// and passes them through; only those below have a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Format(pub i32);

macro_rules! formats {
    ($($(#[$doc:meta])* $constant:ident = $number:literal, $name:literal;)*) => {
        impl Format {
            $($(#[$doc])* pub const $constant: Format = Format($number);)*

            /// Every format with a name, by rising number.
            pub const ALL: &[Format] = &[$(Format::$constant),*];

            /// The name without CANN's prefix; `None` for an unknown number.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some($name),)*
                    _ => None,
                }
            }
        }
    };
}

formats! {
    /// No format: a tensor that is not there.
    UNDEFINED = -1, "UNDEFINED";
    /// Images, a plane per channel.
    NCHW = 0, "NCHW";
    /// Images, the channels of a pixel together.
    NHWC = 1, "NHWC";
    /// Dimensions in plain order, of any meaning.
    ND = 2, "ND";
    /// NCHW with the channels in blocks of C0.
    NC1HWC0 = 3, "NC1HWC0";
    /// Weights of convolutions in fractals.
    FRACTAL_Z = 4, "FRACTAL_Z";
    /// NC1HWC0 with blocks of 4.
    NC1HWC0_C04 = 12, "NC1HWC0_C04";
    /// Weights, the output channels innermost.
    HWCN = 16, "HWCN";
    /// Volumes, the channels of a voxel together.
    NDHWC = 27, "NDHWC";
    /// Matrices in fractals of 16 rows.
    FRACTAL_NZ = 29, "FRACTAL_NZ";
    /// Volumes, a volume per channel.
    NCDHW = 30, "NCDHW";
    /// NCDHW with the channels in blocks of C0.
    NDC1HWC0 = 32, "NDC1HWC0";
    /// Weights of 3-d convolutions in fractals.
    FRACTAL_Z_3D = 33, "FRACTAL_Z_3D";
    /// Batch and channels.
    NC = 35, "NC";
    /// Batch, channels and length.
    NCL = 47, "NCL";
    /// FRACTAL_NZ with rows of 16.
    FRACTAL_NZ_C0_16 = 50, "FRACTAL_NZ_C0_16";
    /// FRACTAL_NZ with rows of 32.
    FRACTAL_NZ_C0_32 = 51, "FRACTAL_NZ_C0_32";
    /// FRACTAL_NZ with rows of 2.
    FRACTAL_NZ_C0_2 = 52, "FRACTAL_NZ_C0_2";
    /// FRACTAL_NZ with rows of 4.
    FRACTAL_NZ_C0_4 = 53, "FRACTAL_NZ_C0_4";
    /// FRACTAL_NZ with rows of 8.
    FRACTAL_NZ_C0_8 = 54, "FRACTAL_NZ_C0_8";
}

/// How a shape changes from one format to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reorder {
    /// The dimensions stay as they are.
    Same,
    /// Dimension `i` of the result is dimension `order[i]` of the source.
    Permute(Vec<usize>),
}

impl Format {
    /// How the dimensions of a shape in this format become those in `to`; `None` when one of the
    /// two is no order of whole dimensions, or they have not the same ones. `ND` goes with any.
    pub fn reorder(self, to: Format) -> Option<Reorder> {
        if self == to {
            return Some(Reorder::Same);
        }
        let (from, to) = (self.axes()?, to.axes()?);
        if from.is_empty() || to.is_empty() {
            return Some(Reorder::Same);
        }
        if from.len() != to.len() {
            return None;
        }
        let order: Option<Vec<usize>> = to.chars().map(|axis| from.find(axis)).collect();
        order.map(Reorder::Permute)
    }

    /// Whether elements lie in memory in the order of their dimensions. A format that is not given, or has no name,
    /// counts as plain.
    pub fn is_plain(self) -> bool {
        self == Format::UNDEFINED || self.name().is_none() || self.axes().is_some()
    }

    /// Why a tensor in this format, if it is not plain, is refused; `what` is the tensor.
    pub fn refusal(self, what: &str) -> Option<String> {
        let text = || format!("{what} lies in memory as {self}: only plain formats are supported");
        (!self.is_plain()).then(text)
    }

    /// A letter for each dimension; none for `ND`.
    fn axes(self) -> Option<&'static str> {
        match self {
            Format::ND => Some(""),
            Format::NCHW
            | Format::NHWC
            | Format::HWCN
            | Format::NDHWC
            | Format::NCDHW
            | Format::NC
            | Format::NCL => self.name(),
            _ => None,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "format {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_formats_are_orders_of_whole_dimensions() {
        let plain = Format::ALL.iter().filter(|format| format.is_plain()).map(|f| f.to_string());
        let names = ["UNDEFINED", "NCHW", "NHWC", "ND", "HWCN", "NDHWC", "NCDHW", "NC", "NCL"];
        let mut names = names.map(String::from);
        names.sort();
        let mut plain: Vec<_> = plain.collect();
        plain.sort();
        assert_eq!(plain, names);
        assert!(Format(12345).is_plain());
    }

    #[test]
    fn names_and_numbers() {
        assert_eq!(Format::ALL.len(), 20);
        assert!(Format::ALL.windows(2).all(|w| w[0].0 < w[1].0));
        assert_eq!(Format(29).to_string(), "FRACTAL_NZ");
        assert_eq!(Format(999).to_string(), "format 999");
    }

    #[test]
    fn orders_of_dimensions() {
        let permute = |order: &[usize]| Some(Reorder::Permute(order.to_vec()));
        assert_eq!(Format::NCHW.reorder(Format::NHWC), permute(&[0, 2, 3, 1]));
        assert_eq!(Format::NHWC.reorder(Format::NCHW), permute(&[0, 3, 1, 2]));
        assert_eq!(Format::NCHW.reorder(Format::HWCN), permute(&[2, 3, 1, 0]));
        assert_eq!(Format::NCDHW.reorder(Format::NDHWC), permute(&[0, 2, 3, 4, 1]));
        assert_eq!(Format::ND.reorder(Format::NHWC), Some(Reorder::Same));
        assert_eq!(Format::FRACTAL_NZ.reorder(Format::FRACTAL_NZ), Some(Reorder::Same));
        assert_eq!(Format::NCHW.reorder(Format::NDHWC), None);
        assert_eq!(Format::NCHW.reorder(Format::NC1HWC0), None);
        assert_eq!(Format::FRACTAL_NZ.reorder(Format::ND), None);
        assert_eq!(Format(999).reorder(Format::ND), None);
    }
}
