//! Artifacts: what a run hands to people and to later jobs, by name.

use std::time::Duration;

use kiln_core::id::{ArtifactId, JobId, ManifestId, ObjectId, OrgId, RepoId, RunId};
use kiln_core::time::Timestamp;
use serde_json::json;

use crate::directory::actor::Actor;
use crate::directory::audit::{self, Deed};
use crate::directory::names;
use crate::directory::page::Page;
use crate::directory::scope::Scope;
use crate::runs::spoil;
use crate::{Refusal, Row, Sql, StoreError, Tx, Value};

use super::garbage::Step;
use super::owned::{is_free, owner, removal};
use super::{objects, owned};

/// How many a run may have.
const MOST_OF_RUN: i64 = 5_000;
/// An upload that was not finished in this time was given up.
const GIVEN_UP_AFTER: Duration = Duration::from_hours(24);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    pub id: ArtifactId,
    pub org: OrgId,
    pub repo: RepoId,
    pub run: RunId,
    pub attempt: i64,
    pub job: Option<JobId>,
    /// Under which claim the job made it.
    pub claim: Option<u32>,
    pub name: String,
    pub object: Option<ObjectId>,
    pub hash: Option<Vec<u8>>,
    pub size: i64,
    pub content_type: String,
    /// The trust of the run that made it.
    pub trust: String,
    pub keep: bool,
    pub created_at: Timestamp,
    /// `None` while it is uploaded.
    pub finalized_at: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
    /// What owns it, and says how long it stays.
    pub manifest: Option<ManifestId>,
}

impl Artifact {
    /// Its time is over, and it is about to go.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        let stays = self.keep || self.manifest.is_some();
        !stays && self.expires_at.is_some_and(|end| end <= now)
    }
}

#[derive(Debug, Clone)]
pub struct NewArtifact {
    pub run: RunId,
    pub attempt: i64,
    pub job: Option<JobId>,
    pub claim: Option<u32>,
    pub name: String,
    pub content_type: String,
    pub expires_at: Option<Timestamp>,
    /// Replaces one of the same name.
    pub overwrite: bool,
}

/// Reserves a name in a run. Organization, repository and trust are the run's. What an earlier attempt of the
/// run left under this name, or the same job under an earlier claim, gives way: what is complete, when the new one
/// is, so that there is always one.
pub async fn create(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    new: NewArtifact,
) -> Result<ArtifactId, StoreError> {
    names::line("the name of an artifact", &new.name, 256)?;
    names::line("a content type", &new.content_type, 255)?;
    let sql = "SELECT org_id, repo_id, trust FROM runs \
               WHERE id = $1 AND (org_id = $2 OR $2 IS NULL)";
    let run = tx.one("run", sql, &[new.run.into(), scope.parameter()]).await?;
    let (org, repo) = (run.get::<OrgId>(0)?, run.get::<RepoId>(1)?);
    let (name, takes) = if give_way(tx, &new).await? {
        (unseen(&new), Some(new.name.as_str()))
    } else {
        (new.name.clone(), None)
    };
    let row = [
        org.into(),
        repo.into(),
        new.run.into(),
        new.attempt.into(),
        new.job.into(),
        name.as_str().into(),
        new.content_type.into(),
        run.get::<String>(2)?.into(),
        tx.now().into(),
        new.expires_at.into(),
        new.claim.into(),
        takes.into(),
    ];
    let made = tx
        .row(
            "INSERT INTO artifacts (org_id, repo_id, run_id, attempt, job_id, name, content_type, \
             trust, created_at, expires_at, claim, takes, size) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 0) \
             ON CONFLICT DO NOTHING RETURNING id",
            &row,
        )
        .await?;
    let Some(row) = made else {
        // Whoever did not hear the answer asks again.
        let sql = "SELECT id FROM artifacts WHERE run_id = $1 AND name = $2 \
                   AND finalized_at IS NULL AND job_id = $3 AND claim = $4";
        let own = [new.run.into(), name.as_str().into(), new.job.into(), new.claim.into()];
        if let Some(row) = tx.row(sql, &own).await? {
            return row.get(0);
        }
        return names::conflict(format!(
            "the run has an artifact `{}` already; choose another name or ask to overwrite it",
            new.name
        ));
    };
    let id = row.get::<ArtifactId>(0)?;
    let detail = json!({ "run": new.run.0, "name": new.name, "overwrite": new.overwrite });
    record(tx, actor, org, id, "artifact.create", detail).await?;
    Ok(id)
}

/// What one is called that takes a name when it is complete: no name of a person has such a character.
fn unseen(new: &NewArtifact) -> String {
    let (job, claim) = (new.job.map_or(0, |job| job.0), new.claim.unwrap_or_default());
    format!("{}\u{1}{job}.{claim}", new.name)
}

/// The name that one has when it is complete.
pub(super) fn plain_name(name: &str) -> &str {
    name.split_once('\u{1}').map_or(name, |(plain, _)| plain)
}

/// Removes what may be replaced and never was complete, and refuses if the run has too many. Says whether a
/// complete one is to be replaced.
async fn give_way(tx: &mut Tx<'_>, new: &NewArtifact) -> Result<bool, StoreError> {
    let sql = "SELECT finalized_at FROM artifacts WHERE run_id = $1 AND name = $2 \
               AND (CAST($3 AS BIGINT) = 1 OR attempt < $4 OR (job_id = $5 AND claim < $6))";
    let row = [
        new.run.into(),
        new.name.as_str().into(),
        i64::from(new.overwrite).into(),
        new.attempt.into(),
        new.job.into(),
        new.claim.into(),
    ];
    let old = tx.row(sql, &row).await?;
    let is_complete = match &old {
        Some(old) => old.get::<Option<i64>>(0)?.is_some(),
        None => false,
    };
    if old.is_some() && !is_complete {
        let sql = "DELETE FROM artifacts WHERE run_id = $1 AND name = $2 AND finalized_at IS NULL";
        tx.execute(sql, &[new.run.into(), new.name.as_str().into()]).await?;
    }
    let sql = "SELECT count(*) FROM artifacts WHERE run_id = $1";
    let count = tx.one("run", sql, &[new.run.into()]).await?.get::<i64>(0)?;
    if count >= MOST_OF_RUN {
        return names::invalid(format!(
            "a run may have {MOST_OF_RUN} artifacts, and this one does"
        ));
    }
    Ok(is_complete)
}

/// The one whose place an artifact takes goes, and its name is free.
async fn take_place(tx: &mut Tx<'_>, id: ArtifactId) -> Result<(), StoreError> {
    let sql = "DELETE FROM artifacts WHERE (run_id, name) IN \
               (SELECT run_id, takes FROM artifacts WHERE id = $1 AND takes IS NOT NULL) \
               RETURNING object_id, job_id, id, org_id";
    let gone = tx.rows(sql, &[id.into()]).await?;
    for row in &gone {
        owned::succeed(tx, (row.get(3)?, "artifact"), row.get(2)?, id.0).await?;
    }
    let_go(tx, &gone).await
}

/// Artifacts are gone, of which the rows begin with their objects and jobs: the objects go, too, unless they
/// are needed, and the results of the jobs are not whole any more.
pub(super) async fn let_go(tx: &mut Tx<'_>, gone: &[Row]) -> Result<(), StoreError> {
    let object = |row: &Row| row.get::<Option<ObjectId>>(0).transpose();
    let objects = gone.iter().filter_map(object).collect::<Result<Vec<_>, _>>()?;
    objects::release(tx, objects).await?;
    let job = |row: &Row| row.get::<Option<JobId>>(1).transpose();
    spoil(tx, gone.iter().filter_map(job).collect::<Result<_, _>>()?)
}

/// The upload is complete. Done once. [`super::belongings::complete`] gives it an object that has an owner.
pub async fn finalize(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: ArtifactId,
    object: ObjectId,
    hash: &[u8],
    size: i64,
) -> Result<(), StoreError> {
    names::hash("the hash of an artifact", hash)?;
    names::within("the size of an artifact", size, 0, kiln_core::id::LIMIT)?;
    let org = get(tx, scope, id).await?.org;
    objects::get(tx, Scope::Org(org), object).await?;
    take_place(tx, id).await?;
    let sql = "UPDATE artifacts SET object_id = $2, hash = $3, size = $4, finalized_at = $5, \
               name = coalesce(takes, name), takes = NULL WHERE id = $1 AND finalized_at IS NULL";
    let row = [id.into(), object.into(), hash.into(), size.into(), tx.now().into()];
    if tx.execute(sql, &row).await? == 0 {
        return names::conflict("the artifact is complete already".to_owned());
    }
    Ok(())
}

/// Keeps an artifact beyond its time, or not.
pub async fn set_keep(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: ArtifactId,
    keep: bool,
) -> Result<(), StoreError> {
    let org = get(tx, scope, id).await?.org;
    tx.execute("UPDATE artifacts SET keep = $2 WHERE id = $1", &[id.into(), keep.into()]).await?;
    record(tx, actor, org, id, "artifact.set_keep", json!({ "keep": keep })).await
}

/// Removes an artifact that no manifest owns.
pub async fn delete(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: ArtifactId,
) -> Result<(), StoreError> {
    remove(tx, scope, actor, id, Kept::GoToo).await
}

/// Like [`delete`], but one that somebody keeps stays: what only cleans up has no say in that.
pub async fn delete_unkept(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: ArtifactId,
) -> Result<(), StoreError> {
    remove(tx, scope, actor, id, Kept::Stay).await
}

/// What happens to artifacts that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    Stay,
    GoToo,
}

async fn remove(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: ArtifactId,
    kept: Kept,
) -> Result<(), StoreError> {
    let org = get(tx, scope, id).await?.org;
    owned::must_be_free(tx, org, "artifact", id.0).await?;
    let sql = "DELETE FROM artifacts WHERE id = $1 AND org_id = $2 \
               AND (keep = 0 OR CAST($3 AS BIGINT) = 1) RETURNING object_id, job_id, org_id, name";
    let even_kept = i64::from(kept == Kept::GoToo);
    let Some(row) = tx.row(sql, &[id.into(), org.into(), even_kept.into()]).await? else {
        // It is kept, or it went just now.
        return if kept == Kept::Stay { Ok(()) } else { Err(Refusal::NotFound("artifact").into()) };
    };
    let_go(tx, std::slice::from_ref(&row)).await?;
    let detail = json!({ "name": row.get::<String>(3)? });
    record(tx, actor, row.get(2)?, id, "artifact.delete", detail).await
}

macro_rules! columns {
    () => {
        "id, org_id, repo_id, run_id, attempt, job_id, name, object_id, hash, size, \
         content_type, trust, keep, created_at, finalized_at, expires_at, claim, "
    };
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT ",
            columns!(),
            owner!("artifacts", "artifact"),
            " FROM artifacts WHERE (org_id = $1 OR $1 IS NULL) AND ",
            $rest
        )
    };
}

pub async fn get(tx: &mut Tx<'_>, scope: Scope, id: ArtifactId) -> Result<Artifact, StoreError> {
    let sql = select!("id = $2");
    artifact(&tx.one("artifact", sql, &[scope.parameter(), id.into()]).await?)
}

pub async fn by_name(
    tx: &mut Tx<'_>,
    scope: Scope,
    run: RunId,
    name: &str,
) -> Result<Artifact, StoreError> {
    let sql = select!("run_id = $2 AND name = $3");
    let parameters = [scope.parameter(), run.into(), names::searchable(name)];
    artifact(&tx.one("artifact", sql, &parameters).await?)
}

/// The artifacts of a run, by age. A run that cannot be seen has none.
pub async fn list(
    tx: &mut Tx<'_>,
    scope: Scope,
    run: RunId,
    page: Page,
) -> Result<Vec<Artifact>, StoreError> {
    let sql = select!("run_id = $2 AND id > $3 ORDER BY id LIMIT $4");
    let parameters = [scope.parameter(), run.into(), page.rising(), page.limit()];
    tx.rows(sql, &parameters).await?.iter().map(artifact).collect()
}

/// Which artifacts of a repository.
#[derive(Debug, Clone)]
pub struct Which {
    pub repo: RepoId,
    pub run: Option<RunId>,
    /// All of it.
    pub name: Option<String>,
    /// Of runs of this trust alone.
    pub trust: Option<String>,
}

macro_rules! complete {
    () => {
        " FROM artifacts WHERE (org_id = $1 OR $1 IS NULL) AND repo_id = $2 \
         AND finalized_at IS NOT NULL AND CAST($3 AS BIGINT) IS NOT NULL \
         AND CAST($4 AS TEXT) IS NOT NULL AND (trust = $5 OR $5 IS NULL) "
    };
}

/// Each kind of question has a statement of its own, so that each finds its index.
macro_rules! of_which {
    ($which:expr, [$($what:tt)*], $rest:literal) => {
        match ($which.run.is_some(), $which.name.is_some()) {
            (true, true) => {
                concat!("SELECT ", $($what)*, complete!(), "AND run_id = $3 AND name = $4", $rest)
            }
            (true, false) => concat!("SELECT ", $($what)*, complete!(), "AND run_id = $3", $rest),
            (false, true) => concat!("SELECT ", $($what)*, complete!(), "AND name = $4", $rest),
            (false, false) => concat!("SELECT ", $($what)*, complete!(), $rest),
        }
    };
}

impl Which {
    /// What does not matter is there, too, so that all statements have the same parameters.
    fn parameters(&self, scope: Scope) -> [Value; 5] {
        let name = names::searchable(self.name.as_deref().unwrap_or_default());
        let trust = self.trust.as_deref().map_or(Value::Null, names::searchable);
        [scope.parameter(), self.repo.into(), self.run.unwrap_or(RunId(0)).into(), name, trust]
    }
}

/// Complete artifacts, the newest first.
pub async fn search(
    tx: &mut Tx<'_>,
    scope: Scope,
    which: &Which,
    skip: u32,
    take: u32,
) -> Result<Vec<Artifact>, StoreError> {
    let sql = of_which!(
        which,
        [columns!(), owner!("artifacts", "artifact")],
        " ORDER BY id DESC LIMIT $6 OFFSET $7"
    );
    let [scope, repo, run, name, trust] = which.parameters(scope);
    let parameters = [scope, repo, run, name, trust, take.into(), skip.into()];
    tx.rows(sql, &parameters).await?.iter().map(artifact).collect()
}

/// How many complete artifacts there are.
pub async fn total(tx: &mut Tx<'_>, scope: Scope, which: &Which) -> Result<u64, StoreError> {
    let sql = of_which!(which, ["count(*)"], "");
    let count = tx.one("artifact", sql, &which.parameters(scope)).await?.get::<i64>(0)?;
    Ok(u64::try_from(count).unwrap_or_default())
}

/// Removes artifacts whose time is over unless they are kept or a manifest owns them, and uploads that were
/// given up.
pub async fn expire(tx: &mut Tx<'_>, scope: Scope, limit: u32) -> Result<Step, StoreError> {
    scope.system("artifact")?;
    let given_up = u64::try_from(GIVEN_UP_AFTER.as_millis()).unwrap_or(u64::MAX);
    let given_up = Timestamp(tx.now().0.saturating_sub(given_up));
    let sql = concat!(
        "SELECT id FROM artifacts WHERE keep = 0 AND expires_at <= $1 AND ",
        is_free!("artifacts", "artifact"),
        " ORDER BY expires_at LIMIT $2"
    );
    let over = tx.rows(sql, &[tx.now().into(), limit.into()]).await?;
    let removal = removal!("artifacts", "artifact", "keep = 0 AND ", ["object_id, job_id, size"]);
    let mut gone = owned::remove_free(tx, removal, &over).await?;
    let sql = "DELETE FROM artifacts WHERE id IN (SELECT id FROM artifacts \
               WHERE finalized_at IS NULL AND created_at < $1 ORDER BY created_at LIMIT $2) \
               RETURNING object_id, job_id, size";
    gone.extend(tx.rows(sql, &[given_up.into(), limit.into()]).await?);
    let bytes = gone.iter().map(|row| row.get::<i64>(2)).sum::<Result<i64, _>>()?;
    let_go(tx, &gone).await?;
    Ok(Step { count: gone.len() as u64, bytes, more: gone.len() >= limit as usize })
}

fn artifact(row: &Row) -> Result<Artifact, StoreError> {
    Ok(Artifact {
        id: row.get(0)?,
        org: row.get(1)?,
        repo: row.get(2)?,
        run: row.get(3)?,
        attempt: row.get(4)?,
        job: row.get(5)?,
        name: row.get(6)?,
        object: row.get(7)?,
        hash: row.get(8)?,
        size: row.get(9)?,
        content_type: row.get(10)?,
        trust: row.get(11)?,
        keep: row.get(12)?,
        created_at: row.get(13)?,
        finalized_at: row.get(14)?,
        expires_at: row.get(15)?,
        claim: row.get(16)?,
        manifest: row.get(17)?,
    })
}

async fn record(
    tx: &mut Tx<'_>,
    actor: &Actor,
    org: OrgId,
    id: ArtifactId,
    action: &'static str,
    detail: serde_json::Value,
) -> Result<(), StoreError> {
    audit::record(tx, actor, Deed { org: Some(org), action, subject: id.0, detail }).await
}
