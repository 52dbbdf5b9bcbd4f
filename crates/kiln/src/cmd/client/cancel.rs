//! `kiln cancel`: asks for the end of runs.

use anyhow::Result;
use kiln_proto::api::{Cancel, Cancelling};
use serde_json::json;

use super::{named, print_json};
use crate::Outcome;
use crate::cli::CancelArgs;
use crate::client::error::{self, Kind};
use crate::output::Console;

pub(super) async fn run(args: &CancelArgs, console: &mut Console) -> Result<Outcome> {
    let mut outcome = Outcome::Clean;
    for text in &args.runs {
        // One that cannot be cancelled does not save the others.
        if let Err(failed) = one(text, args, console).await {
            console.error(&failed);
            outcome = Outcome::Trouble;
        }
    }
    Ok(outcome)
}

async fn one(text: &str, args: &CancelArgs, console: &mut Console) -> Result<()> {
    let (client, what) = named(text, &args.server)?;
    let run = what.run();
    let word = if args.force { "force-cancel" } else { "cancel" };
    let id = run.to_string();
    let call = client.post(&["runs", &id, word]);
    let done = call.body(&Cancel { reason: args.reason.clone() }).json::<Cancelling>().await;
    let slug = run.slug();
    let (over, note) = match done {
        Ok(cancelling) => (false, cancelling.already),
        // A run that has ended needs no end.
        Err(failed) if error::kind(&failed) == Some(Kind::Conflict) => {
            (true, Some(failed.to_string()))
        }
        Err(failed) => return Err(failed.context(format!("`{text}`"))),
    };
    if args.server.json {
        return print_json(
            console,
            &json!({"id": run.0, "slug": slug, "cancelled": !over, "note": note}),
        );
    }
    match note {
        Some(note) => console.note_line(&format!("{slug}: {note}")),
        None if args.force => console.print(&format!("{slug} is being ended\n"))?,
        None => console.print(&format!(
            "{slug} is being cancelled; `kiln watch {slug}` shows how it ends\n"
        ))?,
    }
    Ok(())
}
