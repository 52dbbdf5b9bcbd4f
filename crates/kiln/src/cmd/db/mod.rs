//! `kiln db`: looks after the database. No other command opens one.

mod check;
mod place;
mod progress;
mod status;

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use kiln_store::{Backup, Store, backup, copy, is_in_use, prepare};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tokio::sync::oneshot;

use crate::Outcome;
use crate::cli::{DbArgs, DbCommand};
use crate::output::Console;
use place::Place;
use progress::Shown;

/// Runs the command until it ends or somebody interrupts it. What an interrupt leaves is marked as
/// incomplete, as after any other end in the middle.
pub(crate) fn run(args: &DbArgs, console: &mut Console) -> Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start")?;
    let interrupted = interrupt()?;
    let outcome = runtime.block_on(async {
        tokio::select! {
            outcome = command(&args.command, console) => outcome,
            _ = interrupted => Ok(Outcome::Cancelled),
        }
    });
    // A statement in the middle need not be waited for.
    runtime.shutdown_background();
    outcome
}

fn interrupt() -> Result<oneshot::Receiver<()>> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot wait for signals")?;
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            // When nobody listens any more, the command has just ended.
            let _ = sender.send(());
        }
    });
    Ok(receiver)
}

async fn command(command: &DbCommand, console: &mut Console) -> Result<Outcome> {
    match command {
        DbCommand::Status { database, json } => {
            show_status(&Place::of(database)?, *json, console).await
        }
        DbCommand::Migrate { database, json } => {
            migrate(&Place::of(database)?, *json, console).await
        }
        DbCommand::Check { database, json } => {
            check::run(&Place::of(database)?, *json, console).await
        }
        DbCommand::Backup { file, database, force, json } => {
            write_backup(&Place::of(database)?, file, *force, *json, console).await
        }
        DbCommand::Restore { file, database } => {
            fill_from(file, &Place::of(database)?, console).await
        }
        DbCommand::Move { to, database } => {
            move_all(&Place::of(database)?, &Place::named(to)?, console).await
        }
    }
}

async fn show_status(place: &Place, json: bool, console: &mut Console) -> Result<Outcome> {
    let description = place.explain(place.look()?.describe().await)?;
    if json {
        console.print_raw(&format!("{:#}\n", status::json(place, &description)))?;
    } else {
        console.print_raw(&status::text(place, &description))?;
    }
    let usable = status::trouble(&description).is_none();
    Ok(if usable { Outcome::Clean } else { Outcome::Errors })
}

async fn migrate(place: &Place, json: bool, console: &mut Console) -> Result<Outcome> {
    let store = place.open()?;
    let before = place.explain(store.describe().await)?;
    if let Some(trouble) = status::trouble(&before) {
        bail!("database `{place}` has schema {}, {trouble}", before.version);
    }
    let after = place.explain(store.migrate().await)?;
    store.close().await;
    let text = if json {
        let answer = json!({
            "database": place.to_string(), "before": before.version, "version": after.version,
        });
        format!("{answer:#}\n")
    } else if before.version == after.version {
        format!("`{place}` has the newest schema already: {}\n", after.version)
    } else {
        format!("`{place}` has schema {} now; it had {}\n", after.version, before.version)
    };
    console.print_raw(&text)?;
    Ok(Outcome::Clean)
}

async fn write_backup(
    place: &Place,
    file: &Path,
    force: bool,
    json: bool,
    console: &mut Console,
) -> Result<Outcome> {
    let store = place.look()?;
    let mut shown = Shown::on(console);
    let written = backup(&store, file, force, &mut |progress| shown.show(progress)).await;
    shown.end();
    place.explain(written)?;
    let bytes = file.metadata().map(|found| found.len()).unwrap_or_default();
    let text = if json {
        let answer = json!({
            "database": place.to_string(), "file": file.display().to_string(), "bytes": bytes,
        });
        format!("{answer:#}\n")
    } else {
        let size = status::size(i64::try_from(bytes).unwrap_or(i64::MAX));
        format!("wrote `{}`, {size}\n", file.display())
    };
    console.print_raw(&text)?;
    Ok(Outcome::Clean)
}

async fn fill_from(file: &Path, place: &Place, console: &mut Console) -> Result<Outcome> {
    if place.explain(is_in_use(&place.0).await)? {
        bail!("database `{place}` is in use; stop Kiln first");
    }
    // First of all, so that a file that cannot be restored leaves no new database behind.
    let backup = Backup::open(file).await?;
    let store = place.open()?;
    let mut shown = Shown::on(console);
    let copied = backup.restore(&store, &mut |progress| shown.show(progress)).await;
    shown.end();
    let copied = place.explain(copied)?;
    store.close().await;
    console.print_raw(&format!("restored {} rows into `{place}`\n", copied.rows))?;
    Ok(Outcome::Clean)
}

async fn move_all(from: &Place, to: &Place, console: &mut Console) -> Result<Outcome> {
    if from.0 == to.0 {
        bail!("`--to` names the database that is to be moved: `{from}`");
    }
    let source = ready_to_move(from).await?;
    if to.explain(is_in_use(&to.0).await)? {
        bail!("database `{to}` is in use; give a new one");
    }
    let target = to.open()?;
    to.explain(prepare(&target).await)?;
    let mut shown = Shown::on(console);
    let copied = copy(&source, &target, &mut |progress| shown.show(progress)).await;
    shown.end();
    let copied = to.explain(copied)?;
    target.close().await;
    console.print_raw(&format!(
        "copied {} rows into `{to}` and compared them; start Kiln with it now\n\
         `{from}` is as it was; remove it when you do not need it any more\n",
        copied.rows
    ))?;
    Ok(Outcome::Clean)
}

/// Opens a database from which a move may begin.
async fn ready_to_move(from: &Place) -> Result<Store> {
    // Before we open it ourselves.
    if from.explain(is_in_use(&from.0).await)? {
        bail!(
            "database `{from}` is in use; stop Kiln first, so that nothing is written after the copy"
        );
    }
    let source = from.look()?;
    let status = from.explain(source.status().await)?;
    match status.version {
        0 => bail!("database `{from}` is empty: there is nothing to move"),
        version if version < status.newest => {
            bail!("database `{from}` has an older schema; run `kiln db migrate` first")
        }
        _ => Ok(source),
    }
}
