//! Tensors of ONNX: types of elements, and bytes wherever the file keeps them.

use super::builder::Budget;
use super::wire::{SparseTensorProto, TensorProto};
use crate::files::{OpenFiles, range_of};
use crate::ir::{Constant, Desc};
use bytes::Bytes;
use cairn_tensor::DType;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// Each type with its number in ONNX. Types below a byte and 8-bit floats are not among them.
const TYPES: [(i32, DType); 16] = [
    (1, DType::Float),
    (2, DType::Uint8),
    (3, DType::Int8),
    (4, DType::Uint16),
    (5, DType::Int16),
    (6, DType::Int32),
    (7, DType::Int64),
    (8, DType::String),
    (9, DType::Bool),
    (10, DType::Float16),
    (11, DType::Double),
    (12, DType::Uint32),
    (13, DType::Uint64),
    (14, DType::Complex64),
    (15, DType::Complex128),
    (16, DType::Bf16),
];

/// The names of the types that have a number in ONNX and none here.
const UNSUPPORTED_TYPES: [(i32, &str); 10] = [
    (17, "float8e4m3fn"),
    (18, "float8e4m3fnuz"),
    (19, "float8e5m2"),
    (20, "float8e5m2fnuz"),
    (21, "uint4"),
    (22, "int4"),
    (23, "float4e2m1"),
    (24, "float8e8m0"),
    (25, "uint2"),
    (26, "int2"),
];

/// The type of a number of ONNX; the error names it.
pub fn dtype(number: i32) -> Result<DType, String> {
    if let Some((_, dtype)) = TYPES.iter().find(|(known, _)| *known == number) {
        return match dtype {
            DType::String => Err("strings are not supported".to_owned()),
            dtype => Ok(*dtype),
        };
    }
    match UNSUPPORTED_TYPES.iter().find(|(known, _)| *known == number) {
        Some((_, name)) => Err(format!("elements of type {name} are not supported")),
        None => Err(format!("{number} is no type of elements of ONNX")),
    }
}

/// Where the data is that a model keeps in files of its own.
#[derive(Clone, Debug, Default)]
pub struct ExternalData {
    /// The folder of the model; `None` for a model in memory, whose files are looked up in the working directory.
    pub folder: Option<PathBuf>,
    /// The bytes of files that are not looked up there, by name.
    pub files: BTreeMap<String, Bytes>,
    /// Those that were opened.
    pub opened: OpenFiles,
}

impl ExternalData {
    /// The bytes of a tensor that says where they are.
    fn read(&self, tensor: &TensorProto, bytes: usize) -> Result<Bytes, String> {
        let entry = |key: &str| {
            tensor.external_data.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
        };
        let Some(location) = entry("location") else {
            return Err("it is external and names no location".to_owned());
        };
        let number = |key: &str| -> Result<Option<u64>, String> {
            let Some(text) = entry(key) else { return Ok(None) };
            let number = text.parse().map_err(|_| format!("its {key} '{text}' is no number"))?;
            Ok(Some(number))
        };
        let offset = number("offset")?.unwrap_or(0);
        if let Some(length) = number("length")?
            && length != bytes as u64
        {
            return Err(format!("its length is {length}, its sizes need {bytes} bytes"));
        }
        let relative = Path::new(location);
        let name = relative.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if let Some(file) = self.files.get(name) {
            return range_of(file, &format!("'{name}'"), offset, bytes);
        }
        let is_inside =
            |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        if self.folder.is_some() && !relative.components().all(is_inside) {
            return Err(format!("its file '{location}' is outside of the model's folder"));
        }
        let path = self.folder.as_deref().map_or_else(PathBuf::new, Path::to_owned).join(relative);
        self.opened.read(&path, offset, bytes)
    }
}

/// Data above this many bytes is outside of what one tensor can be.
const MAX_BYTES: usize = isize::MAX as usize;

/// Reads a tensor. The error says what is wrong, but not the tensor's name.
pub fn read(tensor: &TensorProto, external: &ExternalData) -> Result<Constant, String> {
    const EXTERNAL: i32 = 1;
    let dtype = dtype(tensor.data_type)?;
    let item = dtype.size_in_bytes().expect("a type of the table");
    let Some(bytes) = element_count(&tensor.dims)
        .and_then(|count| count.checked_mul(item))
        .filter(|bytes| *bytes <= MAX_BYTES)
    else {
        return Err(format!("its sizes are {:?}", tensor.dims));
    };
    let data = match &tensor.raw_data {
        _ if tensor.data_location == EXTERNAL => external.read(tensor, bytes)?,
        Some(raw) => raw.clone(),
        None => typed_data(tensor, dtype).into(),
    };
    if data.len() != bytes {
        return Err(format!(
            "its data has {} bytes; {dtype} {:?} needs {bytes}",
            data.len(),
            tensor.dims
        ));
    }
    Ok(Constant { desc: Desc::new(dtype, &tensor.dims), bytes: data })
}

/// How many elements there are; `None` for sizes that no tensor has.
fn element_count(dims: &[i64]) -> Option<usize> {
    dims.iter().try_fold(1usize, |count, dim| {
        usize::try_from(*dim).ok().and_then(|dim| count.checked_mul(dim))
    })
}

/// The bytes of a tensor whose elements are numbers of the message.
fn typed_data(tensor: &TensorProto, dtype: DType) -> Vec<u8> {
    fn bytes<T: Copy, const N: usize>(values: &[T], to: impl Fn(T) -> [u8; N]) -> Vec<u8> {
        values.iter().flat_map(|value| to(*value)).collect()
    }
    match dtype {
        DType::Float | DType::Complex64 => bytes(&tensor.float_data, f32::to_le_bytes),
        DType::Double | DType::Complex128 => bytes(&tensor.double_data, f64::to_le_bytes),
        DType::Int64 => bytes(&tensor.int64_data, i64::to_le_bytes),
        DType::Uint64 => bytes(&tensor.uint64_data, u64::to_le_bytes),
        DType::Uint32 => bytes(&tensor.uint64_data, |value| (value as u32).to_le_bytes()),
        DType::Int32 => bytes(&tensor.int32_data, i32::to_le_bytes),
        DType::Uint8 | DType::Int8 | DType::Bool => {
            bytes(&tensor.int32_data, |value| [value as u8])
        }
        _ => bytes(&tensor.int32_data, |value| (value as u16).to_le_bytes()),
    }
}

/// Reads a sparse tensor as a dense one: the elements that it does not name are 0.
pub fn read_sparse(
    tensor: &SparseTensorProto,
    external: &ExternalData,
    budget: &Budget,
) -> Result<Constant, String> {
    let (Some(values), Some(indices)) = (&tensor.values, &tensor.indices) else {
        return Err("a sparse tensor needs values and indices".to_owned());
    };
    let (values, indices) = (read(values, external)?, read(indices, external)?);
    let count = element_count(&tensor.dims);
    let item = values.desc.dtype.size_in_bytes().expect("a type of the table");
    let bytes = count.and_then(|count| count.checked_mul(item));
    let Some(bytes) = bytes.and_then(|bytes| i64::try_from(bytes).ok()) else {
        return Err(format!("its sizes are {:?}", tensor.dims));
    };
    let bytes = budget.take(bytes, 1)?;
    let numbers: Vec<i64> = match indices.desc.dtype {
        DType::Int64 => int64s(&indices.bytes),
        other => return Err(format!("its indices are of type {other}, not int64")),
    };
    let named = values.bytes.len() / item;
    let rank = tensor.dims.len();
    let linear: Vec<Option<usize>> = match indices.desc.dims.as_slice() {
        [n] if *n as usize == named => {
            numbers.iter().map(|index| usize::try_from(*index).ok()).collect()
        }
        [n, columns] if *n as usize == named && *columns as usize == rank => (numbers.chunks(rank))
            .map(|index| {
                index.iter().zip(&tensor.dims).try_fold(0usize, |offset, (index, dim)| {
                    let index = usize::try_from(*index).ok().filter(|_| index < dim)?;
                    Some(offset * *dim as usize + index)
                })
            })
            .collect(),
        other => return Err(format!("its indices have the sizes {other:?} for {named} values")),
    };
    let mut data = vec![0; bytes];
    for (at, value) in linear.into_iter().zip(values.bytes.chunks_exact(item)) {
        let slot = at.and_then(|at| data.get_mut(at.checked_mul(item)?..)?.get_mut(..item));
        match slot {
            Some(slot) => slot.copy_from_slice(value),
            None => return Err(format!("an index lies outside of {:?}", tensor.dims)),
        }
    }
    Ok(Constant { desc: Desc::new(values.desc.dtype, &tensor.dims), bytes: data.into() })
}

/// The numbers that bytes of type int64 hold.
pub fn int64s(bytes: &[u8]) -> Vec<i64> {
    bytes.as_chunks().0.iter().map(|chunk| i64::from_le_bytes(*chunk)).collect()
}
