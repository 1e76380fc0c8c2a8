//! The sizes of outputs before anything runs.

use cairn_ops::{Arg, NodeArgs, Tensor, nodes};
use cairn_tensor::{DType, Layout};

const F: DType = DType::Float;

/// The layouts inferred from inputs of these sizes and these attributes.
fn infer(
    name: &str,
    inputs: &[&[usize]],
    attributes: &[(&str, Arg)],
) -> Result<Vec<Layout>, String> {
    let inputs: Vec<Option<Tensor>> =
        inputs.iter().map(|dims| Some(Tensor::new(Layout::contiguous(F, dims), 0))).collect();
    let attributes: Vec<(String, Arg)> =
        attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let args = NodeArgs { inputs: &inputs, outputs: &[], attributes: &attributes };
    nodes()[name].infer(&args).map_err(|error| error.text().to_owned())
}

#[test]
fn what_no_memory_holds_is_refused() {
    let large = 1 << 40;
    let multiples = |values: &[i64]| [("multiples", Arg::Ints(values.to_vec()))];
    assert_eq!(infer("TileD", &[&[2, 3]], &multiples(&[2, 4])).unwrap()[0].dims(), [4, 12]);
    let error = infer("TileD", &[&[large]], &multiples(&[large as i64])).unwrap_err();
    assert!(error.contains("multiples = [1099511627776] of [1099511627776]"), "{error}");
    let error = infer("TileD", &[&[large]], &multiples(&[1 << 22])).unwrap_err();
    assert_eq!(error, "output 0 would be float[4611686018427387904], which no memory holds");
    let error = infer("Add", &[&[large, 1], &[large]], &[]).unwrap_err();
    assert!(error.contains("which no memory holds"), "{error}");
    let error = infer("Expand", &[&[1]], &[]).unwrap_err();
    assert!(error.contains("inputs"), "{error}");
    let axes = [("axis", Arg::Int(0)), ("end_axis", Arg::Int(-1))];
    assert!(infer("FlattenV2", &[&[0, large, large]], &axes).is_ok_and(|one| one[0].dims() == [0]));
}

#[test]
fn one_dimension_more_than_there_can_be_is_refused() {
    let full = [1; 8];
    let error = infer("Pack", &[&full, &full], &[("axis", Arg::Int(0))]).unwrap_err();
    assert!(error.contains("no room for one dimension more"), "{error}");
}
