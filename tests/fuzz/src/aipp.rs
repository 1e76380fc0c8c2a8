//! Bytes as the configuration of images (`--insert_op_conf`).

use cairn_graph::offline::Aipp;

/// Reads the bytes as a configuration, if they are text.
///
/// # Panics
/// When a configuration has no image or numbers out of range, or an error names no line of the text.
pub fn aipp(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Aipp::parse(text) {
        Ok(aipp) => {
            assert!(!aipp.images.is_empty(), "{text:?} has no image");
            for image in &aipp.images {
                assert!(image.source.iter().all(|size| (0..=4096).contains(size)), "{image:?}");
                assert!(image.factor.iter().all(|factor| factor.is_finite()), "{image:?}");
            }
        }
        Err(error) => {
            let lines = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
            assert!((1..=lines).contains(&error.line), "{text:?}: {error}");
            assert!(!error.reason.is_empty() && error.to_string().ends_with('.'), "{error}");
        }
    }
}
