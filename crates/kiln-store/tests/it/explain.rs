//! What claims cost on PostgreSQL, as the server itself reports it: the plans that were really used,
//! with real parameters, by its extension `auto_explain`. They come as notices, which the driver logs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use kiln_core::id::{RunId, RunnerId};
use kiln_core::queue::Policy;
use kiln_core::run::{Conclusion, RunState};
use kiln_store::claims::{self, Asking};
use kiln_store::content::artifacts::{self, Which};
use kiln_store::content::caches::{self, Wanted};
use kiln_store::runs::{self, Answer, Look, RunFilter, RunStatus, Runs, Word};
use kiln_store::{Options, Page, Store, Traffic, Tx};
use kiln_testkit::database::Database;
use kiln_testkit::queue::Depth;
use kiln_testkit::runs::{Pushed, Site, like_others};
use serde_json::Value as Json;

use super::claims::{asking, claim};

/// Plans that the server has told.
static TOLD: Mutex<Vec<Json>> = Mutex::new(Vec::new());

struct Ears;

impl log::Log for Ears {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target().starts_with("tokio_postgres")
    }

    fn log(&self, record: &log::Record<'_>) {
        let text = record.args().to_string();
        if let Some(at) = text.find("plan:") {
            let plan = serde_json::from_str(&text[at + "plan:".len()..]).unwrap();
            TOLD.lock().unwrap_or_else(PoisonError::into_inner).push(plan);
        }
    }

    fn flush(&self) {}
}

/// Hears plans from now on. Each test is a process of its own.
fn listen() {
    log::set_logger(&Ears).unwrap();
    log::set_max_level(log::LevelFilter::Info);
}

/// What was told since the last question, by the texts of the statements.
fn told() -> BTreeMap<String, Cost> {
    let told = std::mem::take(&mut *TOLD.lock().unwrap_or_else(PoisonError::into_inner));
    let mut costs: BTreeMap<String, Cost> = BTreeMap::new();
    for told in told {
        let text = told["Query Text"].as_str().unwrap();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let cost = Cost::of(&told["Plan"]);
        let sum = costs.entry(text).or_default();
        sum.pages += cost.pages;
        sum.whole_tables.extend(cost.whole_tables);
    }
    costs
}

/// A store whose server tells how it goes about each statement.
fn watched(options: &Options) -> Store {
    let Options::Postgres { url, .. } = options else { panic!("{options:?}") };
    let settings = "-c session_preload_libraries=auto_explain -c client_min_messages=log \
        -c auto_explain.log_min_duration=0 -c auto_explain.log_analyze=on \
        -c auto_explain.log_buffers=on -c auto_explain.log_timing=off \
        -c auto_explain.log_format=json";
    let url = format!("{url}?options={}", settings.replace(' ', "%20").replace('=', "%3D"));
    Store::open(&Options::Postgres { url, connections: 1 }).unwrap()
}

/// What one statement did.
#[derive(Debug, Clone, Default)]
struct Cost {
    /// Pages that were looked at.
    pages: u64,
    /// Tables that were read from end to end.
    whole_tables: Vec<String>,
}

impl Cost {
    fn of(plan: &Json) -> Self {
        let number = |field: &str| plan[field].as_u64().unwrap_or(0);
        let pages = number("Shared Hit Blocks") + number("Shared Read Blocks");
        let mut whole_tables = Vec::new();
        whole(plan, &mut whole_tables);
        Self { pages, whole_tables }
    }
}

fn whole(plan: &Json, found: &mut Vec<String>) {
    if plan["Node Type"] == "Seq Scan" {
        found.push(plan["Relation Name"].as_str().unwrap_or("?").to_owned());
    }
    for part in plan["Plans"].as_array().into_iter().flatten() {
        whole(part, found);
    }
}

/// The costs of all statements of one claim of so many jobs, by their texts.
async fn costs(store: &Store, depth: &Depth, want: u32, nonce: &str) -> BTreeMap<String, Cost> {
    told();
    let claimed = claim(store, asking(1, &[depth.queue], want, nonce)).await;
    assert_eq!(claimed.len(), want as usize);
    told()
}

/// Indexes may have become a level or two deeper, with 8 jobs looked up in each, or a page of one is split.
fn check_growth(before: &BTreeMap<String, Cost>, after: &BTreeMap<String, Cost>) {
    for (text, cost) in after {
        let before = before.get(text).map_or(0, |cost| cost.pages);
        assert!(cost.pages <= before + 96, "{text}\n{before} pages, then {}", cost.pages);
    }
}

async fn analyze(store: &Store) {
    store.write(async |tx: &mut Tx<'_>| tx.execute("ANALYZE", &[]).await).await.unwrap();
}

/// No table that grows is read from end to end, and every statement of a claim that must be there is.
fn check_plans(costs: &BTreeMap<String, Cost>) {
    for (text, cost) in costs {
        assert!(cost.whole_tables.is_empty(), "{text}\nreads all of {:?}", cost.whole_tables);
    }
    for (verb, table) in [
        ("SELECT", "FROM lanes"),
        ("SELECT", "FROM queue"),
        ("DELETE", "FROM queue"),
        ("SELECT", "FROM jobs"),
        ("INSERT", "INTO jobs"),
        ("SELECT", "FROM leases"),
        ("INSERT", "INTO leases"),
        ("SELECT", "FROM organizations"),
        ("SELECT", "FROM repositories"),
        ("SELECT", "FROM usage_deltas"),
        ("INSERT", "INTO usage_deltas"),
        ("INSERT", "INTO events"),
    ] {
        let is = |text: &&String| text.starts_with(verb) && text.contains(table);
        assert!(costs.keys().any(|text| is(&text)), "no {verb} … {table} in {costs:#?}");
    }
}

/// Q3: the same pages are looked at whether a thousand jobs wait or a million, also while somebody holds
/// an old snapshot, so that nothing that was taken can leave the indexes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_costs_the_same_however_many_jobs_wait() {
    listen();
    let database = Database::postgres().await;
    let store = database.open();
    store.migrate().await.unwrap();
    let watched = watched(&database.options);
    let mut depth = Depth::new(&store, 2, 4).await;
    // The worst that can happen: the plans are made and kept while there is next to nothing.
    depth.fill(&store, 16).await;
    analyze(&store).await;
    costs(&watched, &depth, 8, "warm").await;
    depth.fill(&store, 1_000).await;
    let few = costs(&watched, &depth, 8, "few").await;
    check_plans(&few);

    depth.fill(&store, 1_000_000).await;
    let many = costs(&watched, &depth, 8, "many").await;
    check_plans(&many);
    check_growth(&few, &many);

    let snapshot = hold_snapshot(&database.options).await;
    for number in 0..40_u32 {
        let claimed = claim(&store, asking(2, &[depth.queue], 100, &number.to_string())).await;
        assert_eq!(claimed.len(), 100);
        if number % 4 == 3 {
            claims::tidy_lanes(&store).await.unwrap();
        }
    }
    let after_tidying = costs(&watched, &depth, 8, "after 4000").await;
    check_plans(&after_tidying);
    check_growth(&many, &after_tidying);
    drop(snapshot);
}

/// A transaction that sees the queue as it is now until it is dropped.
async fn hold_snapshot(options: &Options) -> tokio_postgres::Client {
    let Options::Postgres { url, .. } = options else { panic!("{options:?}") };
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM lanes";
    client.batch_execute(begin).await.unwrap();
    client
}

/// R8, R9: what a job looks for is found by an index, however much a repository has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looking_for_caches_and_artifacts_costs_the_same_however_many_there_are() {
    listen();
    let database = Database::postgres().await;
    let store = database.open();
    store.migrate().await.unwrap();
    let acme = crate::world::world(&store, "acme").await;
    let (repo, scope, watched) = (acme.repo, acme.scope(), watched(&database.options));
    let wanted = Wanted {
        repo,
        trusts: vec!["trusted".to_owned()],
        refs: vec!["refs/heads/main".to_owned()],
        key: "key-77777-".to_owned(),
        restore_keys: vec!["none-".to_owned()],
        version: "v".to_owned(),
    };
    let which =
        |run, name: Option<&str>| Which { repo, run, name: name.map(str::to_owned), trust: None };
    let questions = [
        which(None, None),
        which(None, Some("a-77777")),
        which(Some(RunId(77_777)), None),
        which(Some(RunId(77_777)), Some("a-77777")),
    ];
    let look = async || {
        told();
        let (wanted, questions) = (wanted.clone(), questions.clone());
        let look = async move |tx: &mut Tx<'_>| {
            caches::look_up(tx, scope, &wanted).await?;
            for which in &questions {
                artifacts::search(tx, scope, which, 0, 30).await?;
            }
            Ok(())
        };
        watched.read(look).await.unwrap();
        told()
    };
    let fill = async |from: i64, to: i64| {
        let fill = async move |tx: &mut Tx<'_>| {
            let sql = "INSERT INTO caches (org_id, repo_id, ref, trust, key, version, size, created_at, \
                       finalized_at, used_at) SELECT $1, $2, 'refs/heads/main', 'trusted', \
                       'key-' || n || '-x', 'v', 1, n, n, n FROM generate_series($3::bigint, $4::bigint) AS n";
            let given = [acme.org.into(), repo.into(), from.into(), to.into()];
            tx.execute(sql, &given).await?;
            let sql = "INSERT INTO artifacts (org_id, repo_id, run_id, attempt, name, size, content_type, \
                       trust, created_at, finalized_at) SELECT $1, $2, n, 1, 'a-' || n, 1, 'x', \
                       'trusted', n, n FROM generate_series($3::bigint, $4::bigint) AS n";
            tx.execute(sql, &given).await
        };
        store.write(fill).await.unwrap();
        analyze(&store).await;
    };
    fill(1_000_000, 1_001_000).await;
    look().await;
    let few = look().await;
    fill(1, 200_000).await;
    let many = look().await;
    assert!(many.len() >= 5, "{many:#?}");
    for (text, cost) in &many {
        assert!(cost.whole_tables.is_empty(), "{text}\nreads all of {:?}", cost.whole_tables);
    }
    check_growth(&few, &many);
}

/// O1 O7: a page of runs and the history of a runner look at as much among 100,000 as among 3,000, however rare what
/// fits is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rare_runs_and_histories_cost_the_same_however_many_there_are() {
    listen();
    let database = Database::postgres().await;
    let store = database.open();
    let site = Site::new(store.clone()).await;
    let watched = watched(&database.options);
    let scope = kiln_testkit::runs::SYSTEM;
    let text = |text: &str| Some(text.to_owned());
    let filters = [
        RunFilter { text: text("nowhere"), ..RunFilter::default() },
        RunFilter { actor: text("nobody"), ..RunFilter::default() },
        RunFilter { branch: text("nowhere"), event: text("fork"), ..RunFilter::default() },
        RunFilter { repo: Some(site.repo), text: text("nowhere"), ..RunFilter::default() },
        RunFilter { repo: Some(site.repo), branch: text("nowhere"), ..RunFilter::default() },
        RunFilter { conclusion: Some(Conclusion::TimedOut), ..RunFilter::default() },
        RunFilter { status: Some(RunStatus::InProgress), ..RunFilter::default() },
    ];
    let org = kiln_store::Scope::Org(site.org);
    let ask = async || {
        told();
        let filters = filters.clone();
        let ask = async move |tx: &mut Tx<'_>| {
            for filter in &filters {
                let look = Look { from: None, newer: false, limit: 40, most: 1_000 };
                assert!(runs::look(tx, scope, filter, look).await?.runs.is_empty());
            }
            let open = RunFilter { status: Some(RunStatus::Pending), ..RunFilter::default() };
            for scope in [scope, org] {
                assert!(runs::search(tx, scope, &open, Page::first(6)).await?.is_empty());
            }
            let past = claims::Past { before: None, limit: 40, most: 1_000 };
            let runner = RunnerId(77);
            assert!(claims::history(tx, scope, runner, past).await?.0.is_empty());
            runs::latest_of_workflows(tx, scope, None, (100, 9)).await
        };
        watched.read(ask).await.unwrap();
        told()
    };
    let fill = async |from: i64, to: i64| {
        let fill = async move |tx: &mut Tx<'_>| {
            let sql = "INSERT INTO runs (id, org_id, repo_id, workflow_id, run_number, event, actor, trust, ref, \
                       head_sha, head_branch, title, status, conclusion, created_at, started_at, ended_at) \
                       SELECT n, $1, $2, $3, n, 'push', 'ada', 'trusted', 'refs/heads/main', '0', 'main', \
                       'a push', 'completed', 'success', n, n, n FROM generate_series($4::bigint, $5::bigint) AS n";
            let given =
                [site.org.into(), site.repo.into(), site.workflow.into(), from.into(), to.into()];
            tx.execute(sql, &given).await?;
            let sql = "INSERT INTO jobs (run_id, attempt, number, id, node, leg_index, origin_attempt, name, state, \
                       conclusion, runner_id, claim, retries, losses, cancelling, tolerated) \
                       SELECT n, 1, 0, n * 1048576, 0, 0, 1, 'a', 'done', 'success', 1, 1, 0, 0, 0, 0 \
                       FROM generate_series($1::bigint, $2::bigint) AS n";
            tx.execute(sql, &[from.into(), to.into()]).await
        };
        store.write(fill).await.unwrap();
        analyze(&store).await;
    };
    fill(1, 3_000).await;
    ask().await;
    let few = ask().await;
    fill(3_001, 100_000).await;
    let many = ask().await;
    assert!(many.len() >= 10, "{many:#?}");
    let mut wrong = Vec::new();
    for (text, cost) in &many {
        // What is known of the few repositories may be read as a whole.
        let grown: Vec<&String> = cost
            .whole_tables
            .iter()
            .filter(|table| table.starts_with("runs") || table.starts_with("jobs"))
            .collect();
        let before = few.get(text).map_or(0, |cost| cost.pages);
        if !grown.is_empty() || cost.pages > before + 96 {
            wrong.push(format!("{text}\n{before} pages, then {}, all of {grown:?}", cost.pages));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const THREE: &str = "
  one: {runs-on: linux, steps: [{run: x}]}
  two: {runs-on: linux, steps: [{run: x}]}
  all: {needs: [one, two], runs-on: linux, steps: [{run: x}]}
";

/// Issue 4: a server reads no rows of a run that it wrote itself last, and looks for the lock of the run by an index,
/// however many runs there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_happens_to_a_run_is_written_without_reading_it() {
    listen();
    let database = Database::postgres().await;
    let store = database.open();
    let mut site = Site::new(store.clone()).await;
    site.runs = Runs::new(watched(&database.options), Arc::new(Pushed));
    let few = story(&site, 1).await;
    let fill = async |tx: &mut Tx<'_>| {
        let sql = "INSERT INTO run_attempts (run_id, attempt, org_id, repo_id, plan, context, actor, trust, class, \
                   state, created_at) SELECT n, 1, 1, 1, '', '', 'ada', 'trusted', 'normal', 'active', 0 \
                   FROM generate_series(1000, 100000) AS n";
        tx.execute(sql, &[]).await
    };
    store.write(fill).await.unwrap();
    analyze(&store).await;
    let many = story(&site, 2).await;
    check_growth(&few, &many);
}

/// The costs of a start and an end that are remembered.
async fn story(site: &Site, runner: i64) -> BTreeMap<String, Cost> {
    let run = site.run(THREE).await;
    let claims = Traffic::new(&site.runs, Policy::Fair);
    let asking = Asking::new(RunnerId(runner), site.queues().await, 2, "nonce");
    let jobs = claims.claim(asking).await.unwrap().jobs;
    assert_eq!(jobs.len(), 2);
    told();
    for job in &jobs {
        assert_eq!(site.finish(job, runner, Conclusion::Success).await, Answer::Accepted);
    }
    let costs = told();
    for (text, cost) in &costs {
        assert!(!reads_rows(text), "{text}");
        assert!(cost.whole_tables.is_empty(), "{text}\nreads all of {:?}", cost.whole_tables);
    }
    assert!(costs.keys().any(|text| text.contains("FROM run_attempts")), "{costs:#?}");

    // What somebody else may have changed is read.
    let change = async |tx: &mut Tx<'_>| {
        like_others(tx).await?;
        tx.execute("UPDATE run_scopes SET open = open WHERE number = 0", &[]).await
    };
    site.store().write(change).await.unwrap();
    let last = claims.claim(Asking::new(RunnerId(runner), site.queues().await, 1, "last")).await;
    let last = last.unwrap().jobs.remove(0);
    told();
    assert_eq!(site.finish(&last, runner, Conclusion::Success).await, Answer::Accepted);
    assert!(told().keys().any(|text| reads_rows(text)));
    assert_eq!(site.view(run).await.state, RunState::Done(Conclusion::Success));
    costs
}

/// Whether a statement asks for rows of a run below its attempt.
fn reads_rows(text: &str) -> bool {
    let tables = [" jobs ", " run_nodes ", " run_scopes "];
    text.starts_with("SELECT") && tables.iter().any(|table| text.contains(table))
}

/// What jobs say can be long, and a server must not be filled with it: such a run is read anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_jobs_say_much_is_read_each_time() {
    listen();
    let database = Database::postgres().await;
    let mut site = Site::new(database.open()).await;
    site.runs = Runs::new(watched(&database.options), Arc::new(Pushed));
    for (runner, length, is_read) in [(1, 1 << 10, false), (2, 100 << 10, true)] {
        site.run(THREE).await;
        let claims = Traffic::new(&site.runs, Policy::Fair);
        let asking = Asking::new(RunnerId(runner), site.queues().await, 2, "nonce");
        let jobs = claims.claim(asking).await.unwrap().jobs;
        let outputs = vec![("said".to_owned(), "x".repeat(length))];
        let says = Word::Ran { preparing: None, conclusion: Conclusion::Success, outputs };
        assert_eq!(site.say(&jobs[0], runner, says).await, Answer::Accepted);
        told();
        assert_eq!(site.say(&jobs[1], runner, Word::Started).await, Answer::Accepted);
        assert_eq!(told().keys().any(|text| reads_rows(text)), is_read, "{length}");
        let end = Word::Finished { conclusion: Conclusion::Failure, outputs: Vec::new() };
        assert_eq!(site.say(&jobs[1], runner, end).await, Answer::Accepted);
    }
}
