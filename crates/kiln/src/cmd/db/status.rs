//! What `kiln db status` says.

use std::fmt::Write as _;

use kiln_store::{Description, Rows};
use serde_json::{Value, json};

use super::place::Place;

/// For people: a word and what it is, line by line.
pub(super) fn text(place: &Place, description: &Description) -> String {
    let kind = match place.kind() {
        "postgres" => "PostgreSQL",
        _ => "SQLite",
    };
    let mut text = String::new();
    let _ = writeln!(text, "database  {place}");
    let _ = writeln!(text, "kind      {kind}");
    let _ = writeln!(text, "schema    {}", schema(description));
    for (version, name) in &description.pending {
        let _ = writeln!(text, "          missing: {version}, {name}");
    }
    let _ = writeln!(text, "size      {}", size(description.bytes));
    let widest = description.rows.iter().map(|(table, _)| table.len()).max().unwrap_or(0);
    for (at, (table, rows)) in description.rows.iter().enumerate() {
        let head = if at == 0 { "rows" } else { "" };
        let _ = match rows {
            Rows::Exactly(rows) => writeln!(text, "{head:<9} {table:<widest$}  {rows}"),
            Rows::About(rows) => writeln!(text, "{head:<9} {table:<widest$}  about {rows}"),
        };
    }
    text
}

fn schema(description: &Description) -> String {
    let Description { version, newest, .. } = description;
    let remark = match trouble(description) {
        Some(trouble) => trouble.to_owned(),
        None if version == newest => "the newest".to_owned(),
        None => format!("the newest is {newest}; `kiln db migrate` brings it there"),
    };
    format!("{version}, {remark}")
}

/// Why this Kiln must not use the database, if so.
pub(super) fn trouble(description: &Description) -> Option<&'static str> {
    if description.incomplete {
        Some("incomplete: a copy into it was cut off; remove it and begin again with a new one")
    } else if description.foreign {
        Some("with tables that are not Kiln's; name another database")
    } else if description.version > description.newest {
        Some("newer than this Kiln; use the newer Kiln that wrote it")
    } else {
        None
    }
}

pub(super) fn json(place: &Place, description: &Description) -> Value {
    let pending = description.pending.iter();
    let pending: Vec<Value> =
        pending.map(|(version, name)| json!({ "version": version, "name": name })).collect();
    let rows = description.rows.iter().map(|(table, rows)| {
        let (Rows::Exactly(rows) | Rows::About(rows)) = rows;
        ((*table).to_owned(), (*rows).into())
    });
    let rows: serde_json::Map<String, Value> = rows.collect();
    json!({
        "database": place.to_string(),
        "kind": place.kind(),
        "version": description.version,
        "newest": description.newest,
        "pending": pending,
        "problem": trouble(description),
        "bytes": description.bytes,
        "rows": rows,
    })
}

/// Bytes as people read them.
pub(super) fn size(bytes: i64) -> String {
    let steps = [(1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB")];
    match steps.into_iter().find(|(step, _)| bytes >= *step) {
        Some((step, unit)) => format!("{}.{} {unit}", bytes / step, bytes % step * 10 / step),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_are_short() {
        for (bytes, expected) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1536, "1.5 kB"),
            (10 << 20, "10.0 MB"),
            ((5 << 30) - 1, "4.9 GB"),
        ] {
            assert_eq!(size(bytes), expected);
        }
    }
}
