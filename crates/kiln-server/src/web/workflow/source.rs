//! The file of a workflow, each line with what is wrong in it right below.

use kiln_proto::workflow::Finding;
use maud::{Markup, html};

use crate::service::workflows::File;
use crate::web::failure::sentence;
use crate::web::parts;

/// How many findings are shown; nobody reads more.
const MOST: usize = 200;

/// In a sentence: how much is wrong, and what that means.
pub(super) fn verdict(findings: &[Finding]) -> Markup {
    let errors = findings.iter().filter(|found| found.severity == "error").count();
    let warnings = findings.len() - errors;
    let lines = |found: &Finding| {
        html! {
            @if found.file.is_none() { a href={ "#S" (found.line) } { "line " (found.line) } }
            @else { (found.file.as_deref().unwrap_or_default()) ":" (found.line) }
        }
    };
    html! {
        @if errors > 0 {
            p.notice.bad role="alert" {
                "The file cannot be used: " (parts::count(errors, "error", "errors")) ", the first in "
                @if let Some(first) = findings.iter().find(|found| found.severity == "error") { (lines(first)) }
                "."
            }
        }
        @if warnings > 0 {
            p.notice { (parts::count(warnings, "warning", "warnings")) ", the first in "
                @if let Some(first) = findings.iter().find(|found| found.severity != "error") { (lines(first)) }
                "."
            }
        }
    }
}

pub(super) fn show(file: &File, findings: &[Finding]) -> Markup {
    let (own, elsewhere): (Vec<&Finding>, Vec<&Finding>) =
        findings.iter().take(MOST).partition(|found| found.file.is_none());
    let at = |line: usize| own.iter().filter(move |found| found.line as usize == line);
    let worst = |line: usize| at(line).map(|found| found.severity.as_str()).min();
    let lines = file.checked.text.lines().count();
    html! {
        section aria-labelledby="file-title" {
            h2 #file-title { code { (file.checked.workflow.path) } " on " (file.reference) }
            div.source tabindex="0" role="region" aria-labelledby="file-title" {
                @for (line, text) in (1..).zip(file.checked.text.lines()) {
                    @let wrong = worst(line);
                    div.l.error[wrong == Some("error")].warning[wrong == Some("warning")] id={ "S" (line) } {
                        a.n href={ "#S" (line) } data-n=(line) aria-label={ "Line " (line) } {}
                        span.t { (text) }
                    }
                    @for found in at(line) { (finding(found)) }
                }
                // What is missing at the end is said there.
                @for found in own.iter().filter(|found| found.line as usize > lines) { (finding(found)) }
            }
            @if !elsewhere.is_empty() {
                h2 { "In files that it calls" }
                div.source { @for found in elsewhere { (finding(found)) } }
            }
            @if findings.len() > MOST { p.quiet { (findings.len() - MOST) " more findings are not shown." } }
        }
    }
}

fn finding(found: &Finding) -> Markup {
    let word = if found.severity == "error" { "Error" } else { "Warning" };
    html! {
        div.finding.(found.severity) role="note" {
            p {
                strong { (word) ": " } (sentence(&found.message)) " "
                code { @if let Some(file) = &found.file { (file) ":" } (found.line) ":" (found.column) } " "
                span.quiet { (found.code) }
            }
            @if let Some(label) = &found.label { p { (sentence(label)) } }
            @if let Some(help) = &found.help { p { "Help: " (help) } }
        }
    }
}
