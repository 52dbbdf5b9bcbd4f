//! Bytes by their SHA-256: what is there, how it is sent, how it is had.

mod ingest;
mod read;
mod upload;

use std::sync::Arc;

use kiln_blob::{BlobError, Digest};
use kiln_core::access::Right;
use kiln_core::id::{JobId, OrgId};
use kiln_proto::blob::{Exists, MOST_HASHES, Present};
use kiln_store::content::blobs;
use kiln_store::directory::organizations;
use kiln_store::{Scope, Tx};

use super::runs::FIND;
use crate::app::App;
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};
use crate::token::JobAccess;

pub use ingest::{Arrivals, complete, complete_in_time};
pub use read::{Opened, link, open, open_here, open_signed, out_of_range};
pub use upload::{receive, renew, reserve};

/// Who asks for bytes, or sends them.
#[derive(Debug)]
pub enum Asker {
    /// A job that is running.
    Job(JobAccess),
    Person(Box<Caller>),
}

impl Asker {
    pub(crate) fn job(&self) -> Option<JobId> {
        match self {
            Self::Job(access) => Some(access.job),
            Self::Person(_) => None,
        }
    }

    /// What tells this one from others.
    fn key(&self) -> String {
        match self {
            Self::Job(access) => format!("job {}.{}", access.job.0, access.claim),
            Self::Person(caller) => format!("person {}", caller.name()),
        }
    }

    /// The organization that is meant. A job has its own, and knows of no other.
    async fn org(&self, app: &App, right: Right, owner: Option<&str>) -> Answer<OrgId> {
        let named = match owner {
            Some(owner) => Some(org_named(app, owner.to_owned()).await?),
            None => None,
        };
        let missing = || Failure::not_found("organization");
        match self {
            Self::Job(access) if named.is_none_or(|org| org == access.org) => Ok(access.org),
            Self::Job(_) => Err(missing()),
            Self::Person(caller) => {
                let unnamed = || Failure::not_found("organization; name one with `owner`");
                let org = named.ok_or_else(unnamed)?;
                caller.require(right, Some(org), "organization")?;
                Ok(org)
            }
        }
    }
}

async fn org_named(app: &App, owner: String) -> Answer<OrgId> {
    let find = async move |tx: &mut Tx<'_>| organizations::by_name(tx, FIND, &owner).await;
    Ok(app.store.read(find).await?.id)
}

fn digest(text: &str) -> Answer<Digest> {
    text.parse().map_err(|error: BlobError| Failure::invalid(error.to_string()))
}

fn size_of(size: u64) -> Answer<i64> {
    i64::try_from(size).map_err(|_| Failure::invalid("`size` is too large"))
}

/// What went wrong with bytes, for whoever sent or wanted them.
#[expect(clippy::needless_pass_by_value, reason = "it ends an error, as `map_err` has it")]
pub(crate) fn unkept(error: BlobError) -> Failure {
    if error.is_of_sender() {
        return Failure::invalid(error.to_string());
    }
    tracing::error!(%error, "bytes cannot be kept or read");
    match error {
        BlobError::Full { .. } => Failure::unavailable("the server has no room for bytes left"),
        _ => Failure::unavailable("the place for bytes cannot be used at the moment; try again"),
    }
}

/// Which of these bytes an organization has. Whoever asks may rely on them for the time of grace.
pub async fn exists(app: &App, asker: &Asker, asked: Exists) -> Answer<Present> {
    if asked.hashes.len() > MOST_HASHES {
        return Err(Failure::invalid(format!("`hashes`: expected {MOST_HASHES} at most")));
    }
    let org = asker.org(app, Right::Read, asked.owner.as_deref()).await?;
    let hashes = asked.hashes.iter().map(|text| Ok(digest(text)?.0.to_vec()));
    let hashes: Arc<[Vec<u8>]> = hashes.collect::<Answer<Vec<_>>>()?.into();
    let scope = Scope::Org(org);
    let look = {
        let hashes = Arc::clone(&hashes);
        async move |tx: &mut Tx<'_>| {
            let unused = blobs::are_unused(tx, scope, org, &hashes).await?;
            Ok((blobs::exists(tx, scope, org, &hashes).await?, unused))
        }
    };
    let (mut present, unused) = app.store.read(look).await?;
    if unused {
        let hold = async move |tx: &mut Tx<'_>| blobs::hold(tx, scope, org, &hashes).await;
        present = app.store.write(hold).await?;
    }
    let text = |hash: Vec<u8>| Digest::from_slice(&hash).map(|digest| digest.to_string());
    let mut present: Vec<String> = present.into_iter().filter_map(text).collect();
    present.sort_unstable();
    present.dedup();
    Ok(Present { present })
}
