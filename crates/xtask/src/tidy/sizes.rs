//! No tracked file is large: a clone stays quick, and big data is made or fetched by scripts.

use super::Finding;
use crate::repository::Repository;

const LIMIT: u64 = 1024 * 1024;

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    repository
        .files
        .iter()
        .filter(|file| file.bytes > LIMIT)
        .map(|file| {
            let message = format!("has {} bytes; a tracked file may have {LIMIT}", file.bytes);
            Finding::in_file(&file.path, message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: usize, expected: usize) {
        let text = "x".repeat(bytes);
        assert_eq!(super::check(&Repository::fixture(&[("a.bin", &text)])).len(), expected);
    }

    #[test]
    fn a_mebibyte_is_the_most() {
        check(1024 * 1024, 0);
        check(1024 * 1024 + 1, 1);
    }
}
