//! Operators for serving: parts of permuted tokens, and what is named instead of computed.

mod common;

use cairn_ops::{Arg, Tensor};
use cairn_tensor::DType;
use common::{TestMemory, t};

const F: DType = DType::Float;
const HALF: DType = DType::Float16;
const I32: DType = DType::Int32;
const I64: DType = DType::Int64;

fn ints(values: &[i64]) -> Arg {
    Arg::Ints(values.to_vec())
}

fn text(value: &str) -> Arg {
    Arg::Text(value.into())
}

#[test]
fn a_range_of_places_is_permuted() {
    let mut memory = TestMemory::new();
    let tokens = memory.put(F, &[3, 1], &[1.0, 2.0, 3.0]);
    let experts = memory.put(I32, &[3, 2], &[2.0, 0.0, 1.0, 0.0, 2.0, 1.0]);
    let weights = memory.put(F, &[3, 2], &[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]);
    let (out, places) = (memory.zeros(F, &[3, 1]), memory.zeros(I32, &[6]));
    let weights_out = memory.zeros(F, &[3]);
    let run = |range: &[i64]| {
        let args = vec![
            t(&tokens),
            t(&experts),
            t(&weights),
            ints(range),
            Arg::Int(0),
            Arg::Flag(false),
            t(&out),
            t(&places),
            t(&weights_out),
        ];
        memory.run("MoeTokenPermuteWithEp", args)
    };
    run(&[1, 4]).unwrap();
    assert_eq!(memory.read(&out), [2.0, 2.0, 3.0]);
    assert_eq!(memory.read(&places), [4.0, 0.0, 2.0, 1.0, 5.0, 3.0]);
    let kept: Vec<f32> = memory.read(&weights_out).into_iter().map(|x| x as f32).collect();
    assert_eq!(kept, [0.4, 0.3, 0.6]);
    for range in [&[4, 9][..], &[3, 2], &[-1, 2], &[1]] {
        let error = run(range).unwrap_err();
        let want = format!("p3 = {range:?}: expected two numbers from 0 to 6, the lesser first");
        assert_eq!(error, want);
    }
    assert!(run(&[1, 5]).unwrap_err().starts_with("p6 has the sizes [3, 1]"));
}

#[test]
fn a_place_that_no_slot_has_is_named_and_nothing_is_written() {
    let mut memory = TestMemory::new();
    let rows = memory.put(F, &[4, 1], &[1.0, 2.0, 3.0, 4.0]);
    let grad = memory.put(F, &[3, 1], &[1.0, 2.0, 3.0]);
    let places = memory.put(I32, &[6], &[2.0, 0.0, 6.0, 1.0, 5.0, 3.0]);
    let weights = memory.put(F, &[3, 2], &[1.0; 6]);
    let (out, rows_out) = (memory.put(F, &[3, 1], &[7.0; 3]), memory.put(F, &[4, 1], &[7.0; 4]));
    let weights_out = memory.put(F, &[3, 2], &[7.0; 6]);
    let forward = |rows: &Tensor| {
        let (two, range) = (Arg::Int(2), ints(&[1, 5]));
        let args = vec![t(rows), t(&places), Arg::Absent, two, range, Arg::Flag(false)];
        memory.run(
            "MoeTokenUnpermuteWithEp",
            args.into_iter().chain([Arg::Absent, t(&out)]).collect(),
        )
    };
    let backward = || {
        let args = vec![
            t(&grad),
            t(&places),
            t(&rows),
            t(&weights),
            Arg::Flag(false),
            Arg::Absent,
            ints(&[1, 5]),
            Arg::Int(2),
            t(&rows_out),
            t(&weights_out),
        ];
        memory.run("MoeTokenUnpermuteWithEpGrad", args)
    };
    let permuted = || {
        let args = vec![
            t(&rows),
            t(&places),
            Arg::Absent,
            Arg::Int(2),
            ints(&[1, 5]),
            Arg::Flag(false),
            t(&out),
            Arg::Absent,
        ];
        memory.run("MoeTokenPermuteWithEpGrad", args)
    };
    for fault in [forward(&rows), backward(), permuted()] {
        assert_eq!(fault.unwrap_err(), "p1[2] = 6 is outside 0 to 5");
    }
    assert_eq!(memory.read(&out), [7.0; 3]);
    assert_eq!(memory.read(&rows_out), [7.0; 4]);
    assert_eq!(memory.read(&weights_out), [7.0; 6]);
    memory.write(&places, &[2.0, 0.0, 4.0, 1.0, 5.0, 3.0]);
    forward(&rows).unwrap();
    assert_eq!(memory.read(&out), [2.0, 5.0, 3.0]);
    backward().unwrap();
    assert_eq!(memory.read(&rows_out), [2.0, 1.0, 3.0, 2.0]);
    assert_eq!(memory.read(&weights_out), [2.0, 0.0, 8.0, 2.0, 0.0, 9.0]);
    permuted().unwrap();
    assert_eq!(memory.read(&out), [2.0, 5.0, 3.0]);
    assert_eq!(
        forward(&grad).unwrap_err(),
        "p0 has 3 rows: expected 4, one for each place from 1 to 4"
    );
}

#[test]
fn a_block_that_an_indexed_cache_lacks_is_named() {
    let mut memory = TestMemory::new();
    let query = memory.put(HALF, &[1, 1, 1, 4], &[1.0; 4]);
    let key = memory.put(HALF, &[2, 2, 1, 4], &[1.0; 16]);
    let weights = memory.put(F, &[1, 1, 1], &[1.0]);
    let (length, table) = (memory.put(I32, &[1], &[3.0]), memory.put(I32, &[1, 2], &[0.0, 5.0]));
    let out = memory.put(I32, &[1, 1, 1, 2], &[7.0; 2]);
    let run = |ratio: i64, offset: Arg| {
        let mut args = vec![t(&query), t(&key), t(&weights)];
        args.extend([Arg::Absent, Arg::Absent, Arg::Absent, t(&length), Arg::Absent]);
        args.extend([t(&table), offset, Arg::Absent, Arg::Int(2), Arg::Int(-1)]);
        args.extend([text("BSND"), text("PA_BBND"), Arg::Int(3), Arg::Int(ratio), Arg::Int(0)]);
        args.extend([t(&out), Arg::Absent]);
        memory.run("LightningIndexerV2", args)
    };
    assert_eq!(run(1, Arg::Absent).unwrap_err(), "p8[0, 1] = 5 is outside 0 to 1");
    assert_eq!(memory.read(&out), [7.0; 2]);
    memory.write(&table, &[1.0, 0.0]);
    run(1, Arg::Absent).unwrap();
    assert_eq!(memory.read(&out), [0.0, 1.0]);
    assert!(run(4, Arg::Absent).unwrap_err().contains("which compressed keys"));
    assert!(run(1, t(&length)).unwrap_err().starts_with("p9 is there"));
}

#[test]
fn packed_sequences_begin_at_zero() {
    let mut memory = TestMemory::new();
    let query = memory.put(HALF, &[2, 1, 4], &[1.0; 8]);
    let key = memory.put(HALF, &[3, 1, 4], &[1.0; 12]);
    let weights = memory.put(F, &[2, 1], &[1.0; 2]);
    let bounds = memory.put(I32, &[3], &[0.0, 1.0, 2.0]);
    let key_bounds = memory.put(I32, &[3], &[1.0, 2.0, 3.0]);
    let out = memory.put(I32, &[2, 1, 1], &[7.0; 2]);
    let run = || {
        let mut args = vec![t(&query), t(&key), t(&weights), t(&bounds), t(&key_bounds)];
        args.extend([(); 6].map(|()| Arg::Absent));
        args.extend([Arg::Int(1), Arg::Int(-1), text("TND"), text("TND"), Arg::Int(0)]);
        args.extend([Arg::Int(1), Arg::Int(0), t(&out), Arg::Absent]);
        memory.run("LightningIndexerV2", args)
    };
    assert_eq!(run().unwrap_err(), "p4[0] = 1: expected 0");
    assert_eq!(memory.read(&out), [7.0; 2]);
    memory.write(&key_bounds, &[0.0, 1.0, 3.0]);
    run().unwrap();
    assert_eq!(memory.read(&out), [0.0; 2]);
}

#[test]
fn a_slot_that_the_caches_of_keys_and_values_apart_lack_is_named() {
    let mut memory = TestMemory::new();
    let keys = memory.put(F, &[1, 2, 2, 4], &[1.0; 16]);
    let gamma = memory.put(F, &[4], &[2.0; 4]);
    let angles = memory.zeros(F, &[1, 1, 2, 2]);
    let index = memory.put(I64, &[2], &[3.0, 4.0]);
    let key_cache = memory.put(F, &[2, 2, 2, 4], &[7.0; 32]);
    let value_cache = memory.put(F, &[2, 2, 2, 3], &[7.0; 24]);
    let values = memory.put(F, &[1, 2, 2, 3], &[5.0; 12]);
    let run = |mode: &str| {
        let mut args = vec![t(&keys), t(&gamma), t(&angles), t(&angles), t(&index)];
        args.extend([t(&key_cache), t(&value_cache)]);
        args.extend([(); 4].map(|()| Arg::Absent));
        args.extend([t(&values), Arg::Float(0.0), text(mode), Arg::Flag(false)]);
        args.extend([Arg::Absent, Arg::Absent]);
        memory.run("KvRmsNormRopeCacheV2", args)
    };
    assert_eq!(run("PA_BNSD").unwrap_err(), "p4[1] = 4 is outside -1 to 3");
    assert_eq!(memory.read(&key_cache), [7.0; 32]);
    assert_eq!(memory.read(&value_cache), [7.0; 24]);
    assert!(run("PA_NZ").unwrap_err().starts_with("p6 "));
    memory.write(&index, &[-1.0, 1.0]);
    run("PA_BNSD").unwrap();
    let slot = [0.0, 0.0, 2.0, 2.0, 0.0, 0.0, 2.0, 2.0];
    assert_eq!(memory.read(&key_cache)[8..16], slot);
    assert_eq!(memory.read(&value_cache)[6..12], [5.0; 6]);
    assert_eq!(memory.read(&key_cache)[..8], [7.0; 8]);
}

#[test]
fn what_documentation_does_not_say_is_refused() {
    let mut memory = TestMemory::new();
    let x = memory.put(F, &[1, 4], &[1.0; 4]);
    let bias = memory.put(F, &[4], &[0.0; 4]);
    let (y, experts) = (memory.zeros(F, &[1, 2]), memory.zeros(I32, &[1, 2]));
    let fused = |looked_up: bool, kind: i64| {
        let mut args = vec![t(&x), t(&bias), Arg::Absent, Arg::Absent];
        args.extend([2, 1, 2, 2, kind].map(Arg::Int));
        args.extend([Arg::Flag(false), Arg::Float(1.0), Arg::Flag(looked_up), t(&y), t(&experts)]);
        memory.run("MoeFusedTopk", args)
    };
    fused(false, 0).unwrap();
    assert!(fused(true, 0).unwrap_err().contains("which expert of a row of p3 is taken"));
    assert!(fused(false, 1).unwrap_err().contains("p8 = 1 is outside 0 to 0"));

    let tokens = memory.put(F, &[2, 2], &[1.0; 4]);
    let indices = memory.put(I32, &[2], &[1.0, 0.0]);
    let (out, places) = (memory.zeros(F, &[2, 2]), memory.zeros(I32, &[2]));
    let permute = |mode: i64| {
        let mut args = vec![t(&tokens), t(&indices), Arg::Int(0), Arg::Flag(false), Arg::Int(mode)];
        args.extend([t(&out), t(&places), Arg::Absent]);
        memory.run("MoeTokenPermuteV2", args)
    };
    permute(-1).unwrap();
    let error = permute(2).unwrap_err();
    assert_eq!(error, "p4 = 2: expected -1, quantised calls are not supported");

    let heads = memory.put(F, &[1, 3, 1, 2], &[1.0; 6]);
    let angles = memory.zeros(F, &[2, 2]);
    let results = [(); 3].map(|()| memory.zeros(F, &[1, 1, 3, 2]));
    let mut args = vec![t(&heads), t(&heads), t(&heads)];
    args.extend([(); 11].map(|()| Arg::Absent));
    args.extend([t(&angles), t(&angles)]);
    args.extend([0, 0, 1, 0].map(Arg::Int));
    args.extend([Arg::Float(1e-5), Arg::Flag(false)]);
    args.extend(results.iter().map(t));
    args.extend([(); 8].map(|()| Arg::Absent));
    let error = memory.run("NormRopeConcat", args).unwrap_err();
    assert!(error.contains("has 2 rows for 3 positions"), "{error}");
}

#[test]
fn functions_without_usable_documents_say_so() {
    let memory = TestMemory::new();
    for name in [
        "AdvanceStep",
        "AdvanceStepV2",
        "CausalConv1dFn",
        "CausalConv1dUpdate",
        "MlaPreprocess",
        "MlaPreprocessV2",
        "MlaPrologV3",
        "MlaPrologV3WeightNz",
        "NsaCompressAttention",
        "NsaCompressAttentionInfer",
        "SparseFlashMla",
        "SparseLightningIndexerGradKLLossV2",
    ] {
        let error = memory.run(name, Vec::new()).unwrap_err();
        assert!(error.starts_with("Cairn refuses this function: ") && error.contains("document"));
    }
}

#[test]
fn gradients_of_repeated_angles_are_zero_where_nothing_is_rotated() {
    let mut memory = TestMemory::new();
    let (dy, x) = (memory.zeros(F, &[0, 5, 2, 8]), memory.zeros(F, &[0, 5, 2, 8]));
    let angles = memory.put(F, &[1, 5, 1, 8], &[0.5; 40]);
    for mode in 0..4 {
        let dx = memory.zeros(F, &[0, 5, 2, 8]);
        let sums = [(); 2].map(|()| memory.put(F, &[1, 5, 1, 8], &[7.0; 40]));
        let mut args = vec![t(&dy), t(&angles), t(&angles), t(&x), Arg::Int(mode), t(&dx)];
        args.extend(sums.iter().map(t));
        memory.run("RotaryPositionEmbeddingGrad", args).unwrap();
        sums.iter().for_each(|sum| assert_eq!(memory.read(sum), [0.0; 40]));
    }
}

#[test]
fn arguments_that_would_be_overlooked_are_named() {
    let mut memory = TestMemory::new();
    let logits = memory.put(F, &[1, 2], &[1.0, 2.0]);
    let out = memory.zeros(F, &[1, 2]);
    let args = vec![t(&logits), Arg::Absent, Arg::Absent, t(&out)];
    let error = memory.run("ApplyTopKTopP", args).unwrap_err();
    assert_eq!(error, "p1 and p2 are null: expected one of them at least");

    let key = memory.put(F, &[1, 1, 8], &[1.0; 8]);
    let cache = memory.zeros(F, &[1, 2, 1, 8]);
    let slots = memory.put(I32, &[1], &[0.0]);
    let nothing = memory.zeros(F, &[0]);
    let scatter = |value: &Tensor, strides: &[i64]| {
        let mut args = vec![t(&key), t(&cache), t(&slots), t(value), t(&cache)];
        args.extend([(); 3].map(|()| Arg::Absent));
        args.extend([text("Norm"), text("None"), ints(strides), Arg::Absent]);
        memory.run("ScatterPaKvCache", args)
    };
    let error = scatter(&nothing, &[]).unwrap_err();
    assert!(error.contains("has no elements, but p4 is there"), "{error}");
    let error = scatter(&key, &[2]).unwrap_err();
    assert_eq!(error, "p10 = [2]: only 1 is known; the documentation does not say what others do");
    assert_eq!(memory.read(&cache), [0.0; 16]);
}

#[test]
fn a_table_without_blocks_is_no_dense_cache() {
    let mut memory = TestMemory::new();
    let query = memory.put(F, &[2, 1, 8], &[1.0; 16]);
    let keys = memory.put(F, &[2, 4, 8], &[1.0; 64]);
    let (table, out) = (memory.zeros(I32, &[2, 0]), memory.zeros(F, &[2, 1, 8]));
    let mut args = vec![t(&query), Arg::Tensors(vec![keys.clone()]), Arg::Tensors(vec![keys])];
    args.extend([Arg::Absent, Arg::Absent, ints(&[4, 4])]);
    args.extend([(); 7].map(|()| Arg::Absent));
    args.extend([t(&table), Arg::Absent, Arg::Int(1), Arg::Float(1.0), text("BSH")]);
    args.extend([Arg::Int(1), Arg::Int(4), Arg::Int(0), t(&out)]);
    let error = memory.run("IncreFlashAttentionV4", args).unwrap_err();
    let want = "has the sizes [2, 0]: expected a block for each sequence at least";
    assert!(error.ends_with(want), "{error}");
}
