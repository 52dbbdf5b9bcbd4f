//! Tables whose rows are read and written as wholes: one list of columns makes all their statements.

use crate::sql::Sql;

/// What a column holds.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Int,
    Text,
    Bytes,
}

impl Kind {
    fn array(self) -> &'static str {
        match self {
            Self::Int => "bigint[]",
            Self::Text => "text[]",
            Self::Bytes => "bytea[]",
        }
    }
}

pub(crate) type Column = (&'static str, Kind);

/// The statements of one table.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    select: Pair,
    of_run: Pair,
    insert: Pair,
    update: Pair,
}

/// A statement for SQLite and one for PostgreSQL.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) sqlite: String,
    pub(crate) postgres: String,
}

impl Pair {
    pub(crate) fn sql(&'static self) -> Sql {
        Sql::of(&self.sqlite, &self.postgres)
    }
}

impl Table {
    /// The key comes first, then columns that never change, then those that do.
    pub(crate) fn new(
        name: &'static str,
        key: &[Column],
        fixed: &[Column],
        changing: &[Column],
    ) -> Self {
        let all: Vec<Column> = [key, fixed, changing].concat();
        let first = key.len() + fixed.len();
        let columns = join(&all, ", ", |_, (column, _)| column.to_owned());
        let qualified = join(&all, ", ", |_, (column, _)| format!("t.{column}"));
        let matches = join(key, " AND ", |_, (column, _)| format!("t.{column} = u.{column}"));
        let at = join(key, " AND ", |at, (column, _)| format!("{column} = ${}", at + 1));
        let set_one =
            join(changing, ", ", |at, (column, _)| format!("{column} = ${}", first + at + 1));
        let set_many =
            join(changing, ", ", |_, (column, _)| format!("{column} = excluded.{column}"));
        let values = join(&all, ", ", |at, _| format!("${}", at + 1));
        Self {
            columns: all.clone(),
            select: Pair {
                sqlite: format!("SELECT {columns} FROM {name} WHERE {at}"),
                // OFFSET 0: each key is looked up for itself, also by a plan that was made when the
                // table was so small that reading all of it seemed as good.
                postgres: format!(
                    "SELECT {qualified} FROM {} CROSS JOIN LATERAL \
                     (SELECT * FROM {name} AS t WHERE {matches} OFFSET 0) AS t",
                    unnest(key)
                ),
            },
            of_run: Pair {
                sqlite: format!("SELECT {columns} FROM {name} WHERE run_id = $1 AND attempt = $2"),
                postgres: format!(
                    "SELECT {columns} FROM {name} WHERE run_id = $1 AND attempt = $2"
                ),
            },
            insert: Pair {
                sqlite: format!("INSERT INTO {name} ({columns}) VALUES ({values})"),
                postgres: format!(
                    "INSERT INTO {name} ({columns}) SELECT {} FROM {}",
                    join(&all, ", ", |_, (column, _)| format!("u.{column}")),
                    unnest(&all)
                ),
            },
            update: Pair {
                sqlite: format!("UPDATE {name} SET {set_one} WHERE {at}"),
                // An insertion finds the row that is there by its key, whatever the table looked like
                // when the plan was made; a join might read all of it.
                postgres: format!(
                    "INSERT INTO {name} ({columns}) SELECT {} FROM {} ON CONFLICT ({}) \
                     DO UPDATE SET {set_many}",
                    join(&all, ", ", |_, (column, _)| format!("u.{column}")),
                    unnest(&all),
                    join(key, ", ", |_, (column, _)| column.to_owned()),
                ),
            },
        }
    }

    /// By keys, with [`Tx::rows_all`](crate::Tx::rows_all).
    pub(crate) fn select(&'static self) -> Sql {
        self.select.sql()
    }

    /// All rows of an attempt of a run.
    pub(crate) fn of_run(&'static self) -> Sql {
        self.of_run.sql()
    }

    /// Takes all columns, with [`Tx::execute_all`](crate::Tx::execute_all).
    pub(crate) fn insert(&'static self) -> Sql {
        self.insert.sql()
    }

    /// Takes all columns; those that never change must be as they are.
    pub(crate) fn update(&'static self) -> Sql {
        self.update.sql()
    }

    /// All columns for a statement of another shape, in which the table is called `t`.
    pub(crate) fn columns(&self) -> String {
        join(&self.columns, ", ", |_, (column, _)| format!("t.{column}"))
    }
}

/// Rows of parameters, one array for each column, called `u`.
pub(crate) fn unnest(columns: &[Column]) -> String {
    let arrays = join(columns, ", ", |at, (_, kind)| format!("${}::{}", at + 1, kind.array()));
    let names = join(columns, ", ", |_, (column, _)| column.to_owned());
    format!("unnest({arrays}) AS u ({names})")
}

fn join(columns: &[Column], by: &str, text: impl Fn(usize, (&str, Kind)) -> String) -> String {
    let parts = columns.iter().enumerate().map(|(at, column)| text(at, *column));
    parts.collect::<Vec<_>>().join(by)
}

#[cfg(test)]
mod tests {
    use super::{Kind, Table};

    #[test]
    fn one_list_of_columns_makes_the_statements_of_both_databases() {
        let table: &'static Table = Box::leak(Box::new(Table::new(
            "things",
            &[("run_id", Kind::Int)],
            &[("name", Kind::Text)],
            &[("hash", Kind::Bytes)],
        )));
        assert_eq!(table.select.sqlite, "SELECT run_id, name, hash FROM things WHERE run_id = $1");
        assert_eq!(table.update().sqlite, "UPDATE things SET hash = $3 WHERE run_id = $1");
        assert_eq!(
            table.update().postgres,
            "INSERT INTO things (run_id, name, hash) SELECT u.run_id, u.name, u.hash \
             FROM unnest($1::bigint[], $2::text[], $3::bytea[]) AS u (run_id, name, hash) \
             ON CONFLICT (run_id) DO UPDATE SET hash = excluded.hash"
        );
        assert_eq!(
            table.insert().postgres,
            "INSERT INTO things (run_id, name, hash) SELECT u.run_id, u.name, u.hash \
             FROM unnest($1::bigint[], $2::text[], $3::bytea[]) AS u (run_id, name, hash)"
        );
    }
}
