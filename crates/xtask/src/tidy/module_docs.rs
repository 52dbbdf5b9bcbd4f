//! Every Rust file begins by saying what it is for.

use super::Finding;
use crate::repository::Repository;

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    repository
        .texts(".rs")
        .filter(|(_, text)| !text.starts_with("//! "))
        .map(|(path, _)| {
            Finding::on_line(path, 1, "must start with a `//!` line on what it is for")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: usize) {
        assert_eq!(
            super::check(&Repository::fixture(&[("src/a.rs", text)])).len(),
            expected,
            "{text}"
        );
    }

    #[test]
    fn a_file_starts_with_its_purpose() {
        check("//! What it is for.\n\nfn a() {}\n", 0);
        check("// A remark.\nfn a() {}\n", 1);
        check("fn a() {}\n", 1);
        check("", 1);
    }
}
