//! The tables of a database as its own catalogue names them, in an order that respects foreign keys.
//!
//! Nothing here is a list to be kept up to date: a table that a later schema brings is copied, too.

use std::collections::BTreeMap;

use crate::sql::Sql;
use crate::{StoreError, Tx};

/// What a column holds, on either database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Int,
    Real,
    Text,
    Bytes,
}

impl Kind {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "INTEGER" | "BIGINT" | "bigint" => Self::Int,
            "REAL" | "double precision" => Self::Real,
            "TEXT" | "text" => Self::Text,
            "BLOB" | "bytea" => Self::Bytes,
            _ => return None,
        })
    }

    /// What PostgreSQL calls a list of these.
    pub(super) fn array(self) -> &'static str {
        match self {
            Self::Int => "bigint[]",
            Self::Real => "double precision[]",
            Self::Text => "text[]",
            Self::Bytes => "bytea[]",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub kind: Kind,
}

/// A table that holds facts. How the schema came about is none of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    pub name: String,
    pub columns: Vec<Column>,
    /// The columns that tell its rows apart, and by which it is read in pages.
    pub key: Vec<String>,
}

impl Table {
    pub(super) fn position(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|known| known.name == column)
    }

    /// Which columns must be equal in a copy. The transaction of an event means nothing elsewhere.
    pub(super) fn compared(&self) -> Vec<usize> {
        let same = |column: &Column| !(self.is_events() && column.name == "txid");
        (0..self.columns.len()).filter(|at| same(&self.columns[*at])).collect()
    }

    pub(super) fn is_events(&self) -> bool {
        self.name == "events"
    }

    /// The names of the columns, for a statement.
    pub(super) fn listed(&self) -> String {
        list(self.columns.iter().map(|column| column.name.as_str()))
    }
}

/// Names in quotes: some of ours are words of SQL.
pub(super) fn list<'n>(names: impl Iterator<Item = &'n str>) -> String {
    names.map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
}

/// Every column of every table, and its place in the primary key, which is 0 when it has none.
const COLUMNS: Sql = Sql::of(
    "SELECT tables.name, columns.name, columns.type, columns.pk
     FROM sqlite_master AS tables JOIN pragma_table_info(tables.name) AS columns
     WHERE tables.type = 'table' AND substr(tables.name, 1, 7) <> 'sqlite_'
         AND tables.name NOT IN ('schema_steps', 'copying')
     ORDER BY tables.name, columns.cid",
    "SELECT tables.relname, columns.attname, format_type(columns.atttypid, NULL),
         coalesce(array_position(keys.indkey::int2[], columns.attnum) + 1, 0)::bigint
     FROM pg_class AS tables
     JOIN pg_attribute AS columns
         ON columns.attrelid = tables.oid AND columns.attnum > 0 AND NOT columns.attisdropped
     LEFT JOIN pg_index AS keys ON keys.indrelid = tables.oid AND keys.indisprimary
     WHERE tables.relkind IN ('r', 'p') AND NOT tables.relispartition
         AND tables.relnamespace = current_schema()::regnamespace
         AND tables.relname NOT IN ('schema_steps', 'copying')
     ORDER BY tables.relname, columns.attnum",
);

/// Which table refers to which.
const REFERENCES: Sql = Sql::of(
    "SELECT DISTINCT tables.name, keys.\"table\"
     FROM sqlite_master AS tables JOIN pragma_foreign_key_list(tables.name) AS keys
     WHERE tables.type = 'table'",
    "SELECT DISTINCT tables.relname, referred.relname
     FROM pg_constraint AS keys
     JOIN pg_class AS tables ON tables.oid = keys.conrelid
     JOIN pg_class AS referred ON referred.oid = keys.confrelid
     WHERE keys.contype = 'f' AND NOT tables.relispartition
         AND tables.relnamespace = current_schema()::regnamespace",
);

/// All tables, each after those it refers to.
pub(crate) async fn tables(tx: &mut Tx<'_>) -> Result<Vec<Table>, StoreError> {
    let mut tables: BTreeMap<String, (Table, BTreeMap<i64, String>)> = BTreeMap::new();
    for row in tx.rows(COLUMNS, &[]).await? {
        let (name, column): (String, String) = (row.get(0)?, row.get(1)?);
        let ty: String = row.get(2)?;
        let kind = Kind::of(&ty).ok_or_else(|| {
            let message =
                format!("column `{name}.{column}` has the type `{ty}`, which is not Kiln's");
            StoreError::Database(message)
        })?;
        let (table, key) = tables.entry(name.clone()).or_insert_with(|| {
            (Table { name, columns: Vec::new(), key: Vec::new() }, BTreeMap::new())
        });
        match row.get::<i64>(3)? {
            0 => {}
            place => drop(key.insert(place, column.clone())),
        }
        table.columns.push(Column { name: column, kind });
    }
    let mut references = Vec::new();
    for row in tx.rows(REFERENCES, &[]).await? {
        references.push((row.get::<String>(0)?, row.get::<String>(1)?));
    }
    let postgres = tx.is_postgres();
    let tables = tables.into_values().map(|(table, key)| with_key(table, key, postgres));
    let tables = tables.collect::<Result<_, _>>()?;
    ordered(tables, &references)
}

fn with_key(
    mut table: Table,
    key: BTreeMap<i64, String>,
    postgres: bool,
) -> Result<Table, StoreError> {
    table.key = key.into_values().collect();
    if table.is_events() && postgres {
        // They have no primary key, but an index by these.
        table.key = vec!["txid".to_owned(), "id".to_owned()];
    }
    if table.key.is_empty() {
        let message =
            format!("table `{}` has no primary key, by which it could be read", table.name);
        return Err(StoreError::Database(message));
    }
    Ok(table)
}

/// Takes the tables whose references have all been taken, until none is left.
fn ordered(
    mut tables: Vec<Table>,
    references: &[(String, String)],
) -> Result<Vec<Table>, StoreError> {
    let mut taken: Vec<Table> = Vec::new();
    while !tables.is_empty() {
        let waits = |table: &Table| {
            let missing = |name: &str| name != table.name && tables.iter().any(|t| t.name == name);
            references.iter().any(|(from, to)| *from == table.name && missing(to))
        };
        let (later, ready): (Vec<_>, Vec<_>) = tables.clone().into_iter().partition(waits);
        if ready.is_empty() {
            let message = format!("table `{}` refers to itself through others", later[0].name);
            return Err(StoreError::Database(message));
        }
        taken.extend(ready);
        tables = later;
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::{Table, ordered};

    fn check(references: &[(&str, &str)], expected: Option<&str>) {
        let table =
            |name: &str| Table { name: name.to_owned(), columns: Vec::new(), key: Vec::new() };
        let owned: Vec<(String, String)> =
            references.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect();
        let order = ordered(vec![table("a"), table("b"), table("c")], &owned);
        let names = order
            .ok()
            .map(|tables| tables.into_iter().map(|table| table.name).collect::<Vec<_>>().join(" "));
        assert_eq!(names.as_deref(), expected, "{references:?}");
    }

    #[test]
    fn tables_come_after_those_they_refer_to() {
        check(&[], Some("a b c"));
        check(&[("a", "c")], Some("b c a"));
        check(&[("a", "b"), ("b", "c")], Some("c b a"));
        check(&[("a", "a"), ("b", "a")], Some("a c b"));
        check(&[("a", "b"), ("b", "a")], None);
    }
}
