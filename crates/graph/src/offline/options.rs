//! The options of a build as texts, as `atc` and `aclgrphBuildModel` take them.

use super::build::BuildOptions;
use super::gears::Gears;
use std::collections::BTreeMap;

/// An option that cannot be taken: its name, its value, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionError {
    /// The number of the message among those of the tools.
    pub code: &'static str,
    /// The option.
    pub option: &'static str,
    /// What it was set to.
    pub value: String,
    /// What is wrong with it.
    pub reason: String,
}

/// A value that cannot be taken.
const INVALID: &str = "E10001";
/// Options of which only one may be set.
const EXCLUSIVE: &str = "E10009";

/// The texts of options that say which sizes a model is built for; empty ones are not set.
#[derive(Clone, Debug, Default)]
pub struct ShapeOptions {
    /// `input_shape`: "a:1,3,224,224;b:-1,10"; "1~8" is a range; a scalar has no sizes.
    pub input_shape: String,
    /// `input_shape_range`: "a:[1~8,3,-1];b:[10]", the older form of ranges.
    pub input_shape_range: String,
    /// `dynamic_batch_size`: "1,2,4".
    pub dynamic_batch_size: String,
    /// `dynamic_image_size`: "416,416;832,832".
    pub dynamic_image_size: String,
    /// `dynamic_dims`: "1,3;2,4".
    pub dynamic_dims: String,
}

/// Sizes with the range of each.
type Ranged = (Vec<i64>, Vec<(i64, i64)>);

impl ShapeOptions {
    /// What the texts say.
    pub fn parse(&self) -> Result<BuildOptions, OptionError> {
        let mut options = BuildOptions::default();
        let shapes = parse_shapes("input_shape", &self.input_shape, ' ')?;
        let ranges = parse_shapes("input_shape_range", &self.input_shape_range, '[')?;
        if let Some(name) = ranges.keys().find(|name| shapes.contains_key(*name)) {
            return Err(OptionError {
                code: EXCLUSIVE,
                option: "input_shape_range",
                value: self.input_shape_range.clone(),
                reason: format!("'{name}' is in input_shape too"),
            });
        }
        for (name, (dims, range)) in shapes.into_iter().chain(ranges) {
            if dims.iter().any(|dim| *dim < 0) {
                options.ranges.insert(name.clone(), range);
            }
            options.input_dims.insert(name, dims);
        }
        let gears = self.gears()?;
        if gears != Gears::None && options.ranges.values().flatten().any(is_bounded) {
            return Err(OptionError {
                code: EXCLUSIVE,
                option: "input_shape",
                value: self.input_shape.clone(),
                reason: "ranges and gears exclude each other".to_owned(),
            });
        }
        if gears != Gears::None {
            options.ranges.clear();
        }
        options.gears = gears;
        Ok(options)
    }

    fn gears(&self) -> Result<Gears, OptionError> {
        let set: Vec<(&'static str, &str)> = [
            ("dynamic_batch_size", self.dynamic_batch_size.as_str()),
            ("dynamic_image_size", self.dynamic_image_size.as_str()),
            ("dynamic_dims", self.dynamic_dims.as_str()),
            ("input_shape_range", self.input_shape_range.as_str()),
        ]
        .into_iter()
        .filter(|(_, value)| !value.trim().is_empty())
        .collect();
        let (option, value) = match set[..] {
            [] | [("input_shape_range", _)] => return Ok(Gears::None),
            [one] => one,
            [(option, value), (other, _), ..] => {
                return Err(OptionError {
                    code: EXCLUSIVE,
                    option,
                    value: value.to_owned(),
                    reason: format!("{option} and {other} exclude each other"),
                });
            }
        };
        let wrong =
            |reason: String| OptionError { code: INVALID, option, value: value.to_owned(), reason };
        let lists: Result<Vec<Vec<i64>>, OptionError> =
            value.split(';').map(|list| numbers(list).map_err(wrong)).collect();
        let lists = lists?;
        Ok(match option {
            "dynamic_batch_size" => match &lists[..] {
                [sizes] => Gears::Batch(sizes.clone()),
                _ => return Err(wrong("expected sizes separated by commas".to_owned())),
            },
            "dynamic_image_size" => {
                let pairs = lists.iter().map(|size| size.as_slice().try_into().ok());
                match pairs.collect::<Option<Vec<[i64; 2]>>>() {
                    Some(pairs) => Gears::ImageSize(pairs),
                    None => {
                        return Err(wrong(
                            "expected pairs of height and width, separated by semicolons"
                                .to_owned(),
                        ));
                    }
                }
            }
            _ => Gears::Dims(lists),
        })
    }
}

fn is_bounded(range: &(i64, i64)) -> bool {
    range.0 != range.1 && *range != (1, -1)
}

fn numbers(text: &str) -> Result<Vec<i64>, String> {
    let number = |text: &str| {
        let text = text.trim();
        text.parse::<i64>()
            .ok()
            .filter(|size| *size > 0)
            .ok_or_else(|| format!("'{text}' is no positive number"))
    };
    text.split(',').map(number).collect()
}

/// "name:sizes;name:sizes"; a name may have colons, the last is the one before the sizes. A name alone is a scalar.
fn parse_shapes(
    option: &'static str,
    text: &str,
    bracket: char,
) -> Result<BTreeMap<String, Ranged>, OptionError> {
    let wrong =
        |reason: String| OptionError { code: INVALID, option, value: text.to_owned(), reason };
    let mut shapes = BTreeMap::new();
    let text = text.trim();
    for entry in text.split(';').map(str::trim).filter(|entry| !entry.is_empty()) {
        let (name, sizes) = match entry.rsplit_once(':') {
            Some(both) => both,
            // onnxruntime names scalars so.
            None if bracket != '[' && !entry.contains(',') => (entry, ""),
            None => return Err(wrong(format!("'{entry}' has no ':' between name and sizes"))),
        };
        let sizes = match bracket {
            '[' => sizes.trim().strip_prefix('[').and_then(|sizes| sizes.strip_suffix(']')),
            _ => Some(sizes),
        };
        let Some(sizes) = sizes else {
            return Err(wrong(format!("the sizes of '{entry}' are not in brackets")));
        };
        let ranged = parse_sizes(sizes).map_err(wrong)?;
        if shapes.insert(name.trim().to_owned(), ranged).is_some() {
            return Err(wrong(format!("'{}' is there twice", name.trim())));
        }
    }
    Ok(shapes)
}

fn parse_sizes(text: &str) -> Result<Ranged, String> {
    let (mut dims, mut ranges) = (Vec::new(), Vec::new());
    for size in text.split(',').map(str::trim) {
        if size.is_empty() && text.trim().is_empty() {
            break;
        }
        let number = |text: &str| {
            text.trim()
                .parse::<i64>()
                .map_err(|_| format!("'{size}' is neither a size nor a range"))
        };
        let (low, high) = match size.split_once('~') {
            Some((low, high)) => (number(low)?, number(high)?),
            None => match number(size)? {
                -1 => (1, -1),
                size => (size, size),
            },
        };
        if low < 0 || (high < low && high != -1) {
            return Err(format!("'{size}' is neither a size nor a range"));
        }
        dims.push(if low == high { low } else { -1 });
        ranges.push((low, high));
    }
    Ok((dims, ranges))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes(text: &str) -> ShapeOptions {
        ShapeOptions { input_shape: text.into(), ..ShapeOptions::default() }
    }

    #[test]
    fn shapes_and_ranges() {
        let options = shapes("a:1,3,8,8; b:0:-1,4~16 ;s:;t").parse().unwrap();
        assert_eq!(options.input_dims["a"], [1, 3, 8, 8]);
        assert_eq!(options.input_dims["b:0"], [-1, -1]);
        assert_eq!(options.ranges["b:0"], [(1, -1), (4, 16)]);
        assert_eq!(options.input_dims["s"], [0i64; 0]);
        assert_eq!(options.input_dims["t"], [0i64; 0]);
        assert_eq!(options.gears, Gears::None);
        let old = ShapeOptions {
            input_shape_range: "a:[1~8,3,-1];b:[10]".into(),
            ..ShapeOptions::default()
        };
        let options = old.parse().unwrap();
        assert_eq!(options.ranges["a"], [(1, 8), (3, 3), (1, -1)]);
        assert_eq!(options.input_dims["b"], [10]);
    }

    #[test]
    fn gears() {
        let mut options = shapes("a:-1,3");
        options.dynamic_batch_size = "1, 2,4".into();
        assert_eq!(options.parse().unwrap().gears, Gears::Batch(vec![1, 2, 4]));
        options.dynamic_dims = "1;2".into();
        let error = options.parse().unwrap_err();
        assert!(error.reason.contains("dynamic_dims"), "{error:?}");
        let mut images = shapes("a:1,3,-1,-1");
        images.dynamic_image_size = "4,5;6".into();
        assert_eq!(images.parse().unwrap_err().option, "dynamic_image_size");
        images.dynamic_image_size = "4,5;6,7".into();
        assert_eq!(images.parse().unwrap().gears, Gears::ImageSize(vec![[4, 5], [6, 7]]));
    }

    #[test]
    fn wrong_texts_are_named() {
        for (text, part) in [
            ("a1,3", "no ':'"),
            ("a:1,x", "'x'"),
            ("a:5~3", "'5~3'"),
            ("a:1;a:2", "twice"),
            ("a:-2", "'-2'"),
        ] {
            let error = shapes(text).parse().unwrap_err();
            assert!(error.reason.contains(part) && error.value == text, "{error:?}");
        }
        let mut both = shapes("a:-1,2");
        both.input_shape_range = "a:[1]".into();
        assert_eq!(both.parse().unwrap_err().code, EXCLUSIVE);
        let mut zero = shapes("a:-1");
        zero.dynamic_batch_size = "0,1".into();
        assert!(zero.parse().unwrap_err().reason.contains("'0'"));
    }
}
