//! Bytes as a spec string (`CAIRN_MEMORY`).

use cairn_runtime::memory::layer::Spec;

/// Reads the bytes as a spec string, if they are text.
///
/// # Panics
/// When a spec that is written and read again differs, cannot be built, or an error does not name a part of
/// the text and its position.
pub fn spec(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Spec::parse(text) {
        Ok(spec) => {
            let again = Spec::parse(&spec.to_string());
            assert_eq!(again.as_ref(), Ok(&spec), "{text:?} became {spec}");
            assert!(spec.build().inspect().is_empty());
        }
        Err(error) => assert!(names_its_position(text, &error.text), "{text:?}: {}", error.text),
    }
}

/// True if the error begins with `'part' at character n: `, and the text has the part there.
fn names_its_position(text: &str, error: &str) -> bool {
    const SEPARATOR: &str = "' at character ";
    let Some(quoted) = error.strip_prefix('\'') else { return false };
    quoted.match_indices(SEPARATOR).any(|(end, _)| {
        let (part, rest) = (&quoted[..end], &quoted[end + SEPARATOR.len()..]);
        let position = rest.split_once(": ").and_then(|(number, _)| number.parse::<usize>().ok());
        let is_at = |n: usize| {
            let before = text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(n - 1);
            before.is_some_and(|at| text[at..].starts_with(part))
        };
        position.is_some_and(|n| n > 0 && is_at(n))
    })
}

#[cfg(test)]
mod tests {
    use super::names_its_position;

    #[test]
    fn positions_are_compared() {
        assert!(names_its_position("é,gard", "'gard' at character 3: no such layer"));
        assert!(!names_its_position("é,gard", "'gard' at character 4: no such layer"));
        assert!(names_its_position("a,", "'' at character 3: a layer is missing"));
        assert!(!names_its_position("a,", "'' at character 4: a layer is missing"));
        assert!(!names_its_position("a", "no such layer"));
    }
}
