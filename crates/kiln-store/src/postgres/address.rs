//! The address of a PostgreSQL database, with what it says about TLS in the words of libpq.

use std::path::PathBuf;
use std::pin::Pin;

use deadpool_postgres::Connect;
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, Connection, Socket};

use super::tls::{Encrypted, Tls, Trust};
use crate::StoreError;
use crate::error::chain;

/// Where a database is, and how a connection to it is protected.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    pub(crate) config: Config,
    pub(crate) trust: Trust,
}

impl Address {
    /// Reads an address. The driver knows only some of libpq's words, so the others are taken out before it looks.
    pub(crate) fn parse(url: &str) -> Result<Self, StoreError> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        // The driver would take this for the end of a password, and see another `sslmode` than we do.
        if query.contains('@') {
            return Err(wrong(
                "a `?` in the password is written `%3F`, an `@` behind a `?` is `%40`",
            ));
        }
        let (mut rest, mut mode, mut authority) = (Vec::new(), "prefer", None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some((name, _)) if name.contains('%') => {
                    return Err(wrong("the names of parameters have no escapes"));
                }
                Some(("sslmode", value)) => mode = value,
                Some(("sslrootcert", value)) => authority = Some(PathBuf::from(decoded(value)?)),
                _ => rest.push(pair.to_owned()),
            }
        }
        let trust = match (mode, authority) {
            ("verify-full", authority) => Trust::ForHost(authority),
            ("verify-ca", authority) => Trust::FromAuthority(authority),
            // As libpq does: whoever names an authority wants it to be asked.
            ("require", Some(authority)) => Trust::FromAuthority(Some(authority)),
            ("disable" | "prefer" | "require", _) => Trust::Anybody,
            _ => {
                let known = "`disable`, `prefer`, `require`, `verify-ca` or `verify-full`";
                return Err(wrong(&format!("`sslmode` is {known}")));
            }
        };
        let driver_mode = if mode.starts_with("verify-") { "require" } else { mode };
        rest.push(format!("sslmode={driver_mode}"));
        let config = format!("{base}?{}", rest.join("&")).parse();
        let config = config.map_err(|error: tokio_postgres::Error| wrong(&chain(&error)))?;
        Ok(Self { config, trust })
    }

    /// What connections to it need. Reads the certificates of authorities.
    pub(crate) fn way(self) -> Result<Way, StoreError> {
        let tls = Tls::new(&self.trust).map_err(|why| wrong(&why))?;
        Ok(Way { config: self.config, tls })
    }
}

/// The way to a database, by which connections are made.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    pub(crate) config: Config,
    pub(super) tls: Tls,
}

/// What drives a connection.
pub(crate) type Link = Connection<Socket, Encrypted<Socket>>;

impl Way {
    pub(crate) async fn connect(&self) -> Result<(Client, Link), StoreError> {
        Ok(self.open().await?)
    }

    /// As libpq does it: where TLS is only preferred, a server that offers it and fails at it is asked again without.
    async fn open(&self) -> Result<(Client, Link), tokio_postgres::Error> {
        let opened = self.config.connect(self.tls.clone()).await;
        let is_preferred = self.config.get_ssl_mode() == SslMode::Prefer;
        if !is_preferred || !opened.as_ref().is_err_and(failed_at_tls) {
            return opened;
        }
        let mut plain = self.config.clone();
        plain.ssl_mode(SslMode::Disable);
        plain.connect(self.tls.clone()).await
    }
}

/// The driver tells no kinds of errors apart but by their words.
fn failed_at_tls(error: &tokio_postgres::Error) -> bool {
    error.to_string().starts_with("error performing TLS handshake")
}

/// Connections of the pool are made in the same way.
impl Connect for Way {
    fn connect(
        &self,
        _: &Config,
    ) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), tokio_postgres::Error>> {
        Box::pin(async move {
            let (client, link) = self.open().await?;
            // How it ends, whoever waits for an answer hears.
            let driven = tokio::spawn(async move { drop(link.await) });
            Ok((client, driven))
        })
    }
}

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

fn wrong(why: &str) -> StoreError {
    StoreError::Database(format!("the address of the database: {why}"))
}

/// A value of an address without its escapes, `%20` for a space.
fn decoded(value: &str) -> Result<String, StoreError> {
    let broken = || wrong("`sslrootcert` has an escape that is none");
    let mut parts = value.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(2).ok_or_else(broken)?;
        bytes.push(u8::from_str_radix(code, 16).map_err(|_| broken())?);
        bytes.extend(rest.as_bytes());
    }
    String::from_utf8(bytes).map_err(|_| broken())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_libpq_calls_the_modes_is_understood() {
        let check = |query: &str, mode: SslMode, trust: Trust| {
            let found =
                Address::parse(&format!("postgres://me:pw@db.example/kiln{query}")).unwrap();
            assert_eq!((found.config.get_ssl_mode(), &found.trust), (mode, &trust), "{query}");
            assert_eq!(found.config.get_dbname(), Some("kiln"), "{query}");
        };
        let file = |path: &str| Some(PathBuf::from(path));
        check("", SslMode::Prefer, Trust::Anybody);
        check("?sslmode=disable", SslMode::Disable, Trust::Anybody);
        check("?sslmode=prefer&connect_timeout=3", SslMode::Prefer, Trust::Anybody);
        check("?sslmode=require", SslMode::Require, Trust::Anybody);
        let ca = Trust::FromAuthority(file("/a b/ca.pem"));
        check("?sslmode=require&sslrootcert=/a%20b/ca.pem", SslMode::Require, ca);
        check("?sslmode=verify-ca", SslMode::Require, Trust::FromAuthority(None));
        let full = Trust::ForHost(file("ca.pem"));
        check("?sslrootcert=ca.pem&sslmode=verify-full", SslMode::Require, full);
    }

    #[test]
    fn what_is_wrong_in_an_address_is_said_without_its_password() {
        let check = |query: &str, word: &str| {
            let wrong = Address::parse(&format!("postgres://me:secret@db/kiln?{query}"));
            let said = wrong.unwrap_err().to_string();
            assert!(said.contains(word) && !said.contains("secret"), "{said}");
        };
        check("sslmode=allow", "`verify-full`");
        check("sslmode=", "`verify-full`");
        check("sslrootcert=%zz", "escape");
        check("sslrootcert=%4", "escape");
        check("sslcolour=red", "sslcolour");
        check("ssl%6dode=require", "escapes");
        // The driver would read the second `?`, and we the first.
        check("x@other/kiln?sslmode=require", "`%3F`");
    }
}
