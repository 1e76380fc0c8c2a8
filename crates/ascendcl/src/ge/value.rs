//! Descriptions, tensors and attribute values in both directions.

use super::abi::*;
use super::door::{borrowed, list, owned, text};
use super::graph::GraphObject;
use bytes::Bytes;
use cairn_graph::ir::{Attr, Attrs, Constant, Desc, Graph};
use cairn_graph::{Failure, Result};
use cairn_tensor::{DType, Format};
use std::ffi::c_void;

/// The number of a type that is not known, in C++.
const UNDEFINED: i32 = 28;

/// A type by its number in C++.
pub fn dtype(number: i32) -> Result<DType> {
    match number {
        UNDEFINED | -1 => Ok(DType::Undefined),
        number => DType::from_number(number).ok_or_else(|| {
            Failure::invalid(format!("{number} is no ge::DataType that Cairn knows"))
        }),
    }
}

/// The number of a type in C++.
pub fn number(dtype: DType) -> i32 {
    if dtype == DType::Undefined { UNDEFINED } else { dtype.number() }
}

/// A description of the caller.
///
/// # Safety
/// What it points to lives for the call.
pub unsafe fn desc(from: &CairnDesc) -> Result<Desc> {
    // SAFETY: as the caller vouches.
    unsafe {
        Ok(Desc {
            name: text(from.name),
            dtype: dtype(from.dtype)?,
            format: Format(from.format),
            origin_format: Format(from.origin_format),
            placement: from.placement,
            dims: list(from.dims, from.rank).to_vec(),
            origin_dims: list(from.origin_dims, from.origin_rank).to_vec(),
            attrs: Attrs::new(),
        })
    }
}

/// A description as the interface carries it; it borrows from the original.
pub fn desc_view(desc: &Desc) -> CairnDesc {
    CairnDesc {
        name: borrowed(desc.name.as_bytes()),
        dtype: number(desc.dtype),
        format: desc.format.0,
        origin_format: desc.origin_format.0,
        placement: desc.placement,
        dims: desc.dims.as_ptr(),
        rank: desc.dims.len(),
        origin_dims: desc.origin_dims.as_ptr(),
        origin_rank: desc.origin_dims.len(),
    }
}

/// Shows a description to the caller.
///
/// # Safety
/// `callback` is a function of the caller that takes `context`.
pub unsafe fn show_desc(callback: CairnDescCallback, context: *mut c_void, desc: &Desc) {
    if let Some(callback) = callback {
        let view = desc_view(desc);
        // SAFETY: as the caller vouches.
        unsafe { callback(context, &view) };
    }
}

/// A tensor of the caller.
unsafe fn tensor(from: &CairnTensor) -> Result<Constant> {
    // SAFETY: as the caller of `attr` vouches.
    unsafe {
        let bytes = Bytes::copy_from_slice(list(from.data.cast::<u8>(), from.bytes));
        Ok(Constant { desc: desc(&from.desc)?, bytes })
    }
}

/// An attribute's value of the caller.
///
/// # Safety
/// What it points to lives for the call, and its counts are true.
pub unsafe fn attr(from: &CairnValue) -> Result<Attr> {
    // SAFETY: as the caller vouches.
    unsafe {
        let count = from.count;
        let ints = || list(from.ints, count).to_vec();
        let bytes = |one: &CairnText| list(one.data.cast::<u8>(), one.size).to_vec();
        let texts = || list(from.texts, count).iter().map(bytes).collect::<Vec<_>>();
        let tensors =
            || list(from.tensors, count).iter().map(|one| tensor(one)).collect::<Result<Vec<_>>>();
        let descs = || {
            list(from.tensors, count).iter().map(|one| desc(&one.desc)).collect::<Result<Vec<_>>>()
        };
        let graphs = || {
            let all = list(from.graphs, count).iter();
            all.map(|one| Ok(super::graph::graph(*one)?.ir())).collect::<Result<Vec<Graph>>>()
        };
        let all = match from.kind {
            CAIRN_KIND_STRING => Attr::Texts(texts()),
            CAIRN_KIND_INT => Attr::Ints(ints()),
            CAIRN_KIND_FLOAT => Attr::Floats(list(from.floats, count).to_vec()),
            CAIRN_KIND_BOOL => Attr::Flags(ints().iter().map(|one| *one != 0).collect()),
            CAIRN_KIND_BYTES => Attr::ByteLists(texts()),
            CAIRN_KIND_TENSOR_DESC => Attr::Descs(descs()?),
            CAIRN_KIND_TENSOR => Attr::Tensors(tensors()?),
            CAIRN_KIND_GRAPH => Attr::Graphs(graphs()?),
            CAIRN_KIND_DATA_TYPE => Attr::Types(ints()),
            CAIRN_KIND_INT_LISTS | CAIRN_KIND_FLOAT_LISTS => return list_of_lists(from),
            CAIRN_KIND_NAMED => return named_attrs(from),
            other => return Err(Failure::invalid(format!("{other} is no kind of attribute"))),
        };
        if from.is_list {
            return Ok(all);
        }
        let one = match all {
            Attr::Texts(all) => all.into_iter().next().map(Attr::Text),
            Attr::Ints(all) => all.first().copied().map(Attr::Int),
            Attr::Floats(all) => all.first().copied().map(Attr::Float),
            Attr::Flags(all) => all.first().copied().map(Attr::Flag),
            Attr::ByteLists(all) => all.into_iter().next().map(Attr::Bytes),
            Attr::Descs(all) => all.into_iter().next().map(Attr::Desc),
            Attr::Tensors(all) => all.into_iter().next().map(Attr::Tensor),
            Attr::Graphs(all) => all.into_iter().next().map(|one| Attr::Graph(Box::new(one))),
            Attr::Types(all) => all.first().copied().map(Attr::Type),
            _ => None,
        };
        one.ok_or_else(|| Failure::invalid("an attribute has no value"))
    }
}

/// An attribute that is a list of lists.
unsafe fn list_of_lists(from: &CairnValue) -> Result<Attr> {
    // SAFETY: as the caller of `attr` vouches.
    unsafe {
        let lengths = list(from.lengths, from.count);
        let total = lengths.iter().sum();
        Ok(match from.kind {
            CAIRN_KIND_INT_LISTS => Attr::IntLists(split_lists(list(from.ints, total), lengths)),
            _ => Attr::FloatLists(split_lists(list(from.floats, total), lengths)),
        })
    }
}

/// Lists of these lengths from values one after the other.
fn split_lists<T: Copy>(mut values: &[T], lengths: &[usize]) -> Vec<Vec<T>> {
    let mut lists = Vec::new();
    for length in lengths {
        let (one, rest) = values.split_at((*length).min(values.len()));
        lists.push(one.to_vec());
        values = rest;
    }
    lists
}

/// A name with attributes.
unsafe fn named_attrs(from: &CairnValue) -> Result<Attr> {
    // SAFETY: as the caller of `attr` vouches.
    unsafe {
        let mut attrs = Attrs::new();
        let (names, values) = (list(from.names, from.count), list(from.values, from.count));
        for (name, value) in names.iter().zip(values) {
            attrs.insert(text(*name), attr(value)?);
        }
        let name = list(from.texts, 1).first().map_or_else(String::new, |one| text(*one));
        Ok(Attr::Named(name, attrs))
    }
}

/// A value with nothing in it.
fn empty(kind: u32, is_list: bool, count: usize) -> CairnValue {
    CairnValue {
        kind,
        is_list,
        count,
        ints: std::ptr::null(),
        floats: std::ptr::null(),
        texts: std::ptr::null(),
        tensors: std::ptr::null(),
        lengths: std::ptr::null(),
        names: std::ptr::null(),
        values: std::ptr::null(),
        graphs: std::ptr::null(),
    }
}

/// Shows an attribute's value to the caller.
///
/// # Safety
/// `callback` is a function of the caller that takes `context`.
pub unsafe fn show_attr(callback: CairnValueCallback, context: *mut c_void, attr: &Attr) {
    let Some(callback) = callback else { return };
    with_value(attr, &mut |value| {
        // SAFETY: as the caller vouches; the value lives until it returns.
        unsafe { callback(context, value) };
    });
}

/// Calls back with a value, as the interface carries it; it borrows from the attribute.
fn with_value(attr: &Attr, callback: &mut dyn FnMut(&CairnValue)) {
    let texts = |all: &[&[u8]]| all.iter().map(|one| borrowed(one)).collect::<Vec<CairnText>>();
    let mut ints = |kind, is_list, all: &[i64]| {
        callback(&CairnValue { ints: all.as_ptr(), ..empty(kind, is_list, all.len()) });
    };
    match attr {
        Attr::Int(one) => ints(CAIRN_KIND_INT, false, &[*one]),
        Attr::Ints(all) => ints(CAIRN_KIND_INT, true, all),
        Attr::Flag(one) => ints(CAIRN_KIND_BOOL, false, &[i64::from(*one)]),
        Attr::Flags(all) => {
            let all: Vec<i64> = all.iter().map(|one| i64::from(*one)).collect();
            ints(CAIRN_KIND_BOOL, true, &all);
        }
        Attr::Type(one) => ints(CAIRN_KIND_DATA_TYPE, false, &[*one]),
        Attr::Types(all) => ints(CAIRN_KIND_DATA_TYPE, true, all),
        Attr::Float(one) => {
            callback(&CairnValue { floats: one, ..empty(CAIRN_KIND_FLOAT, false, 1) })
        }
        Attr::Floats(all) => {
            callback(&CairnValue {
                floats: all.as_ptr(),
                ..empty(CAIRN_KIND_FLOAT, true, all.len())
            });
        }
        Attr::Text(one) => {
            let all = texts(&[one]);
            callback(&CairnValue { texts: all.as_ptr(), ..empty(CAIRN_KIND_STRING, false, 1) });
        }
        Attr::Bytes(one) | Attr::Expression(one) => {
            let all = texts(&[one]);
            callback(&CairnValue { texts: all.as_ptr(), ..empty(CAIRN_KIND_BYTES, false, 1) });
        }
        Attr::Texts(list) | Attr::ByteLists(list) => {
            let kind =
                if matches!(attr, Attr::Texts(_)) { CAIRN_KIND_STRING } else { CAIRN_KIND_BYTES };
            let all = texts(&list.iter().map(Vec::as_slice).collect::<Vec<_>>());
            callback(&CairnValue { texts: all.as_ptr(), ..empty(kind, true, all.len()) });
        }
        Attr::Desc(one) => {
            let all = [desc_only(one)];
            callback(&CairnValue {
                tensors: all.as_ptr(),
                ..empty(CAIRN_KIND_TENSOR_DESC, false, 1)
            });
        }
        Attr::Descs(list) => {
            let all: Vec<CairnTensor> = list.iter().map(desc_only).collect();
            callback(&CairnValue {
                tensors: all.as_ptr(),
                ..empty(CAIRN_KIND_TENSOR_DESC, true, all.len())
            });
        }
        Attr::Tensor(one) => {
            let all = [with_bytes(one)];
            callback(&CairnValue { tensors: all.as_ptr(), ..empty(CAIRN_KIND_TENSOR, false, 1) });
        }
        Attr::Tensors(list) => {
            let all: Vec<CairnTensor> = list.iter().map(with_bytes).collect();
            callback(&CairnValue {
                tensors: all.as_ptr(),
                ..empty(CAIRN_KIND_TENSOR, true, all.len())
            });
        }
        Attr::IntLists(lists) => {
            let (values, lengths) = join_lists(lists);
            let value = empty(CAIRN_KIND_INT_LISTS, true, lengths.len());
            callback(&CairnValue { ints: values.as_ptr(), lengths: lengths.as_ptr(), ..value });
        }
        Attr::FloatLists(lists) => {
            let (values, lengths) = join_lists(lists);
            let value = empty(CAIRN_KIND_FLOAT_LISTS, true, lengths.len());
            callback(&CairnValue { floats: values.as_ptr(), lengths: lengths.as_ptr(), ..value });
        }
        Attr::Graph(one) => with_graphs(std::slice::from_ref(one), false, callback),
        Attr::Graphs(list) => with_graphs(list, true, callback),
        Attr::Named(name, attrs) => with_named(name, attrs, callback),
        Attr::NamedList(list) => {
            if let Some((name, attrs)) = list.first() {
                with_named(name, attrs, callback);
            }
        }
    }
}

/// A description as a tensor without bytes.
fn desc_only(desc: &Desc) -> CairnTensor {
    CairnTensor { desc: desc_view(desc), data: std::ptr::null(), bytes: 0 }
}

/// A constant, borrowed.
fn with_bytes(constant: &Constant) -> CairnTensor {
    let bytes = &constant.bytes;
    CairnTensor { desc: desc_view(&constant.desc), data: bytes.as_ptr().cast(), bytes: bytes.len() }
}

/// The values of all lists one after the other, and the lengths of the lists.
fn join_lists<T: Copy>(lists: &[Vec<T>]) -> (Vec<T>, Vec<usize>) {
    (lists.concat(), lists.iter().map(Vec::len).collect())
}

fn with_graphs<G: std::borrow::Borrow<Graph>>(
    list: &[G],
    is_list: bool,
    callback: &mut dyn FnMut(&CairnValue),
) {
    let handles: Vec<*mut CairnGraph> =
        list.iter().map(|one| owned(GraphObject::from_graph(one.borrow().clone()))).collect();
    callback(&CairnValue {
        graphs: handles.as_ptr(),
        ..empty(CAIRN_KIND_GRAPH, is_list, handles.len())
    });
    for handle in handles {
        // SAFETY: made above, and the caller keeps its own where it wants one.
        unsafe { super::door::release::<std::sync::Arc<GraphObject>, _>(handle) };
    }
}

fn with_named(name: &str, attrs: &Attrs, callback: &mut dyn FnMut(&CairnValue)) {
    fn collect(
        rest: &mut dyn Iterator<Item = &Attr>,
        values: &mut Vec<CairnValue>,
        callback: &mut dyn FnMut(&[CairnValue]),
    ) {
        match rest.next() {
            None => callback(values),
            Some(attr) => with_value(attr, &mut |value| {
                values.push(*value);
                collect(rest, values, callback);
            }),
        }
    }
    let names: Vec<CairnText> = attrs.keys().map(|one| borrowed(one.as_bytes())).collect();
    let name_text = [borrowed(name.as_bytes())];
    collect(&mut attrs.values(), &mut Vec::new(), &mut |values| {
        let value = empty(CAIRN_KIND_NAMED, false, names.len());
        callback(&CairnValue {
            texts: name_text.as_ptr(),
            names: names.as_ptr(),
            values: values.as_ptr(),
            ..value
        });
    });
}
