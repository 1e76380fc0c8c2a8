//! Attributes: one value, or a list of one kind.

use super::desc::{self, MissingShape};
use super::graph;
use super::wire::{
    AttrDef, AttrMap, ListFloat, ListInt, ListListFloat, ListListInt, ListValue, NamedAttrs, Value,
};
use crate::ir::{Attr, Attrs};

/// Reads attributes. One without a value is dropped, and so is a list whose kind is neither stated nor clear from its
/// elements.
pub fn read_all(defs: AttrMap) -> Result<Attrs, String> {
    let mut attrs = Attrs::new();
    for (name, def) in defs {
        let Some(value) = def.value else { continue };
        let attr = read(value).map_err(|error| format!("attribute '{name}': {error}"))?;
        if let Some(attr) = attr {
            attrs.insert(name, attr);
        }
    }
    Ok(attrs)
}

fn read(value: Value) -> Result<Option<Attr>, String> {
    Ok(Some(match value {
        Value::List(list) => return read_list(*list),
        Value::S(text) => Attr::Text(text),
        Value::I(number) => Attr::Int(number),
        Value::F(number) => Attr::Float(number),
        Value::B(flag) => Attr::Flag(flag),
        Value::Bt(bytes) => Attr::Bytes(bytes),
        Value::Func(named) => Attr::Named(named.name, read_all(named.attr)?),
        Value::Td(def) => Attr::Desc(desc::read(*def, MissingShape::Scalar)?),
        Value::T(def) => Attr::Tensor(desc::read_tensor(*def)?),
        Value::G(def) => Attr::Graph(Box::new(graph::read(*def)?)),
        Value::ListListInt(lists) => {
            Attr::IntLists(lists.list.into_iter().map(|one| one.list).collect())
        }
        Value::Dt(number) => Attr::Type(number),
        Value::ListListFloat(lists) => {
            Attr::FloatLists(lists.list.into_iter().map(|one| one.list).collect())
        }
        Value::Expression(bytes) => Attr::Expression(bytes),
    }))
}

fn read_list(list: ListValue) -> Result<Option<Attr>, String> {
    let kind = match list.val_type {
        0 => match kind_of_elements(&list) {
            Some(kind) => kind,
            None => return Ok(None),
        },
        kind => kind,
    };
    Ok(Some(match kind {
        1 => Attr::Texts(list.s),
        2 => Attr::Ints(list.i),
        3 => Attr::Floats(list.f),
        4 => Attr::Flags(list.b),
        5 => Attr::ByteLists(list.bt),
        6 => Attr::Descs(read_each(list.td, |def| desc::read(def, MissingShape::Scalar))?),
        7 => Attr::Tensors(read_each(list.t, desc::read_tensor)?),
        8 => Attr::Graphs(read_each(list.g, graph::read)?),
        9 => Attr::NamedList(read_each(list.na, |def| Ok((def.name, read_all(def.attr)?)))?),
        10 => Attr::Types(list.dt),
        _ => return Err(format!("{kind} is no kind of list; there are 1 to 10")),
    }))
}

/// The one kind of which the list has elements.
fn kind_of_elements(list: &ListValue) -> Option<i32> {
    let filled = [
        !list.s.is_empty(),
        !list.i.is_empty(),
        !list.f.is_empty(),
        !list.b.is_empty(),
        !list.bt.is_empty(),
        !list.td.is_empty(),
        !list.t.is_empty(),
        !list.g.is_empty(),
        !list.na.is_empty(),
        !list.dt.is_empty(),
    ];
    let mut kinds = (1..).zip(filled).filter(|(_, filled)| *filled).map(|(kind, _)| kind);
    kinds.next().filter(|_| kinds.next().is_none())
}

/// Reads every element; an error names its index.
fn read_each<T, U>(defs: Vec<T>, read: impl Fn(T) -> Result<U, String>) -> Result<Vec<U>, String> {
    defs.into_iter()
        .enumerate()
        .map(|(at, def)| read(def).map_err(|error| format!("element {at}: {error}")))
        .collect()
}

/// What is written of attributes.
pub fn write_all(attrs: &Attrs) -> AttrMap {
    attrs.iter().map(|(name, attr)| (name.clone(), AttrDef { value: Some(write(attr)) })).collect()
}

fn write(attr: &Attr) -> Value {
    let list = |val_type, list: ListValue| Value::List(Box::new(ListValue { val_type, ..list }));
    let empty = ListValue::default();
    match attr {
        Attr::Text(text) => Value::S(text.clone()),
        Attr::Int(number) => Value::I(*number),
        Attr::Float(number) => Value::F(*number),
        Attr::Flag(flag) => Value::B(*flag),
        Attr::Bytes(bytes) => Value::Bt(bytes.clone()),
        Attr::Desc(one) => Value::Td(Box::new(desc::write(one))),
        Attr::Tensor(tensor) => Value::T(Box::new(desc::write_tensor(tensor))),
        Attr::Graph(one) => Value::G(Box::new(graph::write(one))),
        Attr::Named(name, attrs) => Value::Func(Box::new(write_named(name, attrs))),
        Attr::Type(number) => Value::Dt(*number),
        Attr::Texts(s) => list(1, ListValue { s: s.clone(), ..empty }),
        Attr::Ints(i) => list(2, ListValue { i: i.clone(), ..empty }),
        Attr::Floats(f) => list(3, ListValue { f: f.clone(), ..empty }),
        Attr::Flags(b) => list(4, ListValue { b: b.clone(), ..empty }),
        Attr::ByteLists(bt) => list(5, ListValue { bt: bt.clone(), ..empty }),
        Attr::Descs(descs) => {
            list(6, ListValue { td: descs.iter().map(desc::write).collect(), ..empty })
        }
        Attr::Tensors(tensors) => {
            list(7, ListValue { t: tensors.iter().map(desc::write_tensor).collect(), ..empty })
        }
        Attr::Graphs(graphs) => {
            list(8, ListValue { g: graphs.iter().map(graph::write).collect(), ..empty })
        }
        Attr::NamedList(all) => {
            let na = all.iter().map(|(name, attrs)| write_named(name, attrs)).collect();
            list(9, ListValue { na, ..empty })
        }
        Attr::Types(dt) => list(10, ListValue { dt: dt.clone(), ..empty }),
        Attr::IntLists(lists) => Value::ListListInt(ListListInt {
            list: lists.iter().map(|one| ListInt { list: one.clone() }).collect(),
        }),
        Attr::FloatLists(lists) => Value::ListListFloat(ListListFloat {
            list: lists.iter().map(|one| ListFloat { list: one.clone() }).collect(),
        }),
        Attr::Expression(bytes) => Value::Expression(bytes.clone()),
    }
}

fn write_named(name: &str, attrs: &Attrs) -> NamedAttrs {
    NamedAttrs { name: name.to_owned(), attr: write_all(attrs) }
}
