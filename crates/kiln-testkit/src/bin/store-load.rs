//! Load on a store in a process of its own, to be killed: one line for each answer, nothing else.
//!
//! It ends when its standard input does, so that it never outlives the test that started it.

use std::io::{Read as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use kiln_store::{Options, Store};
use kiln_testkit::load::{Answered, Load, lose_runners, open_site};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [database, seed] = arguments.as_slice() else { return ExitCode::from(2) };
    let options = if database.starts_with("postgres://") {
        Options::Postgres { url: database.clone(), connections: 8 }
    } else {
        Options::Sqlite { path: database.into() }
    };
    let store = Store::open(&options).expect("the database is there");
    let site = open_site(store).await;
    lose_runners(&site).await;
    let seed = seed.parse().expect("the seed is a number");
    let load = Load::start(site, seed, Arc::new(|answered| say(&answered)));
    let (parent, gone) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = parent.send(());
    });
    let _ = tokio::time::timeout(Duration::from_mins(10), gone).await;
    drop(load);
    ExitCode::SUCCESS
}

/// A line is one write, which a pipe keeps together.
fn say(answered: &Answered) {
    let line = format!("{answered}\n");
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}
