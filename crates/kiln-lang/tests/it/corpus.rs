//! A corpus of our own: files that must be read without a word, and mistakes that people make, each
//! with the diagnostics it is answered with.
//!
//! `UPDATE_EXPECT=1` rewrites the expectations; read the difference before you commit it.

mod coverage;
mod render;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use kiln_lang::diag::Diagnostic;
use kiln_lang::source::{FileId, SourceMap};
use kiln_lang::workflow::{self, Document, FileKind};

/// One file of the corpus.
pub(crate) struct Sample {
    /// Folder and file: `bad/empty-file.yml`.
    pub(crate) name: String,
    pub(crate) kind: FileKind,
    pub(crate) text: String,
}

/// What the language says about a text.
pub(crate) struct Reading {
    pub(crate) sources: SourceMap,
    pub(crate) document: Option<Document>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

pub(crate) fn read(name: &str, kind: FileKind, text: &str) -> Reading {
    let mut sources = SourceMap::new();
    let file: FileId = sources.add(name, text);
    let (document, diagnostics) = workflow::read(file, kind, &sources);
    Reading { sources, document, diagnostics }
}

impl Sample {
    pub(crate) fn read(&self) -> Reading {
        read(&self.name, self.kind, &self.text)
    }

    fn expectation(&self) -> PathBuf {
        folder().join(&self.name).with_extension("expected")
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

/// The files of `good` or `bad`, sorted by name.
pub(crate) fn samples(group: &str) -> Vec<Sample> {
    let entries = fs::read_dir(folder().join(group)).expect("the corpus has this folder");
    let names = entries.map(|entry| entry.expect("the folder can be listed").file_name());
    let mut names: Vec<String> =
        names.map(|name| name.into_string().expect("names are plain")).collect();
    names.retain(|name| has_extension(name, "yml"));
    names.sort();
    let sample = |name: String| {
        let text = fs::read_to_string(folder().join(group).join(&name)).expect("the text is UTF-8");
        Sample { kind: kind(&name), name: format!("{group}/{name}"), text }
    };
    names.into_iter().map(sample).collect()
}

pub(crate) fn all_samples() -> Vec<Sample> {
    samples("good").into_iter().chain(samples("bad")).collect()
}

/// Actions and companions cannot have their real names here, where many lie side by side.
fn kind(name: &str) -> FileKind {
    match name.trim_end_matches(".yml").rsplit_once('.') {
        Some((_, "action")) => FileKind::Action,
        Some((_, "companion")) => FileKind::Companion,
        _ => FileKind::Workflow,
    }
}

fn has_extension(name: &str, extension: &str) -> bool {
    Path::new(name).extension().is_some_and(|own| own == extension)
}

/// Whether expectations are to be rewritten instead of compared.
pub(crate) fn updating() -> bool {
    env::var_os("UPDATE_EXPECT").is_some()
}

/// P1
#[test]
fn good_files_are_read_without_a_word() {
    let mut complaints = Vec::new();
    for sample in samples("good") {
        let reading = sample.read();
        if reading.document.is_none() || !reading.diagnostics.is_empty() {
            let found = render::all(&reading.diagnostics, &reading.sources);
            complaints.push(format!("{}:\n{found}", sample.name));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// P5
#[test]
fn each_mistake_is_answered_as_expected() {
    let mut differing = Vec::new();
    for sample in samples("bad") {
        let reading = sample.read();
        if reading.diagnostics.is_empty() {
            differing.push(format!("{}, about which nothing is said", sample.name));
            continue;
        }
        let found = render::all(&reading.diagnostics, &reading.sources);
        if updating() {
            fs::write(sample.expectation(), found).expect("the expectation can be written");
        } else if fs::read_to_string(sample.expectation()).unwrap_or_default() != found {
            differing.push(format!("{}, which is now answered with:\n{found}", sample.name));
        }
    }
    assert!(differing.is_empty(), "UPDATE_EXPECT=1 accepts changes of\n{}", differing.join("\n"));
}

#[test]
fn every_expectation_has_its_file() {
    let entries = fs::read_dir(folder().join("bad")).expect("the corpus has this folder");
    for entry in entries {
        let path = entry.expect("the folder can be listed").path();
        assert!(path.with_extension("yml").exists(), "{} is left over", path.display());
    }
}

#[test]
fn the_corpus_is_large_enough() {
    let (good, bad) = (samples("good").len(), samples("bad").len());
    assert!(good >= 90 && bad >= 130, "{good} good and {bad} bad files");
}
