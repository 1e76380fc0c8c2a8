//! The gated delta rule, step by step from states in a cache, or for whole sequences.

use crate::call::Call;
use crate::error::{Error, Fault, Result};
use crate::family::inputs::UnaliasedInput;

use crate::infer::Infer;
use crate::plan::{Memory, Operand, Plan};
use crate::table::ArgSource::{A, Attr, O};

use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::access::PositionAccess;
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::delta_rule::{LONGEST_KEY, Sequence, Steps, run};
use cairn_tensor::{DType, Layout};

const TYPES: &[DType] = &[DType::Bf16, DType::Float16, DType::Float];

/// The inputs that both functions have: query, key, value, beta, gate, gate of keys.
#[derive(Clone, Copy)]
struct Inputs {
    query: UnaliasedInput,
    key: UnaliasedInput,
    value: UnaliasedInput,
    beta: UnaliasedInput,
    gate: Option<UnaliasedInput>,
    key_gate: Option<UnaliasedInput>,
    heads: usize,
}

impl Inputs {
    /// Reads the first four arguments, and the gates at these indices.
    fn read(call: &mut Call<'_>, gates: [Option<usize>; 2], outs: &[&Operand]) -> Result<Inputs> {
        let (query, key) = (call.read(0, outs)?, call.read(1, outs)?);
        let (value, beta) = (call.read(2, outs)?, call.read(3, outs)?);
        call.expect_dtype(0, &query, TYPES)?;
        for (at, one) in [(1, &key), (2, &value), (3, &beta)] {
            call.expect_same(at, one, 0, &query)?;
        }
        let (&[steps, key_heads, length], &[_, heads, _]) = (key.dims(), value.dims()) else {
            let (name, dims) = (call.parameter(1), key.dims());
            return Err(Error::invalid(format!(
                "{name} has the sizes {dims:?}: expected steps, heads and features"
            )));
        };
        call.expect_dims(0, &query, key.dims())?;
        call.expect_dims(2, &value, &[steps, heads, value.dims()[2]])?;
        call.expect_dims(3, &beta, &[steps, heads])?;
        if key_heads == 0 || !heads.is_multiple_of(key_heads) || length > LONGEST_KEY {
            let name = call.parameter(1);
            return Err(Error::invalid(format!(
                "{name} has {key_heads} heads of {length}: expected a divisor of {heads}, and at most {LONGEST_KEY}"
            )));
        }
        let gate = |call: &mut Call<'_>, at: Option<usize>, dims: &[usize]| {
            let Some(at) = at.filter(|at| call.has(*at)) else { return Ok(None) };
            let read = call.read(at, outs)?;
            call.expect_dtype(at, &read, &[DType::Float])?;
            call.expect_dims(at, &read, dims)?;
            Ok(Some(read))
        };
        let (gate, key_gate) = (
            gate(call, gates[0], &[steps, heads])?,
            gate(call, gates[1], &[steps, heads, length])?,
        );
        Ok(Inputs { query, key, value, beta, gate, key_gate, heads })
    }

    /// The sizes of a state.
    fn state(&self) -> [usize; 3] {
        [self.heads, self.value.dims()[2], self.key.dims()[2]]
    }

    fn steps<'a>(&self, memory: &Memory<'a>, out: &Operand, scale: f32) -> Steps<'a> {
        Steps {
            query: self.query.view(memory),
            key: self.key.view(memory),
            value: self.value.view(memory),
            beta: self.beta.view(memory),
            gate: self.gate.map(|one| one.view(memory)),
            key_gate: self.key_gate.map(|one| one.view(memory)),
            out: memory.out(out),
            scale,
        }
    }
}

/// The number of steps of each sequence, which must be all of them together.
fn check_lengths(
    name: &str,
    lengths: &PositionAccess<'_>,
    count: usize,
    steps: usize,
) -> std::result::Result<(), Fault> {
    let mut total = 0i64;
    for at in 0..count {
        let length: i64 = lengths.get(&[at]);
        if length < 0 {
            return Err(Fault(format!("{name}[{at}] = {length} is negative")));
        }
        total += length;
    }
    match total == steps as i64 {
        true => Ok(()),
        false => Err(Fault(format!("{name} has {total} steps in all: expected {steps}"))),
    }
}

/// The steps of a sequence, counted from the lengths of those before it.
fn steps_of(lengths: &PositionAccess<'_>, number: usize, steps: usize) -> (usize, usize) {
    let length = |at: usize| lengths.get::<i64>(&[at]).max(0) as usize;
    let start = (0..number).map(length).sum::<usize>().min(steps);
    (start, (start + length(number)).min(steps))
}

/// Arguments: query, key, value, beta, states (read and written), lengths, states of steps, gate, gate of keys, accepted steps,
/// scale, out, states after all steps (by name, in place of those that are written).
fn recurrent(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(11)?;
    let states = if call.has(12) { call.output(12)? } else { call.inout(4)? };
    let outs = [&out, &states];
    let before = match call.has(12) {
        true => {
            let read = call.tensor(4)?;
            call.expect_dims(12, &states, read.dims())?;
            call.expect_same(12, &states, 4, &read)?;
            Some(call.unaliased(read, &[&out]))
        }
        false => None,
    };
    let inputs = Inputs::read(call, [Some(7), Some(8)], &outs)?;
    call.expect_dims(11, &out, inputs.value.dims())?;
    call.expect_same(11, &out, 0, &inputs.query)?;
    call.expect_dtype(4, &states, &[inputs.query.dtype, DType::Float])?;
    let [heads, rows, length] = inputs.state();
    let blocks = states.dims().first().copied().unwrap_or(0);
    call.expect_dims(4, &states, &[blocks, heads, rows, length])?;
    let steps = inputs.key.dims()[0];
    let numbers = |call: &mut Call<'_>, at: usize, count: Option<usize>| {
        let read = call.read(at, &outs)?;
        call.expect_dtype(at, &read, &[DType::Int32])?;
        let count = count.unwrap_or(read.dims().first().copied().unwrap_or(0));
        call.expect_dims(at, &read, &[count])?;
        Ok(read)
    };
    let lengths = numbers(call, 5, None)?;
    let count = lengths.dims()[0];
    let places = numbers(call, 6, Some(steps))?;
    let accepted = match call.has(9) {
        true => Some(numbers(call, 9, Some(count))?),
        false => None,
    };
    let scale = call.float(10)? as f32;
    if before.is_none() {
        call.touch_by_index(&states);
    }
    let names = [5, 6, 9].map(|at| call.parameter(at));
    call.plan(move |memory| {
        let (lengths, places) =
            (PositionAccess::new(lengths.view(memory)), PositionAccess::new(places.view(memory)));
        let accepted = accepted.map(|read| PositionAccess::new(read.view(memory)));
        check_lengths(names[0], &lengths, count, steps)?;
        for step in 0..steps {
            let value: i64 = places.get(&[step]);
            if !(0..blocks as i64).contains(&value) {
                let (name, last) = (names[1], blocks as i64 - 1);
                return Err(Fault(format!("{name}[{step}] = {value} is outside 0 to {last}")));
            }
        }
        if let Some(accepted) = &accepted {
            for at in 0..count {
                let (value, (start, end)) =
                    (accepted.get::<i64>(&[at]), steps_of(&lengths, at, steps));
                if !(1..=(end - start) as i64).contains(&value) {
                    let (name, last) = (names[2], end - start);
                    return Err(Fault(format!("{name}[{at}] = {value} is outside 1 to {last}")));
                }
            }
        }
        let place = |step: usize| (places.get::<i64>(&[step]).max(0) as usize).min(blocks - 1);
        let sequence = |number: usize| {
            let (start, end) = (number < count).then(|| steps_of(&lengths, number, steps))?;
            let taken = accepted.map_or(1, |one| one.get::<i64>(&[number]).max(1) as usize);
            let first = (start + taken - 1).min(steps.saturating_sub(1));
            Some(Sequence { start, end, first_state: if steps > 0 { place(first) } else { 0 } })
        };
        let tensors = inputs.steps(memory, &out, scale);
        let target = memory.out(&states);
        if let Some(before) = before {
            copy(memory.parallel, target, before.view(memory));
        }
        let after = |_: usize, step: usize| Some(place(step));
        run(memory.parallel, &tensors, target.view(), target, sequence, after);
        Ok(())
    })
}

/// Arguments: query, key, value, beta, first states, lengths, gate, scale, out, last states.
fn chunked(call: &mut Call<'_>) -> Result<Plan> {
    let (out, last) = (call.output(8)?, call.output(9)?);
    let outs = [&out, &last];
    let inputs = Inputs::read(call, [Some(6), None], &outs)?;
    call.expect_dims(8, &out, inputs.value.dims())?;
    call.expect_same(8, &out, 0, &inputs.query)?;
    let first = call.read(4, &outs)?;
    call.expect_dtype(4, &first, &[inputs.query.dtype, DType::Float])?;
    call.expect_dtype(9, &last, &[inputs.query.dtype, DType::Float])?;
    let [heads, rows, length] = inputs.state();
    let lengths = call.read(5, &outs)?;
    call.expect_dtype(5, &lengths, &[DType::Int32])?;
    let count = lengths.dims().first().copied().unwrap_or(0);
    call.expect_dims(5, &lengths, &[count])?;
    for (at, one) in [(4, *first), (9, *last.layout())] {
        call.expect_dims(at, &one, &[count, heads, rows, length])?;
    }
    let (scale, steps) = (call.float(7)? as f32, inputs.key.dims()[0]);
    let name = call.parameter(5);
    call.plan(move |memory| {
        let lengths = PositionAccess::new(lengths.view(memory));
        check_lengths(name, &lengths, count, steps)?;
        let first = first.view(memory);
        // Of a sequence without steps the state stays as it is.
        copy(memory.parallel, memory.out(&last), first);
        let sequence = |number: usize| {
            let (start, end) = (number < count).then(|| steps_of(&lengths, number, steps))?;
            Some(Sequence { start, end, first_state: number })
        };
        let after = |number: usize, step: usize| {
            (step + 1 == steps_of(&lengths, number, steps).1).then_some(number)
        };
        let tensors = inputs.steps(memory, &out, scale);
        run(memory.parallel, &tensors, first, memory.out(&last), sequence, after);
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] =
    &[aclnn("RecurrentGatedDeltaRule", recurrent), aclnn("ChunkGatedDeltaRule", chunked)];

/// Results like the values, and the states.
fn outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![call.layout(2)?.packed(), call.layout(4)?.packed()])
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[node(
    "RecurrentGatedDeltaRule",
    &[
        "query",
        "key",
        "value",
        "beta",
        "state",
        "actual_seq_lengths",
        "ssm_state_indices",
        "g?",
        "gk?",
        "num_accepted_tokens?",
    ],
    &["out", "state"],
    Infer::By(outputs),
    recurrent,
    &[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        A(7),
        A(8),
        A(9),
        Attr("scale_value", AttrDefault::Float(1.0)),
        O(0),
        O(1),
    ],
)];
