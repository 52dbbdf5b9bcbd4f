//! Who looks after manifests and objects: somebody with a token, or a job for its own run.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use kiln_core::access::Right;
use kiln_core::id::{ArtifactId, CacheId, ManifestId, OrgId, RepoId, RunId};
use kiln_core::plan::Scope as Permission;
use kiln_store::claims::Lease;
use kiln_store::content::manifests::{self, Manifest};
use kiln_store::content::{artifacts, belongings, caches};
use kiln_store::{Actor, Refusal, Scope, StoreError, Tx};

use super::content::{Standing, actor};
use super::manifests::{Kind, org_named};
use super::report;
use crate::app::{App, Shared};
use crate::auth::{Caller, shown_token};
use crate::http::error::{Answer, Failure};

/// Whoever it is has said so.
#[derive(Debug, Clone)]
pub enum Keeper {
    Person(Box<Caller>),
    Job(Arc<AtWork>),
}

/// A job that runs, and what it may: look at what manifests of its repository own, and with `actions: write`,
/// which code from elsewhere never has, change those of its own run.
#[derive(Debug)]
pub struct AtWork {
    lease: Lease,
    standing: Standing,
}

impl FromRequestParts<Shared> for Keeper {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Answer<Self> {
        let token = shown_token(&parts.headers).unwrap_or_default();
        let of_job = app.signer.check_reading(&token).or_else(|| app.signer.check_job(&token));
        let Some(access) = of_job else {
            let caller = Caller::from_request_parts(parts, app).await?;
            return Ok(Self::Person(Box::new(caller)));
        };
        let over = || Failure::unauthorized("the job of this token is over");
        let lease = report::lease(app, access).await?.ok_or_else(over)?;
        let standing = Standing::of(app, &lease).await?;
        Ok(Self::Job(Arc::new(AtWork { lease, standing })))
    }
}

impl AtWork {
    fn require(&self, right: Right, org: OrgId, what: &str) -> Answer<()> {
        if org != self.lease.org {
            return Err(Failure::not_found(what));
        }
        if right == Right::Read && !self.standing.may_read(Permission::Actions) {
            return Err(Failure::forbidden("the job would have to have `actions: read`"));
        }
        if right != Right::Read && !self.standing.may_write(Permission::Actions) {
            let reason = "the job would have to have `actions: write`, and its run to be trusted";
            return Err(Failure::forbidden(reason));
        }
        Ok(())
    }

    /// Whether the run of a manifest is one of the job's repository, and of code that is trusted enough: what a run
    /// leaves that is not, others do not read.
    async fn sees(&self, tx: &mut Tx<'_>, manifest: &Manifest) -> Result<bool, StoreError> {
        let Some(run) = manifest.run else { return Ok(false) };
        let scope = Scope::Org(self.lease.org);
        match kiln_store::runs::get(tx, scope, run).await {
            Ok(run) => {
                let trust = belongings::trust_of(tx, scope, run.id).await?;
                let is_trusted = self.standing.readable_trusts().contains(&trust);
                Ok(run.repo == self.lease.repo && is_trusted)
            }
            Err(StoreError::Refused(Refusal::NotFound(_))) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn missing(what: &'static str, found: bool) -> Result<(), StoreError> {
    if found { Ok(()) } else { Err(Refusal::NotFound(what).into()) }
}

impl Keeper {
    /// What may be done with things of this organization.
    pub(super) fn require(&self, right: Right, org: OrgId, what: &str) -> Answer<Scope> {
        match self {
            Self::Person(caller) => caller.require(right, Some(org), what),
            Self::Job(job) => job.require(right, org, what).map(|()| Scope::Org(org)),
        }
    }

    /// An organization that is named, with which this may be done.
    pub(super) async fn org(&self, app: &App, right: Right, owner: &str) -> Answer<OrgId> {
        let org = org_named(app, owner).await?;
        self.require(right, org, "organization")?;
        Ok(org)
    }

    /// Refuses a job what only people do.
    pub(super) fn must_be_person(&self, what: &str) -> Answer<()> {
        match self {
            Self::Person(_) => Ok(()),
            Self::Job(_) => Err(Failure::forbidden(format!("a job may not {what}"))),
        }
    }

    /// The run that a manifest is for: a job's own, whatever it names.
    pub(super) fn run(&self, named: Option<RunId>) -> Answer<Option<RunId>> {
        match self {
            Self::Person(_) => Ok(named),
            Self::Job(job) if named.is_none_or(|run| run == job.lease.run) => {
                Ok(Some(job.lease.run))
            }
            Self::Job(_) => Err(Failure::not_found("run")),
        }
    }

    /// The repository whose manifests are seen; none for all.
    pub(super) fn repo(&self) -> Option<RepoId> {
        match self {
            Self::Person(_) => None,
            Self::Job(job) => Some(job.lease.repo),
        }
    }

    /// Refuses a manifest that is not there for whoever asks.
    pub(super) async fn must_see(
        &self,
        tx: &mut Tx<'_>,
        manifest: &Manifest,
    ) -> Result<(), StoreError> {
        match self {
            Self::Person(_) => Ok(()),
            Self::Job(job) => missing("manifest", job.sees(tx, manifest).await?),
        }
    }

    /// Refuses to change a manifest of others: a job has those of its own run.
    pub(super) fn must_have(&self, manifest: &Manifest) -> Result<(), StoreError> {
        match self {
            Self::Person(_) => Ok(()),
            Self::Job(job) => missing("manifest", manifest.run == Some(job.lease.run)),
        }
    }

    /// Refuses an object that no manifest owns which they could see.
    pub(super) async fn must_see_object(
        &self,
        tx: &mut Tx<'_>,
        (org, object): (OrgId, i64),
        right: Right,
    ) -> Result<(), StoreError> {
        let Self::Job(job) = self else { return Ok(()) };
        let owner: Option<ManifestId> =
            manifests::owner(tx, Scope::Org(org), org, "object", &object.to_string()).await?;
        let Some(owner) = owner else { return missing("object", false) };
        let owner = manifests::get(tx, Scope::Org(org), owner).await?;
        let is_seen = match right {
            Right::Read => job.sees(tx, &owner).await?,
            // What a run leaves is what it says it is: no job gives it other tags.
            _ => owner.run == Some(job.lease.run) && !owner.own,
        };
        missing("object", is_seen)
    }

    /// Refuses to give a manifest what is of another repository, or of code that is trusted less. What an
    /// object is of, only its manifest says, so a job makes one in its draft or claims it.
    pub(super) async fn must_reach(
        &self,
        tx: &mut Tx<'_>,
        kind: Kind,
        id: i64,
    ) -> Result<(), StoreError> {
        let Self::Job(job) = self else { return Ok(()) };
        let scope = Scope::Org(job.lease.org);
        let (repo, trust) = match kind {
            Kind::Artifact => {
                let found = artifacts::get(tx, scope, ArtifactId(id)).await?;
                (found.repo, found.trust)
            }
            Kind::Cache => {
                let found = caches::get(tx, scope, CacheId(id)).await?;
                (found.repo, found.trust)
            }
            Kind::Object => return Ok(()),
        };
        let trusts = job.standing.readable_trusts();
        missing("resource", repo == job.lease.repo && trusts.contains(&trust))
    }

    pub(super) fn actor(&self) -> Actor {
        match self {
            Self::Person(caller) => caller.actor(),
            Self::Job(job) => actor(job.lease.job),
        }
    }
}
