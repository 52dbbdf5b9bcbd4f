//! Diagnostics with the names and positions that people and programs see.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use kiln_lang::diag::Diagnostic;
use kiln_lang::source::{Position, SourceMap, Span};

use crate::find::Target;
use crate::lang::Read;

/// One target and all that was found about it.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) target: Target,
    pub(crate) read: Read,
}

/// One diagnostic with its surroundings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Finding<'a> {
    pub(crate) checked: &'a Checked,
    pub(crate) diagnostic: &'a Diagnostic,
}

impl<'a> Finding<'a> {
    pub(crate) fn sources(&self) -> &'a SourceMap {
        &self.checked.read.sources
    }

    /// The name of the file of a span, as people see it.
    pub(crate) fn file(&self, span: Span) -> String {
        self.checked.target.shown(self.sources().file(span.file).name())
    }

    /// The path of the file of a span from `base`, with slashes; absolute when it lies elsewhere.
    pub(crate) fn path_from(&self, base: &Path, span: Span) -> PathBuf {
        let path = self.checked.target.absolute(self.sources().file(span.file).name());
        path.strip_prefix(base).map(Path::to_owned).unwrap_or(path)
    }

    pub(crate) fn start(&self) -> Position {
        self.sources().start(self.diagnostic.span)
    }

    pub(crate) fn end(&self) -> Position {
        self.sources().end(self.diagnostic.span)
    }

    /// Message and help as one text.
    pub(crate) fn full_message(&self) -> String {
        let Diagnostic { message, help, .. } = self.diagnostic;
        match help {
            Some(help) => format!("{message}\nhelp: {help}"),
            None => message.clone(),
        }
    }
}

/// All findings in order. A reusable workflow is read once for itself and once for each caller;
/// what is found in it is reported once.
pub(crate) fn findings(checked: &[Checked]) -> Vec<Finding<'_>> {
    let mut seen = HashSet::new();
    let all = checked.iter().flat_map(|checked| {
        let diagnostics = checked.read.diagnostics.iter();
        diagnostics.map(move |diagnostic| Finding { checked, diagnostic })
    });
    all.filter(|found| {
        let Diagnostic { span, code, message, .. } = found.diagnostic;
        seen.insert((found.file(*span), span.start, span.end, *code, message))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::checked;

    fn found(name: &str) -> Checked {
        checked(name, "on: push\n", |file| {
            vec![
                Diagnostic::error("a", Span::new(file, 0, 2), "first"),
                Diagnostic::warning("b", Span::new(file, 4, 8), "second"),
            ]
        })
    }

    #[test]
    fn what_two_readings_find_is_reported_once() {
        let all = [found("a.yml"), found("a.yml"), found("b.yml")];
        let files: Vec<_> = findings(&all)
            .iter()
            .map(|found| (found.file(found.diagnostic.span), found.diagnostic.code))
            .collect();
        let expect = [("a.yml", "a"), ("a.yml", "b"), ("b.yml", "a"), ("b.yml", "b")];
        assert_eq!(files, expect.map(|(file, code)| (file.to_owned(), code)));
    }
}
