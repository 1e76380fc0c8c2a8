//! One step of an LSTM after its products, and its gradients.
//!
//! Blocks are input gate, forget gate, candidate, output gate: as the documentation of the gradients and every caller have it.
//! The page of the forward function names candidate and forget gate in the other order in one place.

use super::super::inputs::UnaliasedInput;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::table::{Row, aclnn};
use cairn_tensor::DType;
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::recurrent::{Cell, CellGradients, cell, cell_gradients, column_sums};

const TYPES: &[DType] = &[DType::Float, DType::Float16];

/// Rows and elements of a state.
fn sizes(call: &Call<'_>, at: usize, state: &UnaliasedInput) -> Result<[usize; 2]> {
    call.expect_dtype(at, state, TYPES)?;
    match *state.dims() {
        [rows, hidden] if hidden.checked_mul(4).is_some() => Ok([rows, hidden]),
        _ => {
            let name = call.parameter(at);
            Err(Error::invalid(format!("{name} ({}) must have two dimensions", **state)))
        }
    }
}

/// Arguments: products of input, of hidden state, cell state, two biases, out, cell state, gates.
fn forward(call: &mut Call<'_>) -> Result<Plan> {
    let outs = [call.output(5)?, call.output(6)?, call.output(7)?];
    let out_refs = [&outs[0], &outs[1], &outs[2]];
    let c = call.read(2, &out_refs)?;
    let [rows, hidden] = sizes(call, 2, &c)?;
    let (state, gate_dims) = ([rows, hidden], [rows, 4 * hidden]);
    let products = [call.read(0, &out_refs)?, call.read(1, &out_refs)?];
    let mut bias = [None; 2];
    for (at, bias) in [3, 4].into_iter().zip(&mut bias) {
        if call.has(at) {
            let read = call.read(at, &out_refs)?;
            call.expect_dims(at, &read, &[4 * hidden])?;
            call.expect_same(at, &read, 2, &c)?;
            *bias = Some(read);
        }
    }
    if bias[0].is_some() != bias[1].is_some() {
        let (a, b) = (call.parameter(3), call.parameter(4));
        return Err(Error::invalid(format!("one of {a} and {b} is null, the other is not")));
    }
    for (at, read) in products.iter().enumerate() {
        call.expect_dims(at, read, &gate_dims)?;
        call.expect_same(at, read, 2, &c)?;
    }
    for (at, (out, dims)) in outs.iter().zip([&state, &state, &gate_dims]).enumerate() {
        call.expect_dims(5 + at, out, dims)?;
        call.expect_same(5 + at, out, 2, &c)?;
    }
    if rows * hidden == 0 {
        return call.nothing();
    }
    call.plan(move |memory| {
        let task = Cell {
            products: products.map(|one| one.view(memory)),
            bias: bias.map(|one| one.map(|one| one.view(memory))),
            c: c.view(memory),
            after: [memory.out(&outs[0]), memory.out(&outs[1])],
            gates: memory.out(&outs[2]),
        };
        cell(memory.parallel, &task);
        Ok(())
    })
}

/// Arguments: gradients of both states, cell state before and after, gates, whether there is a bias, gradients of the products,
/// of the cell state before, of the bias.
fn backward(call: &mut Call<'_>) -> Result<Plan> {
    let has_bias = call.flag(5)?;
    let (products, before) = (call.output(6)?, call.output(7)?);
    let dbias = if has_bias { Some(call.output(8)?) } else { None };
    let mut out_refs = vec![&products, &before];
    out_refs.extend(dbias.as_ref());
    let cells = [call.read(2, &out_refs)?, call.read(3, &out_refs)?];
    let [rows, hidden] = sizes(call, 2, &cells[0])?;
    let (state, gate_dims) = ([rows, hidden], [rows, 4 * hidden]);
    let mut after = [None; 2];
    for (at, after) in after.iter_mut().enumerate() {
        if call.has(at) {
            let read = call.read(at, &out_refs)?;
            call.expect_dims(at, &read, &state)?;
            call.expect_same(at, &read, 2, &cells[0])?;
            *after = Some(read);
        }
    }
    let gates = call.read(4, &out_refs)?;
    for (at, read, dims) in [(3, &cells[1], &state), (4, &gates, &gate_dims)] {
        call.expect_dims(at, read, dims)?;
        call.expect_same(at, read, 2, &cells[0])?;
    }
    for (at, out, dims) in [(6, &products, &gate_dims), (7, &before, &state)] {
        call.expect_dims(at, out, dims)?;
        call.expect_same(at, out, 2, &cells[0])?;
    }
    if let Some(out) = &dbias {
        call.expect_dims(8, out, &[4 * hidden])?;
        call.expect_same(8, out, 2, &cells[0])?;
    }
    if hidden == 0 {
        return call.nothing();
    }
    let sums = dbias.map(|out| {
        let rows = call.scratch(DType::Float, &gate_dims);
        (out, rows, call.scratch(DType::Float, &[4 * hidden]))
    });
    call.plan(move |memory| {
        let task = CellGradients {
            after: after.map(|one| one.map(|one| one.view(memory))),
            cells: cells.map(|one| one.view(memory)),
            gates: gates.view(memory),
            products: memory.out(&products),
            before: memory.out(&before),
            sums: sums.map(|(_, rows, _)| memory.scratch(&rows)),
        };
        cell_gradients(memory.parallel, &task);
        if let Some((out, rows, sums)) = &sums {
            let (rows, sums) = (memory.scratch(rows), memory.scratch(sums));
            column_sums(memory.parallel, sums, rows.view());
            copy(memory.parallel, memory.out(out), sums.view());
        }
        Ok(())
    })
}

pub const ROWS: &[Row] =
    &[aclnn("ThnnFusedLstmCell", forward), aclnn("ThnnFusedLstmCellBackward", backward)];
