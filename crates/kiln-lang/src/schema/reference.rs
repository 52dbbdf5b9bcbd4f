//! The table as a page: every feature of the workflow language and whether Kiln takes it.

use std::fmt::Write as _;

use crate::expr::names::BUILT_IN;
use crate::trigger::{EVENTS, Support};

use super::describe::expected;
use super::events::filter_names;
use super::workflow_call::{CALL, DISPATCH, SCHEDULE};
use super::{ACTION, Allowed, COMPANION, Def, Key, Mapping, Shape, WORKFLOW};

/// One row: a key at its path.
#[derive(Debug)]
pub struct Row {
    pub path: String,
    pub takes: String,
    pub allowed: Allowed,
    pub required: bool,
    pub support: Support,
    pub doc: &'static str,
}

/// Every key of a table, in the order of the table.
pub fn rows(def: &'static Def) -> Vec<Row> {
    let mut rows = Vec::new();
    walk(def, "", Allowed::NOTHING, &mut rows);
    rows
}

fn walk(def: &'static Def, path: &str, outer: Allowed, rows: &mut Vec<Row>) {
    let allowed = outer.and(def.allowed);
    match &def.shape {
        Shape::Mapping(mapping) => walk_mapping(mapping, path, allowed, rows),
        Shape::Sequence(item) => walk(item, &format!("{path}[*]"), allowed, rows),
        Shape::OneOf(choices) => {
            for choice in *choices {
                walk(choice, path, allowed, rows);
            }
        }
        Shape::Variants(variants) => {
            for (_, mapping) in variants.choices {
                walk_mapping(mapping, path, allowed, rows);
            }
        }
        Shape::Events => walk_events(path, rows),
        _ => {}
    }
}

fn walk_mapping(mapping: &'static Mapping, path: &str, allowed: Allowed, rows: &mut Vec<Row>) {
    for key in mapping.keys {
        let path = join(path, key.name);
        // Variants share keys, and `parallel` contains steps again: the first mention is enough.
        if rows.iter().any(|row: &Row| row.path == path) || path.contains(".parallel[*]") {
            continue;
        }
        let own = rows.len();
        rows.push(row(path.clone(), key, allowed));
        walk(key.def, &path, allowed, rows);
        // What stands below a refused key is refused with it.
        if let Support::Refused(_) = key.support {
            rows[own..].iter_mut().for_each(|row| row.support = key.support);
        }
    }
    if let Some(rest) = &mapping.rest {
        let path = join(path, rest.placeholder);
        if rows.iter().any(|row| row.path == path) {
            return;
        }
        rows.push(Row {
            path: path.clone(),
            takes: expected(rest.value),
            allowed: allowed.and(rest.value.allowed),
            required: false,
            support: Support::Supported,
            doc: rest.doc,
        });
        walk(rest.value, &path, allowed, rows);
    }
}

fn row(path: String, key: &Key, allowed: Allowed) -> Row {
    Row {
        path,
        takes: expected(key.def),
        allowed: allowed.and(key.def.allowed),
        required: key.required,
        support: key.support,
        doc: key.doc,
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn walk_events(path: &str, rows: &mut Vec<Row>) {
    for (event, def) in
        [("schedule", &SCHEDULE), ("workflow_call", &CALL), ("workflow_dispatch", &DISPATCH)]
    {
        walk(def, &join(path, event), Allowed::NOTHING, rows);
    }
}

/// The page `docs/compatibility.md`.
pub fn page() -> String {
    let mut page = String::from(INTRODUCTION);
    section(&mut page, "Workflow files", &rows(&WORKFLOW));
    events(&mut page);
    section(&mut page, "Action files", &rows(&ACTION));
    section(&mut page, "Companion files", &rows(&COMPANION));
    functions(&mut page);
    page.push_str(YAML);
    page
}

const INTRODUCTION: &str = "\
# Compatibility

Every feature of GitHub's workflow language and what Kiln does with it. This page is printed from the
table that the parser itself uses (`crates/kiln-lang/src/schema/`), by `cargo xtask gen`: what it lists is what
is accepted, and everything else is an error with a suggestion. Nothing is silently ignored.

- **yes**: read, checked and compiled into a plan. What `kiln run` cannot execute of it yet, it refuses with a
  message: see [what is missing](run.md#what-is-missing).
- **refused**: an error, for the reason given.

Where Kiln and GitHub's own parser still differ: [differences](differences.md). Kiln's own keys live in
[companion files](kiln-keys.md).
";

const YAML: &str = "
## YAML

| feature | state |
|---|---|
| YAML 1.2 core schema: `on`, `yes` and `no` are strings | yes |
| anchors and aliases | yes |
| merge keys `<<` | yes (GitHub refuses them) |
| duplicate keys, also such that differ only in case | refused: one of them would be lost |
| tags other than `!!str`, `!!int`, `!!float`, `!!bool`, `!!null` | refused: they mean nothing in a workflow |
| several documents in one file | refused: a file is one workflow |
";

fn section(page: &mut String, title: &str, rows: &[Row]) {
    let _ = write!(
        page,
        "\n## {title}\n\n| key | takes | expressions may use | state | what it is |\n|---|---|---|---|---|\n"
    );
    for row in rows {
        let required = if row.required { " (required)" } else { "" };
        let _ = writeln!(
            page,
            "| `{}`{required} | {} | {} | {} | {} |",
            row.path,
            row.takes.replace('|', "\\|"),
            allowed(row.allowed),
            state(row.support),
            row.doc.replace('|', "\\|"),
        );
    }
}

fn allowed(allowed: Allowed) -> String {
    if allowed.is_empty() {
        return "–".to_owned();
    }
    let functions = allowed.functions().iter().map(|function| format!("{}()", function.name));
    let names: Vec<String> = allowed.contexts().map(str::to_owned).chain(functions).collect();
    names.join(" ")
}

fn state(support: Support) -> String {
    match support {
        Support::Supported => "yes".to_owned(),
        Support::Refused(reason) => format!("refused: {reason}"),
    }
}

fn events(page: &mut String) {
    page.push_str("\n## Events\n\n| event | activity types | filters | state | when |\n|---|---|---|---|---|\n");
    for event in EVENTS {
        let list = |names: &[&str]| match names {
            [] => "–".to_owned(),
            names => names.join(" "),
        };
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} | {} |",
            event.name,
            list(event.types),
            list(&filter_names(event)),
            state(event.state),
            event.doc,
        );
    }
}

fn functions(page: &mut String) {
    page.push_str("\n## Expressions\n\n");
    let names: Vec<String> =
        BUILT_IN.iter().map(|function| format!("`{}`", function.name)).collect();
    let _ = writeln!(
        page,
        "All operators, coercions, object filters and literals; the functions {} everywhere, \
         `success`, `always`, `cancelled`, `failure` and `hashFiles` where the tables above say so.",
        names.join(", ")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find<'r>(rows: &'r [Row], path: &str) -> &'r Row {
        rows.iter().find(|row| row.path == path).unwrap_or_else(|| panic!("no row {path}"))
    }

    /// P16
    #[test]
    fn every_key_has_a_row_with_its_contexts_and_its_state() {
        let rows = rows(&WORKFLOW);
        assert!(find(&rows, "jobs.<job_id>.runs-on").required);
        let step_if = find(&rows, "jobs.<job_id>.steps[*].if").allowed;
        assert!(step_if.contexts().any(|name| name == "steps"));
        assert!(
            !step_if.contexts().any(|name| name == "secrets"),
            "a step condition sees no secrets"
        );
        assert!(step_if.functions().iter().any(|function| function.name == "hashFiles"));
        let matrix = find(&rows, "jobs.<job_id>.strategy.matrix.<variable>").allowed;
        assert!(
            matrix.contexts().any(|name| name == "needs"),
            "a matrix inherits from its strategy"
        );
        assert!(!matrix.contexts().any(|name| name == "matrix"));
        for row in rows.iter().filter(|row| row.path.starts_with("jobs.<job_id>.snapshot")) {
            assert!(matches!(row.support, Support::Refused(_)), "{}", row.path);
        }
        assert!(rows.iter().all(|row| row.doc.ends_with('.')), "each doc line is a sentence");
    }

    /// P16
    #[test]
    fn the_page_has_every_event_and_no_broken_row() {
        let page = page();
        for event in EVENTS {
            assert!(page.contains(&format!("| `{}` |", event.name)), "{}", event.name);
        }
        for line in page.lines().filter(|line| line.starts_with("| `")) {
            assert!(matches!(line.replace("\\|", "").matches('|').count(), 3 | 6), "{line}");
        }
    }
}
