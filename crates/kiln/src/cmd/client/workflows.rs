//! `kiln workflows`: the files that start runs.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result};
use kiln_core::plan::Input;
use kiln_lang::source::SourceMap;
use kiln_proto::github::{Workflow, Workflows};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::place::Place;
use super::record::Record;
use super::trigger::workflow_file;
use super::words::{file_name, lasted};
use super::{print_json, print_list};
use crate::Outcome;
use crate::cli::{OneWorkflowArgs, WorkflowsArgs, WorkflowsCommand};
use crate::client::error::{self, Kind};
use crate::client::here::pasted;
use crate::lang;
use crate::output::table::{Cell, Table, cut, whole};
use crate::output::text::{BAD, CALM, QUIET};
use crate::output::{Console, one_line};

/// How many one answer brings.
const PAGE: usize = 100;
/// Where they are, below their repository.
const WORKFLOWS: [&str; 2] = ["actions", "workflows"];

pub(super) async fn run(args: &WorkflowsArgs, console: &mut Console) -> Result<Outcome> {
    match &args.command {
        None => {
            let place = Place::find(&args.server, args.repo.as_deref()).await?;
            let all = all(&place).await?;
            let nothing = "the server has seen no workflow there yet; `kiln trigger` shows it some";
            print_list(console, args.server.json, &all, |all| table(all).text(), nothing)
        }
        Some(WorkflowsCommand::Show { which, reference }) => {
            show(which, reference.as_deref(), console).await
        }
        Some(WorkflowsCommand::Enable(which)) => set(which, true, console).await,
        Some(WorkflowsCommand::Disable(which)) => set(which, false, console).await,
    }
}

/// The place of a workflow, and what its file is called.
async fn named(which: &OneWorkflowArgs) -> Result<(Place, String)> {
    // The page of a workflow says whose it is.
    let page = Some(which.workflow.as_str()).filter(|text| pasted(text).is_some());
    let place = Place::find(&which.server, which.repo.as_deref().or(page)).await?;
    Ok((place, workflow_file(&which.workflow)))
}

pub(super) async fn all(place: &Place) -> Result<Vec<Workflow>> {
    let mut all = Vec::new();
    for page in 1_u32.. {
        let call = place.call(Method::GET, &WORKFLOWS).query("per_page", &PAGE.to_string());
        let found: Workflows = call.query("page", &page.to_string()).json().await?;
        let is_last = found.workflows.len() < PAGE;
        all.extend(found.workflows);
        if is_last {
            break;
        }
    }
    Ok(all)
}

fn table(all: &[Workflow]) -> Table {
    let mut table = Table::new(&[cut("NAME", 10), cut("FILE", 10), whole("STATE"), whole("ID")]);
    for workflow in all {
        let active = workflow.state == "active";
        let state = if active { Cell::from("active") } else { Cell::styled("disabled", CALM) };
        table.row([
            Cell::from(&workflow.name),
            Cell::from(file_name(&workflow.path)),
            state,
            Cell::from(workflow.id.to_string()),
        ]);
    }
    table
}

async fn set(which: &OneWorkflowArgs, enabled: bool, console: &mut Console) -> Result<Outcome> {
    let (place, file) = named(which).await?;
    let word = if enabled { "enable" } else { "disable" };
    place.call(Method::PUT, &[&WORKFLOWS, &[&file, word][..]].concat()).done().await?;
    if which.server.json {
        print_json(console, &json!({ "workflow": file, "enabled": enabled }))?;
    } else {
        let what = if enabled { "starts runs again" } else { "starts no runs any more" };
        console.print(&format!("{file} {what}\n"))?;
    }
    Ok(Outcome::Clean)
}

/// What the server says about a file, as far as it is shown.
#[derive(Debug, Deserialize)]
struct File {
    path: String,
    name: String,
    enabled: bool,
    events: Vec<String>,
    text: String,
    findings: Vec<Finding>,
}

#[derive(Debug, Deserialize)]
struct Finding {
    severity: String,
    message: String,
    file: Option<String>,
    line: u32,
    column: u32,
    help: Option<String>,
}

async fn show(
    which: &OneWorkflowArgs,
    reference: Option<&str>,
    console: &mut Console,
) -> Result<Outcome> {
    let (place, name) = named(which).await?;
    let path = ["repos", &place.owner, &place.name, "workflows", &name, "file"];
    let asked = place.client.get(&path).query_if("ref", reference).json::<Value>().await;
    let raw = match asked {
        Ok(raw) => Some(raw),
        // Not every server tells what is in a file; what it knows of the workflow it does.
        Err(failed) if error::kind(&failed) == Some(Kind::NotFound) && reference.is_none() => None,
        Err(failed) => return Err(failed),
    };
    let repo = format!("{}/{}", place.owner, place.name);
    let Some(raw) = raw else {
        let known: Workflow =
            place.call(Method::GET, &[&WORKFLOWS, &[name.as_str()][..]].concat()).json().await?;
        let record = Record::of(&place.client, &repo, &known.path).await?;
        if which.server.json {
            let mut known = serde_json::to_value(&known)?;
            known["record"] = serde_json::to_value(&record)?;
            print_json(console, &known)?;
        } else {
            let enabled = known.state == "active";
            console.print(&head(&known.name, &known.path, enabled, record.as_ref()))?;
        }
        return Ok(Outcome::Clean);
    };
    let file = File::deserialize(&raw).context("the server's answer cannot be read")?;
    let record = Record::of(&place.client, &repo, &file.path).await?;
    let inputs = inputs_of(&file);
    if which.server.json {
        let mut raw = raw;
        raw["inputs"] = serde_json::to_value(&inputs)?;
        raw["record"] = serde_json::to_value(&record)?;
        print_json(console, &raw)?;
    } else {
        let head = head(&file.name, &file.path, file.enabled, record.as_ref());
        console.print(&(head + &about(&file, &inputs)))?;
    }
    let broken = file.findings.iter().any(|finding| finding.severity == "error");
    Ok(if broken { Outcome::Errors } else { Outcome::Clean })
}

fn head(name: &str, path: &str, enabled: bool, record: Option<&Record>) -> String {
    let state = if enabled { "" } else { ", disabled" };
    let mut text = format!("{} {QUIET}({}{state}){QUIET:#}\n", one_line(name), one_line(path));
    match record {
        None => text.push_str("it has not run yet\n"),
        Some(record) => {
            let green = record.green.map(|green| format!("{green} % green, ")).unwrap_or_default();
            let usual = lasted(record.median_seconds.map(Duration::from_secs));
            let _ = writeln!(text, "last runs  {}  {green}usually {usual}", record.signs());
        }
    }
    text
}

/// The inputs of a dispatch. A file that calls others is read as far as that goes without them.
fn inputs_of(file: &File) -> Vec<Input> {
    let mut sources = SourceMap::default();
    let compiled = lang::compile(&mut sources, &file.path, &file.text, &|_| None);
    compiled.plan.map(|plan| plan.root().dispatch_inputs.clone()).unwrap_or_default()
}

fn about(file: &File, inputs: &[Input]) -> String {
    let mut text = format!("events     {}\n", one_line(&file.events.join(", ")));
    for input in inputs {
        let (name, kind) = (one_line(&input.name), input.kind.as_str());
        let must = if input.required { ", required" } else { "" };
        let what = input.description.as_deref().map(one_line).unwrap_or_default();
        let _ = writeln!(text, "input      {name} ({kind}{must}) {QUIET}{what}{QUIET:#}");
    }
    for finding in &file.findings {
        let style = if finding.severity == "error" { BAD } else { CALM };
        let place = finding.file.as_deref().unwrap_or(&file.path);
        let _ = writeln!(
            text,
            "{style}{}{style:#}: {} {QUIET}{}:{}:{}{QUIET:#}",
            one_line(&finding.severity),
            one_line(&finding.message),
            one_line(place),
            finding.line,
            finding.column,
        );
        if let Some(help) = &finding.help {
            let _ = writeln!(text, "  {}", one_line(help));
        }
    }
    if file.findings.is_empty() {
        text.push_str("nothing is wrong with the file\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_shown_with_its_inputs_and_what_is_wrong_with_it() {
        let file = File {
            path: ".github/workflows/ship.yml".to_owned(),
            name: "Ship".to_owned(),
            enabled: true,
            events: vec!["workflow_dispatch".to_owned()],
            text: "on: {workflow_dispatch: {inputs: {fast: {type: boolean, required: true, \
                   description: skip the tests}}}}\njobs: {a: {runs-on: linux, steps: [{run: make}]}}\n"
                .to_owned(),
            findings: vec![Finding {
                severity: "warning".to_owned(),
                message: "the action is not pinned".to_owned(),
                file: None,
                line: 4,
                column: 7,
                help: Some("name a commit".to_owned()),
            }],
        };
        let text = about(&file, &inputs_of(&file));
        let text = anstream::adapter::strip_str(&text).to_string();
        for words in [
            "input      fast (boolean, required) skip the tests",
            "warning: the action is not pinned .github/workflows/ship.yml:4:7",
            "  name a commit",
        ] {
            assert!(text.contains(words), "`{words}` is missing: {text}");
        }
        let clean = File { findings: Vec::new(), text: "on: [".to_owned(), ..file };
        assert!(inputs_of(&clean).is_empty());
        assert!(about(&clean, &[]).contains("nothing is wrong"));
    }
}
