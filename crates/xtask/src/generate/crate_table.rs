//! The table of crates in `ARCHITECTURE.md`, from their manifests.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};

use super::{Output, replace_section};
use crate::repository::{Package, Repository};

const PAGE: &str = "ARCHITECTURE.md";

pub(super) fn generate(repository: &Repository) -> Result<Vec<Output>> {
    let page = repository.text(PAGE).with_context(|| format!("{PAGE} is missing"))?;
    let text = replace_section(page, "crates", &table(&repository.packages))
        .with_context(|| format!("cannot update {PAGE}"))?;
    Ok(vec![Output { path: PAGE.to_owned(), text }])
}

fn table(packages: &[Package]) -> String {
    let mut table = String::from("| crate | what it owns | uses |\n|---|---|---|\n");
    for package in packages {
        let used: Vec<String> = packages
            .iter()
            .filter(|other| package.dependencies.iter().any(|used| used.name == other.name))
            .map(|other| format!("`{}`", other.name))
            .collect();
        let used = if used.is_empty() { "nothing of ours".to_owned() } else { used.join(", ") };
        writeln!(table, "| `{}` | {} | {used} |", package.name, package.description)
            .expect("writing to a string does not fail");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::Dependency;

    #[test]
    fn the_table_lists_crates_and_what_they_use() {
        let package = |name: &str, used: &[&str]| Package {
            name: name.to_owned(),
            description: format!("does {name}"),
            dependencies: used
                .iter()
                .map(|name| Dependency { name: (*name).to_owned(), only_for_tests: false })
                .collect(),
        };
        let packages = [package("a", &["b", "serde"]), package("b", &[])];
        let expected = "| crate | what it owns | uses |\n|---|---|---|\n\
                        | `a` | does a | `b` |\n| `b` | does b | nothing of ours |\n";
        assert_eq!(table(&packages), expected);
    }
}
