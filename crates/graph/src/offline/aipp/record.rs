//! Parameters of images in the description of a model file: numbers of 64 bits, in the order of the fields.

use super::{AippInfo, AippParameters, ColorConversion, Crop, ImageFormat, Padding};
use cairn_tensor::{DType, Format};

/// The parameters as numbers, without the name of the input, which the description has.
pub fn write(info: &AippInfo) -> Vec<i64> {
    let one = &info.parameters;
    let bits = |value: f32| i64::from(value.to_bits());
    let mut numbers = vec![one.format.number().into(), one.source[0], one.source[1]];
    numbers.push(one.crop.is_some().into());
    let crop = one.crop.unwrap_or(Crop { start: [0; 2], size: [0; 2] });
    numbers.extend(crop.start.into_iter().chain(crop.size));
    numbers.extend([one.swaps_rbuv, one.swaps_ax].map(i64::from));
    numbers.push(one.conversion.is_some().into());
    let none = ColorConversion { matrix: [[0; 3]; 3], input_bias: [0; 3], output_bias: [0; 3] };
    let conversion = one.conversion.unwrap_or(none);
    let ColorConversion { matrix, input_bias, output_bias } = conversion;
    let colors = matrix.into_iter().flatten().chain(input_bias).chain(output_bias);
    numbers.extend(colors.chain(one.mean).map(i64::from));
    numbers.extend(one.min.into_iter().chain(one.factor).map(bits));
    numbers.push(one.padding.is_some().into());
    let none = Padding { rows: [0; 2], columns: [0; 2], value: 0.0 };
    let padding = one.padding.unwrap_or(none);
    numbers.extend(padding.rows.into_iter().chain(padding.columns));
    numbers.push(bits(padding.value));
    numbers.extend([info.model_dtype as i64, info.model_format.0.into()]);
    for dims in [&info.model_dims, &info.image_dims] {
        numbers.push(dims.len() as i64);
        numbers.extend(dims);
    }
    numbers
}

/// Reads what `write` wrote; `None` for other numbers.
pub fn read(numbers: &[i64], rank: usize, name: &str) -> Option<AippInfo> {
    let mut rest = Numbers(numbers);
    let number = rest.next()?;
    let format = ImageFormat::ALL.iter().find(|(_, _, one)| i64::from(*one) == number)?.0;
    let source = rest.array()?;
    let crops = rest.flag()?;
    let crop = Crop { start: rest.array()?, size: rest.array()? };
    let (swaps_rbuv, swaps_ax) = (rest.flag()?, rest.flag()?);
    let converts = rest.flag()?;
    let matrix = [rest.ints()?, rest.ints()?, rest.ints()?];
    let conversion =
        ColorConversion { matrix, input_bias: rest.ints()?, output_bias: rest.ints()? };
    let (mean, min, factor) = (rest.ints()?, rest.floats()?, rest.floats()?);
    let pads = rest.flag()?;
    let (rows, columns, [value]) = (rest.array()?, rest.array()?, rest.floats()?);
    let model_dtype = DType::from_number(i32::try_from(rest.next()?).ok()?)?;
    let model_format = Format(i32::try_from(rest.next()?).ok()?);
    let (model_dims, image_dims) = (rest.list()?, rest.list()?);
    let parameters = AippParameters {
        rank: Some(rank),
        name: Some(name.to_owned()),
        format,
        source,
        crop: crops.then_some(crop),
        swaps_rbuv,
        swaps_ax,
        conversion: converts.then_some(conversion),
        mean,
        min,
        factor,
        padding: pads.then_some(Padding { rows, columns, value }),
    };
    Some(AippInfo { parameters, model_dtype, model_format, model_dims, image_dims })
}

struct Numbers<'a>(&'a [i64]);

impl Numbers<'_> {
    fn next(&mut self) -> Option<i64> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn flag(&mut self) -> Option<bool> {
        self.next().map(|number| number != 0)
    }

    fn array<const N: usize>(&mut self) -> Option<[i64; N]> {
        let (taken, rest) = self.0.split_at_checked(N)?;
        self.0 = rest;
        taken.try_into().ok()
    }

    fn ints<const N: usize>(&mut self) -> Option<[i32; N]> {
        Some(self.array::<N>()?.map(|number| number as i32))
    }

    fn floats<const N: usize>(&mut self) -> Option<[f32; N]> {
        Some(self.array::<N>()?.map(|number| f32::from_bits(number as u32)))
    }

    fn list(&mut self) -> Option<Vec<i64>> {
        let count = usize::try_from(self.next()?).ok()?;
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken.to_vec())
    }
}
