//! What the server finds out about its own health, each with what to do about it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kiln_core::queue::{Capabilities, Offer, matches, why_not};
use kiln_core::time::Timestamp;
use kiln_proto::api::Checkup;
use kiln_proto::{runner, version};
use kiln_store::claims::{self, Lease};
use kiln_store::directory::queues::{self, Queue};
use kiln_store::directory::repositories;
use kiln_store::directory::runners::{self, Listed, RunnerState};
use kiln_store::directory::settings::{self, Pause};
use kiln_store::outbox::{self, Parked};
use kiln_store::{Duty, Options, Page, Scope, StoreError, Tx};
use tokio::time::{Instant, timeout};

use crate::app::App;
use crate::clock;
use crate::config::Place;

const SCOPE: Scope = Scope::System(Duty::Administration);
/// How long the database may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// A question that takes longer makes everything slow.
const SLOW: Duration = Duration::from_millis(100);
/// Clocks that differ by more confuse people, and what signed tokens are good for.
const CLOCKS: Duration = Duration::from_secs(5);
/// A runner that has a job and does not begin with it for so long is in trouble.
const BEGIN: Duration = Duration::from_secs(30);
/// How many things of a kind are looked at.
const MOST: u32 = 1_000;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Ok,
    Warning,
    Error,
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// What is found, in the order in which it is looked at.
#[derive(Debug, Default)]
struct Findings(Vec<Checkup>);

impl Findings {
    fn ok(&mut self, what: &str, finding: impl Into<String>) {
        self.add(Level::Ok, what, finding.into(), None);
    }

    fn warn(&mut self, what: &str, finding: impl Into<String>, advice: impl Into<String>) {
        self.add(Level::Warning, what, finding.into(), Some(advice.into()));
    }

    fn error(&mut self, what: &str, finding: impl Into<String>, advice: impl Into<String>) {
        self.add(Level::Error, what, finding.into(), Some(advice.into()));
    }

    fn add(&mut self, level: Level, what: &str, finding: String, advice: Option<String>) {
        let (level, what) = (level.word().to_owned(), what.to_owned());
        self.0.push(Checkup { level, what, finding, advice });
    }
}

/// All that is read of the database, at one moment.
struct Read {
    now: Timestamp,
    runners: Vec<Listed>,
    queues: Vec<Queue>,
    leases: Vec<(String, Lease)>,
    parked: Vec<Parked>,
    pause: Option<Pause>,
    paused_repositories: Vec<(String, String)>,
}

/// Looks at everything.
pub async fn examine(app: &App) -> Vec<Checkup> {
    let mut findings = Findings::default();
    let begun = Instant::now();
    let read = timeout(PATIENCE, app.store.read(async |tx: &mut Tx<'_>| look(tx).await)).await;
    let took = begun.elapsed();
    match read {
        Ok(Ok(read)) => {
            database(app, took, &mut findings).await;
            servers(app, &mut findings).await;
            clocks(read.now, &mut findings);
            fleet(&read, &mut findings);
            stuck(&read, &mut findings);
            rest(&read, &mut findings);
        }
        Ok(Err(error)) => findings.error(
            "database",
            format!("it cannot be read: {error}"),
            "look at the database itself; Kiln goes on by itself when it is back",
        ),
        Err(_) => findings.error(
            "database",
            format!("it does not answer within {} s", PATIENCE.as_secs()),
            "look whether it is overloaded, or locked by another program",
        ),
    }
    disks(app, &mut findings);
    duties(app, &mut findings);
    findings.0
}

async fn look(tx: &mut Tx<'_>) -> Result<Read, StoreError> {
    let runners = all_runners(tx).await?;
    let mut leases = Vec::new();
    for listed in runners.iter().filter(|listed| listed.runner.leases > 0) {
        let held = claims::leases_of(tx, listed.runner.id).await?;
        leases.extend(held.into_iter().map(|lease| (listed.runner.name.clone(), lease)));
    }
    Ok(Read {
        now: tx.now(),
        runners,
        queues: queues::list(tx, SCOPE, Page::first(MOST)).await?,
        leases,
        parked: outbox::parked(tx, SCOPE, 100).await?,
        pause: settings::server_pause(tx).await?,
        paused_repositories: repositories::paused(tx, SCOPE, Page::first(MOST)).await?,
    })
}

/// A fleet may be larger than a page.
async fn all_runners(tx: &mut Tx<'_>) -> Result<Vec<Listed>, StoreError> {
    let (mut all, mut page) = (Vec::new(), Page::first(Page::LARGEST));
    loop {
        let piece = runners::list_all(tx, SCOPE, page).await?;
        let Some(last) = piece.last().map(|listed| listed.runner.id) else { return Ok(all) };
        all.extend(piece);
        page = Page::after(last.0, Page::LARGEST);
    }
}

/// Servers that share a database must share what lies beside it. The data folder is locked by one of them, so what
/// is below it is not shared.
async fn servers(app: &App, findings: &mut Findings) {
    let Ok(count @ 2..) = app.store.servers().await else { return };
    let config = &app.config;
    let Place::Folder(bytes) = &config.storage.place else {
        findings.ok("servers", format!("{count} servers share the database and the bucket"));
        return;
    };
    let own = [("logs", "logs_folder", &config.logs_folder), ("bytes", "storage.folder", bytes)];
    let mut shared = true;
    for (what, setting, folder) in own {
        if whole(folder).starts_with(whole(&config.data)) {
            shared = false;
            findings.warn(
                "servers",
                format!(
                    "{count} servers share the database, but {what} lie in `{}`, which only this one sees",
                    folder.display()
                ),
                format!(
                    "set `{setting}` to a folder that all servers share, or `storage.s3_bucket` to a bucket"
                ),
            );
        }
    }
    if shared {
        findings.ok("servers", format!("{count} servers share the database and its folders"));
    }
}

/// A path that means the same wherever one stands.
fn whole(path: &Path) -> PathBuf {
    let found = path.canonicalize().or_else(|_| std::path::absolute(path));
    found.unwrap_or_else(|_| path.to_owned())
}

async fn database(app: &App, took: Duration, findings: &mut Findings) {
    let shown = &app.config.database;
    let millis = took.as_millis();
    match app.store.describe().await {
        Ok(about) if about.version != about.newest => findings.error(
            "database",
            format!("`{shown}` has schema {}, this server knows {}", about.version, about.newest),
            "restart the server: it brings the schema up to date when it starts",
        ),
        Ok(about) => {
            let megabytes = about.bytes / 1_000_000;
            let finding = format!(
                "`{shown}` answers in {millis} ms, has schema {} and {megabytes} MB",
                about.version
            );
            if took > SLOW {
                findings.warn("database", finding, "look at its load, its disk and the network");
            } else {
                findings.ok("database", finding);
            }
        }
        Err(error) => findings.error(
            "database",
            format!("`{shown}` cannot be described: {error}"),
            "`kiln db status` may say more",
        ),
    }
}

fn clocks(database: Timestamp, findings: &mut Findings) {
    let own = clock::now();
    let apart = own.since(database).max(database.since(own));
    if apart > CLOCKS {
        let seconds = apart.as_secs();
        findings.warn(
            "clock",
            format!("the server's clock and the database's are {seconds} s apart"),
            "set the clocks of both machines by NTP",
        );
    } else {
        findings.ok("clock", "the server's clock and the database's agree");
    }
}

fn fleet(read: &Read, findings: &mut Findings) {
    if read.runners.is_empty() {
        findings.warn(
            "runners",
            "there is no runner: jobs wait for one",
            "`kiln runners key` makes a key and says how a runner is started; on a server without organizations, \
             `kiln runners key --owner NAME` makes one with it",
        );
        return;
    }
    let mut live = 0;
    for listed in &read.runners {
        let runner = &listed.runner;
        let name = &runner.name;
        let is_silent = matches!(runner.state, RunnerState::Offline | RunnerState::Forgotten);
        if is_silent {
            let minutes = read.now.since(runner.last_seen_at).as_secs() / 60;
            findings.warn(
                "runners",
                format!("runner `{name}` was not heard of for {minutes} min"),
                "look at its machine; if it is gone for good, `kiln runners remove` forgets it",
            );
            continue;
        }
        live += 1;
        let protocol = runner.about.protocol;
        if protocol < i64::from(version::OLDEST) || protocol > i64::from(version::PROTOCOL) {
            findings.error(
                "runners",
                format!(
                    "runner `{name}` speaks protocol {protocol}, this server {} to {}",
                    version::OLDEST,
                    version::PROTOCOL
                ),
                "install the same version of Kiln there",
            );
        } else if runner.about.version != env!("CARGO_PKG_VERSION") {
            let (theirs, ours) = (&runner.about.version, env!("CARGO_PKG_VERSION"));
            let finding = format!("runner `{name}` is Kiln {theirs}, this server {ours}");
            findings.warn("runners", finding, "it works; update it when it suits");
        }
        if let Some(trouble) = trouble(runner.health.as_deref()) {
            let finding = format!("runner `{name}` takes no jobs: {trouble}");
            findings.warn("runners", finding, "help its machine; it goes on by itself");
        }
    }
    if live > 0 {
        findings.ok("runners", format!("{live} of {} are there", read.runners.len()));
    }
}

fn trouble(health: Option<&str>) -> Option<String> {
    serde_json::from_str::<runner::Health>(health?).ok()?.trouble
}

/// Jobs that wait for nothing that will come, and jobs of which nothing is heard.
fn stuck(read: &Read, findings: &mut Findings) {
    let live = read.runners.iter().filter(|listed| {
        matches!(listed.runner.state, RunnerState::Online | RunnerState::Busy)
            && !listed.runner.draining
    });
    let live: Vec<Capabilities> = live.map(offer).collect();
    let (mut waiting, mut hopeless) = (0, 0);
    for queue in &read.queues {
        waiting += queue.waiting;
        if queue.waiting == 0 || queue.paused.is_some() {
            continue;
        }
        if live.iter().any(|has| matches(&queue.requirements, has)) {
            continue;
        }
        hopeless += queue.waiting;
        let lacks = live.iter().find_map(|has| why_not(&queue.requirements, has));
        let why =
            lacks.map_or_else(|| "none is there".to_owned(), |lacks| format!("one has {lacks}"));
        findings.error(
            "queue",
            match queue.waiting {
                1 => format!(
                    "1 job waits for {} and no runner can take it: {why}",
                    queue.requirements
                ),
                many => format!(
                    "{many} jobs wait for {} and no runner can take them: {why}",
                    queue.requirements
                ),
            },
            "start a runner with these labels, or change `runs-on`",
        );
    }
    let mut quiet: BTreeMap<&str, u64> = BTreeMap::new();
    for (runner, lease) in &read.leases {
        if lease.expires < read.now {
            *quiet.entry(runner).or_default() += 1;
        } else if !lease.acknowledged && read.now.since(lease.claimed) > BEGIN {
            findings.warn(
                "jobs",
                format!("runner `{runner}` has job {} and does not begin", lease.job.slug()),
                "look at the runner's log; the job goes back when its lease ends",
            );
        }
    }
    for (runner, count) in quiet {
        findings.warn(
            "jobs",
            format!("runner `{runner}` has {} and is not heard of", self::count(count, "job")),
            "what it has goes back to the queue in a moment; look at its machine",
        );
    }
    if hopeless == 0 {
        let held = read.leases.len();
        let wait =
            if waiting == 1 { "1 job waits".to_owned() } else { format!("{waiting} jobs wait") };
        let run = if held == 1 { "runs" } else { "run" };
        findings.ok("queue", format!("{wait}, {held} {run}"));
    }
}

fn count(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

fn offer(listed: &Listed) -> Capabilities {
    let said = Capabilities::parse(&listed.runner.about.capabilities).unwrap_or_default();
    let offer = Offer { pool: Some(listed.pool_name.clone()), ..said.offer().clone() };
    Capabilities::new(offer).unwrap_or_default()
}

fn rest(read: &Read, findings: &mut Findings) {
    match read.parked.first() {
        None => findings.ok("outbox", "no task was put aside"),
        Some(latest) => findings.error(
            "outbox",
            format!(
                "{} failed too often and {} put aside, the latest: {}",
                count(read.parked.len() as u64, "task"),
                if read.parked.len() == 1 { "was" } else { "were" },
                latest.error
            ),
            "mend the reason, then `kiln duties retry --all`; `kiln duties tasks` lists them",
        ),
    }
    pauses(read, findings);
}

/// What waits because somebody wants it to.
fn pauses(read: &Read, findings: &mut Findings) {
    if let Some(pause) = &read.pause {
        findings.warn(
            "pause",
            format!("the server is paused by {}: {}", pause.by, pause.reason),
            "`kiln resume` lets jobs start again",
        );
    }
    for queue in read.queues.iter().filter(|queue| queue.paused.is_some()) {
        let reason = queue.paused.as_deref().unwrap_or_default();
        findings.warn(
            "pause",
            format!("queue {} is paused: {reason}", queue.id),
            format!("`kiln resume --queue {}` lets its jobs start again", queue.id),
        );
    }
    for (name, reason) in &read.paused_repositories {
        findings.warn(
            "pause",
            format!("repository `{name}` is paused: {reason}"),
            format!("`kiln resume --repo {name}` lets its jobs start again"),
        );
    }
}

fn disks(app: &App, findings: &mut Findings) {
    let config = &app.config;
    disk("the data folder", &config.data, findings);
    let database = match &config.database {
        Options::Sqlite { path } => path.parent(),
        Options::Postgres { .. } => None,
    };
    let (bytes, logs) = match &config.storage.place {
        Place::Folder(folder) => (Some(folder.as_path()), Some(config.logs_folder.as_path())),
        // Logs lie in the bucket, too.
        Place::S3(_) => (None, None),
    };
    let elsewhere =
        [("the database", database), ("the logs", logs), ("artifacts and caches", bytes)];
    for (what, folder) in elsewhere {
        // One that is not there yet will be made.
        let folder = folder.and_then(|folder| folder.ancestors().find(|path| path.exists()));
        if let Some(folder) = folder.filter(|folder| !is_same_disk(folder, &config.data)) {
            disk(what, folder, findings);
        }
    }
}

/// What is below the data folder may be a disk of its own, and what is beside it on the same one.
fn is_same_disk(folder: &Path, data: &Path) -> bool {
    let disk_of = |path: &Path| rustix::fs::stat(path).ok().map(|about| about.st_dev);
    disk_of(folder) == disk_of(data)
}

/// How much room there is.
fn disk(what: &str, path: &Path, findings: &mut Findings) {
    let shown = path.display();
    let Ok(about) = rustix::fs::statvfs(path) else {
        findings.error("disk", format!("`{shown}` cannot be looked at"), "does it still exist?");
        return;
    };
    let free = about.f_bavail.saturating_mul(about.f_frsize);
    let all = about.f_blocks.saturating_mul(about.f_frsize).max(1);
    let (megabytes, percent) = (free / 1_000_000, free.saturating_mul(100) / all);
    let finding = format!("{what} `{shown}` has {megabytes} MB left, {percent} %");
    let advice =
        "make room, or keep less: `keep.logs`, `keep.runs` and `limits.log` in the settings";
    if megabytes < 200 || percent < 1 {
        findings.error("disk", finding, advice);
    } else if megabytes < 2_000 || percent < 5 {
        findings.warn("disk", finding, advice);
    } else {
        findings.ok("disk", finding);
    }
}

fn duties(app: &App, findings: &mut Findings) {
    let duties = app.board.duties();
    let mut failing = 0;
    for duty in &duties {
        if let Some(error) = &duty.last_error {
            failing += 1;
            findings.error(
                "duties",
                format!("`{}` failed the last time: {error}", duty.name),
                "it is tried again by itself; the log of the server says more",
            );
        }
    }
    if failing == 0 {
        let here = duties.iter().filter(|duty| duty.here).count();
        findings.ok("duties", format!("{here} of {} are done here, none fails", duties.len()));
    }
}
