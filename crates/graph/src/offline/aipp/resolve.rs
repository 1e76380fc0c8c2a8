//! A configuration beside the input that it is about: sizes filled in and compared.

use super::{AippInfo, AippParameters, Crop, ImageFormat, Padding};
use crate::offline::{Gears, Port};
use cairn_tensor::{DType, Format};

/// What is done with an image.
pub struct ImagePlan {
    /// The sizes that programs feed: batch, rows, columns, channels.
    pub fed_dims: Vec<i64>,
    /// Height and width of the image as it comes; -1 where gears decide.
    pub source: [i64; 2],
    /// The part that is taken.
    pub crop: Crop,
    /// What is put around it.
    pub padding: Padding,
    /// How many channels the model takes.
    pub channels: i64,
    /// Which of its dimensions they are: 1 or 3.
    pub channel_axis: usize,
    /// What the description keeps.
    pub info: AippInfo,
}

const NO_PADDING: Padding = Padding { rows: [0; 2], columns: [0; 2], value: 0.0 };

/// The plan for an image. The text of an error says what does not fit.
pub fn resolve(
    parameters: &AippParameters,
    port: &Port,
    gears: &Gears,
) -> Result<ImagePlan, String> {
    let dims = &port.dims;
    let is_nhwc = port.format == Format::NHWC;
    let layout = if is_nhwc { "NHWC" } else { "NCHW" };
    let sizes: Option<[i64; 4]> = dims.as_slice().try_into().ok();
    let [batch, height, width, channels] = match (sizes, is_nhwc) {
        (Some([n, h, w, c]), true) | (Some([n, c, h, w]), false) => [n, h, w, c],
        _ => return Err(format!("the model's input has the sizes {dims:?}: expected {layout}")),
    };
    check_type(parameters, port.dtype)?;
    check_unknown(parameters, port, gears, [height, width])?;
    let format = parameters.format;
    check_channels(parameters, channels)?;
    let padding = parameters.padding.unwrap_or(NO_PADDING);
    let around = [padding.rows.iter().sum::<i64>(), padding.columns.iter().sum()];
    let mut complete = parameters.clone();
    let mut crop = parameters.crop.unwrap_or(Crop { start: [0; 2], size: [0; 2] });
    for (at, model) in [height, width].into_iter().enumerate() {
        let (what, letter) = [("height", "h"), ("width", "w")][at];
        let source = &mut complete.source[at];
        if *source == 0 {
            *source = model;
        }
        match parameters.crop {
            None => crop.size[at] = *source,
            Some(_) if crop.size[at] == 0 => crop.size[at] = model - around[at],
            Some(_) => {}
        }
        let (start, size) = (crop.start[at], crop.size[at]);
        if model >= 0 && (size <= 0 || start + size > *source) {
            return Err(format!(
                "a crop of {size} from {start} on does not fit its {what} of {source} (src_image_size_{letter})"
            ));
        }
        if model >= 0 && size + around[at] != model {
            let done = format!("its {what} is {} after crop and padding", size + around[at]);
            return Err(format!("{done}, and that of the model's input is {model}"));
        }
        if format == ImageFormat::Yuv420sp && *source % 2 != 0 {
            return Err(format!("its {what} is {source}: images of YUV420SP_U8 have even sizes"));
        }
    }
    let source = complete.source;
    complete.crop = parameters.crop.map(|_| crop);
    let fed_dims = match format {
        ImageFormat::Yuv420sp => vec![batch, source[0] / 2 * 3, source[1], 1],
        ImageFormat::Xrgb8888 => vec![batch, source[0], source[1], 4],
        ImageFormat::Rgb888 => vec![batch, source[0], source[1], 3],
        ImageFormat::Yuv400 => vec![batch, source[0], source[1], 1],
    };
    let info = AippInfo {
        parameters: complete,
        model_dtype: port.dtype,
        model_format: if is_nhwc { Format::NHWC } else { Format::NCHW },
        model_dims: dims.clone(),
        image_dims: vec![batch, source[0], source[1], channels],
    };
    let channel_axis = if is_nhwc { 3 } else { 1 };
    Ok(ImagePlan { fed_dims, source, crop, padding, channels, channel_axis, info })
}

fn check_type(parameters: &AippParameters, dtype: DType) -> Result<(), String> {
    let is_plain = parameters.mean == [0; 4]
        && parameters.min == [0.0; 4]
        && parameters.factor == [1.0; 4]
        && parameters.padding.is_none_or(|one| (0.0..=255.0).contains(&one.value));
    match dtype {
        DType::Float | DType::Float16 | DType::Bf16 => Ok(()),
        DType::Uint8 if is_plain => Ok(()),
        DType::Uint8 => Err(
            "the model's input is of uint8: mean, min and var_reci of a channel, and values of padding beyond 255, need a floating type".to_owned(),
        ),
        other => Err(format!(
            "the model's input is of {other}: expected float, float16, bfloat16 or uint8"
        )),
    }
}

/// Sizes that are not known are those that gears decide.
fn check_unknown(
    parameters: &AippParameters,
    port: &Port,
    gears: &Gears,
    [height, width]: [i64; 2],
) -> Result<(), String> {
    if port.dims.iter().all(|dim| *dim >= 0) {
        return Ok(());
    }
    match gears {
        Gears::None => Err(format!(
            "the sizes {:?} of the input are not known: images need sizes, or gears of batch or image size",
            port.dims
        )),
        Gears::Dims(_) => Err("AIPP and dynamic_dims exclude each other".to_owned()),
        Gears::Batch(_) => Ok(()),
        Gears::ImageSize(_) => {
            let is_whole = parameters.crop.is_none()
                && parameters.padding.is_none()
                && parameters.source == [0; 2];
            match (parameters.format, is_whole) {
                (ImageFormat::Yuv420sp, _) => Err(format!(
                    "its size is {height} x {width}: an image of YUV420SP_U8 with gears of image size is not supported"
                )),
                (_, false) => Err(
                    "with gears of image size there are no crop, no padding and no src_image_size"
                        .to_owned(),
                ),
                (_, true) => Ok(()),
            }
        }
    }
}

/// The model takes what comes out: three channels, with a conversion also one, and what the format has.
fn check_channels(parameters: &AippParameters, channels: i64) -> Result<(), String> {
    let converts = parameters.conversion.is_some();
    let fits: &[i64] = match (parameters.format, converts) {
        (ImageFormat::Yuv400, _) => &[1],
        (_, true) => &[1, 3],
        (ImageFormat::Xrgb8888, false) => &[3, 4],
        (_, false) => &[3],
    };
    let name = parameters.format.name();
    let after = if converts { " after csc_switch" } else { "" };
    match fits.contains(&channels) {
        true => Ok(()),
        false => Err(format!(
            "the model's input has {channels} channels, and an image of {name} has {}{after}",
            fits.iter().map(i64::to_string).collect::<Vec<_>>().join(" or ")
        )),
    }
}
