//! The TOML file: its values as texts, and where each of them stands.

use std::path::Path;

use kiln_lang::suggest::closest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{KEYS, find};
use super::settings::{Origin, Problem};

/// What a file sets: the name, the text, and where that stands.
pub(super) type Found = (&'static str, String, Origin);

/// Reads all that the file says; what is wrong with it is said for all of it.
pub(super) fn read(path: &Path, text: &str) -> (Vec<Found>, Vec<Problem>) {
    let mut reader = Reader { path, text, found: Vec::new(), problems: Vec::new() };
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let at = error.span().map_or(0, |span| span.start);
        reader.complain(at, error.message().replace('\n', ", "));
    }
    // What the rest of a broken file means is anybody's guess.
    if errors.is_empty() {
        reader.table("", table.get_ref());
    }
    reader.problems.sort_by_key(|problem| problem.origin.place());
    (reader.found, reader.problems)
}

struct Reader<'t> {
    path: &'t Path,
    text: &'t str,
    found: Vec<Found>,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn table(&mut self, above: &str, table: &DeTable<'_>) {
        for (name, value) in table {
            let full = format!("{above}{}", name.get_ref());
            let at = name.span().start;
            let below = format!("{full}.");
            match value.get_ref() {
                DeValue::Table(table) if KEYS.iter().any(|key| key.name.starts_with(&below)) => {
                    self.table(&below, table);
                }
                _ => self.value(&full, at, value),
            }
        }
    }

    fn value(&mut self, name: &str, at: usize, value: &Spanned<DeValue<'_>>) {
        let Some(key) = find(name) else {
            let names = KEYS.iter().map(|key| key.name);
            let hint = match closest(name, names) {
                Some(near) => format!("; did you mean `{near}`?"),
                None => "; `kiln config show` lists all that there are".to_owned(),
            };
            return self.complain(at, format!("there is no setting `{name}`{hint}"));
        };
        let start = value.span().start;
        match text_of(value.get_ref()) {
            Some(text) => {
                let (line, column) = self.place(start);
                let origin = Origin::File { path: self.path.to_owned(), line, column };
                self.found.push((key.name, text, origin));
            }
            None => {
                let kind = value.get_ref().type_str();
                self.complain(
                    start,
                    format!("`{name}` cannot be of type {kind}; expected {}", key.kind),
                );
            }
        }
    }

    fn complain(&mut self, at: usize, message: String) {
        let (line, column) = self.place(at);
        let origin = Origin::File { path: self.path.to_owned(), line, column };
        self.problems.push(Problem { origin, message });
    }

    /// Line and column, both from one; columns in characters.
    fn place(&self, at: usize) -> (usize, usize) {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        (line, column)
    }
}

/// A value as the environment would have it.
fn text_of(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.clone().into_owned()),
        DeValue::Integer(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        DeValue::Array(items) => {
            let items = items.iter().map(|item| item.get_ref().as_str());
            Some(items.collect::<Option<Vec<_>>>()?.join(","))
        }
        _ => None,
    }
}
