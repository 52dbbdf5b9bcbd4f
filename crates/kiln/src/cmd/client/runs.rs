//! `kiln runs`: a line for each run, newest first.

use anyhow::Result;
use kiln_core::run::Conclusion;
use kiln_core::time::Timestamp;
use kiln_proto::api::Run;

use super::words::{file_name, lasted, short_ref, standing};
use super::{MOST, print_list};
use crate::Outcome;
use crate::cli::RunsArgs;
use crate::client::Client;
use crate::output::Console;
use crate::output::table::{Cell, Table, cut, whole};
use crate::output::time::{self, ago, between};

pub(super) async fn run(args: &RunsArgs, console: &mut Console) -> Result<Outcome> {
    let (client, repo) = if args.all {
        (Client::open(&args.server)?, None)
    } else {
        Client::open_repo(&args.server, args.repo.as_deref()).await?
    };
    // One word for both: people do not ask which of the two it is.
    let ended = args.status.as_deref().and_then(Conclusion::of_github);
    let call = client
        .get(&["runs"])
        .query_if("repo", repo.as_ref())
        .query_if(ended.map_or("status", |_| "conclusion"), args.status.as_ref())
        .query_if("branch", args.branch.as_ref())
        .query_if("workflow", args.workflow.as_ref())
        .query_if("event", args.event.as_ref())
        .query_if("actor", args.actor.as_ref())
        .query_if("q", args.search.as_ref());
    let limit = usize::try_from(args.limit).unwrap_or(MOST).clamp(1, MOST);
    let wanted = args.workflow.as_deref();
    let runs = call.list_of(limit, |run: &Run| wanted.is_none_or(|name| is_of(run, name))).await?;
    let of = repo.as_ref().map(|repo| format!(" of `{repo}`")).unwrap_or_default();
    let filters =
        [&args.status, &args.branch, &args.workflow, &args.event, &args.actor, &args.search];
    let filtered = filters.iter().any(|filter| filter.is_some());
    let nothing = if filtered {
        format!("no run{of} fits")
    } else {
        format!("there are no runs{of} yet; `kiln trigger` starts some")
    };
    let several = repo.is_none();
    print_list(
        console,
        args.server.json,
        &runs,
        |runs| table(runs, several, time::now()).text(),
        &nothing,
    )
}

/// Whether a run is of the workflow with this file name, path or name.
fn is_of(run: &Run, workflow: &str) -> bool {
    run.workflow == workflow || file_name(&run.workflow) == workflow || run.name == workflow
}

fn table(runs: &[Run], with_repo: bool, now: Timestamp) -> Table {
    let mut columns = vec![whole("STATUS"), cut("TITLE", 10)];
    if with_repo {
        columns.push(cut("REPOSITORY", 8));
    }
    columns.extend([
        cut("WORKFLOW", 6),
        cut("BRANCH", 6),
        cut("EVENT", 4),
        whole("AGE"),
        whole("TIME"),
        whole("RUN"),
    ]);
    let mut table = Table::new(&columns);
    for run in runs {
        let took = between(run.started_at.as_deref(), run.ended_at.as_deref(), now);
        let state = standing(&run.status, run.conclusion.as_deref());
        let mut cells: Vec<Cell> = vec![state.cell(), Cell::from(&run.title)];
        if with_repo {
            cells.push(Cell::from(&run.repo));
        }
        cells.extend([
            Cell::from(file_name(&run.workflow)),
            Cell::from(short_ref(&run.reference)),
            Cell::from(&run.event),
            Cell::from(ago(&run.created_at, now)),
            Cell::from(lasted(took)),
            Cell::from(&run.slug),
        ]);
        table.row(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::samples::run;
    use super::*;
    use crate::output::text::width;

    fn lines(room: Option<usize>, with_repo: bool) -> Vec<String> {
        let now = time::parse("2026-11-16T05:31:15.000Z").unwrap();
        let runs = [run("in_progress", None), run("completed", Some("failure"))];
        let text = table(&runs, with_repo, now).within(room);
        anstream::adapter::strip_str(&text).to_string().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_run_is_one_line_of_eighty_columns() {
        assert_eq!(
            lines(Some(80), false),
            [
                "STATUS     TITLE         WORKFLOW  BRANCH        EVENT        AGE  TIME    RUN",
                "● running  Make the te…  ci.yml    faster-tests  pull_reque…  3m   3m 12s  r-9ix",
                "✗ failed   Make the te…  ci.yml    faster-tests  pull_reque…  3m   1m 12s  r-9ix",
            ]
        );
    }

    #[test]
    fn no_line_is_wider_than_eighty_columns() {
        for line in lines(Some(80), true).iter().chain(&lines(Some(80), false)) {
            assert!(width(line) <= 80, "{line}");
            assert!(line.ends_with("RUN") || line.ends_with("r-9ix"), "{line}");
        }
        assert!(lines(None, true)[1].contains("Make the tests of the parser faster by half"));
    }
}
