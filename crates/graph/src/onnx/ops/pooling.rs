//! Pools: the greatest, the mean or a norm of each window.

use super::Converters;
use super::expression::slice;
use super::window::{Window, with_channels};
use crate::ir::Attrs;
use crate::onnx::builder::Value;
use crate::onnx::conversion::{Conversion, attrs};
use cairn_tensor::DType;

pub const CONVERTERS: Converters = &[
    ("AveragePool", average_pool),
    ("GlobalAveragePool", global_average_pool),
    ("GlobalLpPool", global_lp_pool),
    ("GlobalMaxPool", global_max_pool),
    ("LpPool", lp_pool),
    ("MaxPool", max_pool),
];

type Converted = Result<Vec<Value>, String>;

/// An input with at least two dimensions of positions, and a window over them.
struct Pool {
    x: Value,
    window: Window,
    is_1d: bool,
    ceil_mode: bool,
}

impl Pool {
    fn read(node: &mut Conversion<'_>) -> Result<Pool, String> {
        let mut x = node.input(0)?;
        let kernel = node.ints("kernel_shape").ok_or("the attribute kernel_shape is missing")?;
        let rank = node.rank(&x)?;
        if rank != kernel.len() + 2 || !(3..=5).contains(&rank) {
            return Err(format!(
                "its window has the sizes {kernel:?} for an input with {rank} dimensions: 1, 2 or 3 dimensions of positions are supported"
            ));
        }
        let mut window = Window::read_pool(node, &x, kernel)?;
        let crops = |pad: &(i64, i64)| pad.0.max(pad.1) <= 0 && *pad != (0, 0);
        for (at, pad) in window.pads.iter_mut().enumerate().filter(|(_, pad)| crops(pad)) {
            let end = node.known_dims_at(&x, 2 + at)? + pad.1;
            x = slice(node, &x, 2 + at as i64, -pad.0, end)?;
            *pad = (0, 0);
        }
        let is_1d = rank == 3;
        if is_1d {
            x = node.add("Unsqueeze", &[&x], attrs([("axes", vec![2i64].into())]))?;
            window.kernel.insert(0, 1);
            window.strides.insert(0, 1);
            window.dilations.insert(0, 1);
            window.pads.insert(0, (0, 0));
        }
        let ceil_mode = node.int("ceil_mode", 0) != 0;
        Ok(Pool { x, window, is_1d, ceil_mode })
    }

    /// Without the dimension that was added.
    fn finish(&self, node: &mut Conversion<'_>, y: Value) -> Result<Value, String> {
        match self.is_1d {
            true => node.add("Squeeze", &[&y], attrs([("axis", vec![2i64].into())])),
            false => Ok(y),
        }
    }

    /// The attributes of the nodes that take any window.
    fn any_window(&self) -> Attrs {
        let Window { kernel, strides, dilations, pads, .. } = &self.window;
        let (before, after) = (pads.iter().map(|pad| pad.0), pads.iter().map(|pad| pad.1));
        attrs([
            ("ksize", kernel.clone().into()),
            ("strides", strides.clone().into()),
            ("pads", before.chain(after).collect::<Vec<i64>>().into()),
            ("dilations", dilations.clone().into()),
            ("ceil_mode", self.ceil_mode.into()),
        ])
    }

    /// The mean of each window; `excludes_padding` says whether padding does not count.
    fn average(
        &self,
        node: &mut Conversion<'_>,
        x: &Value,
        excludes_padding: bool,
    ) -> Result<Value, String> {
        let Pool { window, ceil_mode, .. } = self;
        if !window.is_dense() {
            let mut attrs = self.any_window();
            attrs.insert("count_include_pad".into(), (!excludes_padding).into());
            return node.add("AvgPoolND", &[x], attrs);
        }
        if window.kernel.len() == 2 {
            let attrs = attrs([
                ("ksize", with_channels(&window.kernel).into()),
                ("strides", with_channels(&window.strides).into()),
                ("padding_mode", "CALCULATED".into()),
                ("pads", window.pads_by_dimension().into()),
                ("data_format", "NCHW".into()),
                ("ceil_mode", (*ceil_mode).into()),
                ("exclusive", excludes_padding.into()),
            ]);
            return node.add("AvgPoolV2", &[x], attrs);
        }
        let attrs = attrs([
            ("ksize", window.kernel.clone().into()),
            ("strides", window.strides.clone().into()),
            ("pads", window.pads_by_dimension().into()),
            ("ceil_mode", (*ceil_mode).into()),
            ("count_include_pad", (!excludes_padding).into()),
            ("data_format", "NCDHW".into()),
        ]);
        node.add("AvgPool3D", &[x], attrs)
    }
}

fn average_pool(node: &mut Conversion<'_>) -> Converted {
    let pool = Pool::read(node)?;
    let excludes_padding = node.int("count_include_pad", 0) == 0;
    let y = pool.average(node, &pool.x, excludes_padding)?;
    Ok(vec![pool.finish(node, y)?])
}

/// The norm of each window: the mean of powers, times the size of the window, and back.
fn lp_pool(node: &mut Conversion<'_>) -> Converted {
    let pool = Pool::read(node)?;
    let p = node.int("p", 2) as f64;
    let dtype = pool.x.dtype();
    let magnitudes = node.add("Abs", &[&pool.x], Attrs::new())?;
    let exponent = node.scalar(dtype, p)?;
    let powers = node.add("Pow", &[&magnitudes, &exponent], Attrs::new())?;
    let means = pool.average(node, &powers, false)?;
    let count: i64 = pool.window.kernel.iter().product();
    let count = node.scalar(dtype, count as f64)?;
    let sums = node.add("Mul", &[&means, &count], Attrs::new())?;
    let root = node.scalar(dtype, 1.0 / p)?;
    let y = node.add("Pow", &[&sums, &root], Attrs::new())?;
    Ok(vec![pool.finish(node, y)?])
}

fn max_pool(node: &mut Conversion<'_>) -> Converted {
    let pool = Pool::read(node)?;
    let Pool { window, ceil_mode, .. } = &pool;
    if node.wants_output(1) || !window.is_dense() {
        let mut attrs = pool.any_window();
        attrs.insert("storage_order".into(), node.int("storage_order", 0).into());
        let made = node.add_several("MaxPoolND", &[Some(&pool.x)], attrs, 2)?;
        return made.into_iter().map(|value| pool.finish(node, value)).collect();
    }
    let dtype = pool.x.dtype();
    let compute_type = if dtype.is_integer() { DType::Float } else { dtype };
    let x = node.cast(&pool.x, compute_type)?;
    let y = match window.kernel.len() {
        2 => {
            let attrs = attrs([
                ("ksize", with_channels(&window.kernel).into()),
                ("strides", with_channels(&window.strides).into()),
                ("padding_mode", "CALCULATED".into()),
                ("pads", window.pads_by_dimension().into()),
                ("data_format", "NCHW".into()),
                ("ceil_mode", (*ceil_mode).into()),
            ]);
            node.add("MaxPoolV3", &[&x], attrs)?
        }
        _ => {
            let attrs = attrs([
                ("ksize", with_channels(&window.kernel).into()),
                ("strides", with_channels(&window.strides).into()),
                ("padding", "CALCULATED".into()),
                ("pads", window.pads_by_dimension().into()),
                ("ceil_mode", i64::from(*ceil_mode).into()),
                ("data_format", "NCDHW".into()),
            ]);
            node.add("MaxPool3D", &[&x], attrs)?
        }
    };
    let y = node.cast(&y, dtype)?;
    Ok(vec![pool.finish(node, y)?])
}

/// Reduces all positions to one.
fn reduce_positions(node: &mut Conversion<'_>, x: &Value, kind: &str) -> Result<Value, String> {
    let axes: Vec<i64> = (2..node.rank(x)? as i64).collect();
    let axes = node.int_list(&axes);
    node.add(kind, &[x, &axes], attrs([("keep_dims", true.into())]))
}

fn global_average_pool(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    Ok(vec![reduce_positions(node, &x, "ReduceMean")?])
}

fn global_max_pool(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    Ok(vec![reduce_positions(node, &x, "ReduceMax")?])
}

fn global_lp_pool(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let p = node.int("p", 2) as f64;
    let magnitudes = node.add("Abs", &[&x], Attrs::new())?;
    let exponent = node.scalar(x.dtype(), p)?;
    let powers = node.add("Pow", &[&magnitudes, &exponent], Attrs::new())?;
    let sums = reduce_positions(node, &powers, "ReduceSum")?;
    let root = node.scalar(x.dtype(), 1.0 / p)?;
    Ok(vec![node.add("Pow", &[&sums, &root], Attrs::new())?])
}
