//! Reading files: bounded, and as text or not at all.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Component, Path};

use anyhow::{Context as _, anyhow, bail};
use kiln_core::value::Object;
use kiln_lang::diag::Diagnostic;
use kiln_lang::source::{SourceMap, Span};

use crate::find::{Origin, Target};
use crate::output::value::object_from_json;

/// More than any workflow, context or payload; the language has tighter limits of its own.
pub(crate) const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Why a file is no text, and as much of it as helps to show the place.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(crate) message: String,
    text: String,
    at: usize,
}

impl Unreadable {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), text: String::new(), at: 0 }
    }

    /// The finding about this file, which joins the sources.
    pub(crate) fn diagnostic(&self, sources: &mut SourceMap, name: &str) -> Diagnostic {
        let file = sources.add(name, &self.text);
        let end = self.text[self.at..].chars().next().map_or(0, char::len_utf8);
        let span = Span::new(file, self.at, self.at + end);
        Diagnostic::error("unreadable-file", span, self.message.clone())
    }
}

pub(crate) fn target(target: &Target) -> Result<String, Unreadable> {
    match &target.origin {
        Origin::Stdin => bounded(io::stdin().lock()),
        Origin::File(path) => file(path),
    }
}

pub(crate) fn file(path: &Path) -> Result<String, Unreadable> {
    match File::open(path) {
        Ok(file) => bounded(file),
        Err(error) => Err(Unreadable::new(format!("cannot read the file: {error}"))),
    }
}

/// A JSON file that holds an object: contexts, or the payload of an event.
pub(crate) fn json_object(path: &Path) -> anyhow::Result<Object> {
    let shown = path.display();
    let text = file(path).map_err(|error| anyhow!("`{shown}`: {}", error.message))?;
    match serde_json::from_str(&text).with_context(|| format!("`{shown}` is not JSON"))? {
        serde_json::Value::Object(entries) => Ok(object_from_json(entries)),
        _ => bail!("`{shown}` must be a JSON object"),
    }
}

/// Gives other files of the same repository by their path from its root, and nothing outside it.
pub(crate) fn repository(root: &Path) -> impl Fn(&str) -> Option<String> {
    move |name| {
        let path = Path::new(name.strip_prefix("./").unwrap_or(name));
        if !path.components().all(|part| matches!(part, Component::Normal(_))) {
            return None;
        }
        // A link inside the repository must not lead out of it.
        let path = root.join(path).canonicalize().ok()?;
        path.starts_with(root.canonicalize().ok()?).then_some(())?;
        file(&path).ok()
    }
}

fn bounded(reader: impl io::Read) -> Result<String, Unreadable> {
    let mut bytes = Vec::new();
    reader
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Unreadable::new(format!("cannot read the file: {error}")))?;
    if bytes.len() as u64 > MAX_BYTES {
        let limit = MAX_BYTES / (1024 * 1024);
        return Err(Unreadable::new(format!("the file is larger than {limit} MiB")));
    }
    String::from_utf8(bytes).map_err(|error| Unreadable {
        message: "the file is not UTF-8 text".into(),
        at: error.utf8_error().valid_up_to(),
        text: String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_that_is_no_text_is_pointed_at() {
        let error = bounded(&b"on: push\nname: caf\xe9!\n"[..]).unwrap_err();
        let mut sources = SourceMap::new();
        let found = error.diagnostic(&mut sources, "a.yml");
        let start = sources.start(found.span);
        assert_eq!((start.line, start.column), (2, 10));
        assert_eq!(sources.snippet(found.span), "\u{fffd}");
    }

    #[test]
    fn what_never_ends_is_refused() {
        let error = bounded(io::repeat(b'a')).unwrap_err();
        assert_eq!(error.message, "the file is larger than 16 MiB");
    }

    #[cfg(unix)]
    #[test]
    fn files_outside_the_repository_are_not_given() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret.yml"), "secret").unwrap();
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("a.yml"), "inside").unwrap();
        let link = root.path().join("link.yml");
        std::os::unix::fs::symlink(outside.path().join("secret.yml"), link).unwrap();
        let files = repository(root.path());
        assert_eq!(files("./a.yml").as_deref(), Some("inside"));
        assert_eq!(files("a.yml").as_deref(), Some("inside"));
        assert!(files("../a.yml").is_none());
        assert!(files("/etc/hostname").is_none());
        assert!(files("link.yml").is_none());
        assert!(files("missing.yml").is_none());
    }
}
