//! `kiln db`: upgrade, back up, restore and move, with the real binary. (H3)
#![expect(clippy::unwrap_used, reason = "a panic is the report")]

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use kiln_store::{Options, Store, Tx};
use kiln_testkit::database::Database;

use crate::{Answer, Place};

/// Runs work on a database that the binary uses.
fn on<T>(options: &Options, work: impl AsyncFnOnce(&Store) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::open(options).unwrap();
        let answer = work(&store).await;
        store.close().await;
        answer
    })
}

fn sqlite(place: &Place, name: &str) -> Options {
    Options::Sqlite { path: place.path().join(name) }
}

pub(crate) fn postgres() -> Database {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(Database::postgres())
}

pub(crate) fn url(database: &Database) -> &str {
    match &database.options {
        Options::Postgres { url, .. } => url,
        Options::Sqlite { .. } => unreachable!("it was made on PostgreSQL"),
    }
}

async fn execute(store: &Store, statement: &'static str) {
    store.write(async move |tx: &mut Tx<'_>| tx.execute(statement, &[]).await).await.unwrap();
}

/// A database with that many rows of outbox, and two users of whom one is gone.
fn fill(options: &Options, rows: i64) {
    on(options, async |store| {
        store.migrate().await.unwrap();
        let work = async move |tx: &mut Tx<'_>| {
            let add = "INSERT INTO outbox (id, kind, payload, due_at, created_at)
                WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < $1)
                SELECT n, 'kind', 'a text of some length that makes the row less small', n, n FROM numbers";
            tx.execute(add, &[rows.into()]).await
        };
        store.write(work).await.unwrap();
        execute(store, "INSERT INTO users (name, created_at) VALUES ('mona', 1), ('gone', 2)")
            .await;
        execute(store, "DELETE FROM users WHERE name = 'gone'").await;
    });
}

/// The name of the only user, the id that the next one gets, and the rows of outbox.
fn contents(options: &Options) -> (String, i64, i64) {
    on(options, async |store| {
        let work = async |tx: &mut Tx<'_>| {
            let name = tx.one("user", "SELECT name FROM users", &[]).await?.get(0)?;
            let add = "INSERT INTO users (name, created_at) VALUES ('next', 3) RETURNING id";
            let id = tx.one("user", add, &[]).await?.get(0)?;
            tx.execute("DELETE FROM users WHERE name = 'next'", &[]).await?;
            let rows = tx.one("count", "SELECT count(*) FROM outbox", &[]).await?.get(0)?;
            Ok((name, id, rows))
        };
        store.write(work).await.unwrap()
    })
}

#[track_caller]
fn assert_trouble(answer: &Answer, parts: &[&str]) {
    answer.code(2);
    assert_eq!(answer.out, "");
    for part in parts {
        assert!(answer.err.contains(part), "`{part}` is missing: {answer:#?}");
    }
}

#[test]
fn a_new_database_is_made_where_it_usually_is() {
    let place = Place::new();
    let data = place.path().join("data");
    let env = [("XDG_DATA_HOME", data.to_str().unwrap())];
    let missing = place.kiln_with(&env, &["db", "status"]);
    assert_trouble(&missing, &["data/kiln/kiln.db`", "`kiln db migrate` makes one"]);
    let made = place.kiln_with(&env, &["db", "migrate", "--json"]);
    let newest = made.code(0).json()["version"].as_i64().unwrap();
    assert_eq!(made.json()["before"], 0);
    assert_eq!(std::fs::read_dir(data.join("kiln")).unwrap().count(), 1, "it is one file");
    let again = place.kiln_with(&env, &["db", "migrate"]);
    assert!(again.code(0).out.contains("has the newest schema already"), "{again:#?}");
    let status = place.kiln_with(&env, &["db", "status", "--json"]).code(0).json();
    assert_eq!((&status["version"], &status["newest"]), (&newest.into(), &newest.into()));
    assert_eq!(status["kind"], "sqlite");
    assert_eq!(status["rows"]["runs"], 0);
    assert_eq!(status["pending"], serde_json::json!([]));
    assert!(status["bytes"].as_i64().unwrap() > 4096);
    let mode = data.join("kiln/kiln.db").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it is for its owner alone");
}

#[test]
fn status_says_what_is_missing_and_what_must_not_be_used() {
    let place = Place::new();
    let options = sqlite(&place, "old.db");
    on(&options, async |store| store.migrate_to(1).await.unwrap());
    let old = place.kiln_with(&[("KILN_DATABASE", "old.db")], &["db", "status"]);
    assert!(old.code(0).out.contains("`kiln db migrate` brings it there"), "{old:#?}");
    assert!(old.out.contains("missing: 2, bytes and what refers to them"), "{old:#?}");
    on(&options, async |store| {
        execute(
            store,
            "INSERT INTO schema_steps (version, name, checksum, applied_at) VALUES (99, '', '', 0)",
        )
        .await;
    });
    let newer = place.kiln(&["db", "status", "--database", "sqlite:old.db", "--json"]);
    assert_eq!(newer.code(1).json()["version"], 99);
    assert!(newer.json()["problem"].as_str().unwrap().contains("newer than this Kiln"));
    let migrate = place.kiln(&["db", "migrate", "--database", "old.db"]);
    assert_trouble(&migrate, &["`old.db`", "use the newer Kiln"]);
}

#[test]
fn what_is_no_database_is_named() {
    let place = Place::new();
    place.file("text", "this is a text and no database, as anyone can see");
    for command in ["status", "migrate"] {
        let answer = place.kiln(&["db", command, "--database", "text"]);
        assert_trouble(&answer, &["`text`", "file is not a database", "--database"]);
    }
    for command in ["status", "check", "migrate"] {
        let answer = place.kiln(&["db", command, "--database", "."]);
        assert_trouble(&answer, &["`.` is a folder; name a file in it"]);
    }
    let answer = place.kiln(&["db", "migrate", "--database", "no/folder/kiln.db"]);
    assert_trouble(&answer, &["there is no folder `no/folder`; make it first"]);
    let answer = place.kiln(&["db", "status", "--database", "mysql://root:secret@host/kiln"]);
    assert_trouble(&answer, &["expected `postgres://…`"]);
    assert!(!answer.err.contains("secret"), "{answer:#?}");
}

#[test]
fn a_server_that_does_not_answer_is_named_without_the_password() {
    let place = Place::new();
    // A port on which nobody listens: it was ours a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("postgres://kiln:secret@127.0.0.1:{port}/ci");
    let answer = place.kiln(&["db", "status", "--database", &address]);
    let shown = format!("`postgres://kiln@127.0.0.1:{port}/ci`");
    assert_trouble(&answer, &[&shown, "refused", "is PostgreSQL running there"]);
    assert!(!answer.err.contains("secret"), "{answer:#?}");
    let database = postgres();
    let missing = format!("{}_missing", url(&database));
    let answer = place.kiln(&["db", "status", "--database", &missing]);
    assert_trouble(&answer, &["does not exist", "`createdb`"]);
}

/// H3
#[test]
fn everything_goes_to_postgres_and_back_by_a_backup() {
    let place = Place::new();
    let (from, server) = (sqlite(&place, "from.db"), postgres());
    fill(&from, 3_000);
    let moved = place.kiln(&["db", "move", "--database", "from.db", "--to", url(&server)]);
    assert!(moved.code(0).out.contains("copied 3001 rows into `postgres://"), "{moved:#?}");
    assert!(moved.err.contains("copying outbox: 3000 rows\n"), "{moved:#?}");
    assert!(moved.err.contains("checking outbox: 3000 rows\n"), "{moved:#?}");
    assert_eq!(contents(&server.options), ("mona".to_owned(), 3, 3_000));
    assert!(place.path().join("from.db").exists(), "the source stays");

    let env = [("KILN_DATABASE", url(&server))];
    let status = place.kiln_with(&env, &["db", "status", "--json"]).code(0).json();
    assert_eq!((&status["kind"], &status["rows"]["users"]), (&"postgres".into(), &1.into()));
    let backed = place.kiln_with(&env, &["db", "backup", "day.backup", "--json"]).code(0).json();
    let bytes = place.path().join("day.backup").metadata().unwrap().len();
    assert_eq!((&backed["file"], &backed["bytes"]), (&"day.backup".into(), &bytes.into()));

    let restored = place.kiln(&["db", "restore", "day.backup", "--database", "to.db"]);
    assert!(restored.code(0).out.contains("restored 3001 rows into `to.db`"), "{restored:#?}");
    assert!(!place.path().join("to.db-wal").exists(), "the database is one file");
    // The last question on PostgreSQL used up an id.
    assert_eq!(contents(&sqlite(&place, "to.db")), ("mona".to_owned(), 4, 3_000));
    let again = place.kiln(&["db", "restore", "day.backup", "--database", "to.db"]);
    assert_trouble(&again, &["`to.db`", "the target is not empty"]);
}

#[test]
fn a_move_is_refused_where_it_could_lose_something() {
    let place = Place::new();
    let from = sqlite(&place, "from.db");
    fill(&from, 10);
    let to_self = place.kiln(&["db", "move", "--database", "from.db", "--to", "sqlite:from.db"]);
    assert_trouble(&to_self, &["`--to` names the database that is to be moved"]);
    on(&from, async |_running| {
        let answer = place.kiln(&["db", "move", "--database", "from.db", "--to", "to.db"]);
        assert_trouble(&answer, &["`from.db` is in use; stop Kiln first"]);
        // A backup may be made all the same.
        place.kiln(&["db", "backup", "b", "--database", "from.db"]).code(0);
    });
    assert!(!place.path().join("to.db").exists());
    fill(&sqlite(&place, "taken.db"), 1);
    let answer = place.kiln(&["db", "move", "--database", "from.db", "--to", "taken.db"]);
    assert_trouble(&answer, &["`taken.db`", "the target is not empty"]);
    on(&sqlite(&place, "old.db"), async |store| store.migrate_to(1).await.unwrap());
    let answer = place.kiln(&["db", "move", "--database", "old.db", "--to", "to.db"]);
    assert_trouble(&answer, &["older schema", "`kiln db migrate`"]);
    let answer = place.kiln(&["db", "move", "--database", "nothing.db", "--to", "to.db"]);
    assert_trouble(&answer, &["there is no database `nothing.db`"]);
}

#[test]
fn backups_do_not_overwrite_and_restores_take_nothing_else() {
    let place = Place::new();
    fill(&sqlite(&place, "kiln.db"), 10);
    let backup =
        |args: &[&str]| place.kiln(&[&["db", "backup", "--database", "kiln.db"], args].concat());
    place.file("taken", "precious");
    assert_trouble(&backup(&["taken"]), &["`taken` exists already; `--force` replaces it"]);
    backup(&["taken", "--force"]).code(0);
    assert_trouble(&backup(&["no/such/file"]), &["there is no folder `no/such`; make it first"]);
    assert_trouble(&backup(&[".", "--force"]), &["`.`: it is a folder; name a file in it"]);
    place.file("text", "no backup");
    let answer = place.kiln(&["db", "restore", "text", "--database", "new.db"]);
    assert_trouble(&answer, &["`text` is not a Kiln database"]);
    let answer = place.kiln(&["db", "restore", "missing", "--database", "new.db"]);
    assert_trouble(&answer, &["cannot read `missing`"]);
    assert!(!place.path().join("new.db").exists(), "what fails at once leaves nothing");
}

/// A limit on the size of files stands in for a disk that is full.
#[test]
fn a_full_disk_leaves_no_backup() {
    let place = Place::new();
    fill(&sqlite(&place, "kiln.db"), 20_000);
    place.file("earlier", "the backup of yesterday");
    let script =
        "trap '' XFSZ; ulimit -f 400; exec \"$0\" db backup earlier --force --database kiln.db";
    let output = Command::new("bash")
        .args(["-c", script, env!("CARGO_BIN_EXE_kiln")])
        .current_dir(place.path())
        .output()
        .unwrap();
    let answer = Answer::of(&output);
    assert_trouble(&answer, &["`kiln.db`", "disk"]);
    let kept = std::fs::read_to_string(place.path().join("earlier")).unwrap();
    assert_eq!(kept, "the backup of yesterday");
    let names = std::fs::read_dir(place.path()).unwrap();
    let left = names
        .filter(|name| name.as_ref().unwrap().file_name().to_string_lossy().contains("unfinished"));
    assert_eq!(left.count(), 0);
}

/// Kills a move after the first table of which it reports rows, long before the many rows are through.
fn killed_in_the_middle(place: &Place, to: &str) {
    let mut child = place
        .command("", &["db", "move", "--database", "from.db", "--to", to])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success());
    assert!(first.starts_with("copying "), "{first}");
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    assert!(!rest.iter().any(|line| line.starts_with("checking")), "it was too fast: {rest:?}");
}

fn a_killed_move_is_refused_and_can_be_done_again(place: &Place, to: &str, fresh: &str) {
    // `audit` comes before `outbox` and is reported first.
    let from = sqlite(place, "from.db");
    fill(&from, 150_000);
    on(&from, async |store| {
        execute(store, "INSERT INTO audit (at, actor_kind, actor, action, subject_kind) VALUES (1, '', '', '', '')").await;
    });
    killed_in_the_middle(place, to);
    let status = place.kiln(&["db", "status", "--database", to]);
    assert!(status.code(1).out.contains("a copy into it was cut off"), "{status:#?}");
    let migrate = place.kiln(&["db", "migrate", "--database", to]);
    assert_trouble(&migrate, &["was cut off", "begin again with a new one"]);
    let again = place.kiln(&["db", "move", "--database", "from.db", "--to", to]);
    assert_trouble(&again, &["was cut off"]);
    let backup = place.kiln(&["db", "backup", "b", "--database", to]);
    assert_trouble(&backup, &["was cut off"]);
    let moved = place.kiln(&["db", "move", "--database", "from.db", "--to", fresh]);
    assert!(moved.code(0).out.contains("copied 150002 rows"), "{moved:#?}");
}

#[test]
fn a_move_to_sqlite_that_was_killed_is_refused_afterwards() {
    a_killed_move_is_refused_and_can_be_done_again(&Place::new(), "to.db", "fresh.db");
}

#[test]
fn a_move_to_postgres_that_was_killed_is_refused_afterwards() {
    let (to, fresh) = (postgres(), postgres());
    a_killed_move_is_refused_and_can_be_done_again(&Place::new(), url(&to), url(&fresh));
}

/// An interrupt is no accident: what is half done is put away, and the exit code says why.
#[test]
fn an_interrupted_backup_leaves_nothing() {
    let (place, server) = (Place::new(), postgres());
    fill(&server.options, 150_000);
    let mut child = place
        .command("", &["db", "backup", "file", "--database", url(&server)])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.starts_with("copying "), "{first}");
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

/// A database with a run whose one job waits in the queue.
fn with_a_run(options: &Options) {
    on(options, async |store| {
        let site = kiln_testkit::runs::Site::new(store.clone()).await;
        site.run("  a: {runs-on: linux, steps: [{run: x}]}").await;
    });
}

/// A healthy database is healthy also while somebody uses it; a place in the queue that is missing is found.
fn a_check_finds_what_contradicts(options: &Options, name: &str) {
    let place = Place::new();
    let check = |args: &[&str]| place.kiln(&[&["db", "check", "--database", name], args].concat());
    with_a_run(options);
    on(options, async |_running| {
        let healthy = check(&[]);
        let looked =
            "1 run (1 open), 1 job, 1 place in the queue, 0 leases, 0 concurrency groups\n";
        assert!(healthy.code(0).out.contains(looked), "{healthy:#?}");
        assert!(healthy.out.ends_with("nothing is wrong\n"), "{healthy:#?}");
        assert_eq!(healthy.err, "", "there is no terminal to show progress on");
    });
    assert_eq!(check(&["--json"]).code(0).json()["findings"], serde_json::json!([]));
    on(options, async |store| execute(store, "DELETE FROM queue").await);
    let harmed = check(&[]);
    let found =
        "run 1, attempt 1, job 0: it is queued, and has no place in the queue [queued_job]\n";
    assert!(harmed.code(1).out.contains(found), "{harmed:#?}");
    assert!(harmed.out.contains("\n1 contradiction: "), "{harmed:#?}");
    let harmed = check(&["--json"]).code(1).json();
    assert_eq!((&harmed["clean"], &harmed["looked_at"]["queued"]), (&false.into(), &0.into()));
    assert_eq!(harmed["findings"][0]["rule"], "queued_job");
}

#[test]
fn a_check_finds_what_contradicts_on_sqlite() {
    let database = Database::sqlite();
    let name = database.options.to_string();
    a_check_finds_what_contradicts(&database.options, &name);
}

#[test]
fn a_check_finds_what_contradicts_on_postgres() {
    let database = postgres();
    a_check_finds_what_contradicts(&database.options, url(&database));
}

#[test]
fn a_check_wants_the_newest_schema() {
    let place = Place::new();
    let check = |name: &str| place.kiln(&["db", "check", "--database", name]);
    assert_trouble(&check("none.db"), &["there is no database `none.db`"]);
    on(&sqlite(&place, "old.db"), async |store| store.migrate_to(1).await.unwrap());
    assert_trouble(&check("old.db"), &["`old.db` has schema 1", "run `kiln db migrate` first"]);
    place.file("empty.db", "");
    assert_trouble(&check("empty.db"), &["`empty.db` is empty"]);
}
