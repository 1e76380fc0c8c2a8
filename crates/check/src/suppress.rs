//! A file that names findings which are not to be reported.
//!
//! ```text
//! # Comments and empty lines.
//! order: aclnnAdd, aclrtMemcpyAsync      this rule, where each text is in one of the places
//! late-registration                      every finding of this rule
//! ```

use crate::finding::Finding;
use crate::rules;

/// The lines of a file of suppressions.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Suppressions {
    list: Vec<Suppression>,
}

#[derive(Debug, PartialEq, Eq)]
struct Suppression {
    rule: String,
    texts: Vec<String>,
}

impl Suppressions {
    /// Reads a file's text; the error names the line.
    pub fn parse(text: &str) -> Result<Suppressions, String> {
        let mut list = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let (rule, texts) = line.split_once(':').unwrap_or((line, ""));
            let rule = rule.trim();
            if !rules::ids().any(|known| known == rule) {
                let mut known: Vec<_> = rules::ids().collect();
                known.dedup();
                return Err(format!(
                    "line {}: no rule is named `{rule}`: there are {}",
                    number + 1,
                    known.join(", ")
                ));
            }
            let texts: Vec<String> = match line.contains(':') {
                true => texts.split(',').map(|text| text.trim().to_owned()).collect(),
                false => Vec::new(),
            };
            if texts.iter().any(String::is_empty) {
                return Err(format!("line {}: a text is missing in `{line}`", number + 1));
            }
            list.push(Suppression { rule: rule.to_owned(), texts });
        }
        Ok(Suppressions { list })
    }

    /// Whether a finding is not to be reported.
    pub fn matches(&self, finding: &Finding) -> bool {
        self.list.iter().any(|it| it.matches(finding))
    }
}

impl Suppression {
    fn matches(&self, finding: &Finding) -> bool {
        let is_in_place = |text: &String| {
            (finding.places.iter())
                .any(|place| place.text.contains(text) || place.site.entry.contains(text.as_str()))
        };
        self.rule == finding.rule && self.texts.iter().all(is_in_place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_rules_and_texts() {
        let parsed = Suppressions::parse("# none\n\norder: aclnnAdd, copy # why\nleak\n").unwrap();
        let line = |rule: &str, texts: &[&str]| Suppression {
            rule: rule.into(),
            texts: texts.iter().map(|text| text.to_string()).collect(),
        };
        assert_eq!(parsed.list, [line("order", &["aclnnAdd", "copy"]), line("leak", &[])]);
    }

    #[test]
    fn a_mistake_is_named_with_its_line() {
        let error = |text| Suppressions::parse(text).unwrap_err();
        assert!(error("order\nordr: x").starts_with("line 2: no rule is named `ordr`"));
        assert!(error("order:").starts_with("line 1: a text is missing"));
        assert!(error("order: a,,b").contains("a text is missing"));
    }
}
