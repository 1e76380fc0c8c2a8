//! The verdicts as XML of JUnit, which services of continuous integration read: a suite, a test case for each clause.

use std::fmt::Write;

use super::{Findings, suite::Verdict};

/// The whole file.
pub fn render(findings: &Findings) -> String {
    let pool = escape(&findings.spec.label());
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(
        out,
        "<testsuite name=\"cairn pooltest {pool}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">",
        findings.clauses.len(),
        findings.count(Verdict::Broken),
        findings.count(Verdict::NotTried)
    );
    for (clause, result) in &findings.clauses {
        let _ = write!(out, "  <testcase classname=\"{pool}\" name=\"{}\"", escape(clause.id));
        let text = escape(&result.details.join("\n"));
        let _ = match result.verdict {
            Verdict::Kept => writeln!(out, "/>"),
            Verdict::NotTried => writeln!(out, "><skipped/></testcase>"),
            Verdict::Noted => writeln!(out, "><system-out>{text}</system-out></testcase>"),
            Verdict::Broken => {
                let (rule, lesson) = (escape(clause.rule), escape(result.lesson(clause)));
                writeln!(
                    out,
                    "><failure message=\"not so: {rule}\">{text}\n{lesson}</failure></testcase>"
                )
            }
        };
    }
    out.push_str("</testsuite>\n");
    out
}

/// A text between tags, or between quotes. Characters that XML does not have become `?`.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(character),
            '\0'..' ' | '\u{fffe}' | '\u{ffff}' => out.push('?'),
            _ => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn marks_of_xml_are_escaped() {
        assert_eq!(escape("a<b> & \"c\"\u{1}"), "a&lt;b&gt; &amp; &quot;c&quot;?");
    }
}
