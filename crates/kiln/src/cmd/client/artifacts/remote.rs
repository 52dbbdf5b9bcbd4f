//! An artifact on its server, had in pieces.

use anyhow::{Context as _, Result, bail, ensure};
use kiln_proto::blob::Link;
use kiln_proto::content::ArtifactDetail;
use kiln_server::zip::read::{self as zip, Entry};
use reqwest::Response;
use reqwest::header::RANGE;

use crate::client::Client;

/// An artifact, and an address of it that is good for an hour.
pub(super) struct Remote<'a> {
    client: &'a Client,
    url: String,
    size: u64,
}

impl<'a> Remote<'a> {
    pub(super) async fn open(client: &'a Client, one: &ArtifactDetail) -> Result<Self> {
        let link: Link = client.get(&["artifacts", &one.slug, "link"]).json().await?;
        Ok(Self { client, url: link.url, size: one.artifact.size })
    }

    /// All of it.
    pub(super) async fn whole(&self) -> Result<Response> {
        let answer = self.client.plain(&self.url)?.send().await;
        let answer = answer.context("the artifact cannot be had")?;
        ensure!(answer.status() == 200, "the artifact cannot be had: {}", answer.status());
        Ok(answer)
    }

    /// These bytes of it, as they come.
    pub(super) async fn part(&self, from: u64, length: u64) -> Result<Response> {
        let end = from.checked_add(length).filter(|end| length > 0 && *end <= self.size);
        let Some(end) = end else { bail!("the archive says something that cannot be") };
        let range = format!("bytes={from}-{}", end - 1);
        let answer = self.client.plain(&self.url)?.header(RANGE, range).send().await;
        let answer = answer.context("a part of the artifact cannot be had")?;
        ensure!(
            answer.status() == 206,
            "a part of the artifact cannot be had: {}",
            answer.status()
        );
        Ok(answer)
    }

    /// These bytes of it at once. Only for few.
    async fn bytes(&self, from: u64, length: u64) -> Result<Vec<u8>> {
        if length == 0 {
            return Ok(Vec::new());
        }
        let mut answer = self.part(from, length).await?;
        let mut bytes = Vec::new();
        while let Some(piece) = answer.chunk().await? {
            bytes.extend_from_slice(&piece);
            ensure!(bytes.len() as u64 <= length, "the server sent more than it was asked for");
        }
        ensure!(bytes.len() as u64 == length, "the server sent less than it was asked for");
        Ok(bytes)
    }

    /// What is in the archive.
    pub(super) async fn entries(&self) -> Result<Vec<Entry>> {
        let from = self.size.saturating_sub(zip::TAIL);
        let tail = self.bytes(from, self.size - from).await?;
        let list = zip::list(&tail, self.size)?;
        Ok(zip::entries(&self.bytes(list.from, list.size).await?)?)
    }

    /// The packed bytes of a file of the archive.
    pub(super) async fn packed(&self, entry: &Entry) -> Result<Option<Response>> {
        if entry.packed == 0 {
            return Ok(None);
        }
        let head = self.bytes(entry.at, zip::HEAD).await?;
        let from = entry.at.checked_add(entry.content_after(&head)?);
        let from = from.context("the archive says something that cannot be")?;
        self.part(from, entry.packed).await.map(Some)
    }
}
