//! `tract-chain`: runs a chain of additions in `tract`, once for each line that asks for it.
//!
//! A program of its own, so that tract is built as its users build it, and only where it is wanted. Lines:
//! `load chain:LENGTH:WIDTH FILE` with the numbers of both inputs, answered with the number of nodes that are
//! left after tract's optimisation; `run`, answered with nanoseconds; `output`, answered with numbers.

use std::io::{BufRead, Write};
use std::time::Instant;
use tract_core::internal::*;
use tract_core::ops::math::add;

/// A chain that is ready to run, on one thread.
struct Chain {
    state: TypedSimpleState,
    inputs: TVec<TValue>,
    nodes: usize,
}

impl Chain {
    /// `x + b + b + ..`, `length` times, over vectors of `width`; `numbers` are those of `x`, then of `b`.
    fn new(length: usize, width: usize, numbers: &[f32]) -> TractResult<Chain> {
        let mut model = TypedModel::default();
        let x = model.add_source("x", f32::fact([width]))?;
        let b = model.add_source("b", f32::fact([width]))?;
        let mut y = x;
        for at in 0..length {
            y = model.wire_node(format!("add{at}"), add(), &[y, b])?[0];
        }
        model.select_output_outlets(&[y])?;
        let optimised = model.into_optimized()?;
        let nodes = optimised.nodes().len();
        let state = optimised.into_runnable()?.spawn()?;
        let inputs = numbers.chunks(width).map(|part| tensor1(part).into_tvalue()).collect();
        Ok(Chain { state, inputs, nodes })
    }

    fn run(&mut self) -> TractResult<TVec<TValue>> {
        self.state.run(self.inputs.clone())
    }
}

fn load(kind: &str, file: &str) -> TractResult<Chain> {
    let sizes: Vec<usize> = kind.split(':').skip(1).map(str::parse).collect::<Result<_, _>>()?;
    let [length, width] = sizes[..] else { bail!("{kind} is not chain:LENGTH:WIDTH") };
    let number = |one: &[u8]| f32::from_le_bytes([one[0], one[1], one[2], one[3]]);
    let numbers: Vec<f32> = std::fs::read(file)?.chunks_exact(4).map(number).collect();
    Chain::new(length, width, &numbers)
}

fn main() -> TractResult<()> {
    let mut chain: Option<Chain> = None;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        let answer = match (&words[..], &mut chain) {
            (["load", kind, file], _) => chain.insert(load(kind, file)?).nodes.to_string(),
            (["run"], Some(chain)) => {
                let start = Instant::now();
                let outputs = chain.run()?;
                let took = start.elapsed().as_nanos();
                drop(outputs);
                took.to_string()
            }
            (["output"], Some(chain)) => {
                let outputs = chain.run()?;
                let plain = outputs[0].as_plain_ram().context("numbers in memory")?;
                format!("{:?}", plain.as_slice::<f32>()?)
            }
            _ => bail!("not understood: {line}"),
        };
        println!("{answer}");
        std::io::stdout().flush()?;
    }
    Ok(())
}
