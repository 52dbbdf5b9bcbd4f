//! Addresses of S3 itself, for those who upload and download without us.

use std::time::Duration;

use object_store::multipart::{MultipartStore as _, PartId};

use super::S3;
use super::presign::{Request, presign};
use crate::backend::{Direct, Parts, Work};
use crate::{BlobError, Name};

impl S3 {
    async fn signed(
        &self,
        name: &Name,
        method: &str,
        query: &[(&str, &str)],
        size: Option<u64>,
        life: Duration,
    ) -> Result<String, BlobError> {
        let credential = self.store.credentials().get_credential().await;
        let credential = credential.map_err(|error| self.explain("sign for", name, &error))?;
        let (base, path) = self.address(name);
        let request = Request {
            method,
            base: &base,
            path: &path,
            query,
            size,
            life,
            region: &self.options.region,
        };
        let token = credential.token.as_deref();
        Ok(presign(&request, &credential.key_id, &credential.secret_key, token))
    }

    /// The host, and the path of an object there.
    fn address(&self, name: &Name) -> (String, String) {
        let (bucket, key) = (&self.options.bucket, self.key(name));
        match &self.options.endpoint {
            Some(endpoint) => {
                (endpoint.trim_end_matches('/').to_owned(), format!("/{bucket}/{key}"))
            }
            None => {
                let region = &self.options.region;
                (format!("https://{bucket}.s3.{region}.amazonaws.com"), format!("/{key}"))
            }
        }
    }
}

impl Direct for S3 {
    fn put_url<'a>(&'a self, name: &'a Name, size: u64, life: Duration) -> Work<'a, String> {
        Box::pin(self.signed(name, "PUT", &[], Some(size), life))
    }

    fn get_url<'a>(&'a self, name: &'a Name, life: Duration) -> Work<'a, String> {
        Box::pin(self.signed(name, "GET", &[], None, life))
    }

    fn begin_parts<'a>(&'a self, name: &'a Name) -> Work<'a, Parts> {
        Box::pin(async move {
            let begun = self.store.create_multipart(&self.path(name)).await;
            begun.map(Parts).map_err(|error| self.explain("begin", name, &error))
        })
    }

    fn part_url<'a>(
        &'a self,
        name: &'a Name,
        parts: &'a Parts,
        number: u32,
        life: Duration,
    ) -> Work<'a, String> {
        Box::pin(async move {
            let number = number.to_string();
            let query = [("partNumber", number.as_str()), ("uploadId", parts.0.as_str())];
            self.signed(name, "PUT", &query, None, life).await
        })
    }

    fn finish_parts<'a>(
        &'a self,
        name: &'a Name,
        parts: &'a Parts,
        tags: Vec<String>,
    ) -> Work<'a, ()> {
        Box::pin(async move {
            let tags = tags.into_iter().map(|content_id| PartId { content_id }).collect();
            let done = self.store.complete_multipart(&self.path(name), &parts.0, tags).await;
            done.map(|_| ()).map_err(|error| match self.explain("finish", name, &error) {
                // It was understood and refused; asking again would not help.
                BlobError::Remote { error, .. } if error.contains("status code: 4") => {
                    BlobError::Invalid(format!("the store refuses the parts: {error}"))
                }
                other => other,
            })
        })
    }

    fn abort_parts<'a>(&'a self, name: &'a Name, parts: &'a Parts) -> Work<'a, ()> {
        Box::pin(async move {
            match self.store.abort_multipart(&self.path(name), &parts.0).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(self.explain("give up", name, &error)),
            }
        })
    }
}
