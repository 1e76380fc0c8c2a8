//! Plain reductions, element by element, and data to reduce.

use cairn_comm::{DataType, Reduction};
use half::{bf16, f16};

/// Types that can be reduced.
pub const REDUCED: [DataType; 13] = [
    DataType::Int8,
    DataType::Int16,
    DataType::Int32,
    DataType::Int64,
    DataType::Int128,
    DataType::Uint8,
    DataType::Uint16,
    DataType::Uint32,
    DataType::Uint64,
    DataType::Float16,
    DataType::Bfloat16,
    DataType::Float32,
    DataType::Float64,
];

/// Whether HCCL has this reduction of this type.
pub fn is_supported(data_type: DataType, reduction: Reduction) -> bool {
    reduction != Reduction::Product || !matches!(data_type, DataType::Int16 | DataType::Bfloat16)
}

/// Numbers that depend on nothing but these.
pub fn noise(seed: u64, rank: u32, at: u64) -> u64 {
    let mut x = seed ^ (u64::from(rank) << 40) ^ at.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x
}

/// Elements of a rank: whole range of integers, real numbers of all signs, some NaN, infinities and zeros.
pub fn elements(data_type: DataType, seed: u64, rank: u32, count: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(count * data_type.bytes() as usize);
    for at in 0..count as u64 {
        let number = noise(seed, rank, at);
        let real = match number % 97 {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => -0.0,
            3 => 0.0,
            _ => (number % 20011) as f64 / 613.0 - 16.0,
        };
        match data_type {
            DataType::Float16 => bytes.extend(f16::from_f64(real).to_le_bytes()),
            DataType::Bfloat16 => bytes.extend(bf16::from_f64(real).to_le_bytes()),
            DataType::Float32 => bytes.extend((real as f32).to_le_bytes()),
            DataType::Float64 => bytes.extend(real.to_le_bytes()),
            _ => {
                let wide = (u128::from(number) << 64 | u128::from(noise(seed + 1, rank, at)))
                    .to_le_bytes();
                bytes.extend(&wide[..data_type.bytes() as usize]);
            }
        }
    }
    bytes
}

macro_rules! integers {
    ($type:ty, $inputs:expr, $reduction:expr) => {{
        let value = |input: &Vec<u8>, at: usize| {
            const ITEM: usize = size_of::<$type>();
            <$type>::from_le_bytes(input[at * ITEM..][..ITEM].try_into().unwrap())
        };
        let count = $inputs[0].len() / size_of::<$type>();
        let fold = |a: $type, b: $type| match $reduction {
            Reduction::Sum => a.wrapping_add(b),
            Reduction::Product => a.wrapping_mul(b),
            Reduction::Max => a.max(b),
            Reduction::Min => a.min(b),
        };
        (0..count)
            .flat_map(|at| {
                $inputs.iter().map(|input| value(input, at)).reduce(fold).unwrap().to_le_bytes()
            })
            .collect()
    }};
}

macro_rules! reals {
    ($stored:ty, $computed:ty, $inputs:expr, $reduction:expr, $widen:expr, $narrow:expr) => {{
        const ITEM: usize = size_of::<$stored>();
        let value = |input: &Vec<u8>, at: usize| -> $computed {
            $widen(<$stored>::from_le_bytes(input[at * ITEM..][..ITEM].try_into().unwrap()))
        };
        let fold = |a: $computed, b: $computed| match $reduction {
            Reduction::Sum => a + b,
            Reduction::Product => a * b,
            _ if a.is_nan() || b.is_nan() => <$computed>::NAN,
            // Of two zeros the negative one, as kernels have it.
            _ if a == 0.0 && b == 0.0 => {
                if a.is_sign_negative() {
                    a
                } else {
                    b
                }
            }
            Reduction::Max => a.max(b),
            Reduction::Min => a.min(b),
        };
        (0..$inputs[0].len() / ITEM)
            .flat_map(|at| {
                let all = $inputs.iter().map(|input| value(input, at)).reduce(fold).unwrap();
                let narrow: $stored = $narrow(all);
                narrow.to_le_bytes()
            })
            .collect()
    }};
}

/// The reduction in rank order, half types in `f32` with one rounding.
pub fn reduce(data_type: DataType, reduction: Reduction, inputs: &[Vec<u8>]) -> Vec<u8> {
    match data_type {
        DataType::Int8 => integers!(i8, inputs, reduction),
        DataType::Int16 => integers!(i16, inputs, reduction),
        DataType::Int32 => integers!(i32, inputs, reduction),
        DataType::Int64 => integers!(i64, inputs, reduction),
        DataType::Int128 => integers!(i128, inputs, reduction),
        DataType::Uint8 => integers!(u8, inputs, reduction),
        DataType::Uint16 => integers!(u16, inputs, reduction),
        DataType::Uint32 => integers!(u32, inputs, reduction),
        DataType::Uint64 => integers!(u64, inputs, reduction),
        DataType::Float16 => reals!(f16, f32, inputs, reduction, f16::to_f32, f16::from_f32),
        DataType::Bfloat16 => reals!(bf16, f32, inputs, reduction, bf16::to_f32, bf16::from_f32),
        DataType::Float32 => reals!(f32, f32, inputs, reduction, |x| x, |x| x),
        DataType::Float64 => reals!(f64, f64, inputs, reduction, |x| x, |x| x),
        _ => panic!("{data_type:?} is only moved"),
    }
}

/// Whether two buffers are equal, any NaN being equal to any other.
pub fn equal(data_type: DataType, a: &[u8], b: &[u8]) -> bool {
    let item = data_type.bytes() as usize;
    let is_nan = |x: &[u8]| match data_type {
        DataType::Float16 => f16::from_le_bytes(x.try_into().unwrap()).is_nan(),
        DataType::Bfloat16 => bf16::from_le_bytes(x.try_into().unwrap()).is_nan(),
        DataType::Float32 => f32::from_le_bytes(x.try_into().unwrap()).is_nan(),
        DataType::Float64 => f64::from_le_bytes(x.try_into().unwrap()).is_nan(),
        _ => false,
    };
    a.len() == b.len()
        && a.chunks(item).zip(b.chunks(item)).all(|(x, y)| x == y || is_nan(x) && is_nan(y))
}
