//! What a server does by itself, with the whole server in this process.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kiln_core::id::RunId;
use kiln_core::run::RunState;
use kiln_proto::api::Duty;
use kiln_server::Server;
use kiln_server::config::Config;
use kiln_store::content::artifacts::{self, NewArtifact};
use kiln_store::content::belongings::{self, Bytes};
use kiln_store::content::blobs;
use kiln_store::content::caches::{self, NewCache};
use kiln_store::content::manifests::{self, ManifestState};
use kiln_store::content::objects::{self, NewObject};
use kiln_store::{Options, Store, Tx};
use kiln_testkit::database::Database;
use kiln_testkit::runs::{Site, somebody};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::support::{MemorySources, SYSTEM};

const PATIENCE: Duration = Duration::from_secs(30);

/// A server with its duties, which listens.
struct Whole {
    app: kiln_server::app::Shared,
    serving: JoinHandle<()>,
}

impl Whole {
    async fn start(data: &Path, database: &Options, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::in_folder(data);
        config.listen = "127.0.0.1:0".parse().unwrap();
        config.database = database.clone();
        change(&mut config);
        let listener = Server::bind(&mut config).unwrap();
        let server = Server::start(config, Arc::new(MemorySources::default())).await.unwrap();
        let app = Arc::clone(server.app());
        Self { app, serving: tokio::spawn(server.serve(listener)) }
    }

    fn duty(&self, name: &str) -> Duty {
        self.app.board.duties().into_iter().find(|duty| duty.name == name).unwrap()
    }

    async fn until(&self, name: &str, fits: impl Fn(&Duty) -> bool) -> Duty {
        let wait = async {
            loop {
                let duty = self.duty(name);
                if fits(&duty) {
                    return duty;
                }
                sleep(Duration::from_millis(10)).await;
            }
        };
        let done = timeout(PATIENCE, wait).await;
        done.unwrap_or_else(|late| panic!("{late}: {:?}", self.duty(name)))
    }

    async fn stop(self) {
        self.app.stopping.cancel();
        drop(self.app);
        timeout(PATIENCE, self.serving).await.unwrap().unwrap();
    }
}

async fn every_duty_runs_and_says_what_it_did(database: &Options) {
    let data = tempfile::tempdir().unwrap();
    let whole = Whole::start(data.path(), database, |_| {}).await;
    for duty in whole.app.board.duties() {
        let done = whole.until(&duty.name, |duty| duty.passes > 0).await;
        assert!(done.here && done.last_error.is_none() && done.failures == 0, "{done:?}");
        assert!(!done.last_report.is_empty() && done.last_run_at.is_some(), "{done:?}");
    }
    // After a start, runners get the time of a lease to be heard.
    let leases = whole.duty("leases");
    assert!(leases.last_report.starts_with("waits "), "{leases:?}");
    whole.stop().await;
}

async fn jobs_that_no_runner_can_take_fail_after_the_grace(database: &Options) {
    let data = tempfile::tempdir().unwrap();
    let short = Duration::from_millis(500);
    let whole =
        Whole::start(data.path(), database, |config| config.limits.unsupported = short).await;
    let site = Site::new(whole.app.store.clone()).await;
    let run = site.run("  a: {runs-on: nowhere, steps: [{run: x}]}").await;
    let ended = async {
        while !matches!(site.view(run).await.state, RunState::Done(_)) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, ended).await.unwrap();
    drop(site);
    whole.stop().await;
}

async fn logs_of_runs_that_are_gone_go_too(database: &Options) {
    let data = tempfile::tempdir().unwrap();
    let [gone, fresh] = ["logs/12345", "logs/12346"].map(|name| data.path().join(name));
    for folder in [&gone, &fresh] {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join("1.1.log"), "x").unwrap();
    }
    for path in [gone.join("1.1.log"), gone.clone()] {
        std::fs::File::open(path).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    }
    let whole = Whole::start(data.path(), database, |_| {}).await;
    let done = whole.until("logs", |duty| duty.passes > 0).await;
    assert_eq!(done.last_report, "1 run's logs removed");
    assert!(!gone.exists());
    assert!(fresh.exists(), "a server with the wrong database removes nothing that is to be kept");
    whole.stop().await;
}

/// A table that is missing stands in for a fault: it is shown, tried again, and mended.
async fn what_fails_is_shown_and_tried_again(database: &Options) {
    let data = tempfile::tempdir().unwrap();
    let whole = Whole::start(data.path(), database, |_| {}).await;
    whole.until("lanes", |duty| duty.passes > 0).await;
    let rename = async |sql: &'static str| {
        let work = async move |tx: &mut Tx<'_>| tx.execute(sql, &[]).await;
        whole.app.store.write(work).await.unwrap();
    };
    rename("ALTER TABLE lanes RENAME TO lanes_away").await;
    let failed = whole.until("lanes", |duty| duty.last_error.is_some()).await;
    assert!(failed.last_error.unwrap().contains("lanes"));
    rename("ALTER TABLE lanes_away RENAME TO lanes").await;
    let mended = whole.until("lanes", |duty| duty.last_error.is_none()).await;
    assert!(mended.failures > 0, "{mended:?}");
    whole.stop().await;
}

/// A cache of so many bytes that was used so many days ago.
async fn cache(site: &Site, (key, trust): (&'static str, &'static str), size: i64, days: u64) {
    let (org, repo, store) = (site.org, site.repo, site.runs.store());
    let work = async move |tx: &mut Tx<'_>| {
        let new = NewObject {
            org,
            kind: "cache".to_owned(),
            blob: None,
            provider_object_id: None,
            expires_at: None,
            tags: Vec::new(),
        };
        let object = objects::create(tx, SYSTEM, new).await?;
        let new = NewCache {
            repo,
            git_ref: "refs/heads/main".to_owned(),
            trust: trust.to_owned(),
            key: key.to_owned(),
            version: "v".to_owned(),
            by: None,
        };
        let id = caches::reserve(tx, SYSTEM, new).await?;
        caches::finalize(tx, SYSTEM, id, object, &[7; 32], size).await?;
        let used = tx.now().0 - days * 86_400_000;
        let used = kiln_core::time::Timestamp(used);
        tx.execute("UPDATE caches SET used_at = $2 WHERE id = $1", &[id.into(), used.into()]).await
    };
    store.write(work).await.unwrap();
}

/// H3, R8: old caches go, and the least recently used of those that are too many; strangers push out nobody.
async fn old_and_too_many_caches_go(database: &Options) {
    let store = Store::open(database).unwrap();
    store.migrate().await.unwrap();
    let site = Site::new(store.clone()).await;
    for (key, trust, size, days) in [
        ("unused", "trusted", 10, 8),
        ("third", "trusted", 400, 3),
        ("second", "trusted", 400, 2),
        ("first", "trusted", 400, 1),
        ("flood-1", "untrusted", 200, 1),
        ("flood-2", "untrusted", 900, 0),
    ] {
        cache(&site, (key, trust), size, days).await;
    }
    let left = async |tx: &mut Tx<'_>| {
        let sql = "SELECT key FROM caches ORDER BY key";
        let keys = tx.rows(sql, &[]).await?;
        let keys: Result<Vec<String>, _> = keys.iter().map(|row| row.get(0)).collect();
        let objects = tx.one("object", "SELECT count(*) FROM objects", &[]).await?.get::<i64>(0)?;
        Ok((keys?, objects))
    };
    drop(site);
    let data = tempfile::tempdir().unwrap();
    drop(store);
    let whole = Whole::start(data.path(), database, |config| config.content.quota = 1_000).await;
    let done = whole.until("content", |duty| duty.passes > 0).await;
    let said = "0 artifacts expired, 1 caches were unused, 3 caches evicted; 1510 bytes";
    assert_eq!(done.last_report, said);
    let (keys, objects) = whole.app.store.read(left).await.unwrap();
    assert_eq!(keys, ["first", "second"]);
    assert_eq!(objects, 2, "objects go with what they belong to");
    whole.stop().await;
}

/// C5: what a manifest owns goes when its time is over, and what was claimed stays.
async fn what_manifests_own_goes_when_their_time_is_over(database: &Options) {
    let store = Store::open(database).unwrap();
    let site = Site::new(store.clone()).await;
    cache(&site, ("owned", "trusted"), 10, 0).await;
    cache(&site, ("claimed", "trusted"), 10, 0).await;
    let org = site.org;
    let work = async move |tx: &mut Tx<'_>| {
        let none = Some(Duration::ZERO);
        let due = manifests::create(tx, SYSTEM, org, None, none).await?;
        let heir = manifests::create(tx, SYSTEM, org, None, none).await?;
        for (kind, id) in [("cache", "1"), ("cache", "2"), ("cache", "999")] {
            let (kind, id) = (kind.to_owned(), id.to_owned());
            let resource = manifests::Resource { kind, id, cleanup_priority: None };
            manifests::add(tx, SYSTEM, due, resource).await?;
        }
        manifests::seal(tx, SYSTEM, due).await?;
        manifests::transfer(tx, SYSTEM, due, heir, "cache", "2").await
    };
    store.write(work).await.unwrap();
    drop((site, store));
    let data = tempfile::tempdir().unwrap();
    let whole = Whole::start(data.path(), database, |_| {}).await;
    let done = whole.until("manifests", |duty| duty.passes > 0).await;
    assert_eq!(done.last_report, "2 resources cleaned up, 1 manifests are over");
    let left = async |tx: &mut Tx<'_>| {
        let keys = tx.rows("SELECT key FROM caches", &[]).await?;
        let keys: Result<Vec<String>, _> = keys.iter().map(|row| row.get(0)).collect();
        let count = tx.one("manifest", "SELECT count(*) FROM manifests", &[]).await?;
        Ok((keys?, count.get::<i64>(0)?))
    };
    assert_eq!(whole.app.store.read(left).await.unwrap(), (vec!["claimed".to_owned()], 1));
    whole.stop().await;
}

/// C5: what somebody keeps stays, and its owner with it, when the time of all that its run left is over.
async fn the_manifest_of_a_run_stays_while_somebody_keeps_an_artifact(database: &Options) {
    let store = Store::open(database).unwrap();
    let site = Site::new(store.clone()).await;
    let run = site.run("  a: {runs-on: linux, steps: [{run: x}]}\n").await;
    let org = site.org;
    let work = async move |tx: &mut Tx<'_>| {
        let body = blobs::Body::Inline(b"dist".to_vec());
        let blob = blobs::put(tx, SYSTEM, org, &[7; 32], 4, body).await?.id;
        let new = NewArtifact {
            run,
            attempt: 1,
            job: None,
            claim: None,
            name: "dist".to_owned(),
            content_type: "application/zip".to_owned(),
            expires_at: Some(tx.now()),
            overwrite: false,
        };
        let id = artifacts::create(tx, SYSTEM, &somebody(), new).await?;
        let bytes = Bytes { blob, hash: vec![7; 32], size: 4 };
        belongings::complete(tx, SYSTEM, &somebody(), id, &bytes, Duration::ZERO).await?;
        artifacts::set_keep(tx, SYSTEM, &somebody(), id, true).await?;
        let sql = "UPDATE runs SET conclusion = 'success' WHERE id = $1";
        tx.execute(sql, &[run.into()]).await
    };
    store.write(work).await.unwrap();
    drop((site, store));
    let data = tempfile::tempdir().unwrap();
    let whole = Whole::start(data.path(), database, |_| {}).await;
    let done = whole.until("manifests", |duty| duty.passes > 0).await;
    assert_eq!(
        done.last_report,
        "0 resources cleaned up, 0 manifests are over, 1 sealed because their runs ended"
    );
    let left = async move |tx: &mut Tx<'_>| {
        let found = artifacts::by_name(tx, SYSTEM, run, "dist").await?;
        let object = found.object.unwrap();
        let owner = manifests::owner(tx, SYSTEM, org, "object", &object.0.to_string()).await?;
        Ok((manifests::get(tx, SYSTEM, owner.unwrap()).await?, tx.now()))
    };
    let (owner, now) = whole.app.store.read(left).await.unwrap();
    assert!(owner.own && owner.state == ManifestState::Sealed, "{owner:?}");
    assert!(owner.expires_at.unwrap() > now + Duration::from_hours(23), "looked at again later");
    whole.stop().await;
}

/// C5: however many manifests cannot be cleaned up, the others are.
async fn manifests_that_cannot_be_cleaned_up_keep_no_others_from_it(database: &Options) {
    let store = Store::open(database).unwrap();
    let site = Site::new(store.clone()).await;
    cache(&site, ("owned", "trusted"), 10, 0).await;
    let org = site.org;
    let work = async move |tx: &mut Tx<'_>| {
        // Each owns something that only somebody else can remove.
        for at in 0..45 {
            let id = manifests::create(tx, SYSTEM, org, None, Some(Duration::ZERO)).await?;
            let (kind, number) = ("instance".to_owned(), format!("i-{at}"));
            let resource = manifests::Resource { kind, id: number, cleanup_priority: None };
            manifests::add(tx, SYSTEM, id, resource).await?;
            manifests::seal(tx, SYSTEM, id).await?;
        }
        let due = manifests::create(tx, SYSTEM, org, None, Some(Duration::from_millis(1))).await?;
        let (kind, id) = ("cache".to_owned(), "1".to_owned());
        let resource = manifests::Resource { kind, id, cleanup_priority: None };
        manifests::add(tx, SYSTEM, due, resource).await?;
        manifests::seal(tx, SYSTEM, due).await
    };
    store.write(work).await.unwrap();
    drop((site, store));
    let data = tempfile::tempdir().unwrap();
    let whole = Whole::start(data.path(), database, |_| {}).await;
    let cleaned = "1 resources cleaned up, 1 manifests are over";
    whole.until("manifests", |duty| duty.last_report == cleaned).await;
    let left = async |tx: &mut Tx<'_>| {
        let caches = tx.one("cache", "SELECT count(*) FROM caches", &[]).await?.get::<i64>(0)?;
        let manifests = tx.one("manifest", "SELECT count(*) FROM manifests", &[]).await?;
        Ok((caches, manifests.get::<i64>(0)?))
    };
    assert_eq!(whole.app.store.read(left).await.unwrap(), (0, 45));
    whole.stop().await;
}

/// C5: a draft is sealed with the end of its run, also when that is gone.
async fn drafts_are_sealed_when_their_runs_have_ended(database: &Options) {
    let store = Store::open(database).unwrap();
    let site = Site::new(store.clone()).await;
    let org = site.org;
    let work = async move |tx: &mut Tx<'_>| {
        let day = Some(Duration::from_hours(24));
        let gone = manifests::create(tx, SYSTEM, org, Some(RunId(999)), day).await?;
        let free = manifests::create(tx, SYSTEM, org, None, day).await?;
        Ok((gone, free))
    };
    let (gone, free) = store.write(work).await.unwrap();
    drop((site, store));
    let data = tempfile::tempdir().unwrap();
    let whole = Whole::start(data.path(), database, |_| {}).await;
    let done = whole.until("manifests", |duty| duty.passes > 0).await;
    let report = "0 resources cleaned up, 0 manifests are over, 1 sealed because their runs ended";
    assert_eq!(done.last_report, report);
    let look = async move |tx: &mut Tx<'_>| {
        let gone = manifests::get(tx, SYSTEM, gone).await?;
        Ok((gone.state, gone.expires_at.is_some(), manifests::get(tx, SYSTEM, free).await?.state))
    };
    let seen = whole.app.store.read(look).await.unwrap();
    assert_eq!(seen, (ManifestState::Sealed, true, ManifestState::Draft));
    whole.stop().await;
}

/// H3: logs go when their time is over, their runs stay, and a run that has not ended has all of them.
async fn logs_go_earlier_than_their_runs(database: &Options) {
    let store = Store::open(database).unwrap();
    store.migrate().await.unwrap();
    let site = Site::new(store.clone()).await;
    let job = "  build: {runs-on: linux, steps: [{run: 'true'}]}\n";
    let (ended, open) = (site.run(job).await, site.run(job).await);
    let claimed = site.claim(1, 1).await.remove(0);
    assert_eq!(claimed.run, ended);
    site.finish(&claimed, 1, kiln_core::run::Conclusion::Success).await;
    let data = tempfile::tempdir().unwrap();
    let folder = |run: RunId| data.path().join(format!("logs/{run}"));
    for run in [ended, open] {
        std::fs::create_dir_all(folder(run)).unwrap();
        std::fs::write(folder(run).join("1.1.zst"), "x").unwrap();
    }
    sleep(Duration::from_millis(20)).await;
    drop((site, store));
    let old = |config: &mut Config| config.keep_logs = Duration::ZERO;
    let whole = Whole::start(data.path(), database, old).await;
    let done = whole.until("logs", |duty| duty.passes > 0).await;
    assert_eq!(done.last_report, "1 run's logs removed");
    assert!(!folder(ended).exists() && folder(open).exists());
    let view = async move |tx: &mut Tx<'_>| kiln_store::runs::view(tx, SYSTEM, ended, None).await;
    assert!(matches!(whole.app.store.read(view).await.unwrap().state, RunState::Done(_)));
    whole.stop().await;
}

macro_rules! on_both_whole {
    ($($name:ident)*) => {
        $(mod $name {
            use super::*;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_sqlite() {
                super::$name(&Database::sqlite().options).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_postgres() {
                super::$name(&Database::postgres().await.options).await;
            }
        })*
    };
}

on_both_whole! {
    every_duty_runs_and_says_what_it_did
    jobs_that_no_runner_can_take_fail_after_the_grace
    logs_go_earlier_than_their_runs
    logs_of_runs_that_are_gone_go_too
    old_and_too_many_caches_go
    what_fails_is_shown_and_tried_again
    what_manifests_own_goes_when_their_time_is_over
    the_manifest_of_a_run_stays_while_somebody_keeps_an_artifact
    manifests_that_cannot_be_cleaned_up_keep_no_others_from_it
    drafts_are_sealed_when_their_runs_have_ended
}

/// H2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_servers_leads_and_the_other_takes_over() {
    let database = Database::postgres().await;
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let one = Whole::start(folders[0].path(), &database.options, |_| {}).await;
    one.until("leases", |duty| duty.here).await;
    let two = Whole::start(folders[1].path(), &database.options, |_| {}).await;
    two.until("outbox", |duty| duty.passes > 0).await;
    assert!(two.duty("outbox").here && !two.duty("leases").here);
    one.stop().await;
    two.until("leases", |duty| duty.here && duty.passes > 0).await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_answers_nobody_and_leaves_one_file() {
    let data = tempfile::tempdir().unwrap();
    let database = Options::Sqlite { path: data.path().join("kiln.db") };
    let whole = Whole::start(data.path(), &database, |_| {}).await;
    let url = whole.app.config.local_url();
    let ready = reqwest::Client::builder().no_proxy().build().unwrap();
    let answer = ready.get(format!("{url}/ready")).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    whole.stop().await;
    assert!(ready.get(format!("{url}/health")).send().await.is_err());
    assert!(!data.path().join("kiln.db-wal").exists(), "the database is closed");
}
