//! The nodes that prepare an image. What the configuration leaves as it is has none.

use super::resolve::ImagePlan;
use super::{AippParameters, ColorConversion, ImageFormat};
use crate::ir::{Attrs, Constant, Desc, Graph, NodeId, Source};
use crate::onnx::builder::{Builder, Value};
use crate::onnx::conversion::{attrs, element};
use cairn_tensor::{DType, Format};

/// Puts nodes between an input and its readers.
pub fn insert(graph: &mut Graph, data: NodeId, plan: &ImagePlan) -> Result<(), String> {
    let old = Source { node: data, output: 0 };
    let readers = graph.readers().remove(&old).unwrap_or_default();
    let node = graph.node_mut(data).ok_or("the graph lost it")?;
    let label = format!("{}_aipp", node.name);
    let desc = Desc {
        format: Format::NHWC,
        origin_format: Format::NHWC,
        ..Desc::new(DType::Uint8, &plan.fed_dims)
    };
    for one in node.output_descs.iter_mut().chain(&mut node.input_descs) {
        one.copy_type_and_shape_from(desc.clone());
    }
    let builder = Builder::extend(std::mem::take(graph));
    let mut preparation = Preparation { builder, label, plan };
    let image = preparation.builder.value(old, desc);
    let prepared = preparation.prepare(image);
    *graph = preparation.builder.graph;
    let prepared = prepared?;
    for (reader, at) in readers {
        let reader = graph.node_mut(reader).ok_or("the graph lost a reader of it")?;
        reader.inputs[at] = Some(prepared.source);
    }
    graph.replace_output(old, prepared.source);
    Ok(())
}

struct Preparation<'a> {
    builder: Builder,
    label: String,
    plan: &'a ImagePlan,
}

impl Preparation<'_> {
    fn parameters(&self) -> &AippParameters {
        &self.plan.info.parameters
    }

    fn prepare(&mut self, image: Value) -> Result<Value, String> {
        let mut x = match self.parameters().format {
            ImageFormat::Yuv420sp => self.planes(&image)?,
            _ => vec![self.pixels(&image)?],
        };
        if let Some(conversion) = self.parameters().conversion {
            x = vec![self.convert(x, &conversion)?];
        }
        let x = match &x[..] {
            [only] => only.clone(),
            several => self.join(several)?,
        };
        let x = self.normalise(x)?;
        let x = self.cast(&x, self.plan.info.model_dtype)?;
        self.pad(x)
    }

    /// The channels of a YUV420SP image, each a tensor: two rows and columns share a pair of U and V.
    fn planes(&mut self, image: &Value) -> Result<Vec<Value>, String> {
        let ([top, left], [height, width]) = (self.plan.crop.start, self.plan.crop.size);
        let luma = self.slice(image, self.plan.crop.start, self.plan.crop.size)?;
        let rows: Vec<i64> = (top..top + height).map(|row| self.plan.source[0] + row / 2).collect();
        let pairs = self.gather(image, 1, &rows)?;
        let first: Vec<i64> = (left..left + width).map(|column| column / 2 * 2).collect();
        let second: Vec<i64> = first.iter().map(|column| column + 1).collect();
        let swaps = self.parameters().swaps_rbuv;
        let (u, v) = if swaps { (second, first) } else { (first, second) };
        let planes = [luma, self.gather(&pairs, 2, &u)?, self.gather(&pairs, 2, &v)?];
        if self.plan.channel_axis == 3 {
            return Ok(planes.into());
        }
        let sizes = self.integers(&[-1, 1, height, width]);
        let reshape = |one| self.add("Reshape", &[one, &sizes], Attrs::new());
        planes.iter().map(reshape).collect()
    }

    /// The channels of other images: cut out, in order, in the model's layout.
    fn pixels(&mut self, image: &Value) -> Result<Value, String> {
        let (start, size) = (self.plan.crop.start, self.plan.crop.size);
        let mut x = image.clone();
        if start != [0; 2] || size != self.plan.source {
            x = self.slice(&x, start, size)?;
        }
        let order = self.channel_order();
        if order.len() as i64 != self.plan.fed_dims[3] || !order.is_sorted() {
            x = self.gather(&x, 3, &order)?;
        }
        match self.plan.channel_axis {
            1 => {
                let order = self.integers(&[0, 3, 1, 2]);
                self.add("Transpose", &[&x, &order], Attrs::new())
            }
            _ => Ok(x),
        }
    }

    /// Which byte of a pixel each channel is.
    fn channel_order(&self) -> Vec<i64> {
        let parameters = self.parameters();
        let first = i64::from(parameters.swaps_ax);
        let mut order = match parameters.format {
            ImageFormat::Yuv400 | ImageFormat::Yuv420sp => return vec![0],
            _ => vec![first, first + 1, first + 2],
        };
        if parameters.swaps_rbuv {
            order.swap(0, 2);
        }
        if self.plan.channels == 4 {
            order.push(if parameters.swaps_ax { 0 } else { 3 });
        }
        order
    }

    /// Converts colours, in integers as hardware does. The channels come as one tensor or as several.
    fn convert(
        &mut self,
        channels: Vec<Value>,
        conversion: &ColorConversion,
    ) -> Result<Value, String> {
        let is_yuv = self.parameters().format == ImageFormat::Yuv420sp;
        let channels = match &channels[..] {
            [only] => self.split(only)?,
            _ => channels,
        };
        let rows = self.plan.channels as usize;
        let mut sum: Option<Value> = None;
        for (at, channel) in channels.iter().enumerate() {
            let mut x = self.cast(channel, DType::Int32)?;
            if is_yuv && conversion.input_bias[at] != 0 {
                let bias = self.scalar(DType::Int32, conversion.input_bias[at].into())?;
                x = self.add("Sub", &[&x, &bias], Attrs::new())?;
            }
            let column: Vec<f64> =
                conversion.matrix[..rows].iter().map(|row| row[at].into()).collect();
            let column = self.channel_constant(DType::Int32, &column)?;
            let product = self.add("Mul", &[&x, &column], Attrs::new())?;
            sum = Some(match sum {
                None => product,
                Some(sum) => self.add("Add", &[&sum, &product], Attrs::new())?,
            });
        }
        let sum = sum.ok_or("it has no channels")?;
        let shift = self.scalar(DType::Int32, 8.0)?;
        let mut x = self.add("RightShift", &[&sum, &shift], Attrs::new())?;
        if !is_yuv && conversion.output_bias != [0; 3] {
            let bias: Vec<f64> =
                conversion.output_bias[..rows].iter().map(|one| (*one).into()).collect();
            let bias = self.channel_constant(DType::Int32, &bias)?;
            x = self.add("Add", &[&x, &bias], Attrs::new())?;
        }
        let (low, high) = (self.scalar(DType::Int32, 0.0)?, self.scalar(DType::Int32, 255.0)?);
        self.add("ClipByValue", &[&x, &low, &high], Attrs::new())
    }

    /// `(x - mean - min) * factor`, for each channel.
    fn normalise(&mut self, mut x: Value) -> Result<Value, String> {
        let channels = self.plan.channels as usize;
        let widen =
            |values: &[f32; 4]| values[..channels].iter().map(|one| (*one).into()).collect();
        let AippParameters { min, factor, .. } = self.parameters();
        let (min, factor): (Vec<f64>, Vec<f64>) = (widen(min), widen(factor));
        let mean: Vec<f64> =
            self.parameters().mean[..channels].iter().map(|one| (*one).into()).collect();
        for (kind, values, neutral) in [("Sub", mean, 0.0), ("Sub", min, 0.0), ("Mul", factor, 1.0)]
        {
            if values.iter().any(|value| *value != neutral) {
                x = self.cast(&x, DType::Float)?;
                let values = self.channel_constant(DType::Float, &values)?;
                x = self.add(kind, &[&x, &values], Attrs::new())?;
            }
        }
        Ok(x)
    }

    fn pad(&mut self, x: Value) -> Result<Value, String> {
        let padding = self.plan.padding;
        if (padding.rows, padding.columns) == ([0; 2], [0; 2]) {
            return Ok(x);
        }
        let mut pairs = vec![0; 8];
        let rows = if self.plan.channel_axis == 1 { 4 } else { 2 };
        pairs[rows..rows + 2].copy_from_slice(&padding.rows);
        pairs[rows + 2..rows + 4].copy_from_slice(&padding.columns);
        let pairs = self.integers(&pairs);
        let value = self.scalar(x.dtype(), padding.value.into())?;
        self.add("PadV3", &[&x, &pairs, &value], attrs([("mode", "constant".into())]))
    }
}

/// Small steps.
impl Preparation<'_> {
    fn add(&mut self, kind: &str, inputs: &[&Value], attrs: Attrs) -> Result<Value, String> {
        let inputs: Vec<Option<&Value>> = inputs.iter().map(|value| Some(*value)).collect();
        let name = format!("{}/{kind}", self.label);
        let outputs = self.builder.node(&name, kind, &inputs, attrs, 1)?;
        outputs.into_iter().next().ok_or_else(|| format!("{kind} has no output"))
    }

    fn constant(&mut self, desc: Desc, bytes: Vec<u8>) -> Value {
        let name = format!("{}/Const", self.label);
        self.builder.constant(&name, Constant { desc, bytes: bytes.into() })
    }

    fn integers(&mut self, values: &[i64]) -> Value {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(Desc::new(DType::Int64, &[values.len() as i64]), bytes)
    }

    fn scalar(&mut self, dtype: DType, value: f64) -> Result<Value, String> {
        let bytes = element(dtype, value).ok_or_else(|| format!("no number of {dtype}"))?;
        Ok(self.constant(Desc::new(dtype, &[]), bytes))
    }

    /// A number for each channel, in the model's layout.
    fn channel_constant(&mut self, dtype: DType, values: &[f64]) -> Result<Value, String> {
        let elements: Option<Vec<Vec<u8>>> =
            values.iter().map(|value| element(dtype, *value)).collect();
        let bytes = elements.ok_or_else(|| format!("no numbers of {dtype}"))?.concat();
        let count = values.len() as i64;
        let dims = if self.plan.channel_axis == 1 { vec![count, 1, 1] } else { vec![count] };
        Ok(self.constant(Desc::new(dtype, &dims), bytes))
    }

    fn cast(&mut self, value: &Value, dtype: DType) -> Result<Value, String> {
        match value.dtype() == dtype {
            true => Ok(value.clone()),
            false => self.add("Cast", &[value], attrs([("dst_type", (dtype as i64).into())])),
        }
    }

    /// Rows and columns of an image in NHWC.
    fn slice(&mut self, x: &Value, start: [i64; 2], size: [i64; 2]) -> Result<Value, String> {
        let begin = self.integers(&start);
        let end = self.integers(&[start[0] + size[0], start[1] + size[1]]);
        let (axes, steps) = (self.integers(&[1, 2]), self.integers(&[1, 1]));
        self.add("StridedSliceV2", &[x, &begin, &end, &axes, &steps], Attrs::new())
    }

    fn gather(&mut self, x: &Value, axis: i64, indices: &[i64]) -> Result<Value, String> {
        let (indices, axis) = (self.integers(indices), self.integers(&[axis]));
        self.add("GatherV2", &[x, &indices, &axis], Attrs::new())
    }

    fn join(&mut self, channels: &[Value]) -> Result<Value, String> {
        let (axis, count) = (self.plan.channel_axis as i64, channels.len() as i64);
        let inputs: Vec<&Value> = channels.iter().collect();
        self.add("ConcatD", &inputs, attrs([("concat_dim", axis.into()), ("N", count.into())]))
    }

    /// Three channels, each a tensor.
    fn split(&mut self, x: &Value) -> Result<Vec<Value>, String> {
        let name = format!("{}/SplitD", self.label);
        let axis = self.plan.channel_axis as i64;
        let attrs = attrs([("split_dim", axis.into()), ("num_split", 3i64.into())]);
        self.builder.node(&name, "SplitD", &[Some(x)], attrs, 3)
    }
}
