//! What Python passes, as C takes it. Whatever does not fit is a TypeError; pyo3 puts the name of the parameter
//! before the text.

use pyo3::{
    Borrowed,
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyByteArray, PyBytes, PyFloat, PyInt, PyList, PyString, PyTuple},
};
use std::{
    ffi::{CStr, CString, c_char},
    fmt::Display,
};

/// A number of C that Python's ints are checked against.
pub(crate) trait CInteger: Copy + TryFrom<i128> {
    /// The smallest and the largest.
    const RANGE: (i128, i128);
}

macro_rules! c_integers {
    ($($kind:ty)*) => {
        $(impl CInteger for $kind {
            const RANGE: (i128, i128) = (<$kind>::MIN as i128, <$kind>::MAX as i128);
        })*
    };
}
c_integers!(u8 u16 u32 u64 usize i8 i16 i32 i64);

fn type_error(what: impl Display) -> PyErr {
    PyTypeError::new_err(what.to_string())
}

/// Reads an int, or what can stand for one (`__index__`); `what` names it in the text of the error.
pub(crate) fn integer<T: CInteger>(value: &Bound<'_, PyAny>, what: &str) -> PyResult<T> {
    let number = match value.is_instance_of::<PyInt>() {
        true => value.clone(),
        false if value.get_type().hasattr("__index__")? => value.call_method0("__index__")?,
        false => {
            return Err(type_error(format!(
                "{what} must be an int, not {}",
                value.get_type().name()?
            )));
        }
    };
    let (low, high) = T::RANGE;
    let wide_number = number
        .extract::<u64>()
        .map(i128::from)
        .or_else(|_| number.extract::<i64>().map(i128::from));
    let converted = wide_number.ok().and_then(|wide_number| T::try_from(wide_number).ok());
    converted.ok_or_else(|| {
        type_error(format!(
            "{what} must be an int from {low} to {high}, not {}",
            describe_int(&number)
        ))
    })
}

/// An int as a message shows it: Python does not print very long ones.
fn describe_int(number: &Bound<'_, PyAny>) -> String {
    let bits = number.call_method0("bit_length").and_then(|bits| bits.extract::<usize>());
    match bits {
        Ok(bits) if bits > 128 => format!("one of {bits} bits"),
        _ => number.to_string(),
    }
}

/// An int.
pub(crate) struct Number<T>(pub T);

impl<'py, T: CInteger> FromPyObject<'_, 'py> for Number<T> {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        integer(&value, "it").map(Number)
    }
}

/// An index, or -1, which is the largest one of C.
pub(crate) struct Index(pub usize);

impl<'py> FromPyObject<'_, 'py> for Index {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let index = integer(&value, "it");
        match index.is_err() && integer::<i64>(&value, "it").is_ok_and(|number| number == -1) {
            true => Ok(Index(usize::MAX)),
            false => index.map(Index),
        }
    }
}

/// A float; an int is taken for one.
pub(crate) struct Real(pub f32);

impl<'py> FromPyObject<'_, 'py> for Real {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        real(&value, "it").map(Real)
    }
}

fn real(value: &Bound<'_, PyAny>, what: &str) -> PyResult<f32> {
    let is_number = value.is_instance_of::<PyFloat>()
        || value.get_type().hasattr("__float__")?
        || value.get_type().hasattr("__index__")?;
    if !is_number {
        return Err(type_error(format!(
            "{what} must be a float, not {}",
            value.get_type().name()?
        )));
    }
    let double = value.extract::<f64>().map_err(|error| {
        type_error(format!("{what} must be a float: {}", error.value(value.py())))
    })?;
    let number = double as f32;
    match number.is_finite() || !double.is_finite() {
        true => Ok(number),
        false => Err(type_error(format!(
            "{what} must be a float of 32 bits, and {double:e} is too large"
        ))),
    }
}

/// A str without a NUL.
pub(crate) struct Text(pub CString);

impl<'py> FromPyObject<'_, 'py> for Text {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        string(&value, "it").map(Text)
    }
}

/// Reads a str without a NUL; `what` names it in the text of the error.
pub(crate) fn string(value: &Bound<'_, PyAny>, what: &str) -> PyResult<CString> {
    let Ok(text) = value.cast::<PyString>() else {
        return Err(type_error(format!("{what} must be a str, not {}", value.get_type().name()?)));
    };
    let Ok(text) = text.to_cow() else {
        return Err(type_error(format!("{what} must be a str without surrogates: UTF-8 has none")));
    };
    CString::new(text.as_bytes()).map_err(|_| type_error(format!("{what} must not hold a NUL")))
}

/// Whether it is a sequence: a list, a tuple, an array, but no text and no dict.
fn is_sequence(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        return Ok(true);
    }
    let text = value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyBytes>()
        || value.is_instance_of::<PyByteArray>();
    let kind = value.get_type();
    Ok(!text
        && kind.hasattr("__len__")?
        && kind.hasattr("__getitem__")?
        && !kind.hasattr("keys")?)
}

/// Reads every item of a list; C counts them in an int.
pub(crate) fn items<T>(
    value: &Bound<'_, PyAny>,
    what: &str,
    read: impl Fn(&Bound<'_, PyAny>, &str) -> PyResult<T>,
) -> PyResult<Vec<T>> {
    if !is_sequence(value)? {
        return Err(type_error(format!("{what} must be a list, not {}", value.get_type().name()?)));
    }
    if value.len()? > i32::MAX as usize {
        return Err(type_error(format!("{what} must have at most {} items", i32::MAX)));
    }
    let describe_item = |index: usize| match what {
        "it" => format!("item {index}"),
        outer => format!("{outer}, item {index}"),
    };
    let read_one =
        |(index, item): (usize, PyResult<Bound<'_, PyAny>>)| read(&item?, &describe_item(index));
    value.try_iter()?.enumerate().map(read_one).collect()
}

/// A list of ints.
pub(crate) struct Numbers<T>(pub Vec<T>);

impl<T> Numbers<T> {
    /// How many, as C counts.
    pub fn count(&self) -> i32 {
        self.0.len() as i32
    }

    /// Fails unless `other` is as long.
    pub fn matches<U>(&self, name: &str, other: &Numbers<U>, other_name: &str) -> PyResult<()> {
        match self.0.len() == other.0.len() {
            true => Ok(()),
            false => Err(PyValueError::new_err(format!(
                "{name} has {} items and {other_name} has {}: they must be as many",
                self.0.len(),
                other.0.len()
            ))),
        }
    }
}

impl<'py, T: CInteger> FromPyObject<'_, 'py> for Numbers<T> {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        items(&value, "it", integer).map(Numbers)
    }
}

/// A list of floats.
pub(crate) struct Reals(pub Vec<f32>);

impl Reals {
    /// How many, as C counts.
    pub fn count(&self) -> i32 {
        self.0.len() as i32
    }
}

impl<'py> FromPyObject<'_, 'py> for Reals {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        items(&value, "it", real).map(Reals)
    }
}

/// A list of pairs: the least and the greatest of something.
pub(crate) struct Pairs(pub Vec<[i64; 2]>);

impl<'py> FromPyObject<'_, 'py> for Pairs {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let pair = |item: &Bound<'_, PyAny>, what: &str| {
            let numbers: Vec<i64> = items(item, what, integer)?;
            numbers.try_into().map_err(|_| type_error(format!("{what} must be a list of two ints")))
        };
        items(&value, "it", pair).map(Pairs)
    }
}

/// A list of lists of ints.
pub(crate) struct Lists {
    _lists: Vec<Vec<i64>>,
    /// How many ints each list has.
    pub counts: Vec<i32>,
    /// Where each list begins.
    pub pointers: Vec<*const i64>,
}

// SAFETY: the pointers lead into its own lists, and are only read.
unsafe impl Sync for Lists {}

impl Lists {
    /// How many lists, as C counts.
    pub fn count(&self) -> i32 {
        self.counts.len() as i32
    }
}

impl<'py> FromPyObject<'_, 'py> for Lists {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let lists: Vec<Vec<i64>> = items(&value, "it", |item, what| items(item, what, integer))?;
        let counts = lists.iter().map(|list| list.len() as i32).collect();
        let pointers = lists.iter().map(|list| list.as_ptr()).collect();
        Ok(Lists { _lists: lists, counts, pointers })
    }
}

/// A list of strs.
pub(crate) struct Texts {
    _texts: Vec<CString>,
    /// Where each begins.
    pub pointers: Vec<*const c_char>,
}

// SAFETY: the pointers lead into its own texts, and are only read.
unsafe impl Sync for Texts {}

impl Texts {
    /// How many, as C counts.
    pub fn count(&self) -> i32 {
        self.pointers.len() as i32
    }
}

impl<'py> FromPyObject<'_, 'py> for Texts {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let texts = items(&value, "it", string)?;
        let pointers = texts.iter().map(|text| text.as_ptr()).collect();
        Ok(Texts { _texts: texts, pointers })
    }
}

/// Something that can be called.
pub(crate) struct Callable(pub Py<PyAny>);

impl<'py> FromPyObject<'_, 'py> for Callable {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match value.is_callable() {
            true => Ok(Callable(value.to_owned().unbind())),
            false => Err(type_error(format!(
                "it must be callable, and {} is not",
                value.get_type().name()?
            ))),
        }
    }
}

/// A text of C that stays until the library's next call, or none for null.
pub(crate) fn text(text: *const c_char) -> Option<String> {
    // SAFETY: the library gives null or a text with a NUL at its end.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}
