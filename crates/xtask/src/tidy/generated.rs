//! Generated references say what the code says today.

use anyhow::Result;

use super::Finding;
use crate::generate;
use crate::repository::Repository;

pub(super) fn check(repository: &Repository) -> Result<Vec<Finding>> {
    let outputs = generate::outputs(repository)?;
    Ok(compare(repository, &outputs))
}

fn compare(repository: &Repository, outputs: &[generate::Output]) -> Vec<Finding> {
    outputs
        .iter()
        .filter(|output| repository.text(&output.path) != Some(&output.text))
        .map(|output| Finding::in_file(&output.path, "is out of date: run `cargo xtask gen`"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_differs_or_is_missing_is_out_of_date() {
        let repository = Repository::fixture(&[("a.md", "old"), ("b.md", "same")]);
        let output = |path: &str, text: &str| generate::Output {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let outputs = [output("a.md", "new"), output("b.md", "same"), output("c.md", "new")];
        let found: Vec<String> =
            compare(&repository, &outputs).into_iter().map(|finding| finding.path).collect();
        assert_eq!(found, ["a.md", "c.md"]);
    }
}
