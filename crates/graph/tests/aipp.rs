//! Models that prepare their images, beside loops over pixels that do the same.

mod support;

use bytes::Bytes;
use cairn_exec::Target;
use cairn_graph::ir::{Attr, Desc, Graph};
use cairn_graph::offline::{Aipp, BuildOptions, Gears, ImageFormat, ModelMemory, OfflineModel};
use cairn_graph::session::RunTensor;
use cairn_runtime::stream::Stream;
use cairn_tensor::{DType, Format};
use support::*;

/// A model that hands its input out, as numbers.
fn identity(dtype: DType, format: Format, dims: &[i64]) -> Graph {
    let mut builder = GraphBuilder::new("identity");
    let x = builder.data(dims);
    let node = builder.0.node_mut(x.node).unwrap();
    let desc = Desc { format, ..Desc::new(dtype, dims) };
    (node.input_descs, node.output_descs) = (vec![desc.clone()], vec![desc]);
    let attrs = [("dst_type", Attr::Int(DType::Float as i64))];
    let y = builder.node_with("Cast", &[x], &attrs);
    builder.outputs(&[y])
}

fn built(graph: Graph, text: &str) -> Result<OfflineModel, String> {
    let aipp = Aipp::parse(text).map_err(|error| error.to_string())?;
    let options = BuildOptions { aipp, ..BuildOptions::default() };
    OfflineModel::build(graph, &options).map_err(|failure| failure.text)
}

/// Runs a model that went through a file on an image.
fn run(model: &OfflineModel, gear: Option<usize>, dims: &[i64], image: &[u8]) -> Vec<f32> {
    let model = OfflineModel::read(&model.write(), None).unwrap();
    let machine = Machine::start();
    let handle = machine.stream();
    let stream = machine.runtime.handles.get::<Stream>(handle).unwrap();
    let target = Target::built_in(machine.runtime, stream);
    let compiled = model.compile().unwrap();
    let loaded = compiled.load(&target, 1, ModelMemory::default()).unwrap();
    let bytes = Bytes::copy_from_slice(image);
    let input = RunTensor {
        address: bytes.as_ptr() as usize,
        bytes: bytes.len(),
        dtype: Some(DType::Uint8),
        dims: Some(dims.to_vec()),
        host: Some(bytes),
        says_host: true,
    };
    let outputs = loaded.run(&target, gear, &[input], &[]).unwrap();
    machine.sync(handle).unwrap();
    machine.read(outputs[0].address, outputs[0].layout.bytes() / 4)
}

/// Bytes that look like none in particular.
fn pixels(count: usize) -> Vec<u8> {
    let mut state = 12345u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..count).map(|_| next()).collect()
}

/// The pixels of an image, channel by channel, as a model in NCHW takes them.
fn by_channel(
    channels: usize,
    [height, width]: [usize; 2],
    pixel: impl Fn(usize, usize, usize) -> f32,
) -> Vec<f32> {
    let at = |index: usize| (index / width / height, index / width % height, index % width);
    (0..channels * height * width)
        .map(|index| {
            let (channel, row, column) = at(index);
            pixel(channel, row, column)
        })
        .collect()
}

#[test]
fn rgb_is_cropped_swapped_and_normalised() {
    let text = "aipp_op { aipp_mode: static input_format: RGB888_U8 src_image_size_h: 6 src_image_size_w: 7
        crop: true load_start_pos_h: 1 load_start_pos_w: 3 rbuv_swap_switch: true
        mean_chn_0: 104 mean_chn_1: 117 mean_chn_2: 123 min_chn_1: 0.5
        var_reci_chn_0: 0.5 var_reci_chn_1: 2 var_reci_chn_2: 0.017 }";
    let model = built(identity(DType::Float, Format::ND, &[1, 3, 4, 4]), text).unwrap();
    let port = &model.description.inputs[0];
    assert_eq!((port.dtype, port.format), (DType::Uint8, Format::NHWC));
    assert_eq!((&port.dims[..], &port.fed_dims[..]), (&[1, 6, 7, 3][..], &[1, 6, 7, 3][..]));
    assert_eq!(port.bytes, 6 * 7 * 3);
    let info = port.aipp.as_ref().unwrap();
    assert_eq!(info.model_dims, [1, 3, 4, 4]);
    assert_eq!(info.parameters.crop.unwrap().size, [4, 4]);
    let image = pixels(6 * 7 * 3);
    let (mean, min, factor) = ([104.0, 117.0, 123.0], [0.0, 0.5, 0.0], [0.5, 2.0, 0.017]);
    let expected = by_channel(3, [4, 4], |channel, row, column| {
        let byte = image[((row + 1) * 7 + column + 3) * 3 + 2 - channel];
        (f32::from(byte) - mean[channel] - min[channel]) * factor[channel]
    });
    assert_eq!(run(&model, None, &[1, 6, 7, 3], &image), expected);
}

/// What the documented formula makes of a pixel.
fn converted(pixel: [i32; 3], matrix: [[i32; 3]; 3], before: [i32; 3], after: [i32; 3]) -> [u8; 3] {
    let mut channels = [0; 3];
    for (at, row) in matrix.iter().enumerate() {
        let sum: i32 = (0..3).map(|column| row[column] * (pixel[column] - before[column])).sum();
        channels[at] = ((sum >> 8) + after[at]).clamp(0, 255) as u8;
    }
    channels
}

/// Y, U and V of a pixel.
fn yuv(image: &[u8], [height, width]: [usize; 2], row: usize, column: usize) -> [i32; 3] {
    let pair = height * width + row / 2 * width + column / 2 * 2;
    [image[row * width + column], image[pair], image[pair + 1]].map(i32::from)
}

#[test]
fn yuv420sp_becomes_rgb() {
    let matrix = [[256, 0, 359], [256, -88, -183], [256, 454, 0]];
    let text = |swap: bool| {
        format!("aipp_op {{ aipp_mode: static input_format: YUV420SP_U8
        csc_switch: true rbuv_swap_switch: {swap}
        src_image_size_h: 10 src_image_size_w: 12
        crop: true load_start_pos_h: 2 load_start_pos_w: 4 crop_size_h: 5 crop_size_w: 7
        matrix_r0c0: 256 matrix_r0c1: 0 matrix_r0c2: 359
        matrix_r1c0: 256 matrix_r1c1: -88 matrix_r1c2: -183
        matrix_r2c0: 256 matrix_r2c1: 454 matrix_r2c2: 0
        input_bias_0: 0 input_bias_1: 128 input_bias_2: 128
        padding: true left_padding_size: 1 right_padding_size: 2 top_padding_size: 3 bottom_padding_size: 4
        padding_value: -7.5 mean_chn_2: 10 }}")
    };
    let image = pixels(15 * 12);
    for swap in [false, true] {
        let graph = identity(DType::Float, Format::NCHW, &[1, 3, 12, 10]);
        let model = built(graph, &text(swap)).unwrap();
        let port = &model.description.inputs[0];
        assert_eq!(port.fed_dims, [1, 15, 12, 1]);
        assert_eq!(port.aipp.as_ref().unwrap().image_dims, [1, 10, 12, 3]);
        let expected = by_channel(3, [12, 10], |channel, row, column| {
            if !(3..8).contains(&row) || !(1..8).contains(&column) {
                return -7.5;
            }
            let [y, u, v] = yuv(&image, [10, 12], row - 3 + 2, column - 1 + 4);
            let pixel = if swap { [y, v, u] } else { [y, u, v] };
            let byte = converted(pixel, matrix, [0, 128, 128], [0; 3])[channel];
            f32::from(byte) - [0.0, 0.0, 10.0][channel]
        });
        assert_eq!(run(&model, None, &[1, 15, 12, 1], &image), expected);
    }
}

#[test]
fn yuv420sp_without_conversion_and_in_nhwc() {
    let text = "aipp_op { aipp_mode: static input_format: YUV420SP_U8 }";
    let image = pixels(2 * 9 * 4);
    let model = built(identity(DType::Uint8, Format::NHWC, &[2, 6, 4, 3]), text).unwrap();
    let mut expected = Vec::new();
    for one in image.chunks(9 * 4) {
        for index in 0..6 * 4 {
            expected.extend(yuv(one, [6, 4], index / 4, index % 4).map(|byte| byte as f32));
        }
    }
    assert_eq!(run(&model, None, &[2, 9, 4, 1], &image), expected);
}

#[test]
fn rgb_becomes_yuv_or_gray_and_xrgb_loses_a_byte() {
    let matrix = [[66, 129, 25], [-38, -74, 112], [112, -94, -18]];
    let image = pixels(2 * 3 * 4);
    for (ax, rb, channels) in
        [(false, false, 3), (true, false, 3), (false, true, 1), (true, true, 1)]
    {
        let text = format!(
            "aipp_op {{ aipp_mode: static input_format: XRGB8888_U8 csc_switch: true
            ax_swap_switch: {ax} rbuv_swap_switch: {rb} }}"
        );
        let dims = [1, channels as i64, 2, 3];
        let model = built(identity(DType::Float, Format::ND, &dims), &text).unwrap();
        let expected = by_channel(channels, [2, 3], |channel, row, column| {
            let first = (row * 3 + column) * 4 + usize::from(ax);
            let mut pixel = [0, 1, 2].map(|at| i32::from(image[first + at]));
            if rb {
                pixel.swap(0, 2);
            }
            converted(pixel, matrix, [0; 3], [16, 128, 128])[channel].into()
        });
        assert_eq!(run(&model, None, &[1, 2, 3, 4], &image), expected);
    }
    let text = "aipp_op { aipp_mode: static input_format: XRGB8888_U8 ax_swap_switch: true mean_chn_3: 9 }";
    let model = built(identity(DType::Float, Format::ND, &[1, 4, 2, 3]), text).unwrap();
    let expected = by_channel(4, [2, 3], |channel, row, column| {
        let byte = image[(row * 3 + column) * 4 + (channel + 1) % 4];
        f32::from(byte) - if channel == 3 { 9.0 } else { 0.0 }
    });
    assert_eq!(run(&model, None, &[1, 2, 3, 4], &image), expected);
}

#[test]
fn gears_of_batch_and_image_size() {
    let text =
        "aipp_op { aipp_mode: static input_format: RGB888_U8 csc_switch: true mean_chn_0: 1 }";
    let matrix = [[66, 129, 25], [-38, -74, 112], [112, -94, -18]];
    for (dims, gears, fed) in [
        (vec![-1, 3, 2, 4], Gears::Batch(vec![1, 2]), vec![2, 2, 4, 3]),
        (vec![1, 3, -1, -1], Gears::ImageSize(vec![[2, 4], [4, 2]]), vec![1, 4, 2, 3]),
    ] {
        let options = BuildOptions {
            aipp: Aipp::parse(text).unwrap(),
            gears: gears.clone(),
            ..BuildOptions::default()
        };
        let graph = identity(DType::Float16, Format::ND, &dims);
        let model = OfflineModel::build(graph, &options).unwrap();
        let image = pixels(fed.iter().product::<i64>() as usize);
        let [_, height, width, _] = [0, 1, 2, 3].map(|at| fed[at] as usize);
        let one = |image: &[u8]| {
            by_channel(3, [height, width], |channel, row, column| {
                let first = (row * width + column) * 3;
                let pixel = [0, 1, 2].map(|at| i32::from(image[first + at]));
                let byte = converted(pixel, matrix, [0; 3], [16, 128, 128])[channel];
                f32::from(byte) - if channel == 0 { 1.0 } else { 0.0 }
            })
        };
        let expected: Vec<f32> = image.chunks(height * width * 3).flat_map(one).collect();
        assert_eq!(run(&model, Some(1), &fed, &image), expected, "{gears:?}");
    }
}

#[test]
fn the_description_survives_in_the_file() {
    let text = "aipp_op { aipp_mode: static input_format: YUV400_U8 related_input_name: 'data0' mean_chn_0: 3 }";
    let model = built(identity(DType::Float, Format::ND, &[1, 1, 2, 2]), text).unwrap();
    let description = OfflineModel::read_description(&model.write(), None).unwrap();
    assert_eq!(description, model.description);
    let info = description.inputs[0].aipp.as_ref().unwrap();
    assert_eq!(info.parameters.format, ImageFormat::Yuv400);
    assert_eq!((info.parameters.rank, info.parameters.mean[0]), (Some(0), 3));
    assert_eq!(info.parameters.source, [2, 2]);
    assert_eq!(info.model_dtype, DType::Float);
}

#[test]
fn what_does_not_fit_the_model_is_refused() {
    let rgb = "aipp_mode: static input_format: RGB888_U8";
    let float = DType::Float;
    for (dims, dtype, body, parts) in [
        (
            &[1, 3, 4, 4][..],
            float,
            format!("{rgb} related_input_rank: 1"),
            ["related_input_rank", "1", "data0"],
        ),
        (
            &[1, 3, 4, 4],
            float,
            format!("{rgb} related_input_name: \"y\""),
            ["related_input_name", "y", "data0"],
        ),
        (&[1, 3, 4, 4], float, format!("{rgb} src_image_size_h: 5"), ["height", "5", "4"]),
        (
            &[1, 3, 4, 4],
            float,
            format!("{rgb} crop: true crop_size_w: 9"),
            ["crop of 9", "width", "4"],
        ),
        (
            &[1, 3, 4, 4],
            float,
            format!("{rgb} padding: true top_padding_size: 1"),
            ["height", "5", "4"],
        ),
        (&[1, 1, 4, 4], float, rgb.to_owned(), ["1 channels", "RGB888_U8", "3"]),
        (&[3, 4, 4], float, rgb.to_owned(), ["[3, 4, 4]", "NCHW", "data0"]),
        (&[-1, 3, 4, 4], float, rgb.to_owned(), ["-1", "not known", "gears"]),
        (&[1, 3, 4, 4], DType::Int32, rgb.to_owned(), ["int32", "float16", "data0"]),
        (&[1, 3, 4, 4], DType::Uint8, format!("{rgb} mean_chn_0: 1"), ["uint8", "mean", "data0"]),
        (
            &[1, 3, 5, 4],
            float,
            "aipp_mode: static input_format: YUV420SP_U8".to_owned(),
            ["height", "5", "even"],
        ),
    ] {
        let text = format!("aipp_op {{ {body} }}");
        let error = built(identity(dtype, Format::ND, dims), &text).err().unwrap();
        assert!(parts.iter().all(|part| error.contains(part)), "{text}: {error}");
    }
    let twice = format!("aipp_op {{ {rgb} }} aipp_op {{ {rgb} }}");
    let error = built(identity(float, Format::ND, &[1, 3, 4, 4]), &twice).err().unwrap();
    assert!(error.contains("two blocks"), "{error}");
    let options = BuildOptions {
        aipp: Aipp::parse(&format!("aipp_op {{ {rgb} }}")).unwrap(),
        gears: Gears::Dims(vec![vec![1], vec![2]]),
        ..BuildOptions::default()
    };
    let error = OfflineModel::build(identity(float, Format::ND, &[-1, 3, 4, 4]), &options);
    assert!(error.err().unwrap().text.contains("dynamic_dims"));
}
