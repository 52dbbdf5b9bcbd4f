//! Which server is meant, and which token goes to it: what was typed, then the environment, then what
//! `kiln login` wrote, then what `kiln up` wrote on this machine.
//!
//! A token from a file goes only to the server that the file names: no pasted address gets it.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use reqwest::Url;

use super::file::ClientFile;

/// Where `kiln up` listens unless it is told otherwise.
pub(crate) const USUAL_SERVER: &str = "http://127.0.0.1:8420";

/// How long an answer may take unless `KILN_TIMEOUT` says otherwise.
const USUAL_TIMEOUT: Duration = Duration::from_secs(30);

/// What was typed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Asked<'a> {
    pub(crate) server: Option<&'a str>,
    pub(crate) token: Option<&'a str>,
}

/// What the environment says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment {
    pub(crate) server: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) ca: Option<PathBuf>,
    /// Seconds that an answer may take.
    pub(crate) timeout: Option<String>,
    /// What `kiln login` writes.
    pub(crate) login: Option<PathBuf>,
    /// What `kiln up` writes.
    pub(crate) local: Option<PathBuf>,
}

/// A server, and how to talk to it.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) server: Url,
    pub(crate) token: Option<Token>,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) proxy: Option<String>,
    /// How long an answer may take.
    pub(crate) timeout: Duration,
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) value: String,
    /// Where it comes from, for people.
    pub(crate) source: String,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "token from {}", self.source)
    }
}

impl Environment {
    #[expect(clippy::disallowed_methods, reason = "the environment may name server and token")]
    pub(crate) fn read() -> Self {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let home = std::env::home_dir().filter(|home| home.is_absolute());
        let below = |variable: &str, usual: &str| {
            let folder = set(variable).map(PathBuf::from).filter(|path| path.is_absolute());
            folder.or_else(|| Some(home.as_ref()?.join(usual)))
        };
        let config = below("XDG_CONFIG_HOME", ".config");
        let shared = below("XDG_DATA_HOME", ".local/share").map(|folder| folder.join("kiln"));
        let data = set("KILN_DATA").map(PathBuf::from).or(shared);
        let data = data.unwrap_or_else(|| PathBuf::from("/var/lib/kiln"));
        Self {
            server: set("KILN_SERVER"),
            token: set("KILN_TOKEN"),
            ca: set("KILN_CA").or_else(|| set("SSL_CERT_FILE")).map(PathBuf::from),
            timeout: set("KILN_TIMEOUT"),
            login: config.map(|folder| folder.join("kiln/client.toml")),
            local: Some(data.join("client.toml")),
        }
    }
}

impl Settings {
    pub(crate) fn find(asked: Asked<'_>, environment: &Environment) -> Result<Self> {
        let login = read(environment.login.as_deref())?;
        let local = read(environment.local.as_deref())?;
        let named = asked.server.or(environment.server.as_deref());
        let filed =
            [&login, &local].into_iter().flatten().find_map(|(file, _)| file.server.clone());
        let named = named.or(filed.as_deref());
        let server = address(named.unwrap_or(USUAL_SERVER))?;
        let mine = [login, local].into_iter().flatten().filter(|(file, _)| {
            file.server.as_deref().and_then(|own| address(own).ok()).as_ref() == Some(&server)
        });
        let mine: Vec<(ClientFile, &Path)> = mine.collect();
        let of_file = || {
            mine.iter().find_map(|(file, path)| {
                let value = file.token.clone()?;
                Some(Token { value, source: format!("`{}`", path.display()) })
            })
        };
        let token = match asked.token {
            Some(value) => Some(Token { value: value.to_owned(), source: "`--token`".to_owned() }),
            None => of_environment(environment, &server)?.or_else(of_file),
        };
        let ca =
            environment.ca.clone().or_else(|| mine.iter().find_map(|(file, _)| file.ca.clone()));
        let proxy = mine.iter().find_map(|(file, _)| file.proxy.clone());
        let timeout = timeout(environment.timeout.as_deref())?;
        Ok(Self { server, token, ca, proxy, timeout })
    }

    /// Whether the server runs on this machine.
    pub(crate) fn is_local(&self) -> bool {
        is_loopback(&self.server)
    }
}

fn timeout(text: Option<&str>) -> Result<Duration> {
    let Some(text) = text else { return Ok(USUAL_TIMEOUT) };
    match text.parse::<u64>() {
        Ok(seconds @ 1..=3600) => Ok(Duration::from_secs(seconds)),
        _ => bail!("KILN_TIMEOUT is `{text}`; expected seconds from 1 to 3600"),
    }
}

/// The token of the environment, unless the environment names another server for it.
fn of_environment(environment: &Environment, server: &Url) -> Result<Option<Token>> {
    let Some(value) = environment.token.clone() else { return Ok(None) };
    let meant = environment.server.as_deref().map(address).transpose()?;
    let fits = meant.is_none_or(|meant| meant == *server);
    Ok(fits.then(|| Token { value, source: "`KILN_TOKEN`".to_owned() }))
}

fn read(path: Option<&Path>) -> Result<Option<(ClientFile, &Path)>> {
    let Some(path) = path else { return Ok(None) };
    Ok(ClientFile::read(path)?.map(|file| (file, path)))
}

/// Whether an address is on this machine.
pub(crate) fn is_loopback(server: &Url) -> bool {
    let host = server.host_str().unwrap_or_default();
    let bare = host.trim_matches(['[', ']']);
    host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The address of a server as people type it: with or without a scheme, without anything behind it.
pub(crate) fn address(text: &str) -> Result<Url> {
    let wrong = |why: &str| {
        anyhow!(
            "`{text}` is not the address of a server: {why}; expected one such as `https://ci.example.com`"
        )
    };
    let text = text.trim();
    let with_scheme = if text.contains("://") {
        text.to_owned()
    } else {
        let plain =
            Url::parse(&format!("http://{text}")).map_err(|error| wrong(&error.to_string()))?;
        let scheme = if is_loopback(&plain) { "http" } else { "https" };
        format!("{scheme}://{text}")
    };
    let mut url = Url::parse(&with_scheme).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("the scheme is neither http nor https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        bail!("the address of a server must not hold a user name or password; give `--token`");
    }
    url.set_query(None);
    url.set_fragment(None);
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&path);
    Ok(url)
}

/// As people see it: without a slash at its end.
pub(crate) fn shown(server: &Url) -> String {
    server.as_str().trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A home with what `kiln login` and `kiln up` wrote.
    struct Home(tempfile::TempDir);

    impl Home {
        fn new(login: Option<(&str, &str)>, local: Option<(&str, &str)>) -> Self {
            let home = Self(tempfile::tempdir().unwrap());
            for (name, held) in [("login.toml", login), ("local.toml", local)] {
                if let Some((server, token)) = held {
                    let file = ClientFile {
                        server: Some(server.to_owned()),
                        token: Some(token.to_owned()),
                        ..ClientFile::default()
                    };
                    file.write(&home.0.path().join(name)).unwrap();
                }
            }
            home
        }

        fn environment(&self, server: &str, token: &str) -> Environment {
            let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
            Environment {
                server: some(server),
                token: some(token),
                login: Some(self.0.path().join("login.toml")),
                local: Some(self.0.path().join("local.toml")),
                ..Environment::default()
            }
        }
    }

    #[track_caller]
    fn check(asked: (&str, &str), environment: &Environment, expect: (&str, &str)) {
        let some = |text: &'static str| Some(text).filter(|text| !text.is_empty());
        let asked = (asked.0.to_owned().leak(), asked.1.to_owned().leak());
        let asked = Asked { server: some(asked.0), token: some(asked.1) };
        let found = Settings::find(asked, environment).unwrap();
        let token = found.token.as_ref().map_or("", |token| token.value.as_str());
        assert_eq!((shown(&found.server).as_str(), token), expect);
    }

    #[test]
    fn what_was_typed_comes_first_then_the_environment_then_the_files() {
        let home =
            Home::new(Some(("https://ci.example", "login")), Some(("http://127.0.0.1:9", "local")));
        let nothing = home.environment("", "");
        check(("", ""), &nothing, ("https://ci.example", "login"));
        check(("127.0.0.1:9", ""), &nothing, ("http://127.0.0.1:9", "local"));
        check(("", "typed"), &nothing, ("https://ci.example", "typed"));
        check(
            ("", ""),
            &home.environment("http://127.0.0.1:9/", ""),
            ("http://127.0.0.1:9", "local"),
        );
        check(("", ""), &home.environment("", "env"), ("https://ci.example", "env"));
        let only_up = Home::new(None, Some(("http://127.0.0.1:9", "local")));
        check(("", ""), &only_up.environment("", ""), ("http://127.0.0.1:9", "local"));
        let neither = Home::new(None, None);
        check(("", ""), &neither.environment("", ""), (USUAL_SERVER, ""));
    }

    #[test]
    fn a_token_goes_only_to_the_server_that_it_is_for() {
        let home = Home::new(Some(("https://ci.example", "login")), None);
        let environment = home.environment("https://one.example", "env");
        check(("https://other.example", ""), &environment, ("https://other.example", ""));
        check(("https://ci.example", ""), &environment, ("https://ci.example", "login"));
        check(("https://one.example", ""), &environment, ("https://one.example", "env"));
        check(
            ("https://ci.example:8443", ""),
            &home.environment("", ""),
            ("https://ci.example:8443", ""),
        );
        check(("http://ci.example", ""), &home.environment("", ""), ("http://ci.example", ""));
    }

    #[test]
    fn addresses_are_taken_as_people_type_them() {
        for (text, expect) in [
            ("localhost:8420", "http://localhost:8420"),
            ("127.0.0.1:8420/", "http://127.0.0.1:8420"),
            ("[::1]:80", "http://[::1]"),
            ("ci.example.com", "https://ci.example.com"),
            ("https://ci.example.com/kiln/?x#y", "https://ci.example.com/kiln"),
        ] {
            assert_eq!(shown(&address(text).unwrap()), expect, "{text}");
        }
        for wrong in ["", "ftp://x", "http://", "https://me:secret@ci.example"] {
            let error = address(wrong).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_token_is_never_shown() {
        let token = Token { value: "kpat_secret".to_owned(), source: "`--token`".to_owned() };
        assert_eq!(format!("{token:?}"), "token from `--token`");
    }
}
