//! `kiln rerun`: a new attempt of a run, or of one of its jobs.

use anyhow::{Result, bail};
use kiln_proto::api::{Rerun, Rerunning};

use super::watch::{self, Watching};
use super::{named, print_json};
use crate::Outcome;
use crate::cli::{ProgressView, RerunArgs};
use crate::client::target::What;
use crate::output::{Console, Manner};

pub(super) async fn run(args: &RerunArgs, console: &mut Console) -> Result<Outcome> {
    let (client, what) = named(&args.run, &args.server)?;
    let job = match what {
        What::Run(_) => args.job.clone(),
        What::Job(job) if !args.failed && args.job.is_none() => Some(job.slug()),
        What::Job(job) => bail!(
            "`{}` names the job {}; leave out `--failed` and `--job`, or name the run {}",
            args.run,
            job.slug(),
            job.run().slug()
        ),
    };
    if args.from_step.is_some() && job.is_none() {
        bail!("`--from-step` is for one job: name it with `--job`, or instead of the run");
    }
    let run = what.run();
    let id = run.to_string();
    let wish = Rerun { failed: args.failed, job, step: args.from_step.clone() };
    let started: Rerunning = client.post(&["runs", &id, "rerun"]).body(&wish).json().await?;
    if args.server.json {
        print_json(console, &started)?;
    } else {
        let Rerunning { slug, attempt, .. } = &started;
        let more =
            if args.watch { String::new() } else { format!("; `kiln watch {slug}` shows it") };
        console.print(&format!("{slug} runs again: attempt {attempt}{more}\n"))?;
    }
    if !args.watch {
        return Ok(Outcome::Clean);
    }
    let manner = Manner::choose(args.server.json, ProgressView::Auto)?;
    let watching = Watching { manner, least_attempt: started.attempt, ..Watching::default() };
    watch::until_the_end(&client, run, &watching, console).await
}
