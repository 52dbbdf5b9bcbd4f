//! What claims cost on PostgreSQL, as the server itself reports it: the plans that were really used,
//! with real parameters, by its extension `auto_explain`. They come as notices, which the driver logs.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use kiln_store::claims;
use kiln_store::{Options, Store, Tx};
use kiln_testkit::database::Database;
use kiln_testkit::queue::Depth;
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
    let listen = || std::mem::take(&mut *TOLD.lock().unwrap_or_else(PoisonError::into_inner));
    listen();
    let claimed = claim(store, asking(1, &[depth.queue], want, nonce)).await;
    assert_eq!(claimed.len(), want as usize);
    let mut costs: BTreeMap<String, Cost> = BTreeMap::new();
    for told in listen() {
        let text = told["Query Text"].as_str().unwrap();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let cost = Cost::of(&told["Plan"]);
        let sum = costs.entry(text).or_default();
        sum.pages += cost.pages;
        sum.whole_tables.extend(cost.whole_tables);
    }
    costs
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
    log::set_logger(&Ears).unwrap();
    log::set_max_level(log::LevelFilter::Info);
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
