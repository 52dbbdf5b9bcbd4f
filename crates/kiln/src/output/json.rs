//! `--format json` and `jsonl`: findings as objects whose shape is a promise.

use serde::Serialize;

use super::Finding;

/// One finding. Lines and columns count from one, columns in characters; the end is exclusive.
#[derive(Serialize)]
struct Entry<'a> {
    file: String,
    line: usize,
    column: usize,
    end_line: usize,
    end_column: usize,
    severity: &'static str,
    code: &'static str,
    message: &'a str,
    help: Option<&'a str>,
}

impl<'a> Entry<'a> {
    fn new(found: &Finding<'a>) -> Self {
        let (start, end) = (found.start(), found.end());
        Self {
            file: found.file(found.diagnostic.span),
            line: start.line,
            column: start.column,
            end_line: end.line,
            end_column: end.column,
            severity: found.diagnostic.severity.as_str(),
            code: found.diagnostic.code,
            message: &found.diagnostic.message,
            help: found.diagnostic.help.as_deref(),
        }
    }
}

pub(crate) fn array(findings: &[Finding<'_>]) -> String {
    let entries: Vec<_> = findings.iter().map(Entry::new).collect();
    pretty(&entries)
}

pub(crate) fn lines(findings: &[Finding<'_>]) -> String {
    let entries = findings.iter().map(Entry::new);
    entries.map(|entry| line(&entry)).collect()
}

/// Indented JSON with a final line break.
pub(crate) fn pretty(value: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(value);
    text.expect("only strings are keys of what we write") + "\n"
}

/// JSON on one line with a final line break.
pub(crate) fn line(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value);
    text.expect("only strings are keys of what we write") + "\n"
}

#[cfg(test)]
mod tests {
    use kiln_lang::diag::Diagnostic;
    use kiln_lang::source::Span;
    use serde_json::json;

    use super::*;
    use crate::output::findings;
    use crate::testing::checked;

    #[test]
    fn a_finding_has_exactly_these_fields() {
        let checked = [checked("ci.yml", "on: push\nnäme: x\njobs: {}\n", |file| {
            vec![
                Diagnostic::error("unknown-key", Span::new(file, 9, 14), "unknown key `näme`")
                    .label("not shown")
                    .help("did you mean `name`?"),
                Diagnostic::warning("empty", Span::new(file, 18, 27), "no jobs"),
            ]
        })];
        let text = array(&findings(&checked));
        let expect = json!([
            {"file": "ci.yml", "line": 2, "column": 1, "end_line": 2, "end_column": 5, "severity": "error",
             "code": "unknown-key", "message": "unknown key `näme`", "help": "did you mean `name`?"},
            {"file": "ci.yml", "line": 3, "column": 1, "end_line": 4, "end_column": 1, "severity": "warning",
             "code": "empty", "message": "no jobs", "help": null},
        ]);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value, expect);
        let lines = lines(&findings(&checked));
        let parsed: Vec<serde_json::Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(serde_json::Value::Array(parsed), expect);
    }

    #[test]
    fn nothing_found_is_an_empty_array_and_no_lines() {
        assert_eq!(array(&[]), "[]\n");
        assert_eq!(lines(&[]), "");
    }
}
