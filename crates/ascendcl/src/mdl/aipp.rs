//! `aclmdlAIPP`: parameters of image preprocessing. They are checked and stored; no model uses them, since dynamic AIPP
//! is not supported.

use super::aipp_info::{absent, image_of, input_of};
use super::dataset;
use crate::abi::*;
use crate::door::{entry, not_null, runtime, value_entry, write};
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::handle::HandleObject;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of the input with the parameters: those of all images, and those of each.
const HEAD_BYTES: u64 = 64;
const IMAGE_BYTES: u64 = 96;

/// The most images of a batch.
const MAX_BATCH: u64 = 65535;
/// The largest padding.
const MAX_PADDING: i32 = 32;
/// The largest width and height.
const MAX_SIZE: i32 = 4096;

/// What a handle of parameters names.
pub struct AippParameters(Mutex<Parameters>);

/// The parameters of a batch.
#[derive(Default)]
pub struct Parameters {
    format: Option<aclAippInputFormat>,
    swaps: [bool; 2],
    source: [i32; 2],
    conversion: Conversion,
    images: Vec<ImageParameters>,
}

/// The color conversion.
#[expect(dead_code, reason = "stored for models with dynamic AIPP, which are not supported yet")]
#[derive(Default)]
struct Conversion {
    is_on: bool,
    matrix: [i16; 9],
    biases: [u8; 6],
}

/// The parameters of one image.
#[derive(Clone, Default)]
struct ImageParameters {
    /// Input and output size.
    scale: Option<[i32; 4]>,
    /// Start and size.
    crop: Option<[i32; 4]>,
    /// Top, bottom, left, right.
    padding: Option<[i32; 4]>,
    mean: [i16; 4],
    min: [f32; 4],
    reciprocal: [f32; 4],
}

impl HandleObject for AippParameters {
    const KIND: &'static str = "set of image parameters";
}

fn find(handle: *const aclmdlAIPP) -> Result<Arc<AippParameters>> {
    not_null(handle, "aippParmsSet")?;
    runtime()?.handles.get(handle as usize)
}

/// Changes the parameters.
fn change(
    handle: *mut aclmdlAIPP,
    change: impl FnOnce(&mut Parameters) -> Result<()>,
) -> Result<()> {
    let parameters = find(handle)?;
    change(&mut parameters.0.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Changes the parameters of one image.
fn change_image(
    handle: *mut aclmdlAIPP,
    index: u64,
    set: impl FnOnce(&mut ImageParameters) -> Result<()>,
) -> Result<()> {
    change(handle, |parameters| {
        let count = parameters.images.len();
        let image = usize::try_from(index).ok().and_then(|at| parameters.images.get_mut(at));
        set(image.ok_or_else(|| {
            Error::invalid(format!(
                "batchIndex = {index} is out of range: there are {count} images"
            ))
        })?)
    })
}

/// 0 or 1.
fn switch(name: &str, value: i8) -> Result<bool> {
    match value {
        0 | 1 => Ok(value == 1),
        _ => Err(Error::invalid(format!("{name} = {value} is neither 0 nor 1"))),
    }
}

/// A number within bounds.
fn within(name: &str, value: i32, least: i32, most: i32) -> Result<i32> {
    match (least..=most).contains(&value) {
        true => Ok(value),
        false => Err(Error::invalid(format!("{name} = {value} is outside {least} to {most}"))),
    }
}

/// A valid batch.
fn batch(images: u64) -> Result<u64> {
    match images {
        1..=MAX_BATCH => Ok(images),
        _ => Err(Error::invalid(format!("batchSize = {images} is outside 1 to {MAX_BATCH}"))),
    }
}

/// The error of parameters for a data set: no model has dynamic AIPP, and static AIPP takes none.
fn refuse(
    id: u32,
    dataset: *mut aclmdlDataset,
    index: usize,
    parameters: *const aclmdlAIPP,
) -> Result<()> {
    let dataset = dataset::find(dataset, "dataset")?;
    find(parameters)?;
    dataset.buffer(index)?;
    let model = input_of(id, index)?;
    Err(match image_of(&model, index) {
        None => absent(&model, index),
        Some(_) => Error::new(
            Code::AippMode,
            format!(
                "input {index} of model {id} has static AIPP, whose parameters were set when it was built"
            ),
        ),
    })
}

value_entry! {
    /// Parameters for a batch.
    fn aclmdlCreateAIPP(images: u64) -> *mut aclmdlAIPP, else null_mut(), {
        let images = vec![ImageParameters::default(); batch(images)? as usize];
        let parameters = Parameters { images, ..Parameters::default() };
        let handle = runtime()?.handles.insert(Arc::new(AippParameters(Mutex::new(parameters))))?;
        Ok(handle as *mut aclmdlAIPP)
    }
}

entry! {
    /// Destroys parameters.
    fn aclmdlDestroyAIPP(parameters: *const aclmdlAIPP) {
        not_null(parameters, "aippParmsSet")?;
        runtime()?.handles.remove::<AippParameters>(parameters as usize)?;
        Ok(())
    }

    /// Bytes of the input with the parameters.
    fn aclmdlGetAippDataSize(images: u64, size: *mut usize) {
        let bytes = HEAD_BYTES + IMAGE_BYTES * batch(images)?;
        // SAFETY: the caller passes room for the number, or null.
        unsafe { write(size, "size", bytes as usize) }
    }

    /// Sets the format of the images.
    fn aclmdlSetAIPPInputFormat(parameters: *mut aclmdlAIPP, format: aclAippInputFormat) {
        change(parameters, |parameters| {
            let is_known = matches!(
                format,
                ACL_YUV420SP_U8 | ACL_XRGB8888_U8 | ACL_RGB888_U8 | ACL_YUV400_U8 | ACL_ARGB8888_U8
                    | ACL_YUYV_U8 | ACL_YUV422SP_U8 | ACL_AYUV444_U8
            );
            if !is_known {
                return Err(Error::invalid(format!("inputFormat = {format} is no format of images")));
            }
            parameters.format = Some(format);
            Ok(())
        })
    }

    /// Sets the color conversion.
    fn aclmdlSetAIPPCscParams(
        parameters: *mut aclmdlAIPP,
        is_on: i8,
        r0c0: i16,
        r0c1: i16,
        r0c2: i16,
        r1c0: i16,
        r1c1: i16,
        r1c2: i16,
        r2c0: i16,
        r2c1: i16,
        r2c2: i16,
        output0: u8,
        output1: u8,
        output2: u8,
        input0: u8,
        input1: u8,
        input2: u8,
    ) {
        change(parameters, |parameters| {
            let is_on = switch("cscSwitch", is_on)?;
            let matrix = [r0c0, r0c1, r0c2, r1c0, r1c1, r1c2, r2c0, r2c1, r2c2];
            let biases = [output0, output1, output2, input0, input1, input2];
            parameters.conversion = Conversion { is_on, matrix, biases };
            Ok(())
        })
    }

    /// Sets whether R and B, or U and V, are swapped.
    fn aclmdlSetAIPPRbuvSwapSwitch(parameters: *mut aclmdlAIPP, is_on: i8) {
        change(parameters, |parameters| {
            parameters.swaps[0] = switch("rbuvSwapSwitch", is_on)?;
            Ok(())
        })
    }

    /// Sets whether the fourth channel comes first.
    fn aclmdlSetAIPPAxSwapSwitch(parameters: *mut aclmdlAIPP, is_on: i8) {
        change(parameters, |parameters| {
            parameters.swaps[1] = switch("axSwapSwitch", is_on)?;
            Ok(())
        })
    }

    /// Sets the size of the images.
    fn aclmdlSetAIPPSrcImageSize(parameters: *mut aclmdlAIPP, width: i32, height: i32) {
        change(parameters, |parameters| {
            let width = within("srcImageSizeW", width, 2, MAX_SIZE)?;
            let height = within("srcImageSizeH", height, 1, MAX_SIZE)?;
            if parameters.format == Some(ACL_YUV420SP_U8) && (width % 2 != 0 || height % 2 != 0) {
                return Err(Error::invalid(format!(
                    "the size {width} x {height}: both are even in YUV420SP"
                )));
            }
            parameters.source = [width, height];
            Ok(())
        })
    }

    /// Sets the sizes before and after scaling.
    fn aclmdlSetAIPPScfParams(
        parameters: *mut aclmdlAIPP,
        is_on: i8,
        from_width: i32,
        from_height: i32,
        to_width: i32,
        to_height: i32,
        index: u64,
    ) {
        change_image(parameters, index, |image| {
            image.scale = match switch("scfSwitch", is_on)? {
                false => None,
                true => Some([
                    within("scfInputSizeW", from_width, 16, MAX_SIZE)?,
                    within("scfInputSizeH", from_height, 16, MAX_SIZE)?,
                    within("scfOutputSizeW", to_width, 16, 1920)?,
                    within("scfOutputSizeH", to_height, 16, MAX_SIZE)?,
                ]),
            };
            Ok(())
        })
    }

    /// Sets the crop.
    fn aclmdlSetAIPPCropParams(
        parameters: *mut aclmdlAIPP,
        is_on: i8,
        left: i32,
        top: i32,
        width: i32,
        height: i32,
        index: u64,
    ) {
        change_image(parameters, index, |image| {
            image.crop = match switch("cropSwitch", is_on)? {
                false => None,
                true => Some([
                    within("cropStartPosW", left, 0, MAX_SIZE - 1)?,
                    within("cropStartPosH", top, 0, MAX_SIZE - 1)?,
                    within("cropSizeW", width, 1, MAX_SIZE)?,
                    within("cropSizeH", height, 1, MAX_SIZE)?,
                ]),
            };
            Ok(())
        })
    }

    /// Sets the padding.
    fn aclmdlSetAIPPPaddingParams(
        parameters: *mut aclmdlAIPP,
        is_on: i8,
        top: i32,
        bottom: i32,
        left: i32,
        right: i32,
        index: u64,
    ) {
        change_image(parameters, index, |image| {
            image.padding = match switch("paddingSwitch", is_on)? {
                false => None,
                true => Some([
                    within("paddingSizeTop", top, 0, MAX_PADDING)?,
                    within("paddingSizeBottom", bottom, 0, MAX_PADDING)?,
                    within("paddingSizeLeft", left, 0, MAX_PADDING)?,
                    within("paddingSizeRight", right, 0, MAX_PADDING)?,
                ]),
            };
            Ok(())
        })
    }

    /// Sets the mean.
    fn aclmdlSetAIPPDtcPixelMean(
        parameters: *mut aclmdlAIPP,
        first: i16,
        second: i16,
        third: i16,
        fourth: i16,
        index: u64,
    ) {
        change_image(parameters, index, |image| {
            image.mean = [first, second, third, fourth];
            Ok(())
        })
    }

    /// Sets the minimum.
    fn aclmdlSetAIPPDtcPixelMin(
        parameters: *mut aclmdlAIPP,
        first: f32,
        second: f32,
        third: f32,
        fourth: f32,
        index: u64,
    ) {
        change_image(parameters, index, |image| {
            image.min = [first, second, third, fourth];
            Ok(())
        })
    }

    /// Sets the factor.
    fn aclmdlSetAIPPPixelVarReci(
        parameters: *mut aclmdlAIPP,
        first: f32,
        second: f32,
        third: f32,
        fourth: f32,
        index: u64,
    ) {
        change_image(parameters, index, |image| {
            image.reciprocal = [first, second, third, fourth];
            Ok(())
        })
    }

    /// Sets the parameters of runs.
    fn aclmdlSetInputAIPP(
        id: u32,
        dataset: *mut aclmdlDataset,
        index: usize,
        parameters: *const aclmdlAIPP,
    ) {
        refuse(id, dataset, index, parameters)
    }

    /// The same by the index of the image.
    fn aclmdlSetAIPPByInputIndex(
        id: u32,
        dataset: *mut aclmdlDataset,
        index: usize,
        parameters: *const aclmdlAIPP,
    ) {
        refuse(id, dataset, index, parameters)
    }
}
