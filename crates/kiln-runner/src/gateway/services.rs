//! What stands behind the gateway of a job: folders of this machine, or a server.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use kiln_blob::tree;
use kiln_proto::content::{Artifact, Cache, FindCache, NewArtifact, NewCache};
use kiln_proto::result::{AskResult, FoundResult};

/// What a job can leave behind and find again. All of it may take as long as its bytes do.
pub trait Services: fmt::Debug + Send + Sync {
    /// The best cache for a key.
    fn find_cache(&self, wanted: &FindCache) -> Result<Option<Cache>, Refusal>;

    /// A key is to be written; returns what is then to be completed.
    fn reserve_cache(&self, new: &NewCache) -> Result<i64, Refusal>;

    /// A cache is there from now on; returns its number.
    fn complete_cache(&self, id: i64, new: &NewCache, bytes: &Spooled) -> Result<i64, Refusal>;

    /// Where the chunks of trees are that the job may read, and where it can add some.
    fn trees(&self) -> Result<Box<dyn tree::Shelf>, Refusal>;

    /// A cache that is a tree is there from now on; returns its number. Its packs are on the shelf.
    fn complete_tree(&self, id: i64, new: &NewCache, tree: &tree::Saved) -> Result<i64, Refusal>;

    /// The complete artifacts of the run.
    fn artifacts(&self) -> Result<Vec<Artifact>, Refusal>;

    /// A name in the run is to be written; returns what is then to be completed.
    fn reserve_artifact(&self, new: &NewArtifact) -> Result<i64, Refusal>;

    /// An artifact is there from now on; returns its number.
    fn complete_artifact(
        &self,
        id: i64,
        new: &NewArtifact,
        bytes: &Spooled,
    ) -> Result<i64, Refusal>;

    fn delete_artifact(&self, id: i64) -> Result<(), Refusal>;

    /// All bytes of an upload are there: a good moment to send them on, before it is completed.
    fn send(&self, bytes: &Spooled) -> Result<(), Refusal> {
        let _ = bytes;
        Ok(())
    }

    /// The bytes of something complete, from one of them on.
    fn open(&self, stored: &Stored, from: u64) -> Result<Box<dyn Read + Send>, Refusal>;

    /// A word for who the job is, for one audience. `issuer` is where the gateway can be asked for the
    /// keys of whoever signs here.
    fn id_token(&self, issuer: &str, audience: Option<&str>) -> Result<String, Refusal>;

    /// Results of earlier jobs; nothing where none are kept.
    fn results(&self) -> Option<&dyn Results> {
        None
    }

    /// The public keys of whoever signs here; nothing when they are elsewhere.
    fn keys(&self) -> Option<serde_json::Value> {
        None
    }
}

/// Results of jobs that can be used again.
pub trait Results {
    /// Whether the result of an earlier job stands for this one. If not, this one is remembered with its
    /// fingerprint, and counts for others once it is green.
    fn earlier(&self, asked: &AskResult) -> Result<FoundResult, Refusal>;
}

/// The bytes of an upload, whole, in a file that goes with the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spooled {
    pub path: PathBuf,
    pub size: u64,
    /// SHA-256, as 64 hexadecimals.
    pub hash: String,
}

impl Spooled {
    pub fn open(&self) -> io::Result<File> {
        File::open(&self.path)
    }
}

/// Something that can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub kind: Kind,
    pub id: i64,
    pub hash: String,
    pub size: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Cache,
    Artifact,
}

impl From<&Cache> for Stored {
    fn from(cache: &Cache) -> Self {
        Self { kind: Kind::Cache, id: cache.id, hash: cache.hash.clone(), size: cache.size }
    }
}

impl From<&Artifact> for Stored {
    fn from(artifact: &Artifact) -> Self {
        let (id, size) = (artifact.id, artifact.size);
        Self { kind: Kind::Artifact, id, hash: artifact.hash.clone(), size }
    }
}

/// Why something is not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub reason: Reason,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The question makes no sense.
    Invalid,
    /// The token is missing or not good.
    Unknown,
    Forbidden,
    NotFound,
    /// There is one already.
    Exists,
    TooLarge,
    /// The same again later may work.
    Unavailable,
}

impl Refusal {
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Reason::Invalid, message)
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Reason::NotFound, message)
    }

    pub fn exists(message: impl Into<String>) -> Self {
        Self::new(Reason::Exists, message)
    }
}

/// What a disk refuses may be there later.
impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::new(Reason::Unavailable, format!("the runner cannot keep it: {error}"))
    }
}
