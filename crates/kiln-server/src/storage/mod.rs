//! Where the server keeps bytes, and the addresses under which they are sent and had.

mod index;
mod packing;

use std::sync::Arc;
use std::time::Duration;

use kiln_blob::{
    Backend, BlobError, Claims, Compressed, Content, Disk, Found, Name, S3, Span, UrlKey,
    open_recipe,
};
use kiln_core::id::{JobId, OrgId};
use kiln_core::time::Timestamp;

use crate::config::{Place, Storage as Settings};
use crate::token::Signer;

pub(crate) use packing::cut;

/// How long an address is good.
pub const LIFE: Duration = Duration::from_hours(1);
/// The folders of what rows refer to. Whatever else lies in the store is somebody else's.
pub(crate) const FOLDERS: [&str; 7] = [BLOBS, LARGE, PACKS, RECIPES, SMALL, UPLOADS, WHOLE];
pub(crate) const BLOBS: &str = "blobs";
pub(crate) const UPLOADS: &str = "uploads";
/// Archives as they were sent, until they are cut into chunks. The database looks for this name.
pub(crate) const LARGE: &str = "large";
/// What is compressed where it lies: too many bytes for a row, and too few for chunks.
pub(crate) const SMALL: &str = "small";
/// What stays as it is sent, however large it is.
pub(crate) const WHOLE: &str = "whole";
/// What has at least so many bytes is an archive.
pub(crate) const CHUNKED: u64 = 4 << 20;
const PACKS: &str = "packs";
const RECIPES: &str = "recipes";

/// Bytes, and the key of addresses.
#[derive(Debug, Clone)]
pub struct Storage {
    backend: Arc<dyn Backend>,
    urls: UrlKey,
}

/// What an address of ours is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub method: &'static str,
    pub object: String,
    pub size: u64,
    pub org: OrgId,
    pub job: Option<JobId>,
    pub expires: Timestamp,
}

impl Storage {
    pub fn open(settings: &Settings, signer: &Signer) -> Result<Self, BlobError> {
        let backend: Arc<dyn Backend> = match &settings.place {
            Place::Folder(folder) => Arc::new(Disk::open(folder)?),
            Place::S3(options) => Arc::new(S3::open((**options).clone())?),
        };
        Ok(Self::with(backend, signer))
    }

    /// On another backend, for tests.
    pub fn with(backend: Arc<dyn Backend>, signer: &Signer) -> Self {
        Self { backend, urls: UrlKey::derive(&signer.derive("signed urls")) }
    }

    /// Objects by name: others may keep theirs here, too, in folders of their own.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// What a row says lies at a place, as it was sent.
    pub(crate) async fn read(&self, place: &str, span: Span) -> Result<Found, BlobError> {
        let name = Name::new(place)?;
        match place.split('/').next() {
            Some(RECIPES) => open_recipe(Arc::clone(&self.backend), &name, span).await,
            Some(SMALL) => self.compressed().get(&name, span).await,
            _ => self.backend.get(&name, span).await,
        }
    }

    /// Keeps what is sent at a place, as that place wants it.
    pub(crate) async fn put(&self, place: &Name, content: Content) -> Result<u64, BlobError> {
        match place.as_str().split('/').next() {
            Some(SMALL) => self.compressed().put(place, content).await,
            _ => self.backend.put(place, content).await,
        }
    }

    /// How many bytes can be read from a place, and how many it takes; none if nothing is there.
    pub(crate) async fn size(&self, place: &Name) -> Result<Option<(u64, u64)>, BlobError> {
        let Some(stored) = self.backend.size(place).await? else { return Ok(None) };
        let size = match place.as_str().split('/').next() {
            Some(SMALL) => self.compressed().size(place).await?,
            _ => Some(stored),
        };
        Ok(size.map(|size| (size, stored)))
    }

    fn compressed(&self) -> Compressed<Arc<dyn Backend>> {
        Compressed(Arc::clone(&self.backend))
    }

    /// Whether what is read from a place is looked at on its way: chunks are. An archive that was just
    /// sent was looked at then, and is again when it is cut.
    pub(crate) fn is_checked(place: &str) -> bool {
        matches!(place.split('/').next(), Some(RECIPES | LARGE))
    }

    /// Whether what lies at a place can be read from there by anybody who has an address.
    pub(crate) fn is_plain(place: &str) -> bool {
        place.split('/').next() == Some(BLOBS)
    }

    /// What follows the question mark of an address.
    pub(crate) fn sign(&self, grant: &Grant) -> String {
        let signature = self.urls.sign(&claims(grant));
        let Grant { size, org, expires, .. } = grant;
        let job = grant.job.map(|job| format!("&job={}", job.0)).unwrap_or_default();
        format!("org={}{job}&size={size}&expires={}&signature={signature}", org.0, expires.0)
    }

    /// The signature alone, for addresses that have it in their path.
    pub(crate) fn signature(&self, grant: &Grant) -> String {
        self.urls.sign(&claims(grant))
    }

    pub(crate) fn check(&self, grant: &Grant, signature: &str, now: Timestamp) -> bool {
        self.urls.check(&claims(grant), signature, now.0)
    }
}

fn claims(grant: &Grant) -> Claims {
    Claims {
        method: grant.method.to_owned(),
        object: grant.object.clone(),
        bounds: (grant.size, grant.size),
        expires: grant.expires.0,
        organization: grant.org.0,
        job: grant.job.map(|job| job.0),
    }
}
