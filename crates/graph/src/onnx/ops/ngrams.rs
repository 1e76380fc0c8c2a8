//! `TfIdfVectorizer`: how often each sequence of numbers of a list occurs in a row.

use super::Converters;
use super::expression::{Made, join, plain, reshape, slice, unsqueeze, with_number};
use crate::ir::{Attrs, Constant, Desc};
use crate::onnx::builder::Value;
use crate::onnx::conversion::Conversion;
use cairn_tensor::DType;
use std::collections::HashMap;

pub const CONVERTERS: Converters = &[("TfIdfVectorizer", tf_idf)];

/// Sequences of one length, each with its number in the list of all.
struct Grams {
    length: usize,
    sequences: Vec<(Vec<i64>, usize)>,
}

/// Counts windows of each length and distance that are equal to a sequence. Windows of one number are counted once, whatever
/// distances there are.
fn tf_idf(node: &mut Conversion<'_>) -> Result<Vec<Value>, String> {
    if node.has("pool_strings") {
        return Err("strings are not supported".to_owned());
    }
    let x = node.input(0)?;
    let rank = node.rank(&x)?;
    if !(1..=2).contains(&rank) {
        return Err(format!("its input has {rank} dimensions, not 1 or 2"));
    }
    let length = node.known_dims_at(&x, rank - 1)?;
    let (least, most) = (node.int("min_gram_length", 1), node.int("max_gram_length", 1));
    let skipped = node.int("max_skip_count", 0).clamp(0, length.max(0));
    let indices = node.ints("ngram_indexes").unwrap_or_default();
    let width = indices.iter().max().map_or(0, |most| most.saturating_add(1));
    if indices.iter().any(|index| *index < 0) {
        return Err(format!("ngram_indexes is {indices:?}"));
    }
    let rows = reshape(node, &x, &[-1, length])?;
    let (mut counts, mut columns) = (Vec::new(), Vec::new());
    for grams in grams(node, indices.len())? {
        let size = grams.length as i64;
        if size < least || size > most {
            continue;
        }
        let distances = if size == 1 { 1..=1 } else { 1..=skipped + 1 };
        let mut sum: Option<Value> = None;
        for distance in distances {
            let windows = length - distance * (size - 1);
            if windows > 0 {
                let found = occurrences(node, &rows, &grams, distance, windows)?;
                sum = Some(match sum {
                    None => found,
                    Some(sum) => plain(node, "Add", &[&sum, &found])?,
                });
            }
        }
        if let Some(sum) = sum {
            counts.push(sum);
            columns.extend(grams.sequences.iter().map(|(_, number)| indices[*number]));
        }
    }
    let y = arranged(node, &rows, &counts, &columns, width)?;
    let y = weighted(node, &y, width)?;
    Ok(vec![if rank == 1 { reshape(node, &y, &[width])? } else { y }])
}

/// The sequences of the list by their lengths. Of equal ones the last counts.
fn grams(node: &Conversion<'_>, numbers: usize) -> Result<Vec<Grams>, String> {
    let pool = node.ints("pool_int64s").unwrap_or_default();
    let starts = node.ints("ngram_counts").unwrap_or_default();
    let mut all = Vec::with_capacity(starts.len());
    let mut number = 0;
    for (at, start) in starts.iter().enumerate() {
        let end = starts.get(at + 1).copied().unwrap_or(pool.len() as i64);
        let range = usize::try_from(*start).ok().zip(usize::try_from(end).ok());
        let own = range.and_then(|(start, end)| pool.get(start..end)).ok_or_else(|| {
            format!("ngram_counts is {starts:?}, and pool_int64s has {} numbers", pool.len())
        })?;
        let mut last: HashMap<&[i64], usize> = HashMap::new();
        for sequence in own.chunks_exact(at + 1) {
            last.insert(sequence, number);
            number += 1;
        }
        let mut sequences: Vec<(Vec<i64>, usize)> =
            last.into_iter().map(|(sequence, number)| (sequence.to_vec(), number)).collect();
        sequences.sort_by_key(|(_, number)| *number);
        all.push(Grams { length: at + 1, sequences });
    }
    match number <= numbers {
        true => Ok(all),
        false => Err(format!("ngram_indexes has {numbers} numbers for {number} sequences")),
    }
}

/// For each row how often each sequence occurs, with numbers that are `distance` apart: rows by sequences.
fn occurrences(
    node: &mut Conversion<'_>,
    rows: &Value,
    grams: &Grams,
    distance: i64,
    windows: i64,
) -> Made {
    let mut all: Option<Value> = None;
    for at in 0..grams.length {
        let from = at as i64 * distance;
        let part = slice(node, rows, 1, from, from + windows)?;
        let part = unsqueeze(node, &part, &[2])?;
        let wanted: Vec<i64> = grams.sequences.iter().map(|(sequence, _)| sequence[at]).collect();
        let wanted = node.int_list(&wanted);
        let wanted = node.cast(&wanted, rows.dtype())?;
        let is_equal = plain(node, "Equal", &[&part, &wanted])?;
        all = Some(match all {
            None => is_equal,
            Some(all) => plain(node, "LogicalAnd", &[&all, &is_equal])?,
        });
    }
    let all = all.ok_or("a sequence has numbers")?;
    let ones = node.cast(&all, DType::Float)?;
    let axes = node.int_list(&[1]);
    node.add("ReduceSum", &[&ones, &axes], Attrs::new())
}

/// The counts in the columns of the output; what several sequences have for a column is added.
fn arranged(
    node: &mut Conversion<'_>,
    rows: &Value,
    counts: &[Value],
    columns: &[i64],
    width: i64,
) -> Made {
    // A column of zeros follows those of the sequences.
    let none = slice(node, rows, 1, 0, 1)?;
    let none = node.cast(&none, DType::Float)?;
    let none = plain(node, "ZerosLike", &[&none])?;
    let all = join(node, &[counts, &[none]].concat(), 1)?;
    let width = node.reserve(width, size_of::<i64>())?;
    let mut rounds: Vec<Vec<i64>> = vec![vec![columns.len() as i64; width]];
    let mut taken = vec![0; width];
    for (at, column) in columns.iter().enumerate() {
        let round = &mut taken[*column as usize];
        if *round == rounds.len() {
            rounds.push(vec![columns.len() as i64; width]);
        }
        rounds[*round][*column as usize] = at as i64;
        *round += 1;
    }
    let mut sum: Option<Value> = None;
    for round in rounds {
        let (places, along) = (node.int_list(&round), node.int_list(&[1]));
        let found = plain(node, "GatherV2", &[&all, &places, &along])?;
        sum = Some(match sum {
            None => found,
            Some(sum) => plain(node, "Add", &[&sum, &found])?,
        });
    }
    sum.ok_or_else(|| "there is a first round".to_owned())
}

/// The counts, or 1 for those that are not 0, times the weights of their columns.
fn weighted(node: &mut Conversion<'_>, counts: &Value, width: i64) -> Made {
    let mode = node.text("mode", "");
    node.expect_text("mode", &mode, &["TF", "IDF", "TFIDF"])?;
    let mut y = counts.clone();
    if mode == "IDF" {
        y = with_number(node, "Minimum", &y, 1.0)?;
    }
    let Some(weights) = node.floats("weights").filter(|list| mode != "TF" && !list.is_empty())
    else {
        return Ok(y);
    };
    if weights.len() as i64 != width {
        return Err(format!("weights has {} numbers for {width} columns", weights.len()));
    }
    let bytes: Vec<u8> = weights.iter().flat_map(|weight| weight.to_le_bytes()).collect();
    let desc = Desc::new(DType::Float, &[width]);
    let weights = node.constant(Constant { desc, bytes: bytes.into() });
    plain(node, "Mul", &[&y, &weights])
}
