//! `--format github`: workflow commands that become annotations.

use std::fmt::Write as _;
use std::path::Path;

use super::Finding;

/// Paths are written from `base`, the root of the repository, where GitHub looks for them.
pub(crate) fn render(findings: &[Finding<'_>], base: &Path) -> String {
    findings.iter().map(|found| command(found, base)).collect()
}

fn command(found: &Finding<'_>, base: &Path) -> String {
    let (start, end) = (found.start(), found.end());
    let path = found.path_from(base, found.diagnostic.span);
    let mut properties = format!(
        "file={},line={},endLine={}",
        property(&path.to_string_lossy()),
        start.line,
        end.line
    );
    // GitHub refuses columns for annotations of more than one line.
    if start.line == end.line {
        let _ = write!(properties, ",col={},endColumn={}", start.column, end.column);
    }
    format!(
        "::{} {properties},title={}::{}\n",
        found.diagnostic.severity.as_str(),
        property(found.diagnostic.code),
        data(&found.full_message())
    )
}

fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use kiln_lang::diag::Diagnostic;
    use kiln_lang::source::Span;

    use super::*;
    use crate::output::findings;
    use crate::testing::checked;

    #[test]
    fn a_finding_becomes_an_annotation_with_everything_escaped() {
        let checked = [checked("dir,a:b/100%.yml", "on: push\njobs:\n", |file| {
            vec![
                Diagnostic::error("bad-on", Span::new(file, 0, 2), "50% off::\r\nreally")
                    .help("a, b"),
                Diagnostic::warning("long", Span::new(file, 4, 12), "two lines"),
            ]
        })];
        assert_eq!(
            render(&findings(&checked), Path::new("/repo")),
            "::error file=dir%2Ca%3Ab/100%25.yml,line=1,endLine=1,col=1,endColumn=3,title=bad-on\
             ::50%25 off::%0D%0Areally%0Ahelp: a, b\n\
             ::warning file=dir%2Ca%3Ab/100%25.yml,line=1,endLine=2,title=long::two lines\n"
        );
    }

    #[test]
    fn a_file_outside_the_repository_keeps_its_whole_path() {
        let checked =
            [checked("a.yml", "", |file| vec![Diagnostic::error("x", Span::new(file, 0, 0), "m")])];
        let text = render(&findings(&checked), Path::new("/elsewhere"));
        assert!(text.contains("file=/repo/a.yml,"), "{text}");
    }
}
