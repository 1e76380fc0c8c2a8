//! Images that a model prepares itself (static AIPP): the configuration as a text, and what it becomes in a graph.
//!
//! ```text
//! Aipp::parse(text)        `text.rs` reads the protobuf text format, `keys.rs` knows keys, types and ranges
//! resolve.rs               fills in what the model's input decides, and compares sizes
//! nodes.rs                 nodes between the input and its readers: crop, swap, colours, normalisation, padding
//! record.rs                the parameters in the description of a model file
//! ```

mod keys;
mod nodes;
pub(super) mod record;
mod resolve;
mod text;

use crate::failure::{Failure, Result};
use crate::ir::{Desc, Graph};
use crate::offline::{Gears, Port};
use cairn_tensor::{DType, Format};

/// The configuration of all images of a model, as `--insert_op_conf` names it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Aipp {
    /// One for each input that takes an image.
    pub images: Vec<AippParameters>,
}

/// How one image is prepared. Positions and sizes are pairs of height and width.
#[derive(Clone, Debug, PartialEq)]
pub struct AippParameters {
    /// The index of the input; 0 where the configuration names neither index nor name.
    pub rank: Option<usize>,
    /// The name of the input.
    pub name: Option<String>,
    /// What the bytes are.
    pub format: ImageFormat,
    /// The size of the image as it comes; 0 for that of the model's input.
    pub source: [i64; 2],
    /// The part that is taken.
    pub crop: Option<Crop>,
    /// Whether red and blue, or U and V, change places.
    pub swaps_rbuv: bool,
    /// Whether the unused byte of a pixel comes first.
    pub swaps_ax: bool,
    /// The conversion of colours.
    pub conversion: Option<ColorConversion>,
    /// What is subtracted from each channel.
    pub mean: [i32; 4],
    /// What is subtracted after that.
    pub min: [f32; 4],
    /// What each channel is multiplied by then.
    pub factor: [f32; 4],
    /// What is put around the image.
    pub padding: Option<Padding>,
}

/// The bytes of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageFormat {
    /// A plane of Y, then one of half the height with pairs of U and V.
    Yuv420sp,
    /// Four bytes a pixel, one of them unused.
    Xrgb8888,
    /// Three bytes a pixel.
    Rgb888,
    /// One byte a pixel.
    Yuv400,
}

/// The part of an image that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crop {
    /// Its first row and column.
    pub start: [i64; 2],
    /// Its size; 0 for that of the model's input.
    pub size: [i64; 2],
}

/// `(matrix * (pixel - input_bias) >> 8) + output_bias`, each between 0 and 255. The bias of the input is that of YUV
/// images alone, the one of the output that of RGB images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColorConversion {
    /// Rows are channels that come out, columns those that come in.
    pub matrix: [[i32; 3]; 3],
    /// Subtracted before the product.
    pub input_bias: [i32; 3],
    /// Added after it.
    pub output_bias: [i32; 3],
}

/// What is put around an image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Padding {
    /// Rows above and below.
    pub rows: [i64; 2],
    /// Columns to the left and to the right.
    pub columns: [i64; 2],
    /// What they are filled with, after the normalisation.
    pub value: f32,
}

/// What a description keeps of an input that takes an image.
#[derive(Clone, Debug, PartialEq)]
pub struct AippInfo {
    /// The parameters, complete.
    pub parameters: AippParameters,
    /// The type of the input in the model as it was read.
    pub model_dtype: DType,
    /// Its format there.
    pub model_format: Format,
    /// Its sizes there, which are those of the prepared image.
    pub model_dims: Vec<i64>,
    /// Batch, height, width and channels of the image as `aclmdlGetInputDims` shows it: for YUV420SP without the rows of
    /// U and V, and with the model's channels.
    pub image_dims: Vec<i64>,
}

/// What is wrong in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AippError {
    /// The line, from 1.
    pub line: usize,
    /// The key; empty where there is none.
    pub key: String,
    /// Its value; empty where there is none.
    pub value: String,
    /// What is wrong with it.
    pub reason: String,
}

impl std::fmt::Display for AippError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "The AIPP configuration, line {}: ", self.line)?;
        match (self.key.is_empty(), self.value.is_empty()) {
            (true, _) => {}
            (false, true) => write!(f, "'{}': ", self.key)?,
            (false, false) => write!(f, "'{}: {}': ", self.key, self.value)?,
        }
        write!(f, "{}.", self.reason)
    }
}

impl std::error::Error for AippError {}

impl Aipp {
    /// Reads a configuration: a block `aipp_op { .. }` for each image.
    pub fn parse(text: &str) -> std::result::Result<Aipp, AippError> {
        keys::parse(text)
    }

    /// Makes the graph prepare its images. `ports` are its inputs, and become what programs feed.
    pub(super) fn apply(&self, graph: &mut Graph, ports: &mut [Port], gears: &Gears) -> Result<()> {
        for parameters in &self.images {
            let at = parameters.input(ports)?;
            let name = ports[at].name.clone();
            let wrong = |reason: String| {
                Failure::invalid(format!("the image of the input {name} (AIPP): {reason}"))
            };
            if ports[at].aipp.is_some() {
                return Err(wrong("two blocks of the configuration are about it".to_owned()));
            }
            let mut plan = resolve::resolve(parameters, &ports[at], gears).map_err(wrong)?;
            let data = graph.inputs()[at];
            nodes::insert(graph, data, &plan).map_err(wrong)?;
            let of_input = &mut plan.info.parameters;
            (of_input.rank, of_input.name) = (Some(at), Some(name.clone()));
            let desc = Desc { format: Format::NHWC, ..Desc::new(DType::Uint8, &plan.fed_dims) };
            ports[at] = Port { aipp: Some(plan.info), ..Port::new(name, &desc, Vec::new()) };
        }
        Ok(())
    }
}

impl AippParameters {
    /// The input that it is about.
    fn input(&self, ports: &[Port]) -> Result<usize> {
        let names = || ports.iter().map(|port| port.name.as_str()).collect::<Vec<_>>().join(", ");
        let by_name = match &self.name {
            None => None,
            Some(name) => {
                Some(ports.iter().position(|port| port.name == *name).ok_or_else(|| {
                    Failure::invalid(format!(
                        "related_input_name of the AIPP configuration is {name}: the inputs are {}",
                        names()
                    ))
                })?)
            }
        };
        let rank = self.rank.or(by_name).unwrap_or(0);
        if rank >= ports.len() {
            return Err(Failure::invalid(format!(
                "related_input_rank of the AIPP configuration is {rank}: the model has {} inputs ({})",
                ports.len(),
                names()
            )));
        }
        match by_name {
            Some(at) if at != rank => Err(Failure::invalid(format!(
                "the AIPP configuration names the input {} and the index {rank}, which is {}",
                ports[at].name, ports[rank].name
            ))),
            _ => Ok(rank),
        }
    }
}

impl ImageFormat {
    /// All of them, with the names that configurations use and their numbers in `aclAippInputFormat`.
    pub const ALL: [(ImageFormat, &str, i32); 4] = [
        (ImageFormat::Yuv420sp, "YUV420SP_U8", 1),
        (ImageFormat::Xrgb8888, "XRGB8888_U8", 2),
        (ImageFormat::Rgb888, "RGB888_U8", 3),
        (ImageFormat::Yuv400, "YUV400_U8", 4),
    ];

    /// The name that configurations use.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// The number in `aclAippInputFormat`.
    pub fn number(self) -> i32 {
        Self::ALL[self as usize].2
    }
}

#[cfg(test)]
mod tests;
