//! A table read page by page along its key, so that no more than a page is ever in memory.

use super::catalogue::{Table, list};
use crate::{StoreError, Tx, Value};

/// How many rows a page has at most, and how many the first one has.
const MOST_ROWS: usize = 4_000;
const FIRST_ROWS: usize = 64;
/// How large a page should become. Rows differ: some are a few numbers, some hold a payload.
const BYTES: usize = 4 << 20;

/// A place in a table.
#[derive(Debug)]
pub(super) struct Pages<'t> {
    table: &'t Table,
    rows: usize,
    /// The key of the last row that was read.
    after: Option<Vec<Value>>,
    ended: bool,
}

impl<'t> Pages<'t> {
    pub(super) fn of(table: &'t Table) -> Self {
        Self { table, rows: FIRST_ROWS, after: None, ended: false }
    }

    /// The next rows, none after the last.
    pub(super) async fn next(&mut self, tx: &mut Tx<'_>) -> Result<Vec<Vec<Value>>, StoreError> {
        if self.ended {
            return Ok(Vec::new());
        }
        let parameters = self.after.clone().unwrap_or_default();
        let found = tx.rows_of(&self.statement(), &parameters).await?;
        let page: Vec<Vec<Value>> = found.into_iter().map(|row| row.0).collect();
        self.ended = page.len() < self.rows;
        if let Some(last) = page.last() {
            let key = self.table.key.iter().filter_map(|name| self.table.position(name));
            self.after = Some(key.map(|at| last[at].clone()).collect());
            self.rows = next_size(page.len(), page.iter().flatten().map(size).sum());
        }
        Ok(page)
    }

    fn statement(&self) -> String {
        let Table { name, key, .. } = self.table;
        let columns = self.table.listed();
        let key_columns = list(key.iter().map(String::as_str));
        let beyond = if self.after.is_some() {
            let marks: Vec<String> = (1..=key.len()).map(|number| format!("${number}")).collect();
            format!("WHERE ({key_columns}) > ({})", marks.join(", "))
        } else {
            String::new()
        };
        let rows = self.rows;
        format!("SELECT {columns} FROM \"{name}\" {beyond} ORDER BY {key_columns} LIMIT {rows}")
    }
}

/// How many rows of the size that the last ones had make a page. It is a power of two, so that few
/// statements must be prepared.
fn next_size(rows: usize, bytes: usize) -> usize {
    let fitting = BYTES / (bytes / rows.max(1)).max(1);
    let fitting = fitting.clamp(1, (rows * 8).clamp(1, MOST_ROWS));
    1 << fitting.ilog2()
}

fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Int(_) | Value::Real(_) => 8,
        Value::Text(text) => text.len(),
        Value::Word(word) => word.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::Array(items) => items.iter().map(size).sum(),
    }
}

/// Gives events the form they have in a copy: their transactions mean nothing there, and their ids keep
/// the events of each run in order.
pub(super) fn without_transactions(table: &Table, rows: &mut [Vec<Value>]) {
    let Some(at) = table.position("txid") else { return };
    for row in rows {
        row[at] = Value::Int(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_size(rows: usize, bytes: usize, expected: usize) {
        assert_eq!(next_size(rows, bytes), expected, "{rows} rows of {bytes} bytes");
    }

    #[test]
    fn pages_grow_and_shrink_with_the_size_of_rows() {
        check_size(64, 64 * 100, 512);
        check_size(512, 512 * 100, 2_048);
        check_size(2_048, 2_048 * 100, 2_048);
        check_size(64, 64 * 65_536, 64);
        check_size(64, 64 * (1 << 20), 4);
        check_size(1, 100 << 20, 1);
        check_size(1, 0, 8);
    }
}
