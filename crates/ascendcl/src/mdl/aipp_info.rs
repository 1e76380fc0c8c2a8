//! What a loaded model does with the images of an input (static AIPP), as programs read it.

use super::description::{bytes_of, io_dims};
use super::table::{self, Model};
use crate::abi::*;
use crate::door::{entry, not_null, write};
use cairn_graph::offline::{AippInfo, AippParameters, Crop, Padding};
use cairn_runtime::error::{Code, Error, Result};
use cairn_tensor::DType;
use std::sync::Arc;

/// The model, if it has this input.
pub fn input_of(id: u32, index: usize) -> Result<Arc<Model>> {
    let model = table::find(id)?;
    let count = model.described.inputs.len();
    match index < count {
        true => Ok(model),
        false => Err(Error::invalid(format!(
            "index = {index} is out of range: there are {count} inputs"
        ))),
    }
}

/// How a model prepares an input, if that is an image.
pub fn image_of(model: &Model, index: usize) -> Option<&AippInfo> {
    model.description().inputs.get(index)?.aipp.as_ref()
}

/// The error of an input without AIPP.
pub fn absent(model: &Model, index: usize) -> Error {
    Error::new(Code::AippAbsent, format!("model {} has no AIPP for input {index}", model.id))
}

/// The sizes of an image before and after its preparation, with their bytes, in each gear.
fn shapes(model: &Model, index: usize, image: &AippInfo) -> Vec<[(Vec<i64>, usize); 2]> {
    let description = model.description();
    let height = if image.model_format == cairn_tensor::Format::NHWC { 1 } else { 2 };
    let shape = |fed: &[i64]| {
        let known = |dims: &[i64], places: [usize; 3]| -> Vec<i64> {
            let mut dims = dims.to_vec();
            for (at, place) in places.into_iter().enumerate() {
                if dims[place] < 0 {
                    dims[place] = fed[at];
                }
            }
            dims
        };
        let before = known(&image.image_dims, [0, 1, 2]);
        let after = known(&image.model_dims, [0, height, height + 1]);
        let bytes = bytes_of(image.model_dtype, &after);
        [(before, bytes_of(DType::Uint8, fed)), (after, bytes)]
    };
    match description.input_dims() {
        gears if gears.is_empty() => vec![shape(&description.inputs[index].fed_dims)],
        gears => gears.iter().map(|inputs| shape(&inputs[index])).collect(),
    }
}

/// A size that is unknown is 0.
fn known(size: i64) -> i32 {
    i32::try_from(size.max(0)).unwrap_or(i32::MAX)
}

fn fill_parameters(info: &mut aclAippInfo, parameters: &AippParameters) {
    info.inputFormat = parameters.format.number() as aclAippInputFormat;
    [info.srcImageSizeH, info.srcImageSizeW] = parameters.source.map(known);
    if let Some(Crop { start, size }) = parameters.crop {
        info.cropSwitch = 1;
        [info.loadStartPosH, info.loadStartPosW] = start.map(known);
        [info.cropSizeH, info.cropSizeW] = size.map(known);
    }
    if let Some(Padding { rows, columns, .. }) = parameters.padding {
        info.paddingSwitch = 1;
        [info.topPaddingSize, info.bottomPaddingSize] = rows.map(known);
        [info.leftPaddingSize, info.rightPaddingSize] = columns.map(known);
    }
    info.rbuvSwapSwitch = parameters.swaps_rbuv.into();
    info.axSwapSwitch = parameters.swaps_ax.into();
    if let Some(conversion) = &parameters.conversion {
        info.cscSwitch = 1;
        let [first, second, third] = conversion.matrix;
        [info.matrixR0C0, info.matrixR0C1, info.matrixR0C2] = first;
        [info.matrixR1C0, info.matrixR1C1, info.matrixR1C2] = second;
        [info.matrixR2C0, info.matrixR2C1, info.matrixR2C2] = third;
        [info.inputBias0, info.inputBias1, info.inputBias2] = conversion.input_bias;
        [info.outputBias0, info.outputBias1, info.outputBias2] = conversion.output_bias;
    }
    [info.meanChn0, info.meanChn1, info.meanChn2, info.meanChn3] = parameters.mean;
    [info.minChn0, info.minChn1, info.minChn2, info.minChn3] = parameters.min;
    [info.varReciChn0, info.varReciChn1, info.varReciChn2, info.varReciChn3] = parameters.factor;
}

fn fill(info: &mut aclAippInfo, model: &Model, index: usize, image: &AippInfo) -> Result<()> {
    fill_parameters(info, &image.parameters);
    info.srcFormat = image.model_format.0;
    info.srcDatatype = image.model_dtype.number();
    info.srcDimNum = image.model_dims.len();
    let name = model.described.inputs[index].listed_name().as_bytes();
    let shapes = shapes(model, index, image);
    info.shapeCount = shapes.len().min(info.outDims.len());
    for (to, [before, after]) in info.outDims.iter_mut().zip(shapes) {
        (to.srcDims, to.srcSize) = (io_dims(name, &before.0)?, before.1);
        (to.aippOutdims, to.aippOutSize) = (io_dims(name, &after.0)?, after.1);
    }
    Ok(())
}

entry! {
    /// The kind of preprocessing: none, or static.
    fn aclmdlGetAippType(
        id: u32,
        index: usize,
        kind: *mut aclmdlInputAippType,
        attached: *mut usize,
    ) {
        not_null(kind, "type")?;
        not_null(attached, "dynamicAttachedDataIndex")?;
        let found = match image_of(&*input_of(id, index)?, index) {
            Some(_) => ACL_DATA_WITH_STATIC_AIPP,
            None => ACL_DATA_WITHOUT_AIPP,
        };
        // SAFETY: not null; the caller passes room for both.
        unsafe {
            write(kind, "type", found)?;
            write(attached, "dynamicAttachedDataIndex", ACL_INVALID_NODE_INDEX as usize)
        }
    }

    /// The parameters of static preprocessing.
    fn aclmdlGetFirstAippInfo(id: u32, index: usize, info: *mut aclAippInfo) {
        not_null(info, "aippInfo")?;
        let model = input_of(id, index)?;
        let image = image_of(&model, index).ok_or_else(|| absent(&model, index))?;
        // SAFETY: not null; the caller passes room for the parameters, which are plain numbers: zeros are a value.
        let info = unsafe {
            info.write_bytes(0, 1);
            &mut *info
        };
        fill(info, &model, index, image)
    }
}
