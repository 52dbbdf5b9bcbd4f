//! `client.toml`: which server, and the token for it. Only its owner may read it.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Deserialize;

/// What the file may hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ClientFile {
    pub(crate) server: Option<String>,
    pub(crate) token: Option<String>,
    /// A file with certificates of authorities to trust besides those of the system.
    pub(crate) ca: Option<PathBuf>,
    /// For all requests; what the environment says when it is left out.
    pub(crate) proxy: Option<String>,
}

impl ClientFile {
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
                "{}:{line}: {}; expected `server`, `token`, `ca` and `proxy`, each with a text; \
                 `kiln login URL` writes it anew",
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
        let ca = self.ca.as_ref().map(|path| path.to_string_lossy().into_owned());
        for (name, value) in
            [("server", &self.server), ("token", &self.token), ("ca", &ca), ("proxy", &self.proxy)]
        {
            if let Some(value) = value {
                // A string of JSON is one of TOML, too.
                let _ = writeln!(text, "{name} = {}", serde_json::Value::from(value.as_str()));
            }
        }
        text
    }
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
