//! Bytes as a model of the graph engine.

use cairn_graph::model::{read, write};

/// Reads the bytes as a model.
///
/// # Panics
/// When a graph that is written and read again differs, or an error is no sentence.
pub fn ge_model(data: &[u8]) {
    match read(data.to_vec()) {
        Ok(graph) => {
            let bytes = write(&graph);
            match read(bytes.clone()) {
                Ok(again) => assert!(write(&again) == bytes, "{graph:?} became {again:?}"),
                // What is written may be longer than what was read, and exceed a limit that the input just met.
                Err(error) => assert!(
                    error.contains("100 deep") || error.contains("would take more"),
                    "{graph:?}: {error}"
                ),
            }
        }
        Err(error) => assert!(error.starts_with("The ") && error.ends_with('.'), "{error}"),
    }
}
