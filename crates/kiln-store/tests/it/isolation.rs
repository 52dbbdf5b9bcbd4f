//! Nothing of one organization is visible to another: whatever is asked or tried with its ids and names is
//! answered like with those of nothing.

use std::sync::Arc;
use std::time::Duration;

use kiln_core::id::{JobId, RunId};
use kiln_core::run::{Again, Conclusion};
use kiln_core::time::Timestamp;
use kiln_store::claims;
use kiln_store::content::{
    artifacts, belongings, blobs, caches, chunks, garbage, manifests, objects, storage, tags,
    uploads,
};
use kiln_store::directory::holder::Holder;
use kiln_store::directory::{
    audit, deliveries, documents, environments, members, one_time_keys, organizations, places,
    pools, queues, registration_keys, repositories, runners, schedules, secrets, settings, teams,
    tokens, users, variables, workflows,
};
use kiln_store::events::{self, Annotation};
use kiln_store::runs::{self, Candidate, Deployed, EndNotes, Report, Reported, Runs, Said, Word};
use kiln_store::{Page, Refusal, Scope, Store, StoreError, Tx, retention};
use kiln_testkit::runs::{Pushed, Site, plan};

use crate::world::{
    SYSTEM, World, actor, ci, hash_of, new_artifact, new_blob, new_cache, new_runner, new_token,
    new_upload, refusal, world, write,
};

use Conclusion::{Failure, Success};

type Answers = Vec<(&'static str, String)>;

/// Asks everything in one transaction: a refusal is an answer like any other.
macro_rules! answers {
    ($($call:expr;)*) => {
        vec![$((stringify!($call), format!("{:?}", $call.await)),)*]
    };
}

fn page() -> Page {
    Page::first(100)
}

fn wanted(of: &World) -> caches::Wanted {
    caches::Wanted {
        repo: of.repo,
        trusts: vec!["trusted".to_owned()],
        refs: vec!["refs/heads/main".to_owned()],
        key: "deps-1".to_owned(),
        restore_keys: vec!["deps".to_owned()],
        version: "v1".to_owned(),
    }
}

fn filter(of: &World) -> caches::Filter {
    caches::Filter { repo: of.repo, key: None, git_ref: None }
}

/// Every function that gets or lists.
async fn questions(tx: &mut Tx<'_>, scope: Scope, of: &World) -> Result<Answers, StoreError> {
    let mut all = directory_questions(tx, scope, of).await;
    all.extend(run_questions(tx, scope, of).await);
    all.extend(machine_questions(tx, scope, of).await);
    all.extend(content_questions(tx, scope, of).await);
    Ok(all)
}

async fn directory_questions(tx: &mut Tx<'_>, scope: Scope, of: &World) -> Answers {
    answers! {
        organizations::get(tx, scope, of.org);
        organizations::by_name(tx, scope, &of.name);
        organizations::list(tx, scope, page());
        users::get(tx, scope, of.user);
        users::by_name(tx, scope, &of.user_name);
        users::list(tx, scope, page());
        members::get(tx, scope, of.org, of.user);
        members::list(tx, scope, of.org, page());
        members::of_user(tx, scope, of.user, page());
        teams::get(tx, scope, of.team);
        teams::list(tx, scope, of.org, page());
        teams::members_of(tx, scope, of.team, page());
        teams::repositories_of(tx, scope, of.team, page());
        repositories::get(tx, scope, of.repo);
        repositories::by_name(tx, scope, &of.repo_name);
        repositories::list(tx, scope, of.org, page());
        repositories::paused(tx, scope, page());
        workflows::get(tx, scope, of.workflow);
        workflows::by_path(tx, scope, of.repo, ".github/workflows/ci.yml");
        workflows::list(tx, scope, of.repo, page());
        places::repositories(tx, scope, &[], 100);
        places::workflows(tx, scope, &[], 100);
        environments::get(tx, scope, of.environment);
        environments::by_name(tx, scope, of.repo, "prod");
        environments::list(tx, scope, of.repo, page());
        secrets::list(tx, scope, Holder::Repo(of.repo), page());
        secrets::list(tx, scope, Holder::Org(of.org), page());
        secrets::list(tx, scope, Holder::Environment(of.environment), page());
        secrets::for_job(tx, scope, &actor(), of.repo, Some(of.environment));
        secrets::sealed_with(tx, scope, "k1", page());
        variables::list(tx, scope, Holder::Repo(of.repo), page());
        variables::for_job(tx, scope, of.repo, None);
        schedules::get(tx, scope, of.schedule);
        schedules::list(tx, scope, of.org, page());
        schedules::list_of_workflow(tx, scope, of.workflow);
        deliveries::get(tx, scope, of.delivery);
        deliveries::payload(tx, scope, of.delivery);
        deliveries::list(tx, scope, of.repo, page());
        audit::list(tx, scope, of.org, page());
        runs::list(tx, scope, Some(of.repo), page());
        runs::list(tx, scope, None, page());
        runs::get(tx, scope, of.run);
        runs::search(tx, scope, &in_repo(of), page());
        runs::search(tx, scope, &runs::RunFilter::default(), page());
        runs::total(tx, scope, &in_repo(of));
        runs::deployments(tx, scope, of.repo, &runs::DeploymentFilter::default(), (0, 9));
        runs::look(tx, scope, &in_repo(of), whole());
        runs::look(tx, scope, &runs::RunFilter::default(), whole());
        runs::latest_of_workflows(tx, scope, Some(of.repo), (100, 100));
        runs::held(tx, scope, runs::Holds::default(), 100);
        workflows::named(tx, scope, Some(of.repo), "ci.yml");
        workflows::named(tx, scope, None, "ci.yml");
        tokens::list(tx, scope, of.user, page());
        tokens::find_by_hash(tx, scope, &of.token_hash);
        queues::get(tx, scope, of.queue);
        queues::list(tx, scope, page());
    }
}

/// About a run that was carried out, and runs that were begun again.
async fn run_questions(tx: &mut Tx<'_>, scope: Scope, of: &World) -> Answers {
    answers! {
        runs::view(tx, scope, of.lived, None);
        runs::cancelling(tx, scope, of.lived);
        runs::steps(tx, scope, of.lived, None);
        runs::logged(tx, scope, of.lived, None);
        runs::taken_over(tx, scope, of.lived, 2);
        runs::end_notes(tx, scope, of.lived, 2);
        runs::past_claims(tx, scope, of.lived, 2);
        runs::reuses(tx, scope, of.lived, 2);
        events::annotations(tx, scope, of.lived, 2, 9);
        events::summaries(tx, scope, (of.lived, 2), 0, 9);
    }
}

fn whole() -> runs::Look {
    runs::Look { from: None, newer: false, limit: 100, most: 100 }
}

fn in_repo(of: &World) -> runs::RunFilter {
    runs::RunFilter { repo: Some(of.repo), ..runs::RunFilter::default() }
}

async fn machine_questions(tx: &mut Tx<'_>, scope: Scope, of: &World) -> Answers {
    answers! {
        pools::get(tx, scope, of.pool);
        pools::by_name(tx, scope, Some(of.org), "builders");
        pools::list(tx, scope, of.org, page());
        registration_keys::list(tx, scope, of.pool, page());
        runners::get(tx, scope, of.runner);
        runners::list(tx, scope, Some(of.org), page());
        runners::list_all(tx, scope, page());
        claims::history(tx, scope, of.runner, claims::Past { before: None, limit: 100, most: 100 });
    }
}

async fn content_questions(tx: &mut Tx<'_>, scope: Scope, of: &World) -> Answers {
    let hashes = [of.blob_hash.clone()];
    let tags = [of.tag.clone()];
    answers! {
        blobs::exists(tx, scope, of.org, &hashes);
        blobs::are_unused(tx, scope, of.org, &hashes);
        chunks::find(tx, scope, of.org, &hashes);
        uploads::get(tx, scope, of.upload);
        blobs::by_hash(tx, scope, of.org, &of.blob_hash);
        objects::get(tx, scope, of.object);
        objects::tags(tx, scope, of.object);
        objects::find(tx, scope, of.org, &tags, page());
        objects::search(tx, scope, of.org, &objects::Which::default(), page());
        objects::bytes_of(tx, scope, of.object);
        tags::list(tx, scope, of.org, "", "", 9);
        manifests::get(tx, scope, of.manifest);
        manifests::list(tx, scope, (of.org, None), page());
        manifests::owner(tx, scope, of.org, "object", &of.object.to_string());
        manifests::resources(tx, scope, of.manifest);
        artifacts::get(tx, scope, of.artifact);
        belongings::trust_of(tx, scope, of.run);
        artifacts::by_name(tx, scope, of.run, "dist");
        artifacts::list(tx, scope, of.run, page());
        storage::uses(tx, scope, 100);
        caches::get(tx, scope, of.cache);
        caches::looks(tx, scope, of.repo);
        caches::list(tx, scope, of.repo, page());
        caches::search(tx, scope, &filter(of), (caches::Order::Used, false), (0, 9));
        caches::total(tx, scope, &filter(of));
        caches::usage(tx, scope, of.repo);
        caches::look_up(tx, scope, &wanted(of));
    }
}

/// Every function that changes something that is there, or makes something beside it.
async fn attempts(tx: &mut Tx<'_>, scope: Scope, of: &World) -> Result<Answers, StoreError> {
    let mut all = directory_attempts(tx, scope, of).await;
    all.extend(code_attempts(tx, scope, of).await);
    all.extend(machine_attempts(tx, scope, of).await);
    all.extend(content_attempts(tx, scope, of).await);
    Ok(all)
}

async fn directory_attempts(tx: &mut Tx<'_>, scope: Scope, of: &World) -> Answers {
    let by = &actor();
    let read = teams::Permission::Read;
    let change = repositories::RepositoryChange::default();
    let new = repositories::NewRepository::named(of.org, "sneaky");
    answers! {
        organizations::rename(tx, scope, by, of.org, "taken-over");
        organizations::set_plan(tx, scope, by, of.org, "best");
        organizations::set_shares(tx, scope, by, of.org, 7);
        organizations::set_job_limit(tx, scope, by, of.org, Some(1));
        users::set_disabled(tx, scope, by, of.user, true);
        users::set_admin(tx, scope, by, of.user, true);
        tokens::create(tx, scope, by, new_token(of, "sneaky"));
        tokens::used(tx, scope, of.token);
        tokens::revoke(tx, scope, by, of.token);
        queues::pause(tx, scope, by, of.queue, "mine now");
        queues::resume(tx, scope, by, of.queue);
        members::put(tx, scope, by, of.org, of.user, members::Role::Admin);
        members::remove(tx, scope, by, of.org, of.user);
        teams::create(tx, scope, by, of.org, "sneaky");
        teams::put_member(tx, scope, by, of.team, of.user, teams::TeamRole::Maintainer);
        teams::remove_member(tx, scope, by, of.team, of.user);
        teams::grant(tx, scope, by, of.team, of.repo, read);
        teams::revoke(tx, scope, by, of.team, of.repo);
        teams::delete(tx, scope, by, of.team);
        repositories::create(tx, scope, by, new.clone());
        repositories::update(tx, scope, by, of.repo, change.clone());
        repositories::set_enabled(tx, scope, by, of.repo, false);
        repositories::pause(tx, scope, by, of.repo, "mine now");
        repositories::resume(tx, scope, by, of.repo);
        repositories::set_shares(tx, scope, by, of.repo, 7);
        repositories::set_priorities(tx, scope, by, of.repo, None);
        repositories::remove(tx, scope, by, of.repo);
        retention::remove_run(tx, scope, by, of.run);
        retention::logs_removed(tx, scope, by, of.run);
    }
}

async fn code_attempts(tx: &mut Tx<'_>, scope: Scope, of: &World) -> Answers {
    let by = &actor();
    let sealed = secrets::Sealed { key_id: "k2".to_owned(), bytes: vec![1] };
    let new = deliveries::NewDelivery {
        repo: Some(of.repo),
        forge: "github".to_owned(),
        delivery: "sneaky".to_owned(),
        event: "push".to_owned(),
        payload: Vec::new(),
    };
    answers! {
        workflows::upsert(tx, scope, by, of.repo, ci());
        workflows::set_enabled(tx, scope, by, of.workflow, false);
        workflows::next_run_number(tx, scope, of.workflow);
        schedules::set(tx, scope, by, of.workflow, &[]);
        schedules::take_due(tx, scope, 10, |_| None);
        environments::put(tx, scope, by, of.repo, "prod", "[]");
        secrets::put(tx, scope, by, Holder::Repo(of.repo), "TOKEN", sealed.clone());
        secrets::put(tx, scope, by, Holder::Environment(of.environment), "TOKEN", sealed.clone());
        secrets::delete(tx, scope, by, Holder::Repo(of.repo), "TOKEN");
        variables::put(tx, scope, by, Holder::Org(of.org), "REGION", "mine");
        variables::delete(tx, scope, by, Holder::Repo(of.repo), "REGION");
        environments::delete(tx, scope, by, of.environment);
        deliveries::receive(tx, scope, new.clone());
        deliveries::take_waiting(tx, scope, 10, Duration::ZERO);
        deliveries::mark_handled(tx, scope, of.delivery);
        deliveries::mark_failed(tx, scope, of.delivery, "no");
        deliveries::replay(tx, scope, by, of.delivery);
    }
}

async fn machine_attempts(tx: &mut Tx<'_>, scope: Scope, of: &World) -> Answers {
    let by = &actor();
    let new = new_runner(of.pool, "sneaky");
    let key = registration_keys::NewRegistrationKey {
        pool: of.pool,
        hash: hash_of("sneaky"),
        expires_at: Timestamp(u64::MAX),
        uses: None,
    };
    let pool =
        pools::NewPool { org: Some(of.org), name: "sneaky".to_owned(), settings: "{}".to_owned() };
    answers! {
        pools::create(tx, scope, by, pool.clone());
        pools::configure(tx, scope, by, of.pool, "[]");
        registration_keys::create(tx, scope, by, key.clone());
        registration_keys::spend(tx, scope, by, &of.key_hash);
        registration_keys::revoke(tx, scope, by, of.key);
        runners::register(tx, scope, by, new.clone());
        runners::register_again(tx, scope, by, of.runner, &hash_of("one"), new.about.clone());
        runners::revoke_tokens(tx, scope, by, of.runner);
        runners::set_draining(tx, scope, by, of.runner, true);
        runners::seen(tx, scope, of.runner);
        runners::set_health(tx, scope, of.runner, "{}", true);
        runners::unregister(tx, scope, by, of.runner);
    }
}

async fn content_attempts(tx: &mut Tx<'_>, scope: Scope, of: &World) -> Answers {
    let by = &actor();
    let hash = hash_of("sneaky");
    let place = blobs::Body::At("sneaky".to_owned());
    let (blob, upload, now) = (new_blob("sneaky"), new_upload(of.org, "sneaky"), tx.now());
    let object = objects::NewObject {
        org: of.org,
        kind: "artifact".to_owned(),
        blob: None,
        provider_object_id: None,
        expires_at: None,
        tags: Vec::new(),
    };
    let resource = manifests::Resource {
        kind: "object".to_owned(),
        id: "7".to_owned(),
        cleanup_priority: None,
    };
    let to = of.manifest;
    let bytes = belongings::Bytes { blob: kiln_core::id::BlobId(1), hash: hash.clone(), size: 1 };
    let change = tags::Change { add: vec!["sneaky".to_owned()], ..tags::Change::default() };
    answers! {
        blobs::put(tx, scope, of.org, &hash, 6, place.clone());
        blobs::keep(tx, scope, of.org, blob.clone());
        blobs::hold(tx, scope, of.org, std::slice::from_ref(&of.blob_hash));
        chunks::add(tx, scope, of.org, blob.clone(), &[]);
        uploads::reserve(tx, scope, upload.clone());
        uploads::finish(tx, scope, of.upload, true);
        garbage::mark(tx, scope, kiln_core::id::BlobId(0), 1);
        garbage::sweep(tx, scope, now, 1);
        garbage::removals(tx, scope, "", 1);
        garbage::removed(tx, scope, &["x".to_owned()]);
        garbage::known(tx, scope, &["x".to_owned()]);
        garbage::give_up(tx, scope, now, 1);
        garbage::expire(tx, scope, 1);
        garbage::foresee(tx, scope, now);
        storage::kept(tx, scope);
        storage::of_runs(tx, scope, &[of.run]);
        objects::create(tx, scope, object.clone());
        objects::delete(tx, scope, of.object);
        objects::remove(tx, scope, by, of.object);
        tags::change(tx, scope, of.object, &change);
        manifests::create(tx, scope, of.org, None, None);
        manifests::add(tx, scope, of.manifest, resource.clone());
        manifests::seal(tx, scope, of.manifest);
        manifests::transfer(tx, scope, of.manifest, to, "object", &of.object.to_string());
        manifests::remove(tx, scope, of.manifest, "object", &of.object.to_string());
        manifests::give_up(tx, scope, of.manifest, "object", &of.object.to_string());
        manifests::seal_ended(tx, scope, 10);
        manifests::due(tx, scope, (Timestamp(0), of.manifest), 10);
        manifests::forget(tx, scope, of.manifest);
        artifacts::create(tx, scope, by, new_artifact(of.run, "sneaky"));
        artifacts::finalize(tx, scope, of.artifact, of.object, &hash, 1);
        belongings::complete(tx, scope, by, of.artifact, &bytes, Duration::ZERO);
        belongings::put_off(tx, scope, of.manifest, now);
        artifacts::set_keep(tx, scope, by, of.artifact, true);
        artifacts::delete(tx, scope, by, of.artifact);
        artifacts::delete_unkept(tx, scope, by, of.artifact);
        caches::reserve(tx, scope, new_cache(of.repo, "sneaky"));
        caches::finalize(tx, scope, of.cache, of.object, &hash, 1);
        caches::hit(tx, scope, of.cache, true);
        caches::looked(tx, scope, of.repo, true);
        caches::evict(tx, scope, (of.repo, "trusted"), 0, 9);
        caches::over_budget(tx, scope, "trusted", [0, 0], 9);
        caches::expire(tx, scope, now, 9);
        caches::delete(tx, scope, by, of.cache);
        caches::delete_by_key(tx, scope, by, (of.repo, "deps-1", None));
        artifacts::expire(tx, scope, 9);
    }
}

/// What this organization has done, so that it has an answer to everything that can be asked about runs: a run one job
/// of which was lost, stood in for another, remarked something and deployed, and one failed; begun again, and
/// cancelled; and one that waits for it.
async fn lived(store: &Store, of: &World) -> RunId {
    let runs = Runs::new(store.clone(), Arc::new(Pushed));
    let site = Site { runs, org: of.org, repo: of.repo, workflow: of.workflow };
    let runner = of.runner.0;
    let text = "on: push\nconcurrency: one\njobs:\n  a: {runs-on: x, steps: [{run: y}]}\n  \
                b: {runs-on: x, steps: [{run: y}]}\n";
    let run = site.runs.create(site.push(plan(text))).await.unwrap().run();
    for lost in site.claim(runner, 2).await {
        site.say(&lost, runner, Word::Lost { reason: "power".to_owned() }).await;
    }
    for job in site.claim(runner, 2).await {
        let (id, claim) = (job.job, job.claim);
        write!(store, |tx| spoken(tx, id, claim)).unwrap();
        let is_green = job.name == "a";
        site.finish(&job, runner, if is_green { Success } else { Failure }).await;
    }
    assert_eq!(site.runs.again(of.scope(), &actor(), run, Again::Failed).await.unwrap(), 2);
    // Somebody has it, so it goes on until they have heard that it is over.
    assert_eq!(site.claim(runner, 1).await.len(), 1);
    site.runs.create(site.push(plan(text))).await.unwrap();
    site.runs.cancel(of.scope(), &actor(), run, "enough", false).await.unwrap();
    run
}

/// What its runner says of a job, and whose result stands for it.
async fn spoken(tx: &mut Tx<'_>, job: JobId, claim: u32) -> Result<(), StoreError> {
    let lease = claims::lease(tx, job, claim).await?.unwrap();
    let step = 0;
    let words = [
        Said::StepStarted { step, name: "y".to_owned() },
        Said::Annotation(remark()),
        Said::Summary { step, text: "# y".to_owned() },
    ];
    let events = (1..).zip(words).map(|(sequence, what)| Reported { sequence, at: tx.now(), what });
    let report = Report { job, claim, runner: lease.runner, events: events.collect() };
    runs::report(tx, &[report]).await?;
    let deployed = Deployed { environment: "prod".to_owned(), url: None };
    let notes = EndNotes { deployed: Some(deployed), ..EndNotes::default() };
    runs::note_end(tx, job, claim, lease.runner, &notes).await?;
    let source = Candidate {
        job,
        run: job.run(),
        attempt: 1,
        claim,
        name: "a".to_owned(),
        number: 1,
        conclusion: Success,
        outputs: Vec::new(),
        ended: None,
        is_spoilt: false,
    };
    runs::note_reuse(tx, &lease, &source).await
}

fn remark() -> Annotation {
    let text = r#"{"level": "warning", "message": "look"}"#;
    serde_json::from_str(text).unwrap()
}

/// Two organizations that have done the same.
async fn two(store: &Store) -> [World; 2] {
    let mut worlds = [world(store, "acme").await, world(store, "other").await];
    for world in &mut worlds {
        world.lived = lived(store, world).await;
    }
    worlds
}

async fn ask(store: &Store, scope: Scope, of: &World) -> Answers {
    let of = of.clone();
    write!(store, |tx| questions(tx, scope, &of)).unwrap()
}

async fn attempt(store: &Store, scope: Scope, of: &World) -> Answers {
    let of = of.clone();
    write!(store, |tx| attempts(tx, scope, &of)).unwrap()
}

/// G1
async fn what_belongs_to_another_organization_looks_like_nothing(store: Store) {
    let [acme, other] = two(&store).await;
    let (org, hash) = (acme.org, acme.blob_hash.clone());
    write!(store, |tx| {
        let chunk = chunks::NewChunk { hash: hash.clone(), start: 0, stored: 1, size: 1 };
        async move { chunks::add(tx, Scope::Org(org), org, new_blob("pack"), &[chunk]).await }
    })
    .unwrap();
    let own = ask(&store, acme.scope(), &acme).await;
    let foreign = ask(&store, other.scope(), &acme).await;
    let nothing = ask(&store, other.scope(), &World::missing()).await;
    assert_eq!(own.len(), 101);
    for ((own, foreign), nothing) in own.iter().zip(&foreign).zip(&nothing) {
        let (question, foreign) = foreign;
        assert_eq!(foreign, &nothing.1, "{question}");
        assert!(own.1.starts_with("Ok("), "{question}: {}", own.1);
        // Nothing was set for the organization and the environment, and nothing is paused: even the owner sees nothing.
        let unset = ["Holder::Org", "Environment", "repositories::paused"];
        if !unset.iter().any(|name| question.contains(name)) {
            assert!(own.1 != "Ok([])" && own.1 != "Ok(None)", "{question}: {}", own.1);
            assert_ne!(&own.1, foreign, "{question}");
        }
    }
}
on_both!(what_belongs_to_another_organization_looks_like_nothing);

/// G1
async fn what_belongs_to_another_organization_cannot_be_changed(store: Store) {
    let [acme, other] = two(&store).await;
    let before = ask(&store, acme.scope(), &acme).await;
    let runs = Runs::new(store.clone(), Arc::new(Pushed));
    let cancel = runs.cancel(other.scope(), &actor(), acme.lived, "mine now", true).await;
    let again = runs.again(other.scope(), &actor(), acme.lived, Again::All).await;
    for refused in [refusal(cancel), refusal(again)] {
        assert_eq!(refused, Refusal::NotFound("run"));
    }
    let foreign = attempt(&store, other.scope(), &acme).await;
    let nothing = attempt(&store, other.scope(), &World::missing()).await;
    assert_eq!(foreign.len(), 104);
    for (foreign, nothing) in foreign.iter().zip(&nothing) {
        assert_eq!(foreign, nothing);
        let silent = ["runners::seen", "runners::set_health", "tokens::used", "caches::hit"];
        let is_silent = silent.iter().any(|name| foreign.0.contains(name));
        let expected = if is_silent { "Ok(" } else { "Err(Refused(NotFound(" };
        assert!(foreign.1.starts_with(expected), "{foreign:?}");
    }
    let after = ask(&store, acme.scope(), &acme).await;
    for (before, after) in before.iter().zip(&after) {
        // Asking for secrets is recorded, so only the audit log grows.
        if !before.0.contains("audit::list") {
            assert_eq!(before, after);
        }
    }
}
on_both!(what_belongs_to_another_organization_cannot_be_changed);

/// What has no organization is not everybody's.
async fn what_belongs_to_nobody_is_for_the_system_alone(store: Store) {
    let acme = world(&store, "acme").await;
    let scope = acme.scope();
    let answers = write!(store, |tx| async {
        let hash = documents::put(tx, "a plan").await?;
        Ok([
            documents::get(tx, scope, hash).await.map(drop),
            runners::list(tx, scope, None, page()).await.map(drop),
            audit::list_of_installation(tx, scope, page()).await.map(drop),
            audit::list_all(tx, scope, page()).await.map(drop),
            settings::get(tx, scope, "key").await.map(drop),
            settings::put(tx, scope, &actor(), "key", "mine").await,
            settings::get_or_put(tx, scope, "key", "mine").await.map(drop),
            settings::remove(tx, scope, &actor(), "key").await.map(drop),
            settings::pause_server(tx, scope, &actor(), "mine now").await,
            settings::resume_server(tx, scope, &actor()).await,
            one_time_keys::redeem(tx, scope, &hash.0, "login").await.map(drop),
        ])
    });
    let answers = answers.unwrap().map(|answer| refusal(answer).to_string());
    let setting = "setting";
    let expected = [
        "document",
        "runner",
        "audit log",
        "audit log",
        setting,
        setting,
        setting,
        setting,
        setting,
        setting,
        "key",
    ]
    .map(|what| format!("there is no such {what}"));
    assert_eq!(answers, expected);
    let entries = write!(store, |tx| audit::list_of_installation(tx, SYSTEM, page())).unwrap();
    assert_eq!(entries[0].action, "user.create");
}
on_both!(what_belongs_to_nobody_is_for_the_system_alone);
