//! Tests of the pages about findings.

use std::collections::BTreeSet;

use kiln_lang::compile::{Library, LoadedFile, Lookup, compile};
use kiln_lang::source::SourceMap;
use kiln_lang::workflow;
use kiln_lang::workflow::uses::CallTarget;

use super::*;

const PAGE: &str = "docs/diagnostics.md";

/// Findings about sizes, whose examples would be too long to print.
const WITHOUT_EXAMPLE: [&str; 4] =
    ["file-too-large", "too-deep", "too-many-calls", "too-many-nodes"];

#[test]
fn a_page_that_belongs_to_no_check_is_refused() {
    let error = generate(&Repository::fixture(&[("docs/checks/gone.md", "")])).unwrap_err();
    assert_eq!(error.to_string(), "docs/checks/gone.md belongs to no check: delete it");
}

#[test]
fn every_check_has_a_page_and_a_line_in_the_index() {
    let outputs = generate(&Repository::fixture(&[])).unwrap();
    assert_eq!(outputs.len(), CHECKS.len() + 1);
    for check in CHECKS {
        assert!(outputs[0].text.contains(&format!("({}.md)", check.code)), "{}", check.code);
    }
}

/// The first word in quotes after each `Diagnostic::error(`.
fn codes(text: &str) -> impl Iterator<Item = &str> {
    text.split("Diagnostic::error(").skip(1).filter_map(|rest| {
        let (code, _) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
        Some(code)
    })
}

/// The sections of the page: a code and what stands below it.
fn sections(page: &str) -> Vec<(&str, &str)> {
    page.split("\n## `").skip(1).filter_map(|section| section.split_once("`\n")).collect()
}

#[test]
fn every_code_of_the_language_is_explained() {
    let repository = Repository::open().unwrap();
    let sources = repository
        .texts(".rs")
        .filter(|(path, _)| path.starts_with("crates/kiln-lang/src/") && !path.contains("/lint/"));
    let used: BTreeSet<&str> = sources.flat_map(|(_, text)| codes(text)).collect();
    let page = repository.text(PAGE).unwrap();
    let explained: BTreeSet<&str> = sections(page).into_iter().map(|(code, _)| code).collect();
    assert_eq!(explained, used);
}

/// The second block of an example: the workflow it calls, or its companion.
struct Beside<'a>(Option<&'a str>);

impl Beside<'_> {
    fn load(&self, path: &str, is_workflow: bool) -> Option<LoadedFile> {
        let text = self.0.filter(|text| text.starts_with("on:") == is_workflow)?;
        Some(LoadedFile { path: path.to_owned(), text: text.to_owned() })
    }
}

impl Library for Beside<'_> {
    fn workflow(&self, target: &CallTarget) -> Lookup {
        match target {
            CallTarget::Local(path) => self.load(path, true).map_or(Lookup::Missing, Lookup::Found),
            CallTarget::Remote { .. } => Lookup::OutOfReach,
        }
    }

    fn companion(&self, workflow_path: &str) -> Option<LoadedFile> {
        self.load("companion", false).filter(|_| workflow_path.ends_with("example.yml"))
    }
}

/// P5
#[test]
fn every_example_of_the_language_triggers_its_code() {
    let repository = Repository::open().unwrap();
    for (code, section) in sections(repository.text(PAGE).unwrap()) {
        let mut blocks =
            section.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
        let Some(example) = blocks.next() else {
            assert!(WITHOUT_EXAMPLE.contains(&code), "{code} has no example");
            continue;
        };
        let mut sources = SourceMap::new();
        let path = ".github/workflows/example.yml";
        let compiled = compile(&mut sources, path, example, &Beside(blocks.next()), None);
        let found = compiled.diagnostics.iter().map(|found| found.code);
        let found: BTreeSet<&str> =
            found.filter(|found| code != "broken-call" || *found == code).collect();
        assert_eq!(found, BTreeSet::from([code]), "\n{example}");
    }
}

#[test]
fn our_own_examples_are_clean() {
    let repository = Repository::open().unwrap();
    let examples = repository.texts(".yml").filter(|(path, _)| path.starts_with("examples/"));
    let mut count = 0;
    for (path, text) in examples {
        let mut sources = SourceMap::new();
        let file = sources.add(path, text);
        let (document, refused) = workflow::read(file, FileKind::of_path(path), &sources);
        let found = kiln_lang::lint::check(&document.unwrap(), &sources);
        assert!(refused.is_empty() && found.is_empty(), "{path}: {refused:#?} {found:#?}");
        count += 1;
    }
    assert!(count > 5, "only {count} examples were found");
}
