//! What is in an artifact, and one file of it, without fetching the rest.

use std::io::Read;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use kiln_proto::content::ArtifactDetail;
use kiln_server::zip::read::{Entry, Kind};
use serde_json::json;
use tokio::sync::mpsc;

use super::download::ZIP;
use super::remote::Remote;
use crate::Outcome;
use crate::client::Client;
use crate::cmd::client::print_json;
use crate::output::Console;
use crate::output::table::{Cell, Table, cut, whole};
use crate::output::text::size;

fn must_be_archive(one: &ArtifactDetail) -> Result<()> {
    let kind = &one.artifact.content_type;
    if kind != ZIP {
        bail!(
            "`{}` is a single file ({kind}); `kiln artifacts download` has it",
            one.artifact.name
        );
    }
    Ok(())
}

/// Lists what is in it.
pub(super) async fn list(
    client: &Client,
    one: &ArtifactDetail,
    json: bool,
    console: &mut Console,
) -> Result<Outcome> {
    must_be_archive(one)?;
    let entries = Remote::open(client, one).await?.entries().await?;
    if json {
        for entry in &entries {
            print_json(console, &json!({ "name": entry.name, "size": entry.size }))?;
        }
        return Ok(Outcome::Clean);
    }
    let mut table = Table::new(&[whole("SIZE"), cut("FILE", 40)]);
    for entry in entries.iter().filter(|entry| entry.kind != Kind::Folder) {
        // What somebody else wrote must not speak to the terminal.
        let name: String =
            entry.name.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        table.row([Cell::from(size(entry.size)), Cell::from(name)]);
    }
    console.print(&table.text())?;
    Ok(Outcome::Clean)
}

/// Prints or writes one file.
pub(super) async fn file(
    client: &Client,
    one: &ArtifactDetail,
    name: &str,
    output: Option<&Path>,
    console: &mut Console,
) -> Result<Outcome> {
    must_be_archive(one)?;
    let remote = Remote::open(client, one).await?;
    let entry = remote.entries().await?.into_iter().find(|entry| entry.name == name);
    let entry = entry.with_context(|| {
        format!(
            "`{}` has no file `{name}`; `kiln artifacts browse {}` lists them",
            one.artifact.name, one.slug
        )
    })?;
    if let Some(path) = output {
        let failed = || format!("cannot write `{}`", path.display());
        let file = std::fs::File::create_new(path).with_context(failed)?;
        unpack(&remote, entry, file).await?;
        console.note_line(&format!("`{name}` is in {}", path.display()));
    } else {
        unpack(&remote, entry, std::io::stdout()).await?;
    }
    Ok(Outcome::Clean)
}

/// Unpacks as the bytes come, on a thread of its own: the reader waits.
async fn unpack(
    remote: &Remote<'_>,
    entry: Entry,
    mut to: impl std::io::Write + Send + 'static,
) -> Result<()> {
    let packed = remote.packed(&entry).await?;
    let (sender, receiver) = mpsc::channel(4);
    let unpacking = tokio::task::spawn_blocking(move || {
        entry.unpack(Pieces { receiver, rest: Vec::new() }, &mut to)
    });
    if let Some(mut packed) = packed {
        while let Some(piece) = packed.chunk().await? {
            // Whoever unpacks may have had enough, and says why.
            if sender.send(piece.to_vec()).await.is_err() {
                break;
            }
        }
    }
    drop(sender);
    Ok(unpacking.await.context("the file could not be unpacked")??)
}

/// Pieces of bytes, read one after the other.
struct Pieces {
    receiver: mpsc::Receiver<Vec<u8>>,
    rest: Vec<u8>,
}

impl Read for Pieces {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        while self.rest.is_empty() {
            match self.receiver.blocking_recv() {
                Some(piece) => self.rest = piece,
                None => return Ok(0),
            }
        }
        let length = self.rest.len().min(to.len());
        to[..length].copy_from_slice(&self.rest[..length]);
        self.rest.drain(..length);
        Ok(length)
    }
}
