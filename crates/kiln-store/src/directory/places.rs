//! Repositories and workflows by words of their names, as somebody types them who wants to go there.

use std::fmt::Write as _;

use super::names;
use crate::runs::pattern;
use crate::{Row, Scope, StoreError, Tx, Value};

/// How many of each are looked at, the newest first: somebody waits for the answer at every letter.
const LOOKED: u32 = 20_000;
/// How many words count.
const WORDS: usize = 8;

/// A repository, or one of its workflows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// As `owner/name`.
    pub repo: String,
    /// Path and name.
    pub workflow: Option<(String, String)>,
}

/// Repositories that have all these words in `owner/name`. The shorter a name is, the more of it was typed: it comes
/// first.
pub async fn repositories(
    tx: &mut Tx<'_>,
    scope: Scope,
    words: &[&str],
    limit: u32,
) -> Result<Vec<Place>, StoreError> {
    let from = "SELECT o.name || '/' || r.name AS repo, NULL AS path, NULL AS name, \
                    o.name || '/' || r.name AS words \
                FROM (SELECT org_id, name FROM repositories WHERE org_id = $1 OR $1 IS NULL \
                      ORDER BY id DESC LIMIT $2) AS r JOIN organizations AS o ON o.id = r.org_id";
    find(tx, from, scope, words, limit).await
}

/// Workflows that have all these words in the name of their repository, their own, or that of their file.
pub async fn workflows(
    tx: &mut Tx<'_>,
    scope: Scope,
    words: &[&str],
    limit: u32,
) -> Result<Vec<Place>, StoreError> {
    let from = "SELECT o.name || '/' || r.name AS repo, w.path, w.name, \
                    o.name || '/' || r.name || ' ' || w.name || ' ' || w.path AS words \
                FROM (SELECT repo_id, path, name FROM workflows WHERE org_id = $1 OR $1 IS NULL \
                      ORDER BY id DESC LIMIT $2) AS w \
                JOIN repositories AS r ON r.id = w.repo_id JOIN organizations AS o ON o.id = r.org_id";
    find(tx, from, scope, words, limit).await
}

async fn find(
    tx: &mut Tx<'_>,
    from: &str,
    scope: Scope,
    words: &[&str],
    limit: u32,
) -> Result<Vec<Place>, StoreError> {
    let mut values: Vec<Value> = vec![scope.parameter(), LOOKED.into(), limit.into()];
    let mut sql = format!("SELECT repo, path, name FROM ({from}) AS all_of_them WHERE 1 = 1");
    for word in words.iter().take(WORDS) {
        values.push(names::searchable(&pattern(word)));
        let _ = write!(sql, " AND lower(words) LIKE ${} ESCAPE '!'", values.len());
    }
    sql.push_str(" ORDER BY length(words), words LIMIT $3");
    tx.rows_of(&sql, &values).await?.iter().map(place).collect()
}

fn place(row: &Row) -> Result<Place, StoreError> {
    let (path, name): (Option<String>, Option<String>) = (row.get(1)?, row.get(2)?);
    Ok(Place { repo: row.get(0)?, workflow: path.zip(name) })
}
