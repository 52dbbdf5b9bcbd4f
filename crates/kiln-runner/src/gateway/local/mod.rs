//! The services of `kiln run`: caches and artifacts in folders of this machine, and an issuer of tokens
//! that lasts as long as the run.

mod artifacts;
mod caches;
mod issuer;

use std::fs::{self, File};
use std::io::{self, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kiln_blob::tree;
use kiln_core::value::{Object, Value};
use kiln_proto::content::{Artifact, Cache, FindCache, NewArtifact, NewCache};

use super::services::{Kind, Reason, Refusal, Services, Spooled, Stored};

pub use artifacts::{Artifacts, Left};
pub use caches::Caches;
pub(super) use issuer::CLAIMS;
use issuer::{Identity, Issuer};

/// What the jobs of a run on this machine share.
#[derive(Debug)]
pub struct Shelf {
    pub artifacts: Artifacts,
    pub caches: Caches,
    issuer: Issuer,
}

impl Shelf {
    pub fn new(artifacts: Artifacts, caches: Caches) -> Self {
        Self { artifacts, caches, issuer: Issuer::default() }
    }
}

/// The services of one job.
#[derive(Debug)]
pub struct OnShelf {
    shelf: Arc<Shelf>,
    identity: Identity,
    reference: String,
}

impl OnShelf {
    pub fn new(shelf: Arc<Shelf>, github: &Object, environment: Option<&str>) -> Self {
        let reference = github.get("ref").and_then(Value::as_str).unwrap_or_default().to_owned();
        Self { shelf, identity: Identity::of(github, environment), reference }
    }
}

impl Services for OnShelf {
    fn find_cache(&self, wanted: &FindCache) -> Result<Option<Cache>, Refusal> {
        Ok(self.shelf.caches.find(wanted)?)
    }

    fn reserve_cache(&self, new: &NewCache) -> Result<i64, Refusal> {
        self.shelf.caches.reserve(new)
    }

    fn complete_cache(&self, _: i64, new: &NewCache, bytes: &Spooled) -> Result<i64, Refusal> {
        Ok(self.shelf.caches.save(new, &self.reference, bytes)?)
    }

    fn trees(&self) -> Result<Box<dyn tree::Shelf>, Refusal> {
        Ok(Box::new(self.shelf.caches.trees()?))
    }

    fn complete_tree(&self, _: i64, new: &NewCache, tree: &tree::Saved) -> Result<i64, Refusal> {
        Ok(self.shelf.caches.save_tree(new, &self.reference, tree)?)
    }

    fn artifacts(&self) -> Result<Vec<Artifact>, Refusal> {
        Ok(self.shelf.artifacts.list())
    }

    fn reserve_artifact(&self, new: &NewArtifact) -> Result<i64, Refusal> {
        self.shelf.artifacts.reserve(new)
    }

    fn complete_artifact(
        &self,
        id: i64,
        new: &NewArtifact,
        bytes: &Spooled,
    ) -> Result<i64, Refusal> {
        self.shelf.artifacts.save(id, new, bytes)?;
        Ok(id)
    }

    fn delete_artifact(&self, id: i64) -> Result<(), Refusal> {
        self.shelf.artifacts.delete(id)
    }

    fn open(&self, stored: &Stored, from: u64) -> Result<Box<dyn Read + Send>, Refusal> {
        let path = match stored.kind {
            Kind::Cache => self.shelf.caches.path(stored.id),
            Kind::Artifact => self.shelf.artifacts.path(stored.id),
        };
        let gone = || Refusal::not_found("it was there and is gone");
        let mut file = File::open(path.ok_or_else(gone)?).map_err(|_| gone())?;
        if file.metadata()?.len() != stored.size {
            let message = "its file has another size than was written";
            return Err(Refusal::new(Reason::NotFound, message));
        }
        file.seek(SeekFrom::Start(from))?;
        Ok(Box::new(file))
    }

    fn id_token(&self, issuer: &str, audience: Option<&str>) -> Result<String, Refusal> {
        self.shelf.issuer.token(&self.identity, issuer, audience)
    }

    fn keys(&self) -> Option<serde_json::Value> {
        self.shelf.issuer.keys().ok()
    }
}

/// Puts the bytes of an upload where they stay, in one step: nobody sees half of them.
fn take(bytes: &Spooled, to: &Path) -> io::Result<()> {
    match fs::rename(&bytes.path, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            let beside = beside(to);
            let copied = fs::copy(&bytes.path, &beside).and_then(|_| fs::rename(&beside, to));
            if copied.is_err() {
                let _ = fs::remove_file(&beside);
            }
            copied
        }
        other => other,
    }
}

/// A name for what is not ready yet.
fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    path.with_file_name(format!(".new-{name}"))
}
