//! One input or output of a call by name: its description with its buffer.

use crate::data_buffer::Span;
use crate::door::runtime;
use crate::tensor_desc::{Description, is_open};
use bytes::Bytes;
use cairn_exec::check_buffer;
use cairn_ops::{Attr, LIST_LENGTHS, Node, Tensor};
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::memory::AddressInfo;
use cairn_tensor::{DType, Dims, Format, Layout, MAX_DIMS};

/// The layout that a description describes; `None` while sizes are unknown. `what` is for messages.
pub fn layout(desc: &Description, what: &str) -> Result<Option<Layout>> {
    let format = desc.storage_format.unwrap_or(desc.format);
    if let Some(text) = format.refusal(what) {
        return Err(Error::new(Code::FeatureNotSupport, text));
    }
    let sizes = desc.sizes(what)?;
    if sizes.len() > MAX_DIMS {
        let rank = sizes.len();
        return Err(Error::invalid(format!("{what} has {rank} dimensions, more than {MAX_DIMS}")));
    }
    desc.size()?;
    let dims: Option<Dims> = match sizes.iter().all(|dim| *dim >= 0) {
        true => Some(sizes.iter().map(|dim| *dim as usize).collect()),
        false => None,
    };
    Ok(dims.map(|dims| Layout::contiguous(desc.dtype, &dims)))
}

/// The order of an image's or a volume's dimensions, where the format tells it. Callers describe volumes as images too.
pub fn order_of_dims(desc: &Description) -> Option<&'static str> {
    match (desc.format, desc.dims.len()) {
        (Format::NCHW, 4) => Some("NCHW"),
        (Format::NHWC, 4) => Some("NHWC"),
        (Format::NCHW | Format::NCDHW, 5) => Some("NCDHW"),
        (Format::NHWC | Format::NDHWC, 5) => Some("NDHWC"),
        _ => None,
    }
}

/// Refuses inputs that are marked as parts of a variable-length input that the operator does not have there.
pub fn check_lists(node: &Node, inputs: &[Description]) -> Result<()> {
    for (at, desc) in inputs.iter().enumerate() {
        let Some(list) = &desc.dynamic_input else { continue };
        let (name, list) = (node.name, list.to_string_lossy());
        let Some(first) = node.inputs.iter().position(|one| one.strip_suffix("[]") == Some(&list))
        else {
            let names = node.inputs.join(", ");
            return Err(Error::invalid(format!(
                "{name}: input {at} is marked as a part of {list}, but {name} has no variable-length input of that \
                 name: expected {names}"
            )));
        };
        let following = node.inputs.len() - 1 - first;
        let end = inputs.len().saturating_sub(following);
        // Where there are several lists, the marks say which inputs they have.
        if !node.has_lists() && !(first..end).contains(&at) {
            return Err(Error::invalid(format!(
                "{name}: input {at} is marked as a part of {list}, whose parts are the inputs from {first} to before {end}"
            )));
        }
    }
    Ok(())
}

/// How many tensors each list of inputs has, where some are marked as parts of lists that single inputs follow.
pub fn list_lengths(node: &Node, inputs: &[Description]) -> Result<Option<(String, Attr)>> {
    let marks: Vec<_> = inputs.iter().map(|desc| desc.dynamic_input.as_ref()).collect();
    if !node.has_lists() || marks.iter().all(Option::is_none) {
        return Ok(None);
    }
    let mut names = Vec::new();
    let is_list = |name: &&&str| name.ends_with("[]");
    let mut singles = node.inputs.iter().filter(|name| !is_list(name));
    for (at, mark) in marks.iter().enumerate() {
        names.push(match mark {
            Some(list) => format!("{}0", list.to_string_lossy()),
            None => {
                let single = singles.next().ok_or_else(|| {
                    let (name, names) = (node.name, node.inputs.join(", "));
                    Error::invalid(format!(
                        "{name}: input {at} is marked as a part of no list: expected {names}"
                    ))
                })?;
                single.trim_end_matches('?').to_owned()
            }
        });
    }
    let lengths = node.list_lengths(names.iter().map(String::as_str));
    Ok(lengths.map(|lengths| (LIST_LENGTHS.to_owned(), lengths)))
}

/// Refuses values outside of the range that the description gives them. Types that hold no integers that
/// shapes could follow from are not checked.
fn check_range(desc: &Description, layout: &Layout, bytes: &[u8], what: &str) -> Result<()> {
    let ranges = &desc.value_range;
    if ranges.is_empty() {
        return Ok(());
    }
    if ranges.len() != layout.count() {
        let (have, expected) = (ranges.len(), layout.count());
        return Err(Error::invalid(format!(
            "{what} has {expected} values, and a range for {have}"
        )));
    }
    let values: Vec<i64> = match desc.dtype {
        DType::Int64 => bytes
            .chunks_exact(8)
            .map(|b| i64::from_ne_bytes(b.try_into().unwrap_or_default()))
            .collect(),
        DType::Int32 => {
            let value = |b: &[u8]| i32::from_ne_bytes(b.try_into().unwrap_or_default());
            bytes.chunks_exact(4).map(|b| i64::from(value(b))).collect()
        }
        _ => return Ok(()),
    };
    let outside = |(value, range): (&i64, &[i64; 2])| {
        *value < range[0] || (*value > range[1] && !is_open(range))
    };
    match values.iter().zip(ranges).position(outside) {
        None => Ok(()),
        Some(at) => {
            let (value, range) = (values[at], ranges[at]);
            Err(Error::invalid(format!(
                "{what}: its value {at} is {value}, outside of the range {range:?}"
            )))
        }
    }
}

/// The bytes of an input whose ranges allow one value each.
fn bytes_from_range(desc: &Description, layout: &Layout) -> Option<Vec<u8>> {
    let ranges = &desc.value_range;
    let is_exact = ranges.iter().all(|[least, greatest]| least == greatest);
    if ranges.is_empty() || ranges.len() != layout.count() || !is_exact {
        return None;
    }
    let values = ranges.iter().map(|[value, _]| *value);
    match desc.dtype {
        DType::Int64 => Some(values.flat_map(i64::to_ne_bytes).collect()),
        DType::Int32 => values
            .map(i32::try_from)
            .collect::<std::result::Result<Vec<i32>, _>>()
            .ok()
            .map(|values| values.into_iter().flat_map(i32::to_ne_bytes).collect()),
        _ => None,
    }
}

/// An input, with its bytes if they lie on the host. `None` for one that is not there.
pub fn input(desc: &Description, buffer: Option<Span>, what: &str) -> Result<Option<Tensor>> {
    if desc.dtype == DType::Undefined {
        return Ok(None);
    }
    let Some(layout) = layout(desc, what)? else {
        let dims = &desc.dims;
        return Err(Error::invalid(format!(
            "{what} has the shape {dims:?}: it must be known to run"
        )));
    };
    if let Some(bytes) = &desc.constant {
        return constant_tensor(desc, layout, Bytes::copy_from_slice(bytes), what).map(Some);
    }
    let span = buffer.unwrap_or(Span { address: 0, length: 0 });
    check_buffer(what, &layout, span.address, span.length)?;
    if desc.placement == crate::abi::ACL_MEMTYPE_DEVICE || span.address == 0 {
        return Ok(Some(Tensor::new(layout, span.address)));
    }
    host_tensor(desc, layout, span, what).map(Some)
}

/// An input for inference, which reads no bytes on the device.
pub fn known_tensor(
    desc: &Description,
    buffer: Option<Span>,
    what: &str,
) -> Result<Option<Tensor>> {
    if desc.dtype == DType::Undefined {
        return Ok(None);
    }
    let Some(layout) = layout(desc, what)? else {
        let dims = &desc.dims;
        return Err(Error::invalid(format!(
            "{what} has the shape {dims:?}: nothing follows from it"
        )));
    };
    if let Some(bytes) = &desc.constant {
        return constant_tensor(desc, layout, Bytes::copy_from_slice(bytes), what).map(Some);
    }
    match buffer {
        Some(span) if span.address != 0 && span.length >= layout.bytes() => {
            match runtime()?.shared.memory.enclosing(span.address) {
                AddressInfo::Device(..) => Ok(Some(Tensor::new(layout, span.address))),
                _ => host_tensor(desc, layout, span, what).map(Some),
            }
        }
        _ => match bytes_from_range(desc, &layout) {
            Some(bytes) => constant_tensor(desc, layout, bytes.into(), what).map(Some),
            None => Ok(Some(Tensor::new(layout, 0))),
        },
    }
}

/// A tensor with a copy of its bytes on the host.
fn host_tensor(desc: &Description, layout: Layout, span: Span, what: &str) -> Result<Tensor> {
    let bytes = runtime()?.copy_from_host(what, span.address, layout.bytes())?;
    constant_tensor(desc, layout, bytes.into(), what)
}

/// A tensor whose bytes are known. Its address is that of the bytes until they are on the device.
fn constant_tensor(desc: &Description, layout: Layout, bytes: Bytes, what: &str) -> Result<Tensor> {
    if bytes.len() < layout.bytes() {
        let (have, expected) = (bytes.len(), layout.bytes());
        return Err(Error::invalid(format!(
            "{what} ({layout}) takes {expected} bytes, {have} are given"
        )));
    }
    check_range(desc, &layout, &bytes, what)?;
    let address = bytes.as_ptr() as usize;
    Ok(Tensor { layout, address, constant: Some(bytes) })
}
