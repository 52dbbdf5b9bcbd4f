//! Dependencies between our crates point downwards only, along the edges written here.

use super::Finding;
use crate::repository::{Package, Repository};

/// Each crate and those it may use. Crates that later issues bring already have their place.
const ALLOWED: &[(&str, &[&str])] = &[
    ("kiln-core", &[]),
    ("kiln-fault", &[]),
    ("kiln-lang", &["kiln-core"]),
    ("kiln-proto", &["kiln-core"]),
    ("kiln-blob", &["kiln-core"]),
    ("kiln-store", &["kiln-core", "kiln-fault"]),
    ("kiln-sim", &["kiln-core"]),
    ("kiln-runner", &["kiln-core", "kiln-fault", "kiln-lang", "kiln-proto", "kiln-blob"]),
    (
        "kiln-server",
        &["kiln-core", "kiln-fault", "kiln-lang", "kiln-proto", "kiln-blob", "kiln-store"],
    ),
    ("kiln", PRODUCT),
    (TESTKIT, PRODUCT),
    ("xtask", &["kiln-lang"]),
];

const PRODUCT: &[&str] = &[
    "kiln-core",
    "kiln-fault",
    "kiln-lang",
    "kiln-proto",
    "kiln-blob",
    "kiln-store",
    "kiln-sim",
    "kiln-runner",
    "kiln-server",
];

/// Any crate's tests may use it, nothing else may.
const TESTKIT: &str = "kiln-testkit";

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    repository.packages.iter().flat_map(check_package).collect()
}

fn check_package(package: &Package) -> Vec<Finding> {
    let manifest = format!("crates/{}/Cargo.toml", package.name);
    let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == package.name) else {
        let message = "this crate has no place in the layers yet: add it to xtask's `edges.rs`";
        return vec![Finding::in_file(&manifest, message)];
    };
    package
        .dependencies
        .iter()
        .filter(|used| ALLOWED.iter().any(|(ours, _)| *ours == used.name))
        .filter(|used| !(used.only_for_tests && used.name == TESTKIT))
        .filter(|used| !allowed.contains(&used.name.as_str()))
        .map(|used| {
            let message = format!("`{}` must not depend on `{}`", package.name, used.name);
            Finding::in_file(&manifest, message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::Dependency;

    fn check(name: &str, used: &str, only_for_tests: bool, expected: &[&str]) {
        let dependencies = vec![Dependency { name: used.to_owned(), only_for_tests }];
        let package = Package { name: name.to_owned(), description: String::new(), dependencies };
        let found: Vec<String> =
            check_package(&package).into_iter().map(|found| found.message).collect();
        assert_eq!(found, expected, "{name} → {used}");
    }

    #[test]
    fn downward_edges_are_allowed() {
        check("kiln-lang", "kiln-core", false, &[]);
        check("kiln", "kiln-server", false, &[]);
        check("kiln-core", "indexmap", false, &[]);
    }

    #[test]
    fn upward_and_sideways_edges_are_refused() {
        let message = "`kiln-core` must not depend on `kiln-lang`";
        check("kiln-core", "kiln-lang", false, &[message]);
        check("kiln-core", "kiln-lang", true, &[message]);
        let message = "`kiln-server` must not depend on `kiln-runner`";
        check("kiln-server", "kiln-runner", false, &[message]);
        check("kiln-lang", "xtask", false, &["`kiln-lang` must not depend on `xtask`"]);
    }

    #[test]
    fn the_testkit_is_for_tests_only() {
        check("kiln-server", "kiln-testkit", true, &[]);
        let message = "`kiln-server` must not depend on `kiln-testkit`";
        check("kiln-server", "kiln-testkit", false, &[message]);
    }

    #[test]
    fn a_crate_nobody_placed_is_refused() {
        let message = "this crate has no place in the layers yet: add it to xtask's `edges.rs`";
        check("kiln-extra", "serde", false, &[message]);
    }
}
