//! Bytes as a model file (`.om`).

use cairn_graph::offline::{ModelFile, OfflineModel};

/// Reads the bytes as a model file, in every way that files are looked at.
///
/// # Panics
/// When a model that is written and read again differs, or an error has no text.
pub fn om(data: &[u8]) {
    let file = ModelFile::open(&data);
    let _ = OfflineModel::is_bundle(&data);
    let Ok(file) = file else {
        assert!(!file.err().is_some_and(|failure| failure.text.is_empty()));
        return;
    };
    let (_, _, _) = (file.graph_json(), file.description(), file.has_weight_files());
    let described = OfflineModel::read_description(&data, None);
    match OfflineModel::read(&data, None) {
        Ok(model) => {
            assert_eq!(described.ok().as_ref(), Some(&model.description));
            let bytes = model.write();
            match OfflineModel::read(&bytes, None) {
                Ok(again) => assert!(again.write() == bytes, "{:?}", model.description),
                // What is written may be longer than what was read, and exceed a limit that the input just met.
                Err(failure) => assert!(
                    failure.text.contains("100 deep") || failure.text.contains("would take more"),
                    "{}",
                    failure.text
                ),
            }
        }
        Err(failure) => assert!(!failure.text.is_empty()),
    }
}
