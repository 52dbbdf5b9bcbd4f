//! Which server is meant, and which token goes to it: what was typed, then the environment, then what
//! `kiln login` wrote, then what `kiln up` wrote on this machine.
//!
//! A token from a file goes only to the server that stands beside it: no pasted address gets it.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use reqwest::Url;

use super::file::{ClientFile, Login, UNNAMED};

/// Where `kiln up` listens unless it is told otherwise.
pub(crate) const USUAL_SERVER: &str = "http://127.0.0.1:8420";

/// How long an answer may take unless `KILN_TIMEOUT` says otherwise.
const USUAL_TIMEOUT: Duration = Duration::from_secs(30);

/// What was typed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Asked<'a> {
    pub(crate) server: Option<&'a str>,
    pub(crate) token: Option<&'a str>,
    pub(crate) context: Option<&'a str>,
}

/// What the environment says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment {
    pub(crate) server: Option<String>,
    pub(crate) token: Option<String>,
    /// The name of a context.
    pub(crate) context: Option<String>,
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
            context: set("KILN_CONTEXT"),
            ca: set("KILN_CA").or_else(|| set("SSL_CERT_FILE")).map(PathBuf::from),
            timeout: set("KILN_TIMEOUT"),
            login: config.map(|folder| folder.join("kiln/client.toml")),
            local: Some(data.join("client.toml")),
        }
    }
}

impl Settings {
    pub(crate) fn find(asked: Asked<'_>, environment: &Environment) -> Result<Self> {
        let known = logins(asked, environment)?;
        let first = known.first().and_then(|(login, _)| login.server.as_deref());
        let named = match asked.context {
            Some(_) => first,
            None => asked.server.or(environment.server.as_deref()).or(first),
        };
        let server = address(named.unwrap_or(USUAL_SERVER))?;
        let is_meant = |login: &Login| {
            login.server.as_deref().and_then(|own| address(own).ok()).as_ref() == Some(&server)
        };
        let mine: Vec<&(Login, String)> =
            known.iter().filter(|(login, _)| is_meant(login)).collect();
        let of_file = mine.iter().find_map(|(login, source)| {
            Some(Token { value: login.token.clone()?, source: source.clone() })
        });
        let of_environment = of_environment(environment, &server)?;
        let token = match asked.token {
            Some(value) => Some(Token { value: value.to_owned(), source: "`--token`".to_owned() }),
            // Whoever names a context means its token.
            None if asked.context.is_some() => of_file.or(of_environment),
            None => of_environment.or(of_file),
        };
        let ca =
            environment.ca.clone().or_else(|| mine.iter().find_map(|(login, _)| login.ca.clone()));
        let proxy = mine.iter().find_map(|(login, _)| login.proxy.clone());
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

/// All that is known, with where it stands: the context that is meant, the others, and what `kiln up` wrote.
fn logins(asked: Asked<'_>, environment: &Environment) -> Result<Vec<(Login, String)>> {
    let login = read(environment.login.as_deref())?;
    let wanted = asked.context.or(environment.context.as_deref());
    let mut known = Vec::new();
    if let Some((file, path)) = &login {
        let shown = |name: &str| match name {
            UNNAMED => format!("`{}`", path.display()),
            name => format!("context `{name}` of `{}`", path.display()),
        };
        let first = wanted.or_else(|| file.current());
        let rest = file.names().into_iter().filter(|name| Some(*name) != first);
        for name in first.into_iter().chain(rest) {
            match file.login(name) {
                Some(login) => known.push((login, shown(name))),
                None => return Err(no_context(name, &file.names())),
            }
        }
    } else if let Some(name) = wanted {
        return Err(no_context(name, &[]));
    }
    if let Some((file, path)) = read(environment.local.as_deref())? {
        known.extend(file.login(UNNAMED).map(|login| (login, format!("`{}`", path.display()))));
    }
    Ok(known)
}

/// A context that does not exist, with those that do.
pub(crate) fn no_context(name: &str, there_are: &[&str]) -> anyhow::Error {
    let known = match there_are {
        [] => "there is none yet".to_owned(),
        names => format!("there are `{}`", names.join("`, `")),
    };
    anyhow!("there is no context `{name}`; {known}; `kiln login URL --context {name}` makes it")
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

/// Whether a page is one of this server's.
pub(crate) fn is_below(page: &Url, server: &Url) -> bool {
    let rest = page.as_str().strip_prefix(&shown(server));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#']))
}

/// The server that a page belongs to: one that is remembered, else the one at its host.
pub(crate) fn server_of(page: &Url, environment: &Environment) -> Result<String> {
    let environment = Environment { context: None, ..environment.clone() };
    let known = logins(Asked::default(), &environment)?;
    let servers = known.iter().filter_map(|(login, _)| address(login.server.as_deref()?).ok());
    let nearest =
        servers.filter(|server| is_below(page, server)).max_by_key(|server| server.as_str().len());
    Ok(nearest.map_or_else(|| page.origin().ascii_serialization(), |server| shown(&server)))
}

/// As people see it: without a slash at its end.
pub(crate) fn shown(server: &Url) -> String {
    server.as_str().trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_another_server_is_told_apart() {
        let page = Url::parse("https://ci.example/kiln/runs/1").unwrap();
        let below = |server: &str| is_below(&page, &address(server).unwrap());
        assert!(below("https://ci.example/kiln") && below("https://ci.example"));
        assert!(!below("https://ci.example/ki") && !below("https://ci.example:444"));
        let home = Home::new(Some(("https://ci.example/kiln", "kpat_a")), None);
        let known = server_of(&page, &home.environment("", "")).unwrap();
        assert_eq!(known, "https://ci.example/kiln", "the one that is remembered");
        let other = Url::parse("https://else.example/kiln/runs/1").unwrap();
        let other = server_of(&other, &home.environment("", "")).unwrap();
        assert_eq!(other, "https://else.example");
    }

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
        let asked = Asked { server: some(asked.0), token: some(asked.1), context: None };
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
    fn a_context_is_a_server_with_its_token() {
        let home =
            Home::new(Some(("https://ci.example", "login")), Some(("http://127.0.0.1:9", "local")));
        let path = home.0.path().join("login.toml");
        let mut file = ClientFile::read(&path).unwrap().unwrap();
        let work = Login {
            server: Some("https://work.example".to_owned()),
            token: Some("work".to_owned()),
            ..Login::default()
        };
        file.set("work", Some(work));
        file.write(&path).unwrap();
        let find = |context: Option<&str>, environment: &Environment| {
            let found = Settings::find(Asked { context, ..Asked::default() }, environment)?;
            anyhow::Ok((
                shown(&found.server),
                found.token.map(|token| token.value).unwrap_or_default(),
            ))
        };
        let pair = |server: &str, token: &str| (server.to_owned(), token.to_owned());
        let plain = home.environment("", "");
        assert_eq!(find(None, &plain).unwrap(), pair("https://ci.example", "login"));
        let work = pair("https://work.example", "work");
        assert_eq!(find(Some("work"), &plain).unwrap(), work);
        assert_eq!(
            find(Some("work"), &home.environment("https://ci.example", "env")).unwrap(),
            work
        );
        let by_name = Environment { context: Some("work".to_owned()), ..home.environment("", "") };
        assert_eq!(find(None, &by_name).unwrap(), work);
        assert_eq!(find(Some(UNNAMED), &by_name).unwrap(), pair("https://ci.example", "login"));
        // The address of any of them brings its token.
        check(("https://work.example", ""), &plain, ("https://work.example", "work"));
        file.choose("work");
        file.write(&path).unwrap();
        assert_eq!(find(None, &plain).unwrap(), work);
        let error = find(Some("home"), &plain).unwrap_err().to_string();
        assert!(error.contains("`default`, `work`") && error.contains("--context home"), "{error}");
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
