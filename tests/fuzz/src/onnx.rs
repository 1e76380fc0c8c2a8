//! Bytes as a model of ONNX.

use cairn_graph::model;
use cairn_graph::onnx::{ReadOptions, read};

/// Reads the bytes as a model of ONNX.
///
/// # Panics
/// When the graph cannot be written as a model of the graph engine and read again, or an error has no text.
pub fn onnx(data: &[u8]) {
    let options = ReadOptions { folder: Some("/nowhere".into()), ..ReadOptions::default() };
    match read(data.to_vec(), &options) {
        Ok(graph) => {
            let bytes = model::write(&graph);
            match model::read(bytes.clone()) {
                Ok(again) => assert_eq!(again.len(), graph.len(), "{graph:?} became {again:?}"),
                Err(error) => assert!(
                    error.contains("100 deep") || error.contains("would take more"),
                    "{graph:?}: {error}"
                ),
            }
        }
        Err(error) => assert!(!error.trim().is_empty()),
    }
}
