//! An organization with one of everything, for tests that need something to be there.

use kiln_core::id::{
    ArtifactId, CacheId, DeliveryId, EnvironmentId, ManifestId, ObjectId, OrgId, PoolId, QueueId,
    RegistrationKeyId, RepoId, RunId, RunnerId, ScheduleId, TeamId, TokenId, UploadId, UserId,
    WorkflowId,
};
use kiln_core::time::Timestamp;
use kiln_store::content::{artifacts, blobs, caches, manifests, objects, uploads};
use kiln_store::directory::holder::Holder;
use kiln_store::directory::{
    deliveries, environments, members, organizations, pools, registration_keys, repositories,
    runners, schedules, secrets, teams, tokens, users, variables, workflows,
};
use kiln_store::events::EventKind;
use kiln_store::{Actor, Duty, Refusal, Scope, Store, StoreError, Tx};

pub(crate) const SYSTEM: Scope = Scope::System(Duty::Administration);

/// What runs in a transaction and gives its answer, with the store's error unwrapped.
macro_rules! write {
    ($store:expr, |$tx:ident| $work:expr) => {
        $store.write(async move |$tx: &mut kiln_store::Tx<'_>| $work.await).await
    };
}
pub(crate) use write;

pub(crate) fn actor() -> Actor {
    Actor::new(kiln_store::ActorKind::Person, "ada").at("127.0.0.1")
}

/// What was refused, or a panic that shows what happened instead.
pub(crate) fn refusal<T: std::fmt::Debug>(answer: Result<T, StoreError>) -> Refusal {
    match answer {
        Err(StoreError::Refused(refusal)) => refusal,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// All events of a run, as they happened; a reader of the feed would have to wait for those who are
/// writing elsewhere.
pub(crate) async fn told_all(store: &Store, run: RunId) -> Vec<EventKind> {
    let sql = "SELECT kind, payload FROM events WHERE run_id = $1 ORDER BY id";
    let rows = write!(store, |tx| tx.rows(sql, &[run.into()])).unwrap();
    let kind = |row: &kiln_store::Row| {
        let (kind, payload) =
            (row.get::<String>(0).unwrap(), row.get::<Option<String>>(1).unwrap());
        let text = match payload {
            Some(payload) => format!(r#"{{"kind":"{kind}","payload":{payload}}}"#),
            None => format!(r#"{{"kind":"{kind}"}}"#),
        };
        serde_json::from_str(&text).unwrap()
    };
    rows.iter().map(kind).collect()
}

pub(crate) fn hash_of(text: &str) -> Vec<u8> {
    kiln_store::directory::documents::Hash::of(text).0.to_vec()
}

/// The ids and names of what is there.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) name: String,
    pub(crate) org: OrgId,
    pub(crate) user: UserId,
    pub(crate) user_name: String,
    pub(crate) team: TeamId,
    pub(crate) repo: RepoId,
    pub(crate) repo_name: String,
    pub(crate) workflow: WorkflowId,
    pub(crate) environment: EnvironmentId,
    pub(crate) pool: PoolId,
    pub(crate) key: RegistrationKeyId,
    pub(crate) key_hash: Vec<u8>,
    pub(crate) runner: RunnerId,
    pub(crate) schedule: ScheduleId,
    pub(crate) delivery: DeliveryId,
    pub(crate) blob_hash: Vec<u8>,
    pub(crate) object: ObjectId,
    pub(crate) manifest: ManifestId,
    pub(crate) run: RunId,
    /// A run that was really carried out, where a test had one carried out.
    pub(crate) lived: RunId,
    pub(crate) artifact: ArtifactId,
    pub(crate) cache: CacheId,
    pub(crate) upload: UploadId,
    pub(crate) tag: String,
    pub(crate) token: TokenId,
    pub(crate) token_hash: Vec<u8>,
    pub(crate) queue: QueueId,
}

impl World {
    /// Ids and names of nothing.
    pub(crate) fn missing() -> Self {
        let none = 999_999;
        Self {
            name: "nobody".to_owned(),
            org: OrgId(none),
            user: UserId(none),
            user_name: "nobody".to_owned(),
            team: TeamId(none),
            repo: RepoId(none),
            repo_name: "nobody/nothing".to_owned(),
            workflow: WorkflowId(none),
            environment: EnvironmentId(none),
            pool: PoolId(none),
            key: RegistrationKeyId(none),
            key_hash: hash_of("nothing"),
            runner: RunnerId(none),
            schedule: ScheduleId(none),
            delivery: DeliveryId(none),
            blob_hash: hash_of("no bytes"),
            object: ObjectId(none),
            manifest: ManifestId(none),
            run: RunId(none),
            lived: RunId(none),
            artifact: ArtifactId(none),
            cache: CacheId(none),
            upload: UploadId(none),
            tag: "no:tag".to_owned(),
            token: TokenId(none),
            token_hash: hash_of("no token"),
            queue: QueueId(none),
        }
    }

    pub(crate) fn scope(&self) -> Scope {
        Scope::Org(self.org)
    }
}

/// An organization of this name, in a database that may be new.
pub(crate) async fn world(store: &Store, name: &str) -> World {
    store.migrate().await.unwrap();
    let name = name.to_owned();
    store.write(async move |tx: &mut Tx<'_>| make(tx, &name).await).await.unwrap()
}

async fn make(tx: &mut Tx<'_>, name: &str) -> Result<World, StoreError> {
    let mut world = World { name: name.to_owned(), ..World::missing() };
    world.org =
        organizations::create(tx, &actor(), organizations::NewOrganization::named(name)).await?;
    people(tx, &mut world).await?;
    code(tx, &mut world).await?;
    machines(tx, &mut world).await?;
    content(tx, &mut world).await?;
    Ok(world)
}

async fn people(tx: &mut Tx<'_>, world: &mut World) -> Result<(), StoreError> {
    let (scope, actor, org) = (world.scope(), actor(), world.org);
    world.user_name = format!("user-of-{}", world.name);
    let new = users::NewUser { name: world.user_name.clone(), email: None, display_name: None };
    world.user = users::create(tx, &actor, new).await?;
    members::put(tx, scope, &actor, org, world.user, members::Role::Developer).await?;
    world.team = teams::create(tx, scope, &actor, org, "core").await?;
    teams::put_member(tx, scope, &actor, world.team, world.user, teams::TeamRole::Member).await?;
    let token = format!("token of {}", world.name);
    world.token_hash = hash_of(&token);
    world.token = tokens::create(tx, scope, &actor, new_token(world, &token)).await?;
    Ok(())
}

pub(crate) fn new_token(world: &World, token: &str) -> tokens::NewToken {
    tokens::NewToken {
        user: world.user,
        org: Some(world.org),
        name: "laptop".to_owned(),
        hash: hash_of(token),
        scopes: vec!["runs:read".to_owned(), "runs:write".to_owned()],
        expires_at: None,
    }
}

/// A queue in which the organization has had jobs: what makes queues is not what is tested here.
async fn add_queue(tx: &mut Tx<'_>, world: &World) -> Result<QueueId, StoreError> {
    let sql = "INSERT INTO queues (hash, requirements, created_at, used_at) \
               VALUES ($1, '{}', 0, 0) RETURNING id";
    let queue: QueueId = tx.one("queue", sql, &[hash_of(&world.name).into()]).await?.get(0)?;
    let sql = "INSERT INTO lanes (queue_id, priority, org_id, repo_id, class, floor, active) \
               VALUES ($1, 0, $2, $3, 'normal', 0, 0)";
    tx.execute(sql, &[queue.into(), world.org.into(), world.repo.into()]).await?;
    Ok(queue)
}

async fn code(tx: &mut Tx<'_>, world: &mut World) -> Result<(), StoreError> {
    let (scope, actor) = (world.scope(), actor());
    let new = repositories::NewRepository::named(world.org, "app");
    world.repo = repositories::create(tx, scope, &actor, new).await?;
    world.repo_name = format!("{}/app", world.name);
    let read = teams::Permission::Read;
    teams::grant(tx, scope, &actor, world.team, world.repo, read).await?;
    world.workflow = workflows::upsert(tx, scope, &actor, world.repo, ci()).await?;
    let found = [schedules::FoundSchedule {
        cron: "0 3 * * *".to_owned(),
        timezone: "UTC".to_owned(),
        next_at: Timestamp(1_000),
    }];
    schedules::set(tx, scope, &actor, world.workflow, &found).await?;
    world.schedule = schedules::list_of_workflow(tx, scope, world.workflow).await?.remove(0).id;
    world.environment = environments::put(tx, scope, &actor, world.repo, "prod", "{}").await?;
    let sealed = secrets::Sealed { key_id: "k1".to_owned(), bytes: world.name.clone().into() };
    secrets::put(tx, scope, &actor, Holder::Repo(world.repo), "TOKEN", sealed).await?;
    variables::put(tx, scope, &actor, Holder::Repo(world.repo), "REGION", &world.name).await?;
    let new = deliveries::NewDelivery {
        repo: Some(world.repo),
        forge: "github".to_owned(),
        delivery: format!("delivery-of-{}", world.name),
        event: "push".to_owned(),
        payload: b"{}".to_vec(),
    };
    world.delivery = deliveries::receive(tx, scope, new).await?.unwrap();
    Ok(())
}

pub(crate) fn ci() -> workflows::FoundWorkflow {
    workflows::FoundWorkflow {
        path: ".github/workflows/ci.yml".to_owned(),
        name: "CI".to_owned(),
        triggers: "{}".to_owned(),
    }
}

async fn machines(tx: &mut Tx<'_>, world: &mut World) -> Result<(), StoreError> {
    let (scope, actor) = (world.scope(), actor());
    let new = pools::NewPool {
        org: Some(world.org),
        name: "builders".to_owned(),
        settings: "{}".to_owned(),
    };
    world.pool = pools::create(tx, scope, &actor, new).await?;
    world.key_hash = hash_of(&format!("key of {}", world.name));
    let new = registration_keys::NewRegistrationKey {
        pool: world.pool,
        hash: world.key_hash.clone(),
        expires_at: Timestamp(tx.now().0 + 60_000),
        uses: None,
    };
    world.key = registration_keys::create(tx, scope, &actor, new).await?;
    let new = new_runner(world.pool, "one");
    world.runner = runners::register(tx, scope, &actor, new).await?;
    world.queue = add_queue(tx, world).await?;
    Ok(())
}

pub(crate) fn new_runner(pool: PoolId, name: &str) -> runners::NewRunner {
    runners::NewRunner {
        pool,
        name: name.to_owned(),
        credential: hash_of(name),
        about: runners::About {
            capabilities: r#"{"labels":["linux"]}"#.to_owned(),
            max_parallel: 2,
            single_use: false,
            os: "linux".to_owned(),
            architecture: "x64".to_owned(),
            version: "1.0".to_owned(),
            protocol: 1,
            public_key: None,
        },
    }
}

async fn content(tx: &mut Tx<'_>, world: &mut World) -> Result<(), StoreError> {
    let scope = world.scope();
    let bytes = world.name.clone().into_bytes();
    world.blob_hash = hash_of(&world.name);
    let size = i64::try_from(bytes.len()).unwrap();
    let body = blobs::Body::Inline(bytes);
    let blob = blobs::put(tx, scope, world.org, &world.blob_hash, size, body).await?;
    world.tag = "branch:main".into();
    let new = objects::NewObject {
        org: world.org,
        kind: "artifact".to_owned(),
        blob: Some(blob.id),
        provider_object_id: None,
        expires_at: None,
        tags: vec![world.tag.clone()],
    };
    world.object = objects::create(tx, scope, new).await?;
    world.manifest = manifests::create(tx, scope, world.org, None, None).await?;
    let resource = manifests::Resource {
        kind: "object".to_owned(),
        id: world.object.to_string(),
        cleanup_priority: None,
    };
    manifests::add(tx, scope, world.manifest, resource).await?;
    world.run = add_run(tx, world).await?;
    world.artifact =
        artifacts::create(tx, scope, &actor(), new_artifact(world.run, "dist")).await?;
    world.cache = caches::reserve(tx, scope, new_cache(world.repo, "deps-1")).await?;
    let upload = uploads::reserve(tx, scope, new_upload(world.org, &world.name)).await?;
    world.upload = upload.id;
    caches::finalize(tx, scope, world.cache, world.object, &hash_of("cache"), 10).await
}

pub(crate) fn new_upload(org: OrgId, name: &str) -> uploads::NewUpload {
    uploads::NewUpload {
        org,
        job: None,
        hash: hash_of(name),
        size: 70_000,
        place: format!("uploads/{name}"),
        parts: None,
        life: std::time::Duration::from_hours(1),
        budget: 100_000,
    }
}

pub(crate) fn new_blob(name: &str) -> blobs::NewBlob {
    let place = format!("blobs/{name}");
    blobs::NewBlob { hash: hash_of(name), size: 70_000, place, stored: 70_000, packs: Vec::new() }
}

pub(crate) fn new_artifact(run: RunId, name: &str) -> artifacts::NewArtifact {
    artifacts::NewArtifact {
        run,
        attempt: 1,
        job: None,
        claim: None,
        name: name.to_owned(),
        content_type: "application/zip".to_owned(),
        expires_at: None,
        overwrite: false,
    }
}

pub(crate) fn new_cache(repo: RepoId, key: &str) -> caches::NewCache {
    caches::NewCache {
        repo,
        git_ref: "refs/heads/main".to_owned(),
        trust: "trusted".to_owned(),
        key: key.to_owned(),
        version: "v1".to_owned(),
        by: None,
    }
}

/// A row of `runs`: what makes runs is not what is tested here.
async fn add_run(tx: &mut Tx<'_>, world: &World) -> Result<RunId, StoreError> {
    let row = [world.org.into(), world.repo.into(), world.workflow.into()];
    let sql = "INSERT INTO runs (org_id, repo_id, workflow_id, run_number, event, actor, trust, ref, \
               head_sha, title, status, created_at) VALUES ($1, $2, $3, 1, 'push', 'ada', 'trusted', \
               'refs/heads/main', 'abc', 'A run', 'queued', 0) RETURNING id";
    tx.one("run", sql, &row).await?.get(0)
}

/// A row of `leases`: what claims is not what is tested here.
pub(crate) async fn add_lease(
    tx: &mut Tx<'_>,
    world: &World,
    job: i64,
    counted: bool,
) -> Result<(), StoreError> {
    let row =
        [job.into(), world.runner.into(), world.org.into(), world.repo.into(), counted.into()];
    let sql = "INSERT INTO leases (job_id, run_id, attempt, number, claim, runner_id, nonce, \
               claimed_at, expires_at, acknowledged, counted, org_id, repo_id, estimate) \
               VALUES ($1, 1, 1, 0, 1, $2, 'n', 0, 0, 1, $5, $3, $4, 1.0)";
    tx.execute(sql, &row).await?;
    Ok(())
}
