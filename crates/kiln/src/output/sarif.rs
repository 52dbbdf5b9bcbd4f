//! `--format sarif`: SARIF 2.1.0, as code scanning takes it.

use std::path::Path;

use serde_json::{Value, json};

use super::Finding;
use kiln_lang::lint;
use kiln_lang::source::Span;

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// The base of relative locations.
const SOURCE_ROOT: &str = "%SRCROOT%";

/// Locations are relative to `base`, the root of the repository.
pub(crate) fn render(findings: &[Finding<'_>], base: &Path) -> String {
    let mut rules: Vec<&'static str> = findings.iter().map(|found| found.diagnostic.code).collect();
    rules.sort_unstable();
    rules.dedup();
    let results: Vec<_> = findings.iter().map(|found| result(found, base, &rules)).collect();
    let base_uri = format!("file://{}/", encode(&base.to_string_lossy()).trim_end_matches('/'));
    super::json::pretty(&json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "kiln",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules.iter().map(|code| rule(code)).collect::<Vec<_>>(),
            }},
            "columnKind": "unicodeCodePoints",
            "originalUriBaseIds": { SOURCE_ROOT: { "uri": base_uri } },
            "results": results,
        }],
    }))
}

fn rule(code: &str) -> Value {
    let check = lint::CHECKS.iter().find(|check| check.code == code);
    let words = check.map_or_else(|| code.replace('-', " "), |check| check.summary.to_owned());
    json!({
        "id": code,
        "shortDescription": { "text": words },
        "help": { "text": format!("See `{code}` in Kiln's documentation of checks.") },
    })
}

fn result(found: &Finding<'_>, base: &Path, rules: &[&str]) -> Value {
    let diagnostic = found.diagnostic;
    let mut result = json!({
        "ruleId": diagnostic.code,
        "ruleIndex": rules.binary_search(&diagnostic.code).ok(),
        "level": diagnostic.severity.as_str(),
        "message": { "text": found.full_message() },
        "locations": [{ "physicalLocation": location(found, base, diagnostic.span) }],
    });
    let related: Vec<_> = diagnostic
        .related
        .iter()
        .enumerate()
        .map(|(id, related)| {
            json!({
                "id": id,
                "physicalLocation": location(found, base, related.span),
                "message": { "text": related.label },
            })
        })
        .collect();
    if !related.is_empty() {
        result["relatedLocations"] = Value::Array(related);
    }
    result
}

fn location(found: &Finding<'_>, base: &Path, span: Span) -> Value {
    let (start, end) = (found.sources().start(span), found.sources().end(span));
    let path = found.path_from(base, span);
    let encoded = encode(&path.to_string_lossy());
    let artifact = if path.is_absolute() {
        json!({ "uri": format!("file://{encoded}") })
    } else {
        json!({ "uri": encoded, "uriBaseId": SOURCE_ROOT })
    };
    json!({
        "artifactLocation": artifact,
        "region": {
            "startLine": start.line,
            "startColumn": start.column,
            "endLine": end.line,
            "endColumn": end.column,
        },
    })
}

/// Percent-encodes what may not stand in the path of a URI. A colon could be taken for the end of a
/// scheme.
fn encode(path: &str) -> String {
    let mut uri = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' | b'@' => {
                uri.push(char::from(byte));
            }
            byte => {
                let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('0');
                uri.push('%');
                uri.push(digit(byte >> 4).to_ascii_uppercase());
                uri.push(digit(byte & 15).to_ascii_uppercase());
            }
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use kiln_lang::diag::Diagnostic;

    use super::*;
    use crate::output::findings;
    use crate::testing::checked;

    #[test]
    fn a_log_has_rules_results_and_relative_places() {
        let checked = [checked("a b/ci.yml", "on: push\njobs: {}\n", |file| {
            vec![
                Diagnostic::warning("zero-jobs", Span::new(file, 9, 17), "no jobs").help("add one"),
                Diagnostic::error("bad-on", Span::new(file, 0, 2), "bad")
                    .related(Span::new(file, 9, 13), "see here"),
            ]
        })];
        let text = render(&findings(&checked), Path::new("/repo"));
        let log: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(log["version"], "2.1.0");
        let run = &log["runs"][0];
        assert_eq!(run["columnKind"], "unicodeCodePoints");
        assert_eq!(run["originalUriBaseIds"]["%SRCROOT%"]["uri"], "file:///repo/");
        let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
        let ids: Vec<_> = rules.iter().map(|rule| rule["id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["bad-on", "zero-jobs"]);
        assert_eq!(
            run["results"][0],
            json!({
                "ruleId": "zero-jobs",
                "ruleIndex": 1,
                "level": "warning",
                "message": { "text": "no jobs\nhelp: add one" },
                "locations": [{ "physicalLocation": {
                    "artifactLocation": { "uri": "a%20b/ci.yml", "uriBaseId": "%SRCROOT%" },
                    "region": { "startLine": 2, "startColumn": 1, "endLine": 2, "endColumn": 9 },
                }}],
            })
        );
        assert_eq!(run["results"][1]["level"], "error");
        assert_eq!(run["results"][1]["relatedLocations"][0]["message"]["text"], "see here");
    }

    #[test]
    fn a_clean_run_is_still_a_valid_log() {
        let log: Value = serde_json::from_str(&render(&[], Path::new("/"))).unwrap();
        assert_eq!(log["runs"][0]["results"], json!([]));
        assert_eq!(log["runs"][0]["originalUriBaseIds"]["%SRCROOT%"]["uri"], "file:///");
    }

    #[test]
    fn paths_become_uris() {
        assert_eq!(encode("a b/c%d:ü.yml"), "a%20b/c%25d%3A%C3%BC.yml");
        assert_eq!(encode(".github/workflows/ci-1_2~.yml"), ".github/workflows/ci-1_2~.yml");
    }
}
