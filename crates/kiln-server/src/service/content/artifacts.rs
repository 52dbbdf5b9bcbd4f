//! Artifacts of a run, for its jobs.

use std::time::Duration;

use kiln_core::id::ArtifactId;
use kiln_core::time::Timestamp;
use kiln_proto::content::{Artifact, Artifacts, Complete, NewArtifact, Reserved};
use kiln_store::claims::Lease;
use kiln_store::content::artifacts;
use kiln_store::{Page, Refusal, Scope, StoreError, Tx};

use super::{Sent, actor, hex, is_of, kinds, number, time};
use crate::app::App;
use crate::clock;
use crate::http::error::{Answer, Failure};

/// What an archive is called that says nothing else.
pub(crate) const ZIP: &str = "application/zip";
/// What no name may hold, as on GitHub: people make files of them.
const FORBIDDEN: &str = "\":<>|*?\\/";

pub(crate) fn check_name(name: &str) -> Answer<()> {
    let odd = |c: char| FORBIDDEN.contains(c) || c.is_control();
    if name.is_empty() || name == "." || name == ".." || name.contains(odd) {
        let message = format!("`name`: expected a name without `{FORBIDDEN}` and line breaks");
        return Err(Failure::invalid(message));
    }
    Ok(())
}

/// The end of an artifact: as it was asked for, but not later than the server allows.
pub(crate) fn end(
    longest: Duration,
    asked: Option<&str>,
    now: Timestamp,
) -> Answer<Option<Timestamp>> {
    let latest = now + longest;
    let Some(asked) = asked else { return Ok(Some(latest)) };
    let wrong = || Failure::invalid("`expires_at`: expected a time to come, in RFC 3339");
    let end = Timestamp::parse_rfc3339(asked).filter(|end| *end > now).ok_or_else(wrong)?;
    Ok(Some(end.min(latest)))
}

/// Reserves a name in the run of the job.
pub async fn create(app: &App, lease: &Lease, new: NewArtifact) -> Answer<Reserved> {
    check_name(&new.name)?;
    // What makes no sense is refused before anything is looked up.
    end(app.config.content.artifacts, new.expires_at.as_deref(), clock::now())?;
    let (org, job, content) = (lease.org, lease.job, app.config.content);
    let asked = new.expires_at.as_deref().and_then(Timestamp::parse_rfc3339);
    let new = artifacts::NewArtifact {
        run: lease.run,
        attempt: lease.attempt.into(),
        job: Some(job),
        claim: Some(lease.claim),
        name: new.name,
        content_type: new.content_type.unwrap_or_else(|| ZIP.to_owned()),
        expires_at: asked,
        overwrite: new.overwrite,
    };
    let create = async move |tx: &mut Tx<'_>| {
        let scope = Scope::Org(org);
        let latest = tx.now() + kinds::longest(tx, scope, &content, new.run).await?;
        let expires_at = Some(new.expires_at.map_or(latest, |asked| asked.min(latest)));
        let new = artifacts::NewArtifact { expires_at, ..new.clone() };
        artifacts::create(tx, scope, &actor(job), new).await
    };
    Ok(Reserved { id: app.store.write(create).await?.0 })
}

/// The bytes of a reserved artifact have been sent.
pub async fn complete(app: &App, lease: &Lease, id: i64, said: &Complete) -> Answer<Artifact> {
    let sent = Sent::read(said)?;
    let (id, lease, content) = (ArtifactId(id), lease.clone(), app.config.content);
    let work = async move |tx: &mut Tx<'_>| {
        let scope = Scope::Org(lease.org);
        let reserved = artifacts::get(tx, scope, id).await?;
        if reserved.run != lease.run || !is_of(&lease, reserved.job, reserved.claim) {
            return Err(Refusal::NotFound("artifact").into());
        }
        // Said again because the answer got lost.
        if reserved.finalized_at.is_some() && reserved.hash.as_deref() == Some(&sent.hash.0[..]) {
            return Ok(reserved);
        }
        sent.left(tx, &actor(lease.job), &content, id).await
    };
    Ok(shown(&app.store.write(work).await?))
}

/// The complete artifacts of the job's run, by age; all of them, or one by name or id.
pub async fn list(
    app: &App,
    lease: &Lease,
    name: Option<String>,
    id: Option<i64>,
) -> Answer<Artifacts> {
    let (scope, run) = (Scope::Org(lease.org), lease.run);
    let work = async move |tx: &mut Tx<'_>| all(tx, scope, run).await;
    let now = clock::now();
    let fits = |one: &artifacts::Artifact| {
        name.as_ref().is_none_or(|name| *name == one.name) && id.is_none_or(|id| id == one.id.0)
    };
    let all = app.store.read(work).await?;
    let shown = all.iter().filter(|one| fits(one) && !one.is_expired(now)).map(shown).collect();
    Ok(Artifacts { artifacts: shown })
}

/// The complete artifacts of a run, which has a bounded number of them.
pub(crate) async fn all(
    tx: &mut Tx<'_>,
    scope: Scope,
    run: kiln_core::id::RunId,
) -> Result<Vec<artifacts::Artifact>, StoreError> {
    let (mut found, mut page) = (Vec::new(), Page::first(Page::LARGEST));
    loop {
        let piece = artifacts::list(tx, scope, run, page).await?;
        let Some(last) = piece.last().map(|artifact| artifact.id) else { return Ok(found) };
        found.extend(piece.into_iter().filter(|artifact| artifact.finalized_at.is_some()));
        page = Page::after(last.0, Page::LARGEST);
    }
}

/// Removes an artifact of the job's run.
pub async fn delete(app: &App, lease: &Lease, id: i64) -> Answer<()> {
    let (id, scope, run, job) = (ArtifactId(id), Scope::Org(lease.org), lease.run, lease.job);
    let work = async move |tx: &mut Tx<'_>| {
        if artifacts::get(tx, scope, id).await?.run != run {
            return Err(Refusal::NotFound("artifact").into());
        }
        artifacts::delete(tx, scope, &actor(job), id).await
    };
    Ok(app.store.write(work).await?)
}

pub fn shown(artifact: &artifacts::Artifact) -> Artifact {
    Artifact {
        id: artifact.id.0,
        run_id: artifact.run.0,
        attempt: artifact.attempt,
        job_id: artifact.job.map(|job| job.0),
        name: artifact.name.clone(),
        size: number(artifact.size),
        hash: hex(artifact.hash.as_ref()),
        content_type: artifact.content_type.clone(),
        trust: artifact.trust.clone(),
        keep: artifact.keep,
        created_at: time(artifact.created_at),
        expires_at: artifact.expires_at.map(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_artifact_ends_when_it_is_asked_to_but_not_later_than_allowed() {
        let now = Timestamp(1_000_000_000_000);
        let day = Duration::from_hours(24);
        let check = |asked: Option<&str>, expect: Option<Timestamp>| {
            assert_eq!(end(day, asked, now).ok().flatten(), expect, "{asked:?}");
        };
        let hour = now + Duration::from_hours(1);
        check(None, Some(now + day));
        check(Some(&hour.rfc3339()), Some(hour));
        check(Some("2999-01-01T00:00:00Z"), Some(now + day));
        for wrong in ["1999-01-01T00:00:00Z", "tomorrow", "", &now.rfc3339()] {
            check(Some(wrong), None);
        }
    }

    #[test]
    fn names_of_artifacts_can_be_names_of_files() {
        for good in ["dist", "a b", "ü", "..."] {
            check_name(good).unwrap();
        }
        for bad in ["", ".", "..", "a/b", "a\\b", "a:b", "a\nb", "a\0", "a*", "\"a\"", "<a>", "a?"]
        {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
    }
}
