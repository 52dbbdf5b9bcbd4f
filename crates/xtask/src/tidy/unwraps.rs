//! Outside tests nothing unwraps: `expect` says why it holds.

use super::Finding;
use crate::repository::Repository;
use crate::rust_text;

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    repository
        .texts(".rs")
        .filter(|(path, _)| !rust_text::is_test_path(path))
        .flat_map(|(path, text)| check_text(path, text))
        .collect()
}

fn check_text(path: &str, text: &str) -> Vec<Finding> {
    let code = rust_text::code(text);
    let tests = rust_text::test_items(&code);
    code.match_indices(".unwrap()")
        .filter(|(at, _)| !tests.iter().any(|item| item.contains(at)))
        .map(|(at, _)| {
            let line = rust_text::line_of(&code, at);
            Finding::on_line(
                path,
                line,
                "`.unwrap()` outside tests; use `expect(\"why it holds\")`",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str, expected_lines: &[usize]) {
        let found: Vec<usize> = super::check(&Repository::fixture(&[(path, text)]))
            .into_iter()
            .map(|finding| finding.line.expect("an unwrap stands on a line"))
            .collect();
        assert_eq!(found, expected_lines, "{text}");
    }

    #[test]
    fn unwraps_in_the_product_are_found() {
        check("src/a.rs", "fn a() {\n    b().unwrap();\n    c()\n        .unwrap();\n}\n", &[2, 4]);
    }

    #[test]
    fn unwraps_in_tests_comments_and_texts_are_fine() {
        check("src/a.rs", "#[cfg(test)]\nmod tests {\n    fn a() { b().unwrap(); }\n}\n", &[]);
        check("tests/a.rs", "fn a() { b().unwrap(); }\n", &[]);
        check("src/a.rs", "// b.unwrap()\nconst A: &str = \"b.unwrap()\";\n", &[]);
        check("src/a.rs", "fn a() { b().unwrap_or(1); }\n", &[]);
    }
}
