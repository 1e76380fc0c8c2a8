//! Short forms for converters that compute with sizes and positions.

use crate::ir::Attrs;
use crate::onnx::builder::Value;
use crate::onnx::conversion::{Conversion, attrs};
use cairn_tensor::DType;

/// A value, or why there is none.
pub type Made = Result<Value, String>;

/// A node without attributes.
pub fn plain(node: &mut Conversion<'_>, kind: &str, inputs: &[&Value]) -> Made {
    node.add(kind, inputs, Attrs::new())
}

/// The node of two inputs, the second of which is a number of the first one's type.
pub fn with_number(node: &mut Conversion<'_>, kind: &str, x: &Value, number: f64) -> Made {
    let number = node.scalar(x.dtype(), number)?;
    plain(node, kind, &[x, &number])
}

/// A value with one element as an int64 without dimensions.
pub fn int_scalar(node: &mut Conversion<'_>, x: &Value) -> Made {
    let x = node.cast(x, DType::Int64)?;
    reshape(node, &x, &[])
}

/// The size of an axis, as an int64 without dimensions.
pub fn size_at(node: &mut Conversion<'_>, x: &Value, axis: i64) -> Made {
    let sizes = node.sizes_of(x)?;
    element_at(node, &sizes, axis)
}

/// An element of a list, without dimensions.
pub fn element_at(node: &mut Conversion<'_>, list: &Value, at: i64) -> Made {
    let (at, first) = (node.scalar(DType::Int64, at as f64)?, node.int_list(&[0]));
    plain(node, "GatherV2", &[list, &at, &first])
}

/// The numbers from 0 to before a limit, an int64 without dimensions.
pub fn counting(node: &mut Conversion<'_>, limit: &Value) -> Made {
    let (zero, one) = (node.scalar(DType::Int64, 0.0)?, node.scalar(DType::Int64, 1.0)?);
    let mut numbers = plain(node, "Range", &[&zero, limit, &one])?;
    node.learn_dims(&mut numbers, &[-1]);
    Ok(numbers)
}

/// For each element of a matrix of the last two sizes of x: the number of its column less that of its row.
pub fn diagonals(node: &mut Conversion<'_>, x: &Value) -> Made {
    let rank = node.rank(x)? as i64;
    if rank < 2 {
        return Err(format!("its input has {rank} dimensions, and matrices have at least 2"));
    }
    let (rows, columns) = (size_at(node, x, rank - 2)?, size_at(node, x, rank - 1)?);
    let (rows, columns) = (counting(node, &rows)?, counting(node, &columns)?);
    let rows = unsqueeze(node, &rows, &[1])?;
    plain(node, "Sub", &[&columns, &rows])
}

/// With new axes of one element.
pub fn unsqueeze(node: &mut Conversion<'_>, x: &Value, axes: &[i64]) -> Made {
    node.add("Unsqueeze", &[x], attrs([("axes", axes.to_vec().into())]))
}

/// With these sizes, one of which may be -1.
pub fn reshape(node: &mut Conversion<'_>, x: &Value, dims: &[i64]) -> Made {
    let sizes = node.int_list(dims);
    plain(node, "Reshape", &[x, &sizes])
}

/// With the sizes that these numbers are, each without dimensions; one may be -1.
pub fn reshape_by(node: &mut Conversion<'_>, x: &Value, sizes: &[Value]) -> Made {
    let list = list(node, sizes)?;
    let mut made = plain(node, "Reshape", &[x, &list])?;
    node.learn_dims(&mut made, &vec![-1; sizes.len()]);
    Ok(made)
}

/// Numbers without dimensions as a list.
pub fn list(node: &mut Conversion<'_>, numbers: &[Value]) -> Made {
    let each: Vec<Value> =
        numbers.iter().map(|number| reshape(node, number, &[1])).collect::<Result<_, _>>()?;
    join(node, &each, 0)
}

/// Tensors one after the other along an axis.
pub fn join(node: &mut Conversion<'_>, parts: &[Value], along: i64) -> Made {
    if let [only] = parts {
        return Ok(only.clone());
    }
    let values: Vec<&Value> = parts.iter().collect();
    let attrs = attrs([("concat_dim", along.into()), ("N", (parts.len() as i64).into())]);
    node.add("ConcatD", &values, attrs)
}

/// The elements along an axis from one index to before another, both lists of one number; negative ones count from the end.
pub fn slice_by(node: &mut Conversion<'_>, x: &Value, along: i64, [from, to]: [&Value; 2]) -> Made {
    let axes = node.int_list(&[along]);
    let inputs = [Some(x), Some(from), Some(to), Some(&axes)];
    Ok(node.add_several("StridedSliceV2", &inputs, Attrs::new(), 1)?.remove(0))
}

/// The same with numbers that are known.
pub fn slice(node: &mut Conversion<'_>, x: &Value, along: i64, from: i64, to: i64) -> Made {
    let (from, to) = (node.int_list(&[from]), node.int_list(&[to]));
    slice_by(node, x, along, [&from, &to])
}

/// Where a condition holds one value, elsewhere the other.
pub fn select(node: &mut Conversion<'_>, condition: &Value, yes: &Value, no: &Value) -> Made {
    plain(node, "SelectV2", &[condition, yes, no])
}
