//! Files and functions stay short enough to be read at once.
//!
//! Lines of inline tests do not count. What was too long when the rule came is listed in
//! `tidy-exceptions.txt` with its length; the list can only shrink.

use super::Finding;
use crate::repository::Repository;
use crate::rust_text;

const EXCEPTIONS: &str = "crates/xtask/tidy-exceptions.txt";
const FILE_AIM: usize = 400;
const FILE_LIMIT: usize = 800;
const FUNCTION_LIMIT: usize = 70;

/// A length that was measured: of a file, or of a function in it.
#[derive(Debug, PartialEq, Eq)]
struct Measured {
    /// As the list of exceptions names it: `file PATH` or `function PATH NAME`.
    subject: String,
    path: String,
    line: usize,
    lines: usize,
    limit: usize,
}

/// An entry of the list: this subject may have so many lines.
#[derive(Debug)]
struct Exception {
    line: usize,
    subject: String,
    lines: usize,
}

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let measured: Vec<Measured> =
        repository.texts(".rs").flat_map(|(path, text)| measure(path, text)).collect();
    let (exceptions, mut findings) = exceptions(repository.text(EXCEPTIONS).unwrap_or_default());
    findings.extend(compare(&measured, &exceptions));
    findings
}

/// Files above the aim but below the limit.
pub(super) fn notes(repository: &Repository) -> Vec<String> {
    repository
        .texts(".rs")
        .filter(|(path, _)| !rust_text::is_test_path(path))
        .map(|(path, text)| (path, lines_without_tests(text)))
        .filter(|(_, lines)| (FILE_AIM + 1..=FILE_LIMIT).contains(lines))
        .map(|(path, lines)| format!("{path} has {lines} lines; the aim is {FILE_AIM}"))
        .collect()
}

fn lines_without_tests(text: &str) -> usize {
    let in_tests: usize = rust_text::test_items(&rust_text::code(text))
        .into_iter()
        .map(|item| text[item].lines().count())
        .sum();
    text.lines().count() - in_tests
}

/// Tests are held to the file limit only: their tables may be as long as they need.
fn measure(path: &str, text: &str) -> Vec<Measured> {
    let of_file = |lines| Measured {
        subject: format!("file {path}"),
        path: path.to_owned(),
        line: 1,
        lines,
        limit: FILE_LIMIT,
    };
    if rust_text::is_test_path(path) {
        return vec![of_file(text.lines().count())];
    }
    let code = rust_text::code(text);
    let tests = rust_text::test_items(&code);
    let of_functions = rust_text::functions(&code)
        .into_iter()
        .filter(|function| !tests.iter().any(|item| item.contains(&function.at)))
        .map(|function| Measured {
            subject: format!("function {path} {}", function.name),
            path: path.to_owned(),
            line: rust_text::line_of(&code, function.at),
            lines: function.lines,
            limit: FUNCTION_LIMIT,
        });
    std::iter::once(of_file(lines_without_tests(text))).chain(of_functions).collect()
}

/// Reads lines such as `function crates/a/src/b.rs name 75`; `#` starts a comment.
fn exceptions(text: &str) -> (Vec<Exception>, Vec<Finding>) {
    let (mut exceptions, mut findings) = (Vec::new(), Vec::new());
    for (index, entry) in text.lines().enumerate() {
        let (line, entry) = (index + 1, entry.trim());
        if entry.is_empty() || entry.starts_with('#') {
            continue;
        }
        let parsed = entry.rsplit_once(' ').and_then(|(subject, lines)| {
            Some(Exception { line, subject: subject.to_owned(), lines: lines.parse().ok()? })
        });
        if let Some(exception) = parsed {
            exceptions.push(exception);
        } else {
            let message = "expected `file PATH LINES` or `function PATH NAME LINES`";
            findings.push(Finding::on_line(EXCEPTIONS, line, message));
        }
    }
    (exceptions, findings)
}

fn compare(measured: &[Measured], exceptions: &[Exception]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for found in measured.iter().filter(|found| found.lines > found.limit) {
        let exception = exceptions.iter().find(|entry| entry.subject == found.subject);
        let allowed = exception.map_or(found.limit, |entry| entry.lines);
        if found.lines > allowed {
            let what = found.subject.rsplit(' ').next().unwrap_or_default();
            let message = format!("`{what}` has {} lines; {allowed} are allowed", found.lines);
            findings.push(Finding::on_line(&found.path, found.line, message));
        }
    }
    for entry in exceptions {
        // Functions of one name in one file share an entry, which the longest of them needs.
        let longest = measured
            .iter()
            .filter(|found| found.subject == entry.subject && found.lines > found.limit)
            .map(|found| found.lines)
            .max();
        let message = match longest {
            None => "no longer needed: remove the entry".to_owned(),
            Some(lines) if lines < entry.lines => format!("lower the entry to {lines}"),
            Some(_) => continue,
        };
        findings.push(Finding::on_line(EXCEPTIONS, entry.line, message));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)], list: &str, expected: &[&str]) {
        let mut files = files.to_vec();
        files.push((EXCEPTIONS, list));
        let found: Vec<String> =
            super::check(&Repository::fixture(&files)).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }

    fn function_of(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
    }

    #[test]
    fn a_function_may_have_seventy_lines_and_no_more() {
        check(&[("src/a.rs", &function_of(70))], "", &[]);
        let message = "src/a.rs:1: `long` has 71 lines; 70 are allowed";
        check(&[("src/a.rs", &function_of(71))], "", &[message]);
    }

    #[test]
    fn long_tables_in_tests_are_fine() {
        check(&[("tests/a.rs", &function_of(200))], "", &[]);
        let inline = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", function_of(900));
        check(&[("src/a.rs", &inline)], "", &[]);
    }

    #[test]
    fn a_file_may_have_eight_hundred_lines_besides_its_tests() {
        check(&[("src/a.rs", &"//\n".repeat(800))], "", &[]);
        let message = "src/a.rs:1: `src/a.rs` has 801 lines; 800 are allowed";
        check(&[("src/a.rs", &"//\n".repeat(801))], "", &[message]);
        let message = "tests/a.rs:1: `tests/a.rs` has 801 lines; 800 are allowed";
        check(&[("tests/a.rs", &"//\n".repeat(801))], "", &[message]);
    }

    #[test]
    fn an_exception_allows_its_length_and_no_more() {
        let list = "# why\nfunction src/a.rs long 90\n";
        check(&[("src/a.rs", &function_of(90))], list, &[]);
        let message = "src/a.rs:1: `long` has 91 lines; 90 are allowed";
        check(&[("src/a.rs", &function_of(91))], list, &[message]);
    }

    #[test]
    fn the_list_of_exceptions_must_shrink() {
        let list = "function src/a.rs long 90\n";
        let at = "crates/xtask/tidy-exceptions.txt:1:";
        check(&[("src/a.rs", &function_of(80))], list, &[&format!("{at} lower the entry to 80")]);
        let gone = format!("{at} no longer needed: remove the entry");
        check(&[("src/a.rs", &function_of(60))], list, &[&gone]);
        check(&[], list, &[&gone]);
    }

    #[test]
    fn a_garbled_exception_is_refused() {
        let message = "crates/xtask/tidy-exceptions.txt:1: \
                       expected `file PATH LINES` or `function PATH NAME LINES`";
        check(&[], "file src/a.rs many\n", &[message]);
    }

    #[test]
    fn files_above_the_aim_are_noted() {
        let repository = Repository::fixture(&[("src/a.rs", &"//\n".repeat(401))]);
        assert_eq!(notes(&repository), ["src/a.rs has 401 lines; the aim is 400"]);
    }
}
