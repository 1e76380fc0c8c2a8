//! The keys of a configuration: what each takes, and what it is when it is not set.

use super::text::{self, Entry, Value};
use super::{Aipp, AippError, AippParameters, ColorConversion, Crop, ImageFormat, Padding};

/// Images are at most this high and wide.
const MAX_SIZE: i64 = 4096;
/// Rows and columns of padding on each side.
const MAX_PADDING: i64 = 32;
/// The greatest number of the type that hardware normalises in.
const MAX_HALF: f32 = 65504.0;
/// The numbers that a matrix may hold.
const MATRIX: (i64, i64) = (-32677, 32676);
const BYTE: (i64, i64) = (0, 255);

/// Matrices for images whose configuration asks for a conversion and gives none: YUV to BGR, RGB to YUV.
const FROM_YUV: [[i32; 3]; 3] = [[298, 516, 0], [298, -100, -208], [298, 0, 409]];
const FROM_RGB: [[i32; 3]; 3] = [[66, 129, 25], [-38, -74, 112], [112, -94, -18]];
const BIAS: [i32; 3] = [16, 128, 128];

/// Formats of images that configurations may name and that are not supported.
const OTHER_FORMATS: [&str; 11] = [
    "YUYV_U8",
    "YUV422SP_U8",
    "AYUV444_U8",
    "ARGB8888_U8",
    "NC1HWC0DI_FP16",
    "NC1HWC0DI_S8",
    "RAW10",
    "RAW12",
    "RAW16",
    "RAW24",
    "UNDEFINED",
];

/// Reads a configuration.
pub fn parse(text: &str) -> Result<Aipp, AippError> {
    let mut aipp = Aipp::default();
    for entry in text::parse(text)? {
        match (&entry.key[..], &entry.value) {
            ("aipp_op", Value::Block(block)) => aipp.images.push(read_image(&entry, block)?),
            ("aipp_op", _) => return Err(entry.wrong("expected a block in braces")),
            _ => return Err(entry.wrong("unknown; expected aipp_op")),
        }
    }
    match aipp.images.is_empty() {
        true => Err(AippError {
            line: 1,
            key: "aipp_op".to_owned(),
            value: String::new(),
            reason: "there is none".to_owned(),
        }),
        false => Ok(aipp),
    }
}

/// What the keys of a block say, before it is known which of them count.
struct Keys {
    is_static: bool,
    format: Option<ImageFormat>,
    crops: bool,
    converts: bool,
    pads: bool,
    crop: Crop,
    matrix: [[Option<i32>; 3]; 3],
    input_bias: [i32; 3],
    output_bias: [i32; 3],
    padding: Padding,
}

fn read_image(block: &Entry, entries: &[Entry]) -> Result<AippParameters, AippError> {
    let mut keys = Keys {
        is_static: false,
        format: None,
        crops: false,
        converts: false,
        pads: false,
        crop: Crop { start: [0; 2], size: [0; 2] },
        matrix: [[None; 3]; 3],
        input_bias: BIAS,
        output_bias: BIAS,
        padding: Padding { rows: [0; 2], columns: [0; 2], value: 0.0 },
    };
    let mut image = AippParameters {
        rank: None,
        name: None,
        format: ImageFormat::Rgb888,
        source: [0; 2],
        crop: None,
        swaps_rbuv: false,
        swaps_ax: false,
        conversion: None,
        mean: [0; 4],
        min: [0.0; 4],
        factor: [1.0; 4],
        padding: None,
    };
    for (at, entry) in entries.iter().enumerate() {
        if entries[..at].iter().any(|before| before.key == entry.key) {
            return Err(entry.wrong("is there twice"));
        }
        read_key(entry, &mut keys, &mut image)?;
    }
    let missing = |key: &str, reason: &str| AippError {
        line: block.line,
        key: key.to_owned(),
        value: String::new(),
        reason: reason.to_owned(),
    };
    if !keys.is_static {
        return Err(missing("aipp_mode", "is missing; expected static"));
    }
    let names = ImageFormat::ALL.map(|(_, name, _)| name).join(", ");
    let expected = format!("is missing; expected one of {names}");
    image.format = keys.format.ok_or_else(|| missing("input_format", &expected))?;
    finish(entries, keys, &mut image)?;
    Ok(image)
}

/// Puts together what belongs together, and compares what has to fit.
fn finish(entries: &[Entry], keys: Keys, image: &mut AippParameters) -> Result<(), AippError> {
    let wrong = |key: &str, reason: &str| {
        let entry = entries.iter().find(|entry| entry.key == key);
        Err(entry.expect("a key that was read").wrong(reason))
    };
    let is_yuv420sp = image.format == ImageFormat::Yuv420sp;
    let is_odd = |number: i64| is_yuv420sp && number % 2 != 0;
    if keys.converts && image.format == ImageFormat::Yuv400 {
        return wrong("csc_switch", "an image of YUV400_U8 has no colours to convert");
    }
    if image.swaps_ax && image.format != ImageFormat::Xrgb8888 {
        return wrong("ax_swap_switch", "only images of XRGB8888_U8 have a byte to swap");
    }
    if image.swaps_rbuv && image.format == ImageFormat::Yuv400 {
        return wrong("rbuv_swap_switch", "an image of YUV400_U8 has one channel");
    }
    for (key, size) in ["src_image_size_h", "src_image_size_w"].into_iter().zip(image.source) {
        if is_odd(size) {
            return wrong(key, "images of YUV420SP_U8 have even sizes");
        }
    }
    if keys.crops {
        let starts = ["load_start_pos_h", "load_start_pos_w"].into_iter().zip(keys.crop.start);
        for (key, start) in starts {
            if is_odd(start) {
                return wrong(key, "positions in images of YUV420SP_U8 are even");
            }
        }
        image.crop = Some(keys.crop);
    }
    if keys.converts {
        let default = if is_yuv420sp { FROM_YUV } else { FROM_RGB };
        let mut matrix = default;
        for (row, numbers) in matrix.iter_mut().zip(keys.matrix) {
            for (number, given) in row.iter_mut().zip(numbers) {
                *number = given.unwrap_or(*number);
            }
        }
        let Keys { input_bias, output_bias, .. } = keys;
        image.conversion = Some(ColorConversion { matrix, input_bias, output_bias });
    }
    image.padding = keys.pads.then_some(keys.padding);
    Ok(())
}

fn read_key(entry: &Entry, keys: &mut Keys, image: &mut AippParameters) -> Result<(), AippError> {
    let size = (0, MAX_SIZE);
    match &entry.key[..] {
        "aipp_mode" => keys.is_static = read_mode(entry)?,
        "related_input_rank" => {
            image.rank = Some(integer(entry, (0, i32::MAX.into()))? as usize);
        }
        "related_input_name" => match &entry.value {
            Value::Text(name) | Value::Word(name) if !name.is_empty() => {
                image.name = Some(name.clone());
            }
            _ => return Err(entry.wrong("expected the name of an input, in quotes")),
        },
        "input_format" => keys.format = Some(read_format(entry)?),
        "src_image_size_h" => image.source[0] = integer(entry, size)?,
        "src_image_size_w" => image.source[1] = integer(entry, size)?,
        "crop" => keys.crops = flag(entry)?,
        "load_start_pos_h" => keys.crop.start[0] = integer(entry, (0, MAX_SIZE - 1))?,
        "load_start_pos_w" => keys.crop.start[1] = integer(entry, (0, MAX_SIZE - 1))?,
        "crop_size_h" => keys.crop.size[0] = integer(entry, size)?,
        "crop_size_w" => keys.crop.size[1] = integer(entry, size)?,
        "csc_switch" => keys.converts = flag(entry)?,
        "rbuv_swap_switch" => image.swaps_rbuv = flag(entry)?,
        "ax_swap_switch" => image.swaps_ax = flag(entry)?,
        "padding" => keys.pads = flag(entry)?,
        "top_padding_size" => keys.padding.rows[0] = integer(entry, (0, MAX_PADDING))?,
        "bottom_padding_size" => keys.padding.rows[1] = integer(entry, (0, MAX_PADDING))?,
        "left_padding_size" => keys.padding.columns[0] = integer(entry, (0, MAX_PADDING))?,
        "right_padding_size" => keys.padding.columns[1] = integer(entry, (0, MAX_PADDING))?,
        "padding_value" | "cpadding_value" => keys.padding.value = number(entry)?,
        "resize" | "single_line_mode" | "support_rotation" if flag(entry)? => {
            return Err(entry.wrong("not supported"));
        }
        "resize" | "single_line_mode" | "support_rotation" => {}
        "resize_output_h" | "resize_output_w" => {
            integer(entry, size)?;
        }
        "max_src_image_size" => {
            integer(entry, (0, u32::MAX.into()))?;
        }
        "input_edge_idx" | "raw_rgbir_to_f16_n" => return Err(entry.wrong("not supported")),
        key => match indexed(key) {
            Some(("matrix", [row, column])) => {
                keys.matrix[row][column] = Some(integer(entry, MATRIX)? as i32);
            }
            Some(("input_bias", [at, _])) => keys.input_bias[at] = integer(entry, BYTE)? as i32,
            Some(("output_bias", [at, _])) => keys.output_bias[at] = integer(entry, BYTE)? as i32,
            Some(("mean_chn", [at, _])) => image.mean[at] = integer(entry, BYTE)? as i32,
            Some(("min_chn", [at, _])) => image.min[at] = number(entry)?,
            Some(("var_reci_chn", [at, _])) => image.factor[at] = number(entry)?,
            _ => return Err(entry.wrong("unknown")),
        },
    }
    Ok(())
}

/// A key with one or two numbers in its name.
fn indexed(key: &str) -> Option<(&str, [usize; 2])> {
    let (name, index) = key.rsplit_once('_')?;
    let digit = |text: &str, count: usize| {
        let is_digit = text.len() == 1 && text.as_bytes()[0].is_ascii_digit();
        text.parse().ok().filter(|number| is_digit && *number < count)
    };
    match name {
        "matrix" => {
            let (row, column) = index.strip_prefix('r')?.split_once('c')?;
            Some((name, [digit(row, 3)?, digit(column, 3)?]))
        }
        "input_bias" | "output_bias" => Some((name, [digit(index, 3)?, 0])),
        "mean_chn" | "min_chn" | "var_reci_chn" => Some((name, [digit(index, 4)?, 0])),
        _ => None,
    }
}

fn word(entry: &Entry) -> &str {
    match &entry.value {
        Value::Word(word) => word,
        _ => "",
    }
}

fn read_mode(entry: &Entry) -> Result<bool, AippError> {
    match word(entry) {
        "static" => Ok(true),
        "dynamic" => Err(entry.wrong(
            "dynamic AIPP is not supported: write the parameters here, with aipp_mode: static",
        )),
        _ => Err(entry.wrong("expected static")),
    }
}

fn read_format(entry: &Entry) -> Result<ImageFormat, AippError> {
    let name = word(entry);
    let known = ImageFormat::ALL.iter().find(|(_, one, _)| *one == name);
    let what = if OTHER_FORMATS.contains(&name) { "is not supported" } else { "is no format" };
    known.map(|(format, _, _)| *format).ok_or_else(|| {
        let names = ImageFormat::ALL.map(|(_, name, _)| name).join(", ");
        entry.wrong(format!("{what}; expected one of {names}"))
    })
}

fn flag(entry: &Entry) -> Result<bool, AippError> {
    match word(entry) {
        "true" | "True" | "t" | "1" => Ok(true),
        "false" | "False" | "f" | "0" => Ok(false),
        _ => Err(entry.wrong("expected true or false")),
    }
}

fn integer(entry: &Entry, (low, high): (i64, i64)) -> Result<i64, AippError> {
    let number = word(entry).parse().ok().filter(|number| (low..=high).contains(number));
    number.ok_or_else(|| entry.wrong(format!("expected an integer from {low} to {high}")))
}

fn number(entry: &Entry) -> Result<f32, AippError> {
    let digits = word(entry).strip_suffix(['f', 'F']).unwrap_or(word(entry));
    let number = digits.parse().ok().filter(|number: &f32| number.abs() <= MAX_HALF);
    number.ok_or_else(|| entry.wrong(format!("expected a number from -{MAX_HALF} to {MAX_HALF}")))
}
