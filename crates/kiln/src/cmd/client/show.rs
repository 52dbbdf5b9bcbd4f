//! `kiln show` and `kiln summary`: a run as it stands now, and what its steps wrote for people.

use std::fmt::Write as _;

use anyhow::Result;
use kiln_proto::api::Annotation;
use kiln_proto::summary::StepSummary;

use super::watch::standing_now;
use super::words::{standing, tried};
use super::{MOST, attempts, named_or_latest, print_json};
use crate::Outcome;
use crate::cli::{ShowArgs, SummaryArgs};
use crate::client::error::{self, Kind};
use crate::client::target::What;
use crate::output::text::{BAD, CALM, QUIET};
use crate::output::{Console, one_line};

pub(super) async fn run(args: &ShowArgs, console: &mut Console) -> Result<Outcome> {
    let (client, target) = named_or_latest(args.what.as_deref(), &args.server).await?;
    let attempt = args.attempt.or(target.attempt);
    if let What::Job(job) = target.what {
        let job = client.job(&job.to_string()).await?;
        if args.server.json {
            print_json(console, &job)?;
            return Ok(Outcome::Clean);
        }
        let end = standing(&job.status, job.conclusion.as_deref());
        let mut text = format!("{} {} {}", end.mark, one_line(&job.name), end.word);
        let _ = writeln!(text, "{QUIET}: {}{QUIET:#}", one_line(&job.reason));
        for past in &job.claims {
            let _ = writeln!(text, "  {QUIET}{}{QUIET:#}", tried(past));
        }
        if let Some(deployment) = &job.deployment {
            let url = deployment.url.as_deref().map(one_line).unwrap_or_default();
            let _ = writeln!(text, "  deployed to {} {url}", one_line(&deployment.environment));
        }
        for step in &job.steps {
            let end = standing(&step.status, step.conclusion.as_deref());
            let style = end.style;
            let name = one_line(&step.name);
            let _ = writeln!(text, "  {:>2}  {style}{}{style:#} {name}", step.number, end.mark);
        }
        console.print(&text)?;
        return Ok(Outcome::Clean);
    }
    let run = target.what.run().to_string();
    let detail = client.run(&run, attempt).await?;
    if args.attempts {
        return attempts::show(&client, detail, args.server.json, console).await;
    }
    let which = attempt.map(|attempt| attempt.to_string());
    let call = client.get(&["runs", &run, "annotations"]).query_if("attempt", which);
    let said: Vec<Annotation> = match call.list(MOST).await {
        // A server of before does not tell.
        Err(failed) if error::kind(&failed) == Some(Kind::NotFound) => Vec::new(),
        said => said?,
    };
    if args.server.json {
        let mut detail = serde_json::to_value(&detail)?;
        detail["annotations"] = serde_json::to_value(&said)?;
        print_json(console, &detail)?;
    } else {
        console.print(&(standing_now(&detail) + &remarks(said)))?;
    }
    Ok(Outcome::Clean)
}

/// What steps said about places in the source, errors first.
fn remarks(mut said: Vec<Annotation>) -> String {
    let order = |level: &str| ["error", "warning"].iter().position(|known| *known == level);
    said.sort_by_key(|one| order(&one.level).unwrap_or(2));
    let mut text = String::new();
    for one in said {
        let style = match one.level.as_str() {
            "error" => BAD,
            "warning" => CALM,
            _ => QUIET,
        };
        let line = one.line.map(|line| format!(":{line}")).unwrap_or_default();
        let place = one.file.as_deref().map(|file| format!(" {}{line}", one_line(file)));
        let title = one.title.as_deref().map(|title| format!("{}: ", one_line(title)));
        let _ = writeln!(
            text,
            "{style}{}{style:#}: {}{} {QUIET}{}{}{QUIET:#}",
            one_line(&one.level),
            title.unwrap_or_default(),
            one_line(&one.message),
            one.job.as_deref().map(one_line).unwrap_or_default(),
            place.unwrap_or_default(),
        );
    }
    text
}

pub(super) async fn summary(args: &SummaryArgs, console: &mut Console) -> Result<Outcome> {
    let (client, target) = named_or_latest(args.run.as_deref(), &args.server).await?;
    let attempt = args.attempt.or(target.attempt).map(|attempt| attempt.to_string());
    let run = target.what.run().to_string();
    let call = client.get(&["runs", &run, "summaries"]).query_if("attempt", attempt);
    let found: Vec<StepSummary> = call.list(MOST).await?;
    for one in &found {
        if args.server.json {
            print_json(console, one)?;
            continue;
        }
        let job = one.job.as_deref().map_or_else(String::new, one_line);
        // What a job wrote must not speak to the terminal.
        let text: String = one
            .markdown
            .chars()
            .map(|c| if c.is_control() && c != '\n' && c != '\t' { '?' } else { c })
            .collect();
        console.print(&format!(
            "{QUIET}── {job}, step {}{QUIET:#}\n{}\n\n",
            one.step,
            text.trim_end()
        ))?;
    }
    if found.is_empty() && !args.server.json {
        console.note_line("no step of the run wrote a summary");
    }
    Ok(Outcome::Clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_come_before_what_is_less() {
        let said = |level: &str, file: Option<&str>| Annotation {
            level: level.to_owned(),
            message: "a\nb".to_owned(),
            title: None,
            file: file.map(str::to_owned),
            line: file.map(|_| 7),
            end_line: None,
            column: None,
            end_column: None,
            code: None,
            job_id: None,
            job: Some("test".to_owned()),
            step: None,
        };
        let text = remarks(vec![said("notice", None), said("error", Some("src/lib.rs"))]);
        let text = anstream::adapter::strip_str(&text).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(
            lines[0].starts_with("error: a") && lines[0].ends_with("test src/lib.rs:7"),
            "{text}"
        );
        assert!(lines[1].starts_with("notice: a"), "{text}");
    }
}
