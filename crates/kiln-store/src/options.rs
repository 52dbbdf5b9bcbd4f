//! Where the facts are kept, as people write it and as it may be shown.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use tokio_postgres::config::Host;

use crate::postgres::Address;
use crate::{Refusal, StoreError};

/// How many connections a store holds at most, unless it is told otherwise.
const CONNECTIONS: usize = 16;

const USUAL_PORT: u16 = 5432;

/// Where the facts are kept. It is shown without its password.
#[derive(Clone, PartialEq, Eq)]
pub enum Options {
    Sqlite { path: PathBuf },
    Postgres { url: String, connections: usize },
}

impl FromStr for Options {
    type Err = StoreError;

    /// Reads `postgres://…`, `sqlite:PATH`, or a path.
    fn from_str(text: &str) -> Result<Self, StoreError> {
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            Address::parse(text)?;
            return Ok(Self::Postgres { url: text.to_owned(), connections: CONNECTIONS });
        }
        let path = match text.strip_prefix("sqlite:") {
            Some(path) => path.strip_prefix("//").unwrap_or(path),
            // `mysql://…` is no path that anybody means.
            None if text.contains("://") => return Err(unknown()),
            None => text,
        };
        if path.is_empty() {
            return Err(unknown());
        }
        Ok(Self::Sqlite { path: path.into() })
    }
}

fn unknown() -> StoreError {
    // The text is not repeated, as it may hold a password.
    let message =
        "this is no address of a database; expected `postgres://…`, `sqlite:PATH` or a path";
    Refusal::Invalid(message.to_owned()).into()
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = match self {
            Self::Sqlite { path } => return write!(f, "{}", path.display()),
            Self::Postgres { url, .. } => url,
        };
        let Ok(Address { config, .. }) = Address::parse(url) else {
            return f.write_str("postgres://…");
        };
        f.write_str("postgres://")?;
        if let Some(user) = config.get_user() {
            write!(f, "{user}@")?;
        }
        for (at, host) in config.get_hosts().iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            match host {
                Host::Tcp(name) => write!(f, "{comma}{name}")?,
                Host::Unix(path) => write!(f, "{comma}{}", path.display())?,
            }
            let ports = config.get_ports();
            let port = ports.get(at).or_else(|| ports.first()).unwrap_or(&USUAL_PORT);
            write!(f, ":{port}")?;
        }
        write!(f, "/{}", config.get_dbname().unwrap_or_default())
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::Options;

    fn check(text: &str, shown: &str) {
        let shown_now = match text.parse::<Options>() {
            Ok(options) => options.to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(shown_now, shown, "{text}");
    }

    #[test]
    fn paths_and_addresses_are_told_apart() {
        check("kiln.db", "kiln.db");
        check("sqlite:kiln.db", "kiln.db");
        check("sqlite:/var/lib/kiln.db", "/var/lib/kiln.db");
        check("sqlite:///var/lib/kiln.db", "/var/lib/kiln.db");
        let unknown =
            "this is no address of a database; expected `postgres://…`, `sqlite:PATH` or a path";
        check("mysql://root:secret@host/kiln", unknown);
        check("sqlite:", unknown);
        check("", unknown);
    }

    #[test]
    fn a_password_is_never_shown() {
        check("postgres://kiln:secret@db.internal:5433/ci", "postgres://kiln@db.internal:5433/ci");
        check("postgres://kiln:s%40c:r%2Fet@db/ci", "postgres://kiln@db:5432/ci");
        check("postgresql://db/ci?user=kiln&password=secret", "postgres://kiln@db:5432/ci");
        check("postgres://kiln:secret@a:1,b:2/ci", "postgres://kiln@a:1,b:2/ci");
        let options: Options = "postgres://kiln:secret@db/ci".parse().unwrap();
        assert_eq!(format!("{options:?}"), "postgres://kiln@db:5432/ci");
    }

    #[test]
    fn a_broken_address_says_so_without_its_password() {
        let error = "postgres://kiln:secret@db/ci?nonsense=1".parse::<Options>().unwrap_err();
        let text = error.to_string();
        assert!(text.contains("nonsense") && !text.contains("secret"), "{text}");
    }
}
