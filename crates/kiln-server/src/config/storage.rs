//! Where bytes lie.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kiln_blob::{Name, S3Options};

use super::{Outbound, Take, values};

/// Where bytes lie, and how many may come.
#[derive(Debug, Clone)]
pub struct Storage {
    pub place: Place,
    /// How long bytes are kept that nothing refers to.
    pub grace: Duration,
    /// How many bytes one upload may have.
    pub largest: u64,
    /// How many bytes one job may have on their way at once.
    pub open: u64,
}

#[derive(Debug, Clone)]
pub enum Place {
    Folder(PathBuf),
    S3(Box<S3Options>),
}

impl Take<'_> {
    pub(super) fn storage(&mut self, data: &Path, outbound: &Outbound) -> Storage {
        let folder = self.optional("storage.folder", values::path);
        let s3 = self.s3(outbound);
        if let (Some(_), Some(s3)) = (&folder, &s3) {
            let why = format!("bytes go to the bucket `{}`; take one of the two away", s3.bucket);
            self.problems.push(self.settings.get("storage.folder").problem(&why));
        }
        Storage {
            place: match s3 {
                Some(s3) => Place::S3(Box::new(s3)),
                None => Place::Folder(folder.unwrap_or_else(|| data.join("bytes"))),
            },
            grace: self.get("keep.unused_bytes", values::duration),
            largest: self.get("limits.upload", values::size),
            open: self.get("limits.open_uploads", values::size),
        }
    }

    fn s3(&mut self, outbound: &Outbound) -> Option<S3Options> {
        let bucket = self.optional("storage.s3_bucket", values::word);
        let region = self.get("storage.s3_region", values::word);
        let endpoint = self.optional("storage.s3_endpoint", values::url);
        let prefix = self.optional("storage.s3_prefix", |text| {
            Name::new(text)
                .map_err(|_| "expected parts of letters and digits with slashes".to_owned())
        });
        let id = self.optional("storage.s3_key_id", values::word);
        let secret = self.optional("storage.s3_secret", values::word);
        let alone = match (&bucket, &id, &secret) {
            (None, _, Some(_)) | (Some(_), None, Some(_)) => {
                Some(("storage.s3_secret", "its id and a bucket"))
            }
            (_, Some(_), None) => Some(("storage.s3_key_id", "its secret and a bucket")),
            _ => None,
        };
        if let Some((name, missing)) = alone {
            let why = format!("a key needs {missing}");
            self.problems.push(self.settings.get(name).problem(&why));
        }
        let key = id.zip(secret);
        let Outbound { proxy, no_proxy, ca_file } = outbound.clone();
        let usual = S3Options::new(&bucket?, &region);
        Some(S3Options { endpoint, key, prefix, proxy, no_proxy, ca_file, ..usual })
    }
}
