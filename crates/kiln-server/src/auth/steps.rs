//! The steps of a job as somebody who asks: what their `GITHUB_TOKEN` opens.
//!
//! It opens addresses about the job's own repository that say so by taking [`OfRepo`], as far as the `permissions`
//! of the job go, and is good as long as the job runs. All other addresses take a [`Caller`], which steps are not.

use axum::extract::{FromRequestParts, MatchedPath, RawPathParams};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use kiln_core::access::{Grants, Right, Role};
use kiln_core::plan::Scope as Permission;
use kiln_store::claims::Lease;
use kiln_store::directory::organizations;
use kiln_store::directory::repositories::{self, Repository};
use kiln_store::{Scope, Tx};

use super::caller::{Caller, shown_token};
use crate::app::{App, Shared};
use crate::http::error::{Answer, Failure};
use crate::service::content::Standing;
use crate::service::report;
use crate::token::JobAccess;

/// A job that runs, and what it may.
#[derive(Debug)]
pub struct Steps {
    pub lease: Lease,
    pub standing: Standing,
}

impl Steps {
    /// Whose token a request shows, if it is one of steps.
    pub async fn of(headers: &HeaderMap, app: &App) -> Answer<Option<Self>> {
        let token = shown_token(headers).unwrap_or_default();
        let Some(access) = app.signer.check_reading(&token) else { return Ok(None) };
        let lease = lease(app, access).await?;
        let standing = Standing::of(app, &lease).await?;
        Ok(Some(Self { lease, standing }))
    }

    /// The repository with this name, if it is the job's own.
    pub async fn repo(&self, app: &App, full_name: String) -> Answer<Repository> {
        own_repo(app, &self.lease, full_name).await
    }

    /// Refuses what the job was not given. The repository itself every job may look at.
    fn allow(&self, permission: Option<Permission>, right: Right) -> Answer<()> {
        let Some(permission) = permission else { return Ok(()) };
        let (is_given, word) = match right {
            Right::Read => (self.standing.may_read(permission), "read"),
            _ => (self.standing.may_write(permission), "write"),
        };
        if is_given {
            return Ok(());
        }
        let name = permission.as_str();
        let message = if right == Right::Read || self.standing.is_trusted() {
            format!("the job lacks `{name}: {word}` in its `permissions`")
        } else {
            "code from elsewhere changes nothing here, whatever its `permissions` say".to_owned()
        };
        Err(Failure::forbidden(message))
    }

    fn grants(&self, right: Right) -> Grants {
        let org = self.lease.org;
        Grants {
            administrator: false,
            roles: vec![(org, Role::Developer)],
            rights: vec![right],
            only: Some(org),
        }
    }
}

async fn lease(app: &App, access: JobAccess) -> Answer<Lease> {
    let over = || Failure::unauthorized("the job of this token is over");
    report::lease(app, access).await?.ok_or_else(over)
}

/// Why a token of steps opens nothing where it is not expected: what is of others does not exist for a job, and all
/// else is for people, whatever the address names.
pub(super) async fn refuse(parts: &mut Parts, app: &Shared, access: JobAccess) -> Failure {
    let checked = async {
        let lease = lease(app, access).await?;
        must_name_own(parts, app, &lease).await
    };
    match checked.await {
        Ok(()) => Failure::forbidden(
            "the token of a job is for its own repository; this needs an API token",
        ),
        Err(failure) => failure,
    }
}

/// Refuses an address that names a repository, or an organization, which is not the job's own.
async fn must_name_own(parts: &mut Parts, app: &Shared, lease: &Lease) -> Answer<()> {
    let missing = || Failure::not_found("repository");
    let named = RawPathParams::from_request_parts(parts, app).await.map_err(|_| missing())?;
    let find = |wanted: &str| named.iter().find(|(name, _)| *name == wanted).map(|(_, name)| name);
    match (find("owner").or_else(|| find("org")), find("repo")) {
        (Some(owner), Some(repo)) => {
            own_repo(app, lease, format!("{owner}/{repo}")).await.map(|_| ())
        }
        (Some(owner), None) => {
            let (scope, owner) = (Scope::Org(lease.org), owner.to_owned());
            let find = async move |tx: &mut Tx<'_>| organizations::by_name(tx, scope, &owner).await;
            app.store.read(find).await?;
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The repository with this name, if it is the job's own.
async fn own_repo(app: &App, lease: &Lease, full_name: String) -> Answer<Repository> {
    let (scope, id) = (Scope::Org(lease.org), lease.repo);
    let find = async move |tx: &mut Tx<'_>| {
        let found = repositories::by_name(tx, scope, &full_name).await?;
        Ok((found.id == id).then_some(found))
    };
    app.store.read(find).await?.ok_or_else(|| Failure::not_found("repository"))
}

/// Somebody who asks about the repository that the address names, `{owner}/{repo}`: the steps of a job of that
/// repository, as far as it may, or a person, for whom that is still to be found out.
#[derive(Debug)]
pub struct OfRepo(pub Caller);

impl FromRequestParts<Shared> for OfRepo {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Answer<Self> {
        let Some(steps) = Steps::of(&parts.headers, app).await? else {
            return Ok(Self(Caller::from_request_parts(parts, app).await?));
        };
        must_name_own(parts, app, &steps.lease).await?;
        let permission = permission(parts)?;
        let right = if parts.method.is_safe() { Right::Read } else { Right::Write };
        steps.allow(permission, right)?;
        let grants = steps.grants(right);
        Ok(Self(Caller::of_steps(parts, steps, grants)))
    }
}

/// The permission that an address is about.
fn permission(parts: &Parts) -> Answer<Option<Permission>> {
    let address = parts.extensions.get::<MatchedPath>().map(MatchedPath::as_str);
    let rest = address.and_then(|address| address.strip_prefix("/repos/{owner}/{repo}"));
    match rest {
        Some("") => Ok(None),
        Some(rest) if rest.starts_with("/actions/") => Ok(Some(Permission::Actions)),
        Some(rest) if rest.starts_with("/check-runs/") => Ok(Some(Permission::Checks)),
        _ => Err(Failure::forbidden("the token of a job does not open this")),
    }
}

/// Anybody whose token is good, steps of a job as well: for what is about nobody in particular.
#[derive(Debug)]
pub struct Anybody;

impl FromRequestParts<Shared> for Anybody {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Answer<Self> {
        if Steps::of(&parts.headers, app).await?.is_none() {
            Caller::from_request_parts(parts, app).await?;
        }
        Ok(Self)
    }
}
