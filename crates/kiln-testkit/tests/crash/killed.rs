//! kill -9 of the process, and of PostgreSQL, at random moments.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kiln_store::{Options, Store};
use kiln_testkit::cluster::Cluster;
use kiln_testkit::database::Database;
use kiln_testkit::dice::Dice;
use kiln_testkit::load::{Load, open_site};
use kiln_testkit::process::Worker;
use tokio::time::sleep;

use crate::{audit, recovers, rounds};

/// The program that works on a store until it is killed.
const LOAD: &str = env!("CARGO_BIN_EXE_store-load");

/// S4, S8: as many processes as work on the database at once are killed one after the other.
async fn what_a_killed_process_answered_is_there(database: Database, processes: u64) {
    let mut dice = Dice::new(4);
    let mut answers = Vec::new();
    let address = match &database.options {
        Options::Sqlite { path } => path.to_str().unwrap().to_owned(),
        Options::Postgres { url, .. } => url.clone(),
    };
    drop(open_site(database.open()).await);
    for round in 0..rounds(4) {
        let begun = answers.len();
        let start = |process: u64| {
            let seed = (round * processes + process).to_string();
            Worker::start(LOAD, &[&address, &seed])
        };
        let workers: Vec<Worker> = (0..processes).map(start).collect();
        for worker in &workers {
            worker.first_answer().await;
        }
        for worker in workers {
            sleep(Duration::from_millis(dice.below(500))).await;
            answers.extend(worker.kill());
        }
        assert!(answers.len() > begun);
        let site = open_site(database.open()).await;
        audit(&site, &answers, &format!("killed in round {round}")).await;
    }
    recovers(&open_site(database.open()).await, &answers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_process_on_sqlite_answered_survives_its_death() {
    what_a_killed_process_answered_is_there(Database::sqlite(), 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_process_on_postgres_answered_survives_its_death() {
    what_a_killed_process_answered_is_there(Database::postgres().await, 2).await;
}

/// S4, H3: the process lives on, asks again, and works as before when the database is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_postgres_answered_survives_its_death() {
    let mut cluster = Cluster::new().await;
    let options = Options::Postgres { url: cluster.url(), connections: 8 };
    let store = Store::open(&options).unwrap();
    let site = open_site(store).await;
    let answers = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&answers);
    let load =
        Load::start(site.clone(), 11, Arc::new(move |told| heard.lock().unwrap().push(told)));
    let mut dice = Dice::new(5);
    for round in 0..rounds(4) {
        let before = answers.lock().unwrap().len();
        while answers.lock().unwrap().len() < before + 20 {
            sleep(Duration::from_millis(5)).await;
        }
        sleep(Duration::from_millis(dice.below(400))).await;
        cluster.kill();
        let told = answers.lock().unwrap().clone();
        cluster.start().await;
        audit(&site, &told, &format!("killed in round {round}")).await;
    }
    let (trouble, doubts) = load.trouble();
    load.end().await;
    assert!(trouble + doubts > 0, "nobody noticed that the database was gone");
    let told = answers.lock().unwrap().clone();
    recovers(&site, &told).await;
}
