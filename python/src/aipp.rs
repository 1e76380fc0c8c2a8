//! How a model preprocesses images: `aclAippInfo` as a dict.

#![allow(non_snake_case, reason = "the fields have the names of C, which are the keys of the dict")]

use crate::{arguments::Number, c_function, interpreter::without_gil, models::Dims};
use pyo3::{prelude::*, types::PyDict};

/// `aclAippDims`: the shape and size of an image before and after preprocessing.
#[repr(C)]
struct ImageDims {
    srcDims: Dims,
    srcSize: usize,
    aippOutdims: Dims,
    aippOutSize: usize,
}

/// The most shapes.
const MOST_SHAPES: usize = 128;

macro_rules! aipp_info {
    ($($field:ident: $kind:ty,)*) => {
        /// `aclAippInfo`.
        #[repr(C)]
        struct AippInfo {
            $($field: $kind,)*
            outDims: [ImageDims; MOST_SHAPES],
            aippExtend: usize,
        }

        impl AippInfo {
            /// Everything but the shapes, by the names of C.
            fn numbers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
                let dict = PyDict::new(py);
                $(dict.set_item(stringify!($field), self.$field)?;)*
                Ok(dict)
            }
        }
    };
}

aipp_info! {
    inputFormat: i32,
    srcImageSizeW: i32,
    srcImageSizeH: i32,
    cropSwitch: i8,
    loadStartPosW: i32,
    loadStartPosH: i32,
    cropSizeW: i32,
    cropSizeH: i32,
    resizeSwitch: i8,
    resizeOutputW: i32,
    resizeOutputH: i32,
    paddingSwitch: i8,
    leftPaddingSize: i32,
    rightPaddingSize: i32,
    topPaddingSize: i32,
    bottomPaddingSize: i32,
    cscSwitch: i8,
    rbuvSwapSwitch: i8,
    axSwapSwitch: i8,
    singleLineMode: i8,
    matrixR0C0: i32,
    matrixR0C1: i32,
    matrixR0C2: i32,
    matrixR1C0: i32,
    matrixR1C1: i32,
    matrixR1C2: i32,
    matrixR2C0: i32,
    matrixR2C1: i32,
    matrixR2C2: i32,
    outputBias0: i32,
    outputBias1: i32,
    outputBias2: i32,
    inputBias0: i32,
    inputBias1: i32,
    inputBias2: i32,
    meanChn0: i32,
    meanChn1: i32,
    meanChn2: i32,
    meanChn3: i32,
    minChn0: f32,
    minChn1: f32,
    minChn2: f32,
    minChn3: f32,
    varReciChn0: f32,
    varReciChn1: f32,
    varReciChn2: f32,
    varReciChn3: f32,
    srcFormat: i32,
    srcDatatype: i32,
    srcDimNum: usize,
    shapeCount: usize,
}

// As the compiler of C lays them out on 64-bit machines.
const _: () = assert!(size_of::<ImageDims>() == 2336 && size_of::<AippInfo>() == 299_216);

/// Calls aclmdlGetFirstAippInfo; None after an error.
#[pyfunction(name = "get_first_aipp_info")]
pub(crate) fn mdl_get_first_aipp_info<'py>(
    py: Python<'py>,
    model_id: Number<u32>,
    index: Number<usize>,
) -> PyResult<(Option<Bound<'py, PyDict>>, i32)> {
    let mut room = vec![0u64; size_of::<AippInfo>().div_ceil(size_of::<u64>())];
    let get = c_function!(aclmdlGetFirstAippInfo: fn(u32, usize, *mut AippInfo) -> i32);
    // SAFETY: the buffer has the size and alignment of the header's struct.
    let ret = without_gil(py, || unsafe { get(model_id.0, index.0, room.as_mut_ptr().cast()) });
    if ret != 0 {
        return Ok((None, ret));
    }
    // SAFETY: as above; it was zero, C has written it, and every bit pattern is a value of its fields.
    let info = unsafe { &*room.as_ptr().cast::<AippInfo>() };
    let shapes = info.outDims.iter().take(info.shapeCount);
    let shapes = shapes.map(|shape| {
        let dict = PyDict::new(py);
        dict.set_item("srcDims", &shape.srcDims)?;
        dict.set_item("srcSize", shape.srcSize)?;
        dict.set_item("aippOutdims", &shape.aippOutdims)?;
        dict.set_item("aippOutSize", shape.aippOutSize)?;
        Ok(dict)
    });
    let shapes = shapes.collect::<PyResult<Vec<_>>>()?;
    let dict = info.numbers(py)?;
    dict.set_item("outDims", shapes)?;
    Ok((Some(dict), ret))
}
