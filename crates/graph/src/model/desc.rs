//! Descriptions of tensors, and tensors with their bytes.

use super::wire::{AttrDef, AttrMap, ListValue, ShapeDef, TensorDef, TensorDescriptor, Value};
use super::{attr, number};
use crate::ir::{Constant, Desc, UNKNOWN_RANK};
use cairn_tensor::{DType, Format};

// Attributes and values in which the format keeps parts of a description.
const ORIGIN_SHAPE: &str = "origin_shape";
const HAS_ORIGIN_SHAPE: &str = "origin_shape_initialized";
const ORIGIN_FORMAT: &str = "origin_format";
const FORMAT_NUMBER: &str = "format_for_int";
const ORIGIN_FORMAT_NUMBER: &str = "origin_format_for_int";
const PLACEMENT: &str = "placement";
const UNFED: &str = "_is_unfed_optional";
const ON_DEVICE: &str = "NPU";

/// The number of [`ListValue::val_type`] for integers.
const INTS: i32 = 2;

/// What a description without sizes stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingShape {
    /// A scalar.
    Scalar,
    /// Anything: the sizes are to be inferred.
    Unknown,
}

/// Reads a description. An attribute that cannot be read is dropped.
pub fn read(def: TensorDescriptor, missing_shape: MissingShape) -> Result<Desc, String> {
    let dtype = number::dtype(def.dtype).ok_or_else(|| {
        format!("the type of elements {} of the model format is not supported", def.dtype)
    })?;
    let dims = match (def.shape, missing_shape) {
        (Some(shape), _) => shape.dim,
        (None, MissingShape::Scalar) => Vec::new(),
        (None, MissingShape::Unknown) => vec![UNKNOWN_RANK],
    };
    let mut attrs = def.attr;
    let mut take = |name: &str| attrs.remove(name).and_then(|one| one.value);
    let format = match take(FORMAT_NUMBER) {
        Some(Value::I(number)) => format_by_number(number)?,
        _ => format_by_name(&def.layout)?,
    };
    let origin_format = match (take(ORIGIN_FORMAT_NUMBER), take(ORIGIN_FORMAT)) {
        (Some(Value::I(number)), _) => format_by_number(number)?,
        (_, Some(Value::S(name))) => format_by_name(&String::from_utf8_lossy(&name))?,
        _ => format,
    };
    let origin_dims = match take(ORIGIN_SHAPE) {
        Some(Value::List(list)) => list.i,
        _ => dims.clone(),
    };
    let placement = match take(PLACEMENT) {
        Some(Value::I(number)) => {
            i32::try_from(number).map_err(|_| format!("{number} is no placement of a tensor"))?
        }
        _ => i32::from(def.device_type == ON_DEVICE),
    };
    attrs.retain(|name, _| name != HAS_ORIGIN_SHAPE && name != UNFED);
    let each = attrs.into_iter().filter_map(|one| attr::read_all(AttrMap::from([one])).ok());
    let attrs = each.flatten().collect();
    Ok(Desc { name: def.name, dtype, format, origin_format, placement, dims, origin_dims, attrs })
}

fn format_by_number(number: i64) -> Result<Format, String> {
    i32::try_from(number).map(Format).map_err(|_| format!("{number} is no format"))
}

fn format_by_name(name: &str) -> Result<Format, String> {
    number::format(name).ok_or_else(|| format!("the format '{name}' is not supported"))
}

/// What is written of a description. Defaults are not written.
pub fn write(desc: &Desc) -> TensorDescriptor {
    let mut def = TensorDescriptor {
        name: desc.name.clone(),
        dtype: number::dtype_number(desc.dtype),
        shape: Some(ShapeDef { dim: desc.dims.clone() }),
        layout: desc.format.name().unwrap_or("RESERVED").to_owned(),
        attr: attr::write_all(&desc.attrs),
        ..TensorDescriptor::default()
    };
    let mut set = |name: &str, value| {
        def.attr.insert(name.to_owned(), AttrDef { value: Some(value) });
    };
    if desc.format.name().is_none() {
        set(FORMAT_NUMBER, Value::I(desc.format.0.into()));
    }
    if desc.origin_format != desc.format {
        match desc.origin_format.name() {
            Some(name) => set(ORIGIN_FORMAT, Value::S(name.into())),
            None => set(ORIGIN_FORMAT_NUMBER, Value::I(desc.origin_format.0.into())),
        }
    }
    if desc.origin_dims != desc.dims {
        let i = desc.origin_dims.clone();
        let list = ListValue { i, val_type: INTS, ..ListValue::default() };
        set(ORIGIN_SHAPE, Value::List(Box::new(list)));
        set(HAS_ORIGIN_SHAPE, Value::B(true));
    }
    if !(0..=1).contains(&desc.placement) {
        set(PLACEMENT, Value::I(desc.placement.into()));
    }
    if desc.placement == 1 {
        def.device_type = ON_DEVICE.to_owned();
    }
    def
}

/// The description of an input that nothing feeds.
pub fn write_unfed(desc: &Desc) -> TensorDescriptor {
    let mut def = write(desc);
    if desc.dtype == DType::Undefined {
        def.attr.insert(UNFED.to_owned(), AttrDef { value: Some(Value::I(1)) });
    }
    def
}

/// Reads a tensor with its bytes.
pub fn read_tensor(def: TensorDef) -> Result<Constant, String> {
    let desc = read(def.desc.unwrap_or_default(), MissingShape::Scalar)?;
    Ok(Constant { desc, bytes: def.data })
}

/// What is written of a tensor.
pub fn write_tensor(tensor: &Constant) -> TensorDef {
    TensorDef { desc: Some(write(&tensor.desc)), data: tensor.bytes.clone() }
}
