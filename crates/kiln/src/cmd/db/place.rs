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
        self.must_be_no_folder()?;
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
        self.must_be_no_folder()?;
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

    /// SQLite's own words for this would be "disk I/O error".
    fn must_be_no_folder(&self) -> Result<()> {
        match &self.0 {
            Options::Sqlite { path } if path.is_dir() => {
                bail!("`{self}` is a folder; name a file in it, such as `kiln.db`")
            }
            _ => Ok(()),
        }
    }

    /// Says which database it was, and what to do if that is known.
    pub(super) fn explain<T>(&self, answer: Result<T, StoreError>) -> Result<T> {
        answer.map_err(|error| {
            let text = error.to_string();
            let remedies = match &self.0 {
                Options::Postgres { .. } => POSTGRES,
                Options::Sqlite { .. } => SQLITE,
            };
            let fits = |(parts, _): &&Remedy| parts.iter().all(|part| text.contains(part));
            match remedies.iter().find(fits) {
                Some((_, remedy)) => anyhow::anyhow!("database `{self}`: {text}; {remedy}"),
                None => anyhow::anyhow!("database `{self}`: {text}"),
            }
        })
    }
}

/// Words that a database uses, and what to do then.
type Remedy = (&'static [&'static str], &'static str);

const POSTGRES: &[Remedy] = &[
    (&["database \"", "does not exist"], "make it with `createdb`"),
    (&["role \"", "does not exist"], "make it with `createuser`, or name another in the address"),
    (&["error connecting to server"], "is PostgreSQL running there, and the address right?"),
    (&["password"], "the address must hold it: `postgres://NAME:PASSWORD@HOST/DATABASE`"),
    (&["permission denied"], "Kiln needs a role that owns the database"),
    (&["host and hostaddr are missing"], "expected `postgres://NAME@HOST/DATABASE`"),
];

const SQLITE: &[Remedy] = &[
    (&["disk image is malformed"], "the file is damaged: restore a backup into a new one"),
    (&["file is not a database"], "`--database` must name a SQLite file"),
    (&["unable to open database file"], "you need permission to read and write it"),
    (&["readonly database"], "you need permission to write the file, and files beside it"),
];

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
