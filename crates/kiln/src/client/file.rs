//! `client.toml`: which server, and the token for it. Only its owner may read it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Deserialize;

/// What stands at the top of the file, before the contexts that have names.
pub(crate) const UNNAMED: &str = "default";

/// A server, and how to talk to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Login {
    pub(crate) server: Option<String>,
    pub(crate) token: Option<String>,
    /// A file with certificates of authorities to trust besides those of the system.
    pub(crate) ca: Option<PathBuf>,
    /// For all requests; what the environment says when it is left out.
    pub(crate) proxy: Option<String>,
}

/// What the file may hold: a login, and others by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ClientFile {
    pub(crate) server: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) proxy: Option<String>,
    /// The context that counts; the unnamed one when it is left out.
    pub(crate) context: Option<String>,
    pub(crate) contexts: BTreeMap<String, Login>,
}

impl ClientFile {
    /// All contexts, that without a name first.
    pub(crate) fn names(&self) -> Vec<&str> {
        let unnamed = self.server.is_some().then_some(UNNAMED);
        unnamed.into_iter().chain(self.contexts.keys().map(String::as_str)).collect()
    }

    /// The context that counts unless another is named.
    pub(crate) fn current(&self) -> Option<&str> {
        let chosen = self.context.as_deref().filter(|name| self.contexts.contains_key(*name));
        chosen.or_else(|| self.names().first().copied())
    }

    pub(crate) fn login(&self, name: &str) -> Option<Login> {
        if name != UNNAMED {
            return self.contexts.get(name).cloned();
        }
        let Self { server, token, ca, proxy, .. } = self.clone();
        server.is_some().then_some(Login { server, token, ca, proxy })
    }

    /// Puts a login under a name, or takes away what is there.
    pub(crate) fn set(&mut self, name: &str, login: Option<Login>) {
        if name == UNNAMED {
            let Login { server, token, ca, proxy } = login.unwrap_or_default();
            (self.server, self.token, self.ca, self.proxy) = (server, token, ca, proxy);
        } else if let Some(login) = login {
            self.contexts.insert(name.to_owned(), login);
        } else {
            self.contexts.remove(name);
        }
    }

    /// Makes a context the one that counts.
    pub(crate) fn choose(&mut self, name: &str) {
        self.context = Some(name.to_owned()).filter(|name| name != UNNAMED);
    }

    /// Reads it; nothing when there is none.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read `{}`", path.display()));
            }
        };
        let file = toml::from_str(&text).map_err(|error| {
            // The error would show the line, and the line may be the one with the token.
            let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
            anyhow::anyhow!(
                "{}:{line}: {}; expected `server`, `token`, `ca` and `proxy`, each with a text, and the same \
                 below `[contexts.NAME]`; `kiln login URL` writes it anew",
                path.display(),
                error.message()
            )
        })?;
        Ok(Some(file))
    }

    /// Writes it whole or not at all, for its owner alone.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let shown = path.display();
        let folder = path.parent().context("a file has a folder")?;
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.with_context(|| format!("cannot make the folder `{}`", folder.display()))?;
        let next = path.with_extension(format!("{}.new", std::process::id()));
        let written = (|| {
            let mut file =
                fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&next)?;
            file.write_all(self.text().as_bytes())?;
            file.sync_all()?;
            fs::rename(&next, path)
        })();
        written
            .inspect_err(|_| {
                // What is half written is of no use to anybody.
                let _ = fs::remove_file(&next);
            })
            .with_context(|| format!("cannot write `{shown}`"))
    }

    fn text(&self) -> String {
        let mut text = String::from("# Written by `kiln login`. Keep it to yourself.\n");
        if let Some(context) = &self.context {
            let _ = writeln!(text, "context = {}", quoted(context));
        }
        if let Some(login) = self.login(UNNAMED) {
            login.write(&mut text);
        }
        for (name, login) in &self.contexts {
            let _ = writeln!(text, "\n[contexts.{}]", quoted(name));
            login.write(&mut text);
        }
        text
    }
}

impl Login {
    fn write(&self, text: &mut String) {
        let ca = self.ca.as_ref().map(|path| path.to_string_lossy().into_owned());
        for (name, value) in
            [("server", &self.server), ("token", &self.token), ("ca", &ca), ("proxy", &self.proxy)]
        {
            if let Some(value) = value {
                let _ = writeln!(text, "{name} = {}", quoted(value));
            }
        }
    }
}

/// A string of JSON is one of TOML, too.
fn quoted(text: &str) -> serde_json::Value {
    serde_json::Value::from(text)
}

/// Whether there is no such file, as far as this user can see.
fn is_absent(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn what_is_written_is_read_and_nobody_else_can() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/client.toml");
        assert_eq!(ClientFile::read(&path).unwrap(), None);
        let file = ClientFile {
            server: Some("https://ci.example".to_owned()),
            token: Some("kpat_\"\\é".to_owned()),
            ..ClientFile::default()
        };
        file.write(&path).unwrap();
        file.write(&path).unwrap();
        assert_eq!(ClientFile::read(&path).unwrap(), Some(file));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn contexts_are_kept_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("client.toml");
        let login =
            |server: &str| Some(Login { server: Some(server.to_owned()), ..Login::default() });
        let mut file = ClientFile::default();
        assert_eq!((file.current(), file.names().len()), (None, 0));
        file.set("work \"x\"", login("https://work.example"));
        assert_eq!(file.current(), Some("work \"x\""));
        file.set(UNNAMED, login("https://one.example"));
        assert_eq!(file.current(), Some(UNNAMED));
        file.choose("work \"x\"");
        file.write(&path).unwrap();
        let mut read = ClientFile::read(&path).unwrap().unwrap();
        assert_eq!(read, file);
        assert_eq!(read.names(), [UNNAMED, "work \"x\""]);
        assert_eq!(read.login("work \"x\""), login("https://work.example"));
        read.set("work \"x\"", None);
        assert_eq!(read.current(), Some(UNNAMED), "one that is gone counts no more");
    }

    #[test]
    fn a_broken_file_is_named_with_its_line_but_without_its_token() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("client.toml");
        for text in
            ["server = \"x\"\ntoken = kpat_secret\n", "server = \"x\"\ntokn = \"kpat_secret\"\n"]
        {
            fs::write(&path, text).unwrap();
            let error = format!("{:#}", ClientFile::read(&path).unwrap_err());
            assert!(error.contains("client.toml:2: "), "{error}");
            assert!(error.contains("`kiln login URL`") && !error.contains("secret"), "{error}");
        }
    }
}
