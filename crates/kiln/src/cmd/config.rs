//! `kiln config`: what a server would be told, and whether it would take it.

use anyhow::Result;
use kiln_server::config::{Origin, Problem, Setting};
use serde_json::{Value, json};

use super::server::settings::Told;
use crate::Outcome;
use crate::cli::{ConfigArgs, ConfigCommand};
use crate::output::Console;

pub(crate) fn run(args: &ConfigArgs, console: &mut Console) -> Result<Outcome> {
    match &args.command {
        ConfigCommand::Check { settings, json } => check(&Told::of(settings)?, *json, console),
        ConfigCommand::Show { settings, json } => show(&Told::of(settings)?, *json, console),
    }
}

fn check(told: &Told, json: bool, console: &mut Console) -> Result<Outcome> {
    let problems = &told.problems;
    if json {
        let problems: Vec<Value> = problems.iter().map(problem_json).collect();
        let answer = json!({ "ok": problems.is_empty(), "file": told.file, "problems": problems });
        console.print_raw(&format!("{answer:#}\n"))?;
    } else {
        for problem in problems {
            console.print_raw(&format!("{problem}\n"))?;
        }
        let read = match &told.file {
            Some(file) => format!("`{}`", file.display()),
            None => "no file".to_owned(),
        };
        if problems.is_empty() {
            console.print_raw(&format!("the settings are good (read {read})\n"))?;
        }
    }
    Ok(if problems.is_empty() { Outcome::Clean } else { Outcome::Errors })
}

fn problem_json(problem: &Problem) -> Value {
    let mut value = json!({ "message": problem.message, "origin": problem.origin.to_string() });
    if let Origin::File { path, line, column } = &problem.origin {
        value["file"] = json!(path);
        value["line"] = json!(line);
        value["column"] = json!(column);
    }
    value
}

fn show(told: &Told, json: bool, console: &mut Console) -> Result<Outcome> {
    if json {
        let settings = told.settings.iter().map(|setting| {
            let name = setting.key.name.to_owned();
            (
                name,
                json!({ "value": value_of(setting, told), "origin": setting.origin.to_string() }),
            )
        });
        let all: serde_json::Map<String, Value> = settings.collect();
        console.print_raw(&format!("{:#}\n", Value::from(all)))?;
    } else {
        let name = told.settings.iter().map(|setting| setting.key.name.len()).max().unwrap_or(0);
        let values: Vec<_> = told.settings.iter().map(|setting| value_of(setting, told)).collect();
        let widths = values.iter().map(|value| value.chars().count()).filter(|width| *width < 40);
        let value = widths.max().unwrap_or(0);
        for (setting, text) in told.settings.iter().zip(&values) {
            let (key, origin) = (setting.key.name, &setting.origin);
            console.print_raw(&format!("{key:name$}  {text:value$}  {origin}\n"))?;
        }
    }
    Ok(if told.problems.is_empty() { Outcome::Clean } else { Outcome::Errors })
}

/// What it is, also where that follows from other settings.
fn value_of(setting: &Setting, told: &Told) -> String {
    let config = &told.config;
    setting.shown().unwrap_or_else(|| match setting.key.name {
        "public_url" => config.public_url.clone(),
        "data" => config.data.display().to_string(),
        "database" => config.database.to_string(),
        "keys_file" => config.keys_file.display().to_string(),
        _ => String::new(),
    })
}
