//! Which database is meant, and how it is opened.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use kiln_store::{Options, Store, StoreError};

use crate::cli::DatabaseArg;

/// A database that was named. It is shown without its password.
#[derive(Debug)]
pub(super) struct Place(pub(super) Options);

impl Place {
    /// What the argument names, else the environment, else the usual file.
    pub(super) fn of(argument: &DatabaseArg) -> Result<Self> {
        let named = argument.database.clone().or_else(|| set("KILN_DATABASE"));
        match named {
            Some(text) => Self::named(&text),
            None => Ok(Self(Options::Sqlite { path: usual_file()? })),
        }
    }

    pub(super) fn named(text: &str) -> Result<Self> {
        Ok(Self(text.parse()?))
    }

    pub(super) fn kind(&self) -> &'static str {
        match self.0 {
            Options::Sqlite { .. } => "sqlite",
            Options::Postgres { .. } => "postgres",
        }
    }

    /// Opens what must be there, to look at it. A file is not changed by that.
    pub(super) fn look(&self) -> Result<Store> {
        match &self.0 {
            Options::Sqlite { path } if !path.exists() => {
                bail!("there is no database `{self}`; `kiln db migrate` makes one")
            }
            Options::Sqlite { path } => self.explain(Store::open_read_only(path)),
            options @ Options::Postgres { .. } => self.explain(Store::open(options)),
        }
    }

    /// Opens it to write, and makes the file if there is none.
    pub(super) fn open(&self) -> Result<Store> {
        if let Options::Sqlite { path } = &self.0
            && let Some(folder) = path.parent().filter(|folder| *folder != Path::new(""))
            && !folder.exists()
        {
            if usual_file().ok().as_ref() != Some(path) {
                let folder = folder.display();
                bail!(
                    "cannot make the database `{self}`: there is no folder `{folder}`; make it first"
                );
            }
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.with_context(|| format!("cannot make the folder `{}`", folder.display()))?;
        }
        self.explain(Store::open(&self.0))
    }

    /// Says which database it was, and what to do if that is known.
    pub(super) fn explain<T>(&self, answer: Result<T, StoreError>) -> Result<T> {
        answer.map_err(|error| {
            let text = error.to_string();
            let remedy = match &self.0 {
                Options::Postgres { .. } if is_missing(&text) => "; make it with `createdb`",
                Options::Sqlite { .. } if text.contains("file is not a database") => {
                    "; `--database` must name a SQLite file"
                }
                _ => "",
            };
            anyhow::anyhow!("database `{self}`: {text}{remedy}")
        })
    }
}

fn is_missing(text: &str) -> bool {
    text.contains("database \"") && text.contains("does not exist")
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

fn usual_file() -> Result<PathBuf> {
    let data = match set("XDG_DATA_HOME") {
        Some(folder) => PathBuf::from(folder),
        None => std::env::home_dir()
            .context("there is no home directory; name the database with `--database`")?
            .join(".local/share"),
    };
    Ok(data.join("kiln/kiln.db"))
}

#[expect(clippy::disallowed_methods, reason = "the environment may name the database")]
fn set(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
