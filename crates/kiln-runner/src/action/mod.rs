//! Actions: where they are found, and what they say of themselves.

pub(crate) mod artifact;
mod cache;
mod checkout;
mod node;
mod resolve;

use std::fs;
use std::path::{Path, PathBuf};

use kiln_core::plan::Action;
use kiln_lang::compile;
use kiln_lang::diag::Severity;
use kiln_lang::source::SourceMap;

pub(crate) use cache::{Paths as CachePaths, check_keys};
pub use checkout::{Checkout, CheckoutError};
pub use node::{Node, Nodes};
pub use resolve::{Mirror, Resolved, Resolver};

/// An action whose files are on this machine.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub directory: PathBuf,
    pub action: Action,
}

/// Whose an action is, and so how strictly its file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    /// The workflow's own repository: a key that means nothing is a mistake to be mended.
    Own,
    /// Somebody else: what GitHub's runner takes is taken.
    Other,
}

/// Reads the action in a directory.
pub fn load(directory: &Path, author: Author) -> Result<Loaded, String> {
    let file = ["action.yml", "action.yaml"].map(|name| directory.join(name));
    let Some(file) = file.iter().find(|file| file.is_file()) else {
        if directory.join("Dockerfile").is_file() {
            return Err(format!(
                "`{}` is a Docker action, which the host backend cannot run",
                directory.display()
            ));
        }
        return Err(format!("there is no `action.yml` in `{}`", directory.display()));
    };
    let text =
        fs::read(file).map_err(|error| format!("cannot read `{}`: {error}", file.display()))?;
    let text = String::from_utf8_lossy(&text);
    let mut sources = SourceMap::new();
    let compile = match author {
        Author::Own => compile::action,
        Author::Other => compile::published_action,
    };
    let (action, diagnostics) = compile(&mut sources, &file.to_string_lossy(), &text);
    action.map(|action| Loaded { directory: directory.to_owned(), action }).ok_or_else(|| {
        let errors = diagnostics.iter().filter(|found| found.severity == Severity::Error);
        let lines: Vec<String> = errors
            .map(|found| {
                format!("{}:{}: {}", file.display(), sources.start(found.span).line, found.message)
            })
            .collect();
        lines.join("\n")
    })
}
