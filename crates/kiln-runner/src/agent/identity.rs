//! Who this runner is, kept between its starts: `runner.json` in its data directory.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::seal::Keys;

const FILE: &str = "runner.json";

/// What `runner.json` holds. Whoever can read it can speak for this runner.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    server: String,
    id: i64,
    name: String,
    credential: String,
    private_key: String,
}

/// A runner that was registered.
#[derive(Debug)]
pub struct Identity {
    pub server: String,
    pub id: i64,
    pub name: String,
    pub(super) credential: String,
    pub(super) keys: Keys,
}

impl Identity {
    /// Who the runner of this directory is, if it was registered before.
    pub fn load(data: &Path) -> Result<Option<Self>, String> {
        let path = data.join(FILE);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("cannot read `{}`: {error}", path.display())),
        };
        let wrong = |error: &dyn std::fmt::Display| {
            let path = path.display();
            format!("`{path}` is damaged ({error}); remove it and register again with `--key`")
        };
        let kept: Kept = serde_json::from_slice(&text).map_err(|error| wrong(&error))?;
        let keys = Keys::parse(&kept.private_key).map_err(|error| wrong(&error))?;
        let Kept { server, id, name, credential, .. } = kept;
        Ok(Some(Self { server, id, name, credential, keys }))
    }

    /// Writes it beside and moves it there, so that it is never half there, and never anybody else's.
    pub(super) fn save(&self, data: &Path) -> io::Result<()> {
        let kept = Kept {
            server: self.server.clone(),
            id: self.id,
            name: self.name.clone(),
            credential: self.credential.clone(),
            private_key: self.keys.private(),
        };
        write_private(&data.join(FILE), &serde_json::to_vec_pretty(&kept)?)
    }

    /// Forgets the runner of this directory.
    pub fn forget(data: &Path) -> io::Result<()> {
        match fs::remove_file(data.join(FILE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Replaces a file that only its owner may read, as a whole or not at all.
fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let beside = PathBuf::from(format!("{}.new", path.display()));
    let _ = fs::remove_file(&beside);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_runner_comes_back_as_itself_and_nobody_else_can_read_it() {
        let data = tempfile::tempdir().unwrap();
        assert!(Identity::load(data.path()).unwrap().is_none());
        let identity = Identity {
            server: "http://localhost:1".to_owned(),
            id: 7,
            name: "a".to_owned(),
            credential: "krc_x".to_owned(),
            keys: Keys::generate().unwrap(),
        };
        identity.save(data.path()).unwrap();
        let file = data.path().join(FILE);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let back = Identity::load(data.path()).unwrap().unwrap();
        assert_eq!((back.id, &*back.name, &*back.credential), (7, "a", "krc_x"));
        assert_eq!(back.keys.public(), identity.keys.public());
        fs::write(&file, "{").unwrap();
        let error = Identity::load(data.path()).unwrap_err();
        assert!(error.contains("runner.json") && error.contains("--key"), "{error}");
        Identity::forget(data.path()).unwrap();
        Identity::forget(data.path()).unwrap();
        assert!(Identity::load(data.path()).unwrap().is_none());
    }
}
