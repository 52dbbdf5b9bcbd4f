//! Objects in S3, or in a store that speaks like it.
//!
//! Everything is read and written in pieces, each a request of its own that is tried again a few times.
//! So no request takes long, and memory stays small.

mod direct;
mod presign;
mod put;
mod read;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{
    BackoffConfig, Certificate, ClientOptions, ObjectStore as _, ObjectStoreExt as _, RetryConfig,
};

use crate::backend::{Backend, Direct, Entry, Found, Span, Work};
use crate::{BlobError, Content, Name};

/// Where a bucket is, and who asks.
#[derive(Clone)]
pub struct S3Options {
    pub bucket: String,
    pub region: String,
    /// The address of the store; that of AWS unless it is set.
    pub endpoint: Option<String>,
    /// The id of the key and the key. Without, those of the machine are used.
    pub key: Option<(String, String)>,
    /// A folder in the bucket.
    pub prefix: Option<Name>,
    /// The proxy for requests, and the hosts that are reached without it.
    pub proxy: Option<String>,
    pub no_proxy: Vec<String>,
    /// A file with certificates in PEM to trust besides those of the system.
    pub ca_file: Option<PathBuf>,
    /// How long one request may take, and all tries of one together.
    pub request_timeout: Duration,
    pub give_up_after: Duration,
    /// How often a request is tried again.
    pub retries: usize,
}

impl S3Options {
    pub fn new(bucket: &str, region: &str) -> Self {
        Self {
            bucket: bucket.to_owned(),
            region: region.to_owned(),
            endpoint: None,
            key: None,
            prefix: None,
            proxy: None,
            no_proxy: Vec::new(),
            ca_file: None,
            request_timeout: Duration::from_mins(1),
            give_up_after: Duration::from_mins(2),
            retries: 5,
        }
    }
}

impl fmt::Debug for S3Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("S3Options");
        shown.field("bucket", &self.bucket).field("endpoint", &self.endpoint);
        shown.finish_non_exhaustive()
    }
}

/// A bucket, or a folder in one. Clones are the same.
#[derive(Debug, Clone)]
pub struct S3 {
    store: AmazonS3,
    options: Arc<S3Options>,
}

impl S3 {
    /// Asks nothing of the store yet.
    pub fn open(options: S3Options) -> Result<Self, BlobError> {
        let client = client(&options)?;
        let backoff = BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(5),
            base: 2.0,
        };
        let (max_retries, retry_timeout) = (options.retries, options.give_up_after);
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&options.bucket)
            .with_region(&options.region)
            .with_client_options(client)
            .with_retry(RetryConfig { backoff, max_retries, retry_timeout });
        if let Some(endpoint) = &options.endpoint {
            builder = builder.with_endpoint(endpoint);
        } else {
            builder = builder.with_virtual_hosted_style_request(true);
        }
        if let Some((id, secret)) = &options.key {
            builder = builder.with_access_key_id(id).with_secret_access_key(secret);
        }
        let store = builder.build().map_err(|error| failed("open", &options.bucket, &error))?;
        Ok(Self { store, options: Arc::new(options) })
    }

    /// Where an object lies in the bucket.
    fn key(&self, name: &Name) -> String {
        match &self.options.prefix {
            Some(prefix) => format!("{prefix}/{name}"),
            None => name.to_string(),
        }
    }

    fn path(&self, name: &Name) -> Path {
        Path::from(self.key(name))
    }

    /// The name of what lies there; `None` for what is not ours.
    fn name(&self, path: &Path) -> Option<Name> {
        let text = path.as_ref();
        let own = match &self.options.prefix {
            Some(prefix) => text.strip_prefix(prefix.as_str())?.strip_prefix('/')?,
            None => text,
        };
        Name::new(own).ok()
    }

    fn explain(&self, what: &'static str, name: &Name, error: &object_store::Error) -> BlobError {
        match error {
            object_store::Error::NotFound { .. } => BlobError::NotFound(name.clone()),
            _ => failed(what, &self.key(name), error),
        }
    }
}

/// How requests go out.
fn client(options: &S3Options) -> Result<ClientOptions, BlobError> {
    let mut client = ClientOptions::new()
        .with_timeout(options.request_timeout)
        .with_connect_timeout(options.request_timeout.min(Duration::from_secs(5)))
        .with_allow_http(true);
    if let Some(proxy) = &options.proxy {
        client = client.with_proxy_url(proxy).with_proxy_excludes(options.no_proxy.join(","));
    }
    let Some(file) = &options.ca_file else { return Ok(client) };
    let wrong = |error: String| BlobError::Remote {
        what: "trust",
        name: file.display().to_string(),
        error,
    };
    let pem = std::fs::read(file).map_err(|error| wrong(error.to_string()))?;
    let all = Certificate::from_pem_bundle(&pem).map_err(|error| wrong(error.to_string()))?;
    if all.is_empty() {
        return Err(wrong("there is no certificate in PEM in it".to_owned()));
    }
    Ok(all.into_iter().fold(client, ClientOptions::with_root_certificate))
}

fn failed(what: &'static str, name: &str, error: &object_store::Error) -> BlobError {
    BlobError::Remote { what, name: name.to_owned(), error: error.to_string() }
}

impl Backend for S3 {
    fn put<'a>(&'a self, name: &'a Name, content: Content) -> Work<'a, u64> {
        Box::pin(put::put(self, name, content))
    }

    fn get<'a>(&'a self, name: &'a Name, span: Span) -> Work<'a, Found> {
        Box::pin(read::get(self, name, span))
    }

    fn size<'a>(&'a self, name: &'a Name) -> Work<'a, Option<u64>> {
        Box::pin(async move {
            match self.store.head(&self.path(name)).await {
                Ok(found) => Ok(Some(found.size)),
                Err(object_store::Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(self.explain("look at", name, &error)),
            }
        })
    }

    fn delete<'a>(&'a self, name: &'a Name) -> Work<'a, ()> {
        Box::pin(async move {
            match self.store.delete(&self.path(name)).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(self.explain("remove", name, &error)),
            }
        })
    }

    fn list<'a>(
        &'a self,
        folder: &'a Name,
        after: Option<&'a Name>,
        most: usize,
    ) -> Work<'a, Vec<Entry>> {
        Box::pin(async move {
            let below = self.path(folder);
            let listed = match after {
                Some(after) => self.store.list_with_offset(Some(&below), &self.path(after)),
                None => self.store.list(Some(&below)),
            };
            let entries = listed.try_filter_map(|found| {
                let name = self.name(&found.location);
                let modified = found.last_modified.into();
                let entry = name.map(|name| Entry { name, stored: found.size, modified });
                std::future::ready(Ok(entry))
            });
            let entries = entries.take(most).try_collect().await;
            entries.map_err(|error| self.explain("list", folder, &error))
        })
    }

    fn direct(&self) -> Option<&dyn Direct> {
        Some(self)
    }
}
