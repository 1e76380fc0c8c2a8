use super::*;

const FULL: &str = r#"
# an image of a camera
aipp_op {
    aipp_mode: static
    related_input_name: "pixels:0"
    input_format : YUV420SP_U8
    src_image_size_w: 320, src_image_size_h: 240;
    crop: true load_start_pos_w: 10 load_start_pos_h: 20 crop_size_w: 50 crop_size_h: 60
    csc_switch: true
    rbuv_swap_switch: true
    matrix_r0c0: 256 matrix_r0c1: 0 matrix_r0c2: 359
    matrix_r1c0: 256 matrix_r1c1: -88 matrix_r1c2: -183
    matrix_r2c0: 256 matrix_r2c1: 454 matrix_r2c2: 0
    input_bias_0: 0 input_bias_1: 128 input_bias_2: 128
    mean_chn_0: 104 mean_chn_1: 117 mean_chn_2: 123
    min_chn_0: 0.5
    var_reci_chn_0: 1.7e-2 var_reci_chn_3: -2.5f
    padding: true left_padding_size: 20 right_padding_size: 15
    top_padding_size: 1 bottom_padding_size: 2 padding_value: -3
}
aipp_op: { aipp_mode: static related_input_rank: 1 input_format: YUV400_U8 }
"#;

#[test]
fn every_key_is_read() {
    let aipp = Aipp::parse(FULL).unwrap();
    let [full, plain] = &aipp.images[..] else { panic!("{aipp:?}") };
    assert_eq!(full.name.as_deref(), Some("pixels:0"));
    assert_eq!((full.format, full.source), (ImageFormat::Yuv420sp, [240, 320]));
    assert_eq!(full.crop, Some(Crop { start: [20, 10], size: [60, 50] }));
    assert!(full.swaps_rbuv && !full.swaps_ax);
    let conversion = full.conversion.unwrap();
    assert_eq!(conversion.matrix, [[256, 0, 359], [256, -88, -183], [256, 454, 0]]);
    assert_eq!(conversion.input_bias, [0, 128, 128]);
    assert_eq!(full.mean, [104, 117, 123, 0]);
    assert_eq!((full.min, full.factor), ([0.5, 0.0, 0.0, 0.0], [0.017, 1.0, 1.0, -2.5]));
    assert_eq!(full.padding, Some(Padding { rows: [1, 2], columns: [20, 15], value: -3.0 }));
    assert_eq!((plain.rank, plain.format), (Some(1), ImageFormat::Yuv400));
    assert_eq!((plain.crop, plain.conversion, plain.padding), (None, None, None));
}

#[test]
fn what_is_not_set_has_the_documented_value() {
    let read = |text: &str| Aipp::parse(text).unwrap().images.remove(0);
    let yuv = read("aipp_op { aipp_mode: static input_format: YUV420SP_U8 csc_switch: true }");
    let conversion = yuv.conversion.unwrap();
    assert_eq!(conversion.matrix, [[298, 516, 0], [298, -100, -208], [298, 0, 409]]);
    assert_eq!(conversion.input_bias, [16, 128, 128]);
    let rgb = read(
        "aipp_op { aipp_mode: static input_format: RGB888_U8 csc_switch: true matrix_r0c2: 7 }",
    );
    let conversion = rgb.conversion.unwrap();
    assert_eq!(conversion.matrix, [[66, 129, 7], [-38, -74, 112], [112, -94, -18]]);
    assert_eq!(conversion.output_bias, [16, 128, 128]);
    assert_eq!((rgb.mean, rgb.min, rgb.factor), ([0; 4], [0.0; 4], [1.0; 4]));
}

#[test]
fn errors_name_line_key_and_value() {
    let at = |body: &str| {
        format!("aipp_op {{\n aipp_mode: static\n input_format: RGB888_U8\n {body}\n}}")
    };
    for (body, parts) in [
        ("crop_size_h: -1", ["line 4", "'crop_size_h: -1'", "0 to 4096"]),
        ("crop: maybe", ["line 4", "'crop: maybe'", "true or false"]),
        ("matrix_r0c0: 40000", ["line 4", "'matrix_r0c0: 40000'", "32676"]),
        ("matrix_r3c0: 1", ["line 4", "'matrix_r3c0: 1'", "unknown"]),
        ("mean_chn_4: 1", ["line 4", "'mean_chn_4: 1'", "unknown"]),
        ("mean_chn_0: 123.5", ["line 4", "'mean_chn_0: 123.5'", "integer"]),
        ("min_chn_0: nan", ["line 4", "'min_chn_0: nan'", "65504"]),
        ("left_padding_size: 33", ["line 4", "'left_padding_size: 33'", "32"]),
        ("colour: 1", ["line 4", "'colour: 1'", "unknown"]),
        ("resize: true", ["line 4", "'resize: true'", "not supported"]),
        ("ax_swap_switch: true", ["line 4", "'ax_swap_switch: true'", "XRGB8888_U8"]),
        ("aipp_mode: static", ["line 4", "'aipp_mode: static'", "twice"]),
        ("crop true", ["line 4", "'crop'", "':'"]),
        ("crop: }", ["line 4", "'crop'", "found '}'"]),
        ("crop: [true]", ["line 4", "'crop'", "found '['"]),
        ("related_input_name: \"a", ["line 4", "", "not closed"]),
    ] {
        let error = Aipp::parse(&at(body)).unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{body}: {error}");
        assert!(error.ends_with('.'), "{error}");
    }
    for (text, parts) in [
        ("", ["line 1", "aipp_op", "none"]),
        ("\nother: 1", ["line 2", "other", "aipp_op"]),
        (
            "aipp_op { aipp_mode: dynamic max_src_image_size: 9 }",
            ["line 1", "dynamic", "not supported"],
        ),
        ("aipp_op { input_format: RGB888_U8 }", ["line 1", "aipp_mode", "missing"]),
        ("\n\naipp_op { aipp_mode: static }", ["line 3", "input_format", "missing"]),
        (
            "aipp_op { aipp_mode: static input_format: YUYV_U8 }",
            ["YUYV_U8", "not supported", "RGB888_U8"],
        ),
        ("aipp_op { aipp_mode: static input_format: JPEG }", ["JPEG", "no format", "RGB888_U8"]),
        ("aipp_op { aipp_mode: static", ["line 1", "aipp_op", "not closed"]),
        ("aipp_op { aipp_mode: static } }", ["line 1", "'}'", "closes nothing"]),
        ("}", ["line 1", "'}'", "closes nothing"]),
        (
            "aipp_op { aipp_mode: static input_format: YUV420SP_U8 crop: true load_start_pos_w: 3 }",
            ["line 1", "'load_start_pos_w: 3'", "even"],
        ),
        (
            "aipp_op { aipp_mode: static input_format: YUV400_U8 csc_switch: true }",
            ["line 1", "'csc_switch: true'", "colours"],
        ),
    ] {
        let error = Aipp::parse(text).unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{text}: {error}");
    }
    let deep = "a {".repeat(100_000);
    assert!(Aipp::parse(&deep).unwrap_err().reason.contains("deep"));
}

#[test]
fn numbers_of_a_record_come_back() {
    for image in Aipp::parse(FULL).unwrap().images {
        let mut info = AippInfo {
            parameters: image,
            model_dtype: DType::Float16,
            model_format: Format::NHWC,
            model_dims: vec![-1, 3, 4, 5],
            image_dims: vec![-1, 240, 320, 3],
        };
        (info.parameters.rank, info.parameters.name) = (Some(2), Some("x".to_owned()));
        let numbers = record::write(&info);
        assert_eq!(record::read(&numbers, 2, "x"), Some(info));
        for end in 0..numbers.len() {
            assert_eq!(record::read(&numbers[..end], 2, "x"), None);
        }
    }
}
