//! What the tests of the checks share.

use super::{CHECKS, Example, check as check_all};
use crate::diag::Diagnostic;
use crate::source::SourceMap;
use crate::workflow::{FileKind, read};

/// All findings of all checks, whatever the language thinks of the text.
pub(super) fn all(kind: FileKind, text: &str) -> (Vec<Diagnostic>, Vec<Diagnostic>, SourceMap) {
    let mut sources = SourceMap::new();
    let file = sources.add("test.yml", text);
    let (document, refused) = read(file, kind, &sources);
    let found = document.map_or_else(Vec::new, |document| check_all(&document, &sources));
    (found, refused, sources)
}

/// All findings about an example, which the language must accept.
pub(super) fn findings(example: &Example) -> Vec<Diagnostic> {
    let (found, refused, _) = all(example.kind, example.text);
    assert!(refused.is_empty(), "{}\n{refused:#?}", example.text);
    found
}

/// Expects the findings of one check, each as `line:column message`.
#[track_caller]
pub(super) fn check(code: &str, text: &str, expected: &[&str]) {
    assert!(CHECKS.iter().any(|check| check.code == code), "no check `{code}`");
    let kind = if text.contains("\nruns:") { FileKind::Action } else { FileKind::Workflow };
    let (found, refused, sources) = all(kind, text);
    assert!(refused.is_empty(), "{text}\n{refused:#?}");
    let found: Vec<String> = found
        .iter()
        .filter(|found| found.code == code)
        .map(|found| {
            let start = sources.start(found.span);
            format!("{}:{} {}", start.line, start.column, found.message)
        })
        .collect();
    assert_eq!(found, expected, "\n{text}");
}

/// The help of the first finding of a check.
#[track_caller]
pub(super) fn help(code: &str, text: &str) -> String {
    let (found, _, _) = all(FileKind::Workflow, text);
    let first = found.into_iter().find(|found| found.code == code).expect("there is a finding");
    first.help.expect("it has a help")
}

/// A workflow with one job; the steps start on line 7.
pub(super) fn steps(steps: &str) -> String {
    let mut text = String::from(
        "on: push\npermissions: {}\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps:\n",
    );
    for line in steps.lines() {
        text.extend(["      ", line, "\n"]);
    }
    text
}

/// A workflow with one script in the default shell, which starts on line 8 at column 11.
pub(super) fn script(script: &str) -> String {
    let lines: Vec<String> = script.lines().map(|line| format!("    {line}")).collect();
    steps(&format!("- run: |\n{}", lines.join("\n")))
}
