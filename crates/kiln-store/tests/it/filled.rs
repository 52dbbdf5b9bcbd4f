//! Databases with a row in every table, grown through the schemas as an old installation was.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kiln_store::{Sql, Store, Table, Tally, Tx};
use kiln_testkit::database::Database;

/// An open store and the database it needs.
pub(crate) struct Held {
    store: Store,
    _database: Database,
}

impl Held {
    fn open(database: Database) -> Self {
        Self { store: database.open(), _database: database }
    }

    pub(crate) fn sqlite() -> Self {
        Self::open(Database::sqlite())
    }

    pub(crate) async fn postgres() -> Self {
        Self::open(Database::postgres().await)
    }

    pub(crate) async fn like(other: &Database) -> Self {
        Self::open(Database::like(other).await)
    }

    /// With the newest schema and rows in every table.
    pub(crate) async fn full(self) -> Self {
        let newest = self.status().await.unwrap().newest;
        fill(&self, newest).await;
        self
    }
}

impl std::ops::Deref for Held {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

/// The rows that schema `version` brings, if somebody wrote them.
pub(crate) fn rows_of(version: i64) -> Option<String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/schemas");
    std::fs::read_to_string(folder.join(format!("{version:04}.sql"))).ok()
}

/// Takes an empty database to a version, and at each step fills the tables that are new.
pub(crate) async fn fill(store: &Store, version: i64) {
    for step in store.status().await.unwrap().version + 1..=version {
        assert_eq!(store.migrate_to(step).await.unwrap().version, step);
        let text = rows_of(step).unwrap();
        store.write(async move |tx: &mut Tx<'_>| insert(tx, &text).await).await.unwrap();
    }
}

async fn insert(tx: &mut Tx<'_>, text: &str) -> Result<(), kiln_store::StoreError> {
    let text = with_bytes(text, tx.is_postgres());
    for statement in text.split(";\n").map(str::trim).filter(|statement| !statement.is_empty()) {
        // Statements are static, so that nothing can be spliced into them; tests may leak a few.
        let statement: &'static str = Box::leak(statement.to_owned().into_boxed_str());
        tx.execute(Sql::of(statement, statement), &[]).await?;
    }
    Ok(())
}

/// Writes `{bytes:00ff}` as each database wants it.
fn with_bytes(text: &str, postgres: bool) -> String {
    let (open, close) = if postgres { ("'\\x", "'") } else { ("x'", "'") };
    let mut parts = text.split("{bytes:");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |written, part| {
        let (bytes, rest) = part.split_once('}').expect("the brace is closed");
        [&written, open, bytes, close, rest].concat()
    })
}

/// A count and checksum for each of these tables.
pub(crate) async fn tallies(store: &Store, tables: &[Table]) -> BTreeMap<String, Tally> {
    let mut tallies = BTreeMap::new();
    for table in tables {
        tallies.insert(table.name.clone(), store.tally(table).await.unwrap());
    }
    tallies
}

/// Runs one statement.
pub(crate) async fn run(store: &Store, statement: &'static str) -> u64 {
    store.write(async move |tx: &mut Tx<'_>| tx.execute(statement, &[]).await).await.unwrap()
}

/// The one number that a question has for an answer.
pub(crate) async fn number(store: &Store, question: &'static str) -> i64 {
    let ask = async move |tx: &mut Tx<'_>| tx.one("row", question, &[]).await?.get::<i64>(0);
    store.read(ask).await.unwrap()
}
