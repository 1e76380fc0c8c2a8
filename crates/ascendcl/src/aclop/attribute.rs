//! `aclopAttr`: the named attributes of a call, behind a handle.

use crate::abi::{aclDataType, aclopAttr};
use crate::aclnn::values;
use crate::door::{entry, not_null, runtime, string, value_entry};
use cairn_ops::Arg;
use cairn_runtime::error::{Error, Result};
use cairn_runtime::handle::HandleObject;
use cairn_tensor::DType;
use std::ffi::{c_char, c_int};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};

/// What a handle of attributes names.
#[derive(Default)]
pub struct Attributes(Mutex<Vec<(String, Value)>>);

/// The value of an attribute.
#[derive(Clone, Debug)]
pub enum Value {
    /// One that operators take.
    Plain(Arg),
    /// Lists of integers; no operator takes them yet.
    Lists,
    /// Strings; likewise.
    Texts,
}

impl HandleObject for Attributes {
    const KIND: &'static str = "set of attributes";
}

impl Attributes {
    /// A copy of what was set.
    pub fn values(&self) -> Vec<(String, Value)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, name: String, value: Value) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match all.iter_mut().find(|(one, _)| *one == name) {
            Some((_, old)) => *old = value,
            None => all.push((name, value)),
        }
    }
}

/// The attributes behind a handle of the user; null is none.
pub fn attributes_of(handle: *const aclopAttr) -> Result<Vec<(String, Value)>> {
    match handle.is_null() {
        true => Ok(Vec::new()),
        false => Ok(runtime()?.handles.get::<Attributes>(handle as usize)?.values()),
    }
}

/// Sets an attribute.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
unsafe fn set(attr: *mut aclopAttr, name: *const c_char, value: Value) -> Result<()> {
    not_null(attr, "attr")?;
    let attributes = runtime()?.handles.get::<Attributes>(attr as usize)?;
    // SAFETY: as the caller vouches.
    attributes.set(unsafe { string(name, "attrName") }?, value);
    Ok(())
}

/// The values of a list of the user.
///
/// # Safety
/// `list` is null or points to `count` readable values.
unsafe fn list_values<T: Copy>(
    list: *const T,
    count: c_int,
) -> Result<impl ExactSizeIterator<Item = T>> {
    let number = u64::try_from(count)
        .map_err(|_| Error::invalid(format!("numValues = {count} is no number of values")))?;
    if number > 0 {
        not_null(list, "values")?;
    }
    // SAFETY: as the caller vouches.
    unsafe { values(list, number, "values") }
}

/// The number of a type that there is.
fn dtype_number(dtype: aclDataType) -> Result<i64> {
    match DType::from_number(dtype) {
        Some(_) => Ok(i64::from(dtype)),
        None => Err(Error::invalid(format!("attrValue = {dtype} is no aclDataType"))),
    }
}

value_entry! {
    /// An empty set of attributes.
    fn aclopCreateAttr() -> *mut aclopAttr, else null_mut(), {
        Ok(runtime()?.handles.insert(Arc::new(Attributes::default()))? as *mut aclopAttr)
    }

    /// Destroys a set of attributes; null is fine.
    fn aclopDestroyAttr(attr: *const aclopAttr) -> (), else (), {
        if !attr.is_null() {
            runtime()?.handles.remove::<Attributes>(attr as usize)?;
        }
        Ok(())
    }
}

entry! {
    /// Sets a boolean.
    fn aclopSetAttrBool(attr: *mut aclopAttr, name: *const c_char, value: u8) {
        // SAFETY: the caller passes a NUL-terminated string or null.
        unsafe { set(attr, name, Value::Plain(Arg::Flag(value != 0))) }
    }

    /// Sets an integer.
    fn aclopSetAttrInt(attr: *mut aclopAttr, name: *const c_char, value: i64) {
        // SAFETY: the caller passes a NUL-terminated string or null.
        unsafe { set(attr, name, Value::Plain(Arg::Int(value))) }
    }

    /// Sets a number.
    fn aclopSetAttrFloat(attr: *mut aclopAttr, name: *const c_char, value: f32) {
        // SAFETY: the caller passes a NUL-terminated string or null.
        unsafe { set(attr, name, Value::Plain(Arg::Float(f64::from(value)))) }
    }

    /// Sets a text.
    fn aclopSetAttrString(attr: *mut aclopAttr, name: *const c_char, value: *const c_char) {
        // SAFETY: the caller passes NUL-terminated strings or null.
        unsafe { set(attr, name, Value::Plain(Arg::Text(string(value, "attrValue")?))) }
    }

    /// Sets a data type.
    fn aclopSetAttrDataType(attr: *mut aclopAttr, name: *const c_char, value: aclDataType) {
        // SAFETY: the caller passes a NUL-terminated string or null.
        unsafe { set(attr, name, Value::Plain(Arg::Int(dtype_number(value)?))) }
    }

    /// Sets booleans.
    fn aclopSetAttrListBool(attr: *mut aclopAttr, name: *const c_char, count: c_int, list: *const u8) {
        // SAFETY: the caller passes a string and this many values, or null.
        unsafe {
            let flags = list_values(list, count)?.map(|byte| byte != 0).collect();
            set(attr, name, Value::Plain(Arg::Flags(flags)))
        }
    }

    /// Sets integers.
    fn aclopSetAttrListInt(attr: *mut aclopAttr, name: *const c_char, count: c_int, list: *const i64) {
        // SAFETY: the caller passes a string and this many values, or null.
        unsafe { set(attr, name, Value::Plain(Arg::Ints(list_values(list, count)?.collect()))) }
    }

    /// Sets numbers.
    fn aclopSetAttrListFloat(attr: *mut aclopAttr, name: *const c_char, count: c_int, list: *const f32) {
        // SAFETY: the caller passes a string and this many values, or null.
        unsafe {
            let numbers = list_values(list, count)?.map(f64::from).collect();
            set(attr, name, Value::Plain(Arg::Floats(numbers)))
        }
    }

    /// Sets data types.
    fn aclopSetAttrListDataType(
        attr: *mut aclopAttr,
        name: *const c_char,
        count: c_int,
        list: *const aclDataType,
    ) {
        // SAFETY: the caller passes a string and this many values, or null.
        unsafe {
            let numbers: Result<Vec<i64>> = list_values(list, count)?.map(dtype_number).collect();
            set(attr, name, Value::Plain(Arg::Ints(numbers?)))
        }
    }

    /// Sets texts.
    fn aclopSetAttrListString(
        attr: *mut aclopAttr,
        name: *const c_char,
        count: c_int,
        list: *mut *const c_char,
    ) {
        // SAFETY: the caller passes strings and this many of them, or null.
        unsafe {
            for text in list_values(list.cast_const(), count)? {
                string(text, "values")?;
            }
            set(attr, name, Value::Texts)
        }
    }

    /// Sets lists of integers.
    fn aclopSetAttrListListInt(
        attr: *mut aclopAttr,
        name: *const c_char,
        count: c_int,
        counts: *const c_int,
        lists: *const *const i64,
    ) {
        // SAFETY: the caller passes a string, and lists with this many values, or null.
        unsafe {
            let counts: Vec<c_int> = list_values(counts, count)?.collect();
            for (list, count) in list_values(lists, count)?.zip(counts) {
                drop(list_values(list, count)?);
            }
            set(attr, name, Value::Lists)
        }
    }
}
