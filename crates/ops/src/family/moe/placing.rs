//! Experts that have several places: each token's experts become places, and those that matter little are left out.

use crate::call::Call;
use crate::error::{Error, Fault, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, O};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::access::{PositionAccess, PositionAccessMut};
use cairn_tensor::{DType, Layout};

// Arguments: experts, places of each expert, weights of experts, thresholds, tokens that count, rank, ranks, mode, places, experts
// that are kept.
const EXPERTS: usize = 0;
const PLACES: usize = 1;
const WEIGHTS: usize = 2;
const THRESHOLDS: usize = 3;
const TOKENS: usize = 4;
const RANK: usize = 5;
const RANKS: usize = 6;
const MODE: usize = 7;
const OUT: usize = 8;
const KEPT: usize = 9;

/// Which of the places of an expert a token goes to.
#[derive(Clone, Copy)]
enum Choice {
    /// The same for all tokens of a rank.
    ByRank { rank: i64, ranks: i64 },
    /// One after the other.
    ByToken,
}

impl Choice {
    fn read(call: &Call<'_>) -> Result<Choice> {
        let wrong = |at: usize, value: i64, low: i64, high: i64| {
            let name = call.parameter(at);
            Err(Error::invalid(format!("{name} = {value} is outside {low} to {high}")))
        };
        match call.int(MODE)? {
            0 => {
                let (rank, ranks) = (call.int(RANK)?, call.int(RANKS)?);
                if !(2..=768).contains(&ranks) {
                    return wrong(RANKS, ranks, 2, 768);
                }
                if !(0..ranks).contains(&rank) {
                    return wrong(RANK, rank, 0, ranks - 1);
                }
                Ok(Choice::ByRank { rank, ranks })
            }
            1 => Ok(Choice::ByToken),
            other => wrong(MODE, other, 0, 1),
        }
    }

    /// The place, from 0 on, of an expert that has `count`.
    fn place(self, token: usize, count: i64) -> i64 {
        match self {
            _ if count == 1 => 0,
            Choice::ByRank { rank, ranks } => rank / ((ranks + count - 1) / count),
            Choice::ByToken => token as i64 % count,
        }
    }
}

/// See the top of the file for the arguments.
fn update_experts(call: &mut Call<'_>) -> Result<Plan> {
    let choice = Choice::read(call)?;
    let pruned = call.has(WEIGHTS);
    for at in [THRESHOLDS, TOKENS] {
        if call.has(at) != pruned && (at == THRESHOLDS || !pruned) {
            let (name, other) = (call.parameter(at), call.parameter(WEIGHTS));
            let what = if call.has(at) { "there" } else { "null" };
            return Err(Error::invalid(format!(
                "{name} is {what}, but {other} is not: expected both, or neither"
            )));
        }
    }
    let out = call.output(OUT)?;
    let kept = if pruned { Some(call.output(KEPT)?) } else { None };
    let mut outs = vec![&out];
    outs.extend(&kept);
    let (experts, places) = (call.read(EXPERTS, &outs)?, call.read(PLACES, &outs)?);
    call.expect_dtype(EXPERTS, &experts, &[DType::Int32, DType::Int64])?;
    call.expect_dtype(PLACES, &places, &[DType::Int32])?;
    call.expect_same(OUT, &out, EXPERTS, &experts)?;
    let (&[tokens, chosen], &[all, columns]) = (experts.dims(), places.dims()) else {
        let (a, b) = (call.parameter(EXPERTS), call.parameter(PLACES));
        return Err(Error::invalid(format!("{a} and {b}: expected matrices")));
    };
    call.expect_dims(OUT, &out, &[tokens, chosen])?;
    let pruning = match kept {
        None => None,
        Some(kept) => {
            call.expect_dtype(KEPT, &kept, &[DType::Bool])?;
            call.expect_dims(KEPT, &kept, &[tokens, chosen])?;
            let (weights, limits) = (call.read(WEIGHTS, &outs)?, call.read(THRESHOLDS, &outs)?);
            let types = &[DType::Float16, DType::Bf16, DType::Float];
            call.expect_dtype(WEIGHTS, &weights, types)?;
            call.expect_dims(WEIGHTS, &weights, &[tokens, chosen])?;
            call.expect_dtype(THRESHOLDS, &limits, &[DType::Float])?;
            let Some(flat) =
                limits.reshaped(&[chosen]).filter(|_| matches!(limits.dims(), [_] | [1, _]))
            else {
                let (name, dims) = (call.parameter(THRESHOLDS), limits.dims());
                return Err(Error::invalid(format!(
                    "{name} has the sizes {dims:?}: expected [{chosen}] or [1, {chosen}]"
                )));
            };
            let active = match call.has(TOKENS) {
                true => {
                    let active = call.read(TOKENS, &outs)?;
                    call.expect_dtype(TOKENS, &active, &[DType::Bool])?;
                    call.expect_dims(TOKENS, &active, &[tokens])?;
                    Some(active)
                }
                false => None,
            };
            Some((kept, weights, limits.with_layout(flat), active))
        }
    };
    places.touch_by_index(call);
    let names = [EXPERTS, PLACES].map(|at| call.parameter(at));
    call.plan(move |memory| {
        let ids = PositionAccess::new(experts.view(memory));
        let table = PositionAccess::new(places.view(memory));
        let place = |token: usize, at: usize| -> std::result::Result<i64, Fault> {
            let [name, table_name] = names;
            let value: i64 = ids.get(&[token, at]);
            let Some(expert) = usize::try_from(value).ok().filter(|one| *one < all) else {
                let last = all as i64 - 1;
                return Err(Fault(format!(
                    "{name}[{token}, {at}] = {value} is outside 0 to {last}"
                )));
            };
            let count: i64 = table.get(&[expert, 0]);
            if count < 1 || count >= columns as i64 {
                let most = columns as i64 - 1;
                return Err(Fault(format!(
                    "{table_name}[{expert}, 0] = {count} is outside 1 to {most}"
                )));
            }
            Ok(table.get(&[expert, 1 + choice.place(token, count) as usize]))
        };
        for (token, at) in (0..tokens).flat_map(|token| (0..chosen).map(move |at| (token, at))) {
            place(token, at)?;
        }
        let pruning = pruning.map(|(kept, weights, limits, active)| {
            let active = active.map(|one| PositionAccess::new(one.view(memory)));
            let weights = PositionAccess::new(weights.view(memory));
            (kept, weights, PositionAccess::new(limits.view(memory)), active)
        });
        let to = PositionAccessMut::new(memory.out(&out));
        for token in 0..tokens {
            for at in 0..chosen {
                to.set(&[token, at], place(token, at)?);
            }
        }
        if let Some((kept, weights, limits, active)) = pruning {
            let to = PositionAccessMut::new(memory.out(&kept));
            for token in 0..tokens {
                let counts = active.as_ref().is_none_or(|one| one.get::<i64>(&[token]) != 0);
                let sum = (0..chosen).map(|at| weights.get::<f32>(&[token, at])).sum::<f32>();
                for at in 0..chosen {
                    let limit = limits.get::<f32>(&[at]) * sum;
                    let is_kept = counts && weights.get::<f32>(&[token, at]) >= limit;
                    to.set(&[token, at], i64::from(is_kept));
                }
            }
        }
        Ok(())
    })
}

fn outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    let experts = call.layout(EXPERTS)?.packed();
    Ok(vec![experts, experts.with_dtype(DType::Bool).packed()])
}

/// The rows of this family.
pub const ROWS: &[Row] = &[aclnn("MoeUpdateExpert", update_experts)];

/// Its operators by IR name.
pub const NODES: &[Node] = &[node(
    "MoeUpdateExpert",
    &["expert_ids", "eplb_table", "expert_scales?", "pruning_threshold?", "active_mask?"],
    &["balanced_expert_ids", "balanced_active_mask"],
    Infer::By(outputs),
    update_experts,
    &[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        Attr("local_rank_id", AttrDefault::Int(-1)),
        Attr("world_size", AttrDefault::Int(-1)),
        Attr("balance_mode", AttrDefault::Int(0)),
        O(0),
        O(1),
    ],
)];
