//! `kiln storage`: who uses how many bytes, and what can go.

use anyhow::Result;
use kiln_core::time::Timestamp;
use kiln_proto::blob::{Collect, Collection, Kept, Storage, Use};

use super::print_json;
use crate::Outcome;
use crate::cli::{StorageArgs, StorageCommand};
use crate::client::Client;
use crate::output::Console;
use crate::output::table::{Cell, Table, cut, whole};
use crate::output::time::{self, ago};

use crate::output::text::size;

pub(super) async fn run(args: &StorageArgs, console: &mut Console) -> Result<Outcome> {
    if let Some(StorageCommand::Gc { dry_run, server }) = &args.command {
        let client = Client::open(server)?;
        let wish = Collect { dry_run: *dry_run };
        let done: Collection = client.post(&["storage", "gc"]).body(&wish).json().await?;
        if server.json {
            print_json(console, &done)?;
        } else {
            console.print(&format!("{}\n", collected(&done)))?;
        }
        return Ok(Outcome::Clean);
    }
    let storage: Storage = Client::open(&args.server)?.get(&["storage"]).json().await?;
    if args.server.json {
        print_json(console, &storage)?;
        return Ok(Outcome::Clean);
    }
    if storage.uses.is_empty() {
        console.note_line("nobody keeps any bytes yet");
    } else {
        console.print(&table(&storage.uses).text())?;
    }
    for line in summary(&storage, time::now()) {
        console.note_line(&line);
    }
    Ok(Outcome::Clean)
}

fn table(uses: &[Use]) -> Table {
    let mut table = Table::new(&[
        cut("OWNER", 10),
        cut("REPOSITORY", 12),
        whole("KIND"),
        whole("COUNT"),
        whole("SIZE"),
    ]);
    for one in uses {
        table.row([
            Cell::from(&one.owner),
            Cell::from(one.repository.as_deref().unwrap_or("-")),
            Cell::from(&one.kind),
            Cell::from(one.count.to_string()),
            Cell::from(size(one.bytes)),
        ]);
    }
    table
}

/// What all of it takes, and what was freed last.
fn summary(storage: &Storage, now: Timestamp) -> Vec<String> {
    let kept = storage.kept.as_ref().map(|Kept { blobs, bytes, stored, removals }| {
        let waiting = match removals {
            0 => String::new(),
            removals => format!("; {} still to be removed", size(*removals)),
        };
        format!("{blobs} blobs of {} take {}{waiting}", size(*bytes), size(*stored))
    });
    let last = storage.last_collection.as_ref();
    let last = last.map(|last| format!("{}: {}", ago(&last.at, now), collected(last)));
    let counting =
        storage.counting_logs.then(|| "logs are still being counted; ask again".to_owned());
    kept.into_iter().chain(last).chain(counting).collect()
}

fn collected(done: &Collection) -> String {
    let Collection { unused, removed, uploads, strays, .. } = done;
    let freed = size(done.removed_bytes);
    if done.dry_run {
        let all = size(done.unused_bytes);
        return format!(
            "nothing refers to {unused} blobs ({all}); {removed} of them ({freed}) would go now, \
             the others when their time of grace is over"
        );
    }
    let more = if done.more { "; the server goes on with the rest" } else { "" };
    format!(
        "freed {freed}: {removed} blobs, {uploads} uploads that were given up, {strays} strays; \
         {unused} more are marked{more}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let sizes = [0, 1023, 1024, 1536, 5 << 20, (3 << 30) / 2, u64::MAX].map(size);
        let expected =
            ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "5.0 MiB", "1.5 GiB", "16777215.9 TiB"];
        assert_eq!(sizes, expected);
    }

    #[test]
    fn what_is_used_and_what_was_freed_is_said() {
        let one = Use {
            owner: "me".to_owned(),
            repository: Some("me/app".to_owned()),
            kind: "cache".to_owned(),
            count: 3,
            bytes: 5 << 20,
        };
        let text = anstream::adapter::strip_str(&table(&[one]).text()).to_string();
        assert_eq!(
            text,
            "OWNER  REPOSITORY  KIND   COUNT  SIZE\nme     me/app      cache  3      5.0 MiB\n"
        );
        let done = Collection {
            at: "2026-11-16T05:28:15.000Z".to_owned(),
            removed: 2,
            removed_bytes: 2048,
            ..Collection::default()
        };
        let kept = Some(Kept { blobs: 7, bytes: 4096, stored: 1024, removals: 10 });
        let last_collection = Some(done.clone());
        let storage = Storage { uses: Vec::new(), kept, last_collection, counting_logs: false };
        let now = time::parse("2026-11-16T05:31:15.000Z").unwrap();
        assert_eq!(
            summary(&storage, now),
            [
                "7 blobs of 4.0 KiB take 1.0 KiB; 10 B still to be removed",
                "3m: freed 2.0 KiB: 2 blobs, 0 uploads that were given up, 0 strays; 0 more are marked",
            ]
        );
        let foreseen = Collection { dry_run: true, unused: 3, unused_bytes: 4096, ..done };
        assert!(collected(&foreseen).starts_with("nothing refers to 3 blobs (4.0 KiB); 2 of them"));
    }
}
