//! Which capabilities of the catalogue no test names yet: a list to work on, not an error.

use std::collections::BTreeSet;

use crate::repository::Repository;

const CATALOGUE: &str = "crates/xtask/catalogue.txt";

pub(super) fn note(repository: &Repository) -> Option<String> {
    let tested: BTreeSet<&str> =
        repository.texts(".rs").flat_map(|(_, text)| ids_of_tests(text)).collect();
    let catalogue = repository.text(CATALOGUE).unwrap_or_default();
    let untested: Vec<&str> = entries(catalogue).filter(|id| !tested.contains(id)).collect();
    let total = entries(catalogue).count();
    (!untested.is_empty()).then(|| {
        let count = untested.len();
        format!("{count} of {total} catalogue ids have no test yet: {}", untested.join(" "))
    })
}

/// The ids, which are the first words of the lines.
fn entries(catalogue: &str) -> impl Iterator<Item = &str> {
    catalogue
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_whitespace().next())
}

/// The words in the doc comments of test functions; ids are among them.
fn ids_of_tests(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut docs: Vec<&str> = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        if let Some(doc) = line.strip_prefix("///") {
            docs.push(doc);
        } else if line.starts_with("#[") {
            is_test |= line.ends_with("test]") || line.contains("test(");
        } else if line.starts_with("on_both!") {
            // Makes two tests of a function; what it is about stands inside.
            is_test = true;
            docs.clear();
        } else {
            if is_test {
                found.extend(docs.iter().flat_map(|doc| doc.split(|c: char| !c.is_alphanumeric())));
            }
            docs.clear();
            is_test = false;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(test: &str, expected: Option<&str>) {
        let list = "# Titles of our own.\nP1   workflow files\nP2   expressions\n";
        let repository = Repository::fixture(&[(CATALOGUE, list), ("tests/a.rs", test)]);
        assert_eq!(note(&repository).as_deref(), expected, "{test}");
    }

    #[test]
    fn ids_in_the_docs_of_tests_count() {
        check("/// P1, P2: both.\n#[test]\nfn a() {}\n", None);
        check("on_both! {\n    /// P1 P2\n    a_name\n}\n", None);
        check(
            "#[tokio::test]\n/// P2\nasync fn a() {}\n",
            Some("1 of 2 catalogue ids have no test yet: P1"),
        );
    }

    #[test]
    fn ids_elsewhere_do_not_count() {
        let none = Some("2 of 2 catalogue ids have no test yet: P1 P2");
        check("/// P1\nfn helper() {}\n\n#[test]\nfn a() {}\n", none);
        check("#[test]\nfn a() {\n    // P1 and P2\n}\n", none);
    }
}
