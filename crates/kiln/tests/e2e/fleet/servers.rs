//! Two and three servers on one PostgreSQL.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::load::{Load, Storm, close, figure};
use super::world::{Program, Server, job};
use super::{Kind, World};

/// H2
#[test]
fn two_servers_share_the_work_and_one_can_die() {
    let world = World::new(Kind::Postgres);
    let one = world.server("one");
    let two = world.server("two").with_token_of(&one);
    let _left = world.runner(&one, "left", &["linux", "left"]);
    let _right = world.runner(&two, "right", &["linux", "right"]);
    world.repository(
        &one,
        "app",
        "
on: push
jobs:
  left:
    runs-on: [linux, left]
    steps: [{ run: 'true' }]
  right:
    needs: left
    runs-on: [linux, right]
    steps: [{ run: 'true' }]
",
    );
    // Triggered on one, seen on both; each job runs at the server that has its runner.
    let run = world.trigger(&one, "app");
    let ended = world.ended(&two, run);
    assert_eq!(ended["conclusion"], "success", "{ended:#}");
    assert_eq!(job(&ended, "right")["runner"], "right");
    // The one dies; the other takes over its duties and goes on.
    one.program.kill();
    let health = world.get(&two, "/ready");
    assert!(!health.is_null());
    world.until(&two, "the other leads", |world| leads(world, &two).then_some(()));
}

/// Whether a server does all duties there are.
fn leads(world: &World, server: &Server) -> bool {
    let duties = world.get(server, "/api/duties");
    let all = duties.as_array().expect("duties are a list");
    !all.is_empty() && all.iter().all(|duty| duty["here"] == true)
}

/// Three servers whose logs are in one folder, as on a shared disk, and a runner at each.
fn three(world: &World) -> (Vec<Server>, Vec<Program>) {
    let logs = world.place.below("logs");
    let mut servers: Vec<Server> = Vec::new();
    for name in ["a", "b", "c"] {
        let link = world.place.below(name).path().join("logs");
        std::os::unix::fs::symlink(logs.path(), link).expect("the place is ours");
        let server = world.server(name);
        let server = match servers.first() {
            Some(first) => server.with_token_of(first),
            None => server,
        };
        servers.push(server);
    }
    let more = ["--jobs", "2"];
    let runner = |server: &Server| world.runner_with(server, &server.name, &["linux"], &more);
    let runners = servers.iter().map(runner).collect();
    (servers, runners)
}

/// PostgreSQL gives the lock of a dead leader back when its connection breaks. The others ask twice in a
/// second, and so do their duties: 2 s on a quiet machine, and 3 s more where it is busy.
const TAKEOVER: Duration = Duration::from_secs(5);

/// H2
#[test]
fn when_the_leader_of_three_servers_dies_another_leads_within_five_seconds() {
    let world = World::new(Kind::Postgres);
    let mut storm = Storm::new(4, 2);
    let (mut servers, runners) = three(&world);
    let mut load = Load::new(&world, &servers[0], 5);
    load.trigger(&servers[0], storm.runs);
    let mut longest = Duration::ZERO;
    for _ in 0..storm.faults {
        let at = world.until(&servers[0], "one of them leads", |world| {
            servers.iter().position(|server| leads(world, server))
        });
        storm.pause(1_000);
        let leader = servers.remove(at);
        let (name, listen) = (leader.name.clone(), leader.listen());
        leader.program.kill();
        let begun = Instant::now();
        world.until(&servers[0], "another leads", |world| {
            servers.iter().any(|server| leads(world, server)).then_some(())
        });
        longest = longest.max(begun.elapsed());
        let again = world.server_at(&name, &listen).with_token_of(&servers[0]);
        servers.push(again);
    }
    figure(&format!("the longest time without a leader: {longest:.2?}"));
    assert!(longest <= TAKEOVER, "{longest:?} without a leader");
    assert_eq!(load.audit(&servers[0]), 1, "a server that dies costs no job");
    close(&world, servers, runners);
}

/// A client that asks one server after the other, again and again, and repeats what got no answer.
struct Client {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(u32, u32)>,
}

impl Client {
    fn start(servers: &[Server]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&stop);
        let urls: Vec<String> =
            servers.iter().map(|server| format!("{}/api/runs", server.address)).collect();
        let token = servers[0].token().to_owned();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let client = reqwest::Client::builder().no_proxy().build().expect("it needs nothing");
            runtime.expect("a thread may have one").block_on(async {
                let (mut calls, mut repeats) = (0, 0);
                while !is_over.load(Ordering::Relaxed) {
                    calls += 1;
                    repeats += call(&client, &urls, &token).await;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                (calls, repeats)
            })
        });
        Self { stop, thread }
    }

    /// How many calls it made, and how many of their tries had to be repeated.
    fn end(self) -> (u32, u32) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("no call failed for good")
    }
}

/// One call: it must be answered by one of the servers before each was asked three times.
async fn call(client: &reqwest::Client, urls: &[String], token: &str) -> u32 {
    for (tries, url) in urls.iter().cycle().take(3 * urls.len()).enumerate() {
        let answer =
            client.get(url).bearer_auth(token).timeout(Duration::from_secs(10)).send().await;
        match answer {
            Ok(answer) if answer.status().is_success() => {
                return u32::try_from(tries).unwrap_or(u32::MAX);
            }
            Ok(answer) => {
                let status = answer.status().as_u16();
                assert!(status == 503 || status == 502, "{url}: {status}");
            }
            Err(_) => {}
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("no server answered");
}

/// H2
#[test]
fn three_servers_are_restarted_one_after_the_other_and_nobody_notices() {
    let world = World::new(Kind::Postgres);
    let storm = Storm::new(4, 3);
    let (mut servers, runners) = three(&world);
    let mut load = Load::new(&world, &servers[0], 5);
    let client = Client::start(&servers);
    load.trigger(&servers[0], storm.runs);
    for _ in 0..storm.faults.max(3) {
        let next = servers.remove(0);
        let (name, listen) = (next.name.clone(), next.listen());
        assert_eq!(next.program.stop(), 0, "it ends in order");
        // There are always others that take what comes.
        load.trigger(&servers[0], 1);
        let again = world.server_at(&name, &listen).with_token_of(&servers[0]);
        servers.push(again);
    }
    assert_eq!(load.audit(&servers[0]), 1, "a server that goes in order costs no job");
    let (calls, repeats) = client.end();
    figure(&format!("{calls} calls, {repeats} tries of them repeated, none failed"));
    assert!(calls > 20, "{calls}");
    close(&world, servers, runners);
}
