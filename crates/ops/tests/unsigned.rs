//! Unsigned integers of more than 8 bits through the table: by IR name against plain formulas, and refused elsewhere.

use cairn_ops::{Arg, Memory, NodeArgs, Tensor, nodes, rows};
use cairn_tensor::parallel::SingleThread;
use cairn_tensor::{DType, Layout};
use std::cell::Cell;

const UNSIGNED: [DType; 3] = [DType::Uint16, DType::Uint32, DType::Uint64];

fn encode(dtype: DType, value: u64) -> Vec<u8> {
    let count = dtype.size_in_bytes().unwrap();
    value.to_le_bytes()[..count].to_vec()
}

fn decode(bytes: &[u8]) -> u64 {
    let mut whole = [0; 8];
    whole[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(whole)
}

/// What an operator makes of lines of elements of one type.
fn run(
    name: &str,
    dtype: DType,
    inputs: &[&[u64]],
    (out, count): (DType, usize),
    attributes: &[(String, Arg)],
) -> Result<Vec<u64>, String> {
    let layout = |dtype: DType, count: usize| Layout::contiguous(dtype, &[count]);
    let tensors: Vec<Option<Tensor>> = (inputs.iter().enumerate())
        .map(|(at, values)| Some(Tensor::new(layout(dtype, values.len()), (at + 1) << 20)))
        .collect();
    let outputs = [Tensor::new(layout(out, count), 9 << 20)];
    let node_args = NodeArgs { inputs: &tensors, outputs: &outputs, attributes };
    let plan = nodes()[name].plan(&node_args).map_err(|error| error.text().to_owned())?;
    let bytes = |values: &[u64]| -> Vec<Cell<u8>> {
        values.iter().flat_map(|value| encode(dtype, *value)).map(Cell::new).collect()
    };
    let lines: Vec<Vec<Cell<u8>>> = inputs.iter().map(|values| bytes(values)).collect();
    let made: Vec<Cell<u8>> = vec![Cell::new(0x5a); out.size_in_bytes().unwrap() * count];
    let uses: Vec<&[Cell<u8>]> = (plan.uses.iter())
        .map(|one| lines.get(one.argument.0).map_or(&made[..], |line| &line[..]))
        .collect();
    let workspace: Vec<Cell<u8>> = vec![Cell::new(0x77); plan.workspace + 64];
    let start = workspace.as_ptr().align_offset(64);
    let memory = Memory {
        uses: &uses,
        workspace: &workspace[start..start + plan.workspace],
        parallel: &SingleThread,
        sized: &|_, _| {},
        groups: &[],
        epilogue: None,
        overflow: Default::default(),
    };
    plan.run(&memory).map_err(|fault| fault.0)?;
    let made: Vec<u8> = made.iter().map(Cell::get).collect();
    Ok(made.chunks(out.size_in_bytes().unwrap()).map(decode).collect())
}

/// Numbers around the ends of a type, and some between.
fn numbers(dtype: DType) -> Vec<u64> {
    let most = u64::MAX >> (64 - dtype.bits().unwrap());
    vec![0, 1, 2, 3, 7, 40, most / 2, most / 2 + 1, most - 1, most]
}

fn pairs(dtype: DType) -> (Vec<u64>, Vec<u64>) {
    let all = numbers(dtype);
    let each = |f: fn(u64, u64) -> u64| -> Vec<u64> {
        all.iter().flat_map(|x| all.iter().map(move |y| f(*x, *y))).collect()
    };
    (each(|x, _| x), each(|_, y| y))
}

type Function = fn(u64, u64) -> u64;

#[test]
fn numbers_wrap_as_their_type_does() {
    let functions: [(&str, Function); 14] = [
        ("Add", |x, y| x.wrapping_add(y)),
        ("Sub", |x, y| x.wrapping_sub(y)),
        ("Mul", |x, y| x.wrapping_mul(y)),
        ("RealDiv", |x, y| x.checked_div(y).unwrap_or(0)),
        ("TruncateDiv", |x, y| x.checked_div(y).unwrap_or(0)),
        ("FloorDiv", |x, y| x.checked_div(y).unwrap_or(0)),
        ("FloorMod", |x, y| x.checked_rem(y).unwrap_or(x)),
        ("Mod", |x, y| x.checked_rem(y).unwrap_or(0)),
        ("Maximum", u64::max),
        ("Minimum", u64::min),
        ("BitwiseAnd", |x, y| x & y),
        ("BitwiseXor", |x, y| x ^ y),
        ("LeftShift", |x, y| if y < 64 { x << y } else { 0 }),
        ("RightShift", |x, y| if y < 64 { x >> y } else { 0 }),
    ];
    for dtype in UNSIGNED {
        let (x, y) = pairs(dtype);
        let most = *numbers(dtype).last().unwrap();
        for (name, function) in functions {
            let made = run(name, dtype, &[&x, &y], (dtype, x.len()), &[]).unwrap();
            for (at, made) in made.iter().enumerate() {
                let expected = function(x[at], y[at]) & most;
                assert_eq!(*made, expected, "{name} of {} and {}, {dtype}", x[at], y[at]);
            }
        }
        let made = run("Pow", dtype, &[&[3, 2, most], &[4, 15, 2]], (dtype, 3), &[]).unwrap();
        assert_eq!(made, [81, 32768, 1]);
        let made = run("Invert", dtype, &[&[0, most]], (dtype, 2), &[]).unwrap();
        assert_eq!(made, [most, 0]);
        let made = run("Sign", dtype, &[&[0, 1, most]], (dtype, 3), &[]).unwrap();
        assert_eq!(made, [0, 1, 1]);
    }
}

#[test]
fn comparisons_take_the_highest_bit_for_a_number() {
    let functions: [(&str, Function); 6] = [
        ("Equal", |x, y| u64::from(x == y)),
        ("NotEqual", |x, y| u64::from(x != y)),
        ("Greater", |x, y| u64::from(x > y)),
        ("GreaterEqual", |x, y| u64::from(x >= y)),
        ("Less", |x, y| u64::from(x < y)),
        ("LessEqual", |x, y| u64::from(x <= y)),
    ];
    for dtype in UNSIGNED {
        let (x, y) = pairs(dtype);
        for (name, function) in functions {
            let made = run(name, dtype, &[&x, &y], (DType::Bool, x.len()), &[]).unwrap();
            let expected: Vec<u64> = x.iter().zip(&y).map(|(x, y)| function(*x, *y)).collect();
            assert_eq!(made, expected, "{name}, {dtype}");
        }
    }
}

#[test]
fn reductions_and_casts_take_them() {
    for dtype in UNSIGNED {
        let x = numbers(dtype);
        let most = *x.last().unwrap();
        let axes =
            [("axes".to_owned(), Arg::Ints(vec![0])), ("keep_dims".to_owned(), Arg::Flag(true))];
        let one = |name: &str| run(name, dtype, &[&x], (dtype, 1), &axes).unwrap()[0];
        assert_eq!(one("ReduceMaxD"), most);
        assert_eq!(one("ReduceMinD"), 0);
        assert_eq!(one("ReduceSumD"), x.iter().fold(0u64, |sum, x| sum.wrapping_add(*x)) & most);
        let to = |dtype: DType| [("dst_type".to_owned(), Arg::Int(dtype as i64))];
        let made = run("Cast", dtype, &[&x], (DType::Double, x.len()), &to(DType::Double)).unwrap();
        let expected: Vec<u64> = x.iter().map(|x| (*x as f64).to_bits()).collect();
        assert_eq!(made, expected);
    }
}

#[test]
fn other_types_beside_them_are_refused() {
    let tensor =
        |dtype, address: usize| Tensor::new(Layout::contiguous(dtype, &[4]), address << 20);
    let inputs = [Some(tensor(DType::Uint16, 1)), Some(tensor(DType::Int32, 2))];
    let node_args =
        NodeArgs { inputs: &inputs, outputs: &[tensor(DType::Int32, 3)], attributes: &[] };
    let error = nodes()["Add"].plan(&node_args).err().expect("two types");
    assert!(
        error.text().contains("x2 has elements of type int32: expected uint16"),
        "{}",
        error.text()
    );
}

/// Functions of aclnn document fewer types than nodes take.
#[test]
fn aclnn_functions_refuse_them() {
    let tensor = |address: usize| {
        Arg::Tensor(Tensor::new(Layout::contiguous(DType::Uint16, &[4]), address << 20))
    };
    let calls = [
        ("Add", vec![tensor(1), tensor(2), Arg::Int(1), tensor(3)]),
        ("Mul", vec![tensor(1), tensor(2), tensor(3)]),
        ("Maximum", vec![tensor(1), tensor(2), tensor(3)]),
        ("Abs", vec![tensor(1), tensor(2)]),
    ];
    for (name, args) in calls {
        let planned = rows()[name].plan(&["a", "b", "c", "d"], args.into());
        let error = planned.err().unwrap_or_else(|| panic!("{name} takes uint16"));
        assert!(error.text().contains("has elements of type uint16"), "{name}: {}", error.text());
    }
}
