//! Bytes as the options of sizes that `atc` takes.

use cairn_graph::offline::ShapeOptions;

/// Reads the lines of the bytes, if they are text, as `input_shape`, `input_shape_range`, `dynamic_batch_size`,
/// `dynamic_image_size` and `dynamic_dims`.
///
/// # Panics
/// When sizes and ranges differ in number, a range is empty, a gear is not positive, or an error does not name the
/// option's value.
pub fn shapes(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut lines = text.split('\n').map(str::to_owned);
    let mut next = || lines.next().unwrap_or_default();
    let texts: [String; 5] = std::array::from_fn(|_| next());
    let [input_shape, input_shape_range, dynamic_batch_size, dynamic_image_size, dynamic_dims] =
        texts.clone();
    let options = ShapeOptions {
        input_shape,
        input_shape_range,
        dynamic_batch_size,
        dynamic_image_size,
        dynamic_dims,
    };
    match options.parse() {
        Ok(options) => {
            for (name, ranges) in &options.ranges {
                assert_eq!(options.input_dims[name].len(), ranges.len(), "{text:?}");
                let is_range = |(low, high): &(i64, i64)| *low >= 0 && (*high == -1 || low <= high);
                assert!(ranges.iter().all(is_range), "{text:?}: {ranges:?}");
            }
            assert!(options.input_dims.values().flatten().all(|size| *size >= -1), "{text:?}");
            assert!(options.gears.values().iter().flatten().all(|size| *size > 0), "{text:?}");
            let dims: Vec<Vec<i64>> = options.input_dims.into_values().collect();
            let _ = options.gears.input_dims(&dims);
        }
        Err(error) => {
            let names = |text: &String| text.trim() == error.value.trim();
            assert!(texts.iter().any(names) && !error.reason.is_empty(), "{text:?}: {error:?}");
        }
    }
}
