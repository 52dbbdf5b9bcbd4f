//! A plan for people: what starts the workflow, whether it would run, and its jobs in order.

use std::fmt::Write as _;

use clap::builder::styling::{AnsiColor, Style};
use serde_json::Value as Json;

use super::one_line;
use super::plan_json::{ConcurrencyView, JobView, PlanView, text};

/// More legs than this are counted instead of listed.
const LISTED_LEGS: usize = 8;

const STRONG: Style = Style::new().bold();
const QUIET: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default().bold();
const CALM: Style = AnsiColor::Yellow.on_default().bold();

pub(crate) fn render(plan: &PlanView) -> String {
    let mut page = Page::default();
    page.head(plan);
    if plan.decision.as_ref().is_none_or(|decision| decision.runs) {
        page.jobs(&plan.jobs, 0);
    }
    if page.open_questions {
        page.text.push_str("\nThe run itself answers what is in ${{ }}.\n");
    }
    page.text
}

#[derive(Default)]
struct Page {
    text: String,
    open_questions: bool,
}

impl Page {
    fn line(&mut self, indent: usize, line: &str) {
        let _ = writeln!(self.text, "{:indent$}{line}", "");
    }

    /// A line `label  value` below a heading.
    fn row(&mut self, indent: usize, label: &str, value: &str) {
        let value = one_line(value);
        self.open_questions |= value.contains("${{");
        self.line(indent, &format!("{QUIET}{label:<12}{QUIET:#}{value}"));
    }

    fn head(&mut self, plan: &PlanView) {
        let path = one_line(&plan.path);
        match &plan.name {
            Some(name) => {
                let name = one_line(name);
                self.line(0, &format!("{STRONG}{name}{STRONG:#}  {QUIET}{path}{QUIET:#}"));
            }
            None => self.line(0, &format!("{STRONG}{path}{STRONG:#}")),
        }
        if let (Some(event), Some(decision)) = (&plan.event, &plan.decision) {
            let mut what = one_line(&event.name);
            if let Some(reference) = &event.reference {
                let _ = write!(what, " on {}", one_line(reference));
            }
            let reason = one_line(&decision.reason);
            let verdict = if decision.runs {
                format!("{GOOD}runs{GOOD:#}")
            } else {
                format!("{CALM}is skipped{CALM:#}")
            };
            self.line(0, &format!("{what} {verdict}: {reason}"));
        } else {
            for (index, trigger) in plan.triggers.iter().enumerate() {
                let filters = text(&Json::Object(trigger.filters.clone()));
                let filters = if filters.is_empty() { filters } else { format!(" ({filters})") };
                let label = if index == 0 { "starts on" } else { "" };
                self.row(0, label, &format!("{}{filters}", trigger.event));
            }
        }
        if let Some(concurrency) = &plan.concurrency {
            self.concurrency(0, concurrency);
        }
    }

    fn jobs(&mut self, jobs: &[JobView], indent: usize) {
        for job in jobs {
            self.text.push('\n');
            self.job(job, indent);
        }
    }

    fn job(&mut self, job: &JobView, indent: usize) {
        let id = one_line(&job.id);
        let mut title = format!("{STRONG}{id}{STRONG:#}");
        if let Some(name) = &job.name {
            let _ = write!(title, "  {}", one_line(&text(name)));
        }
        match (&job.legs, &job.matrix) {
            (Some(legs), _) => drop(write!(title, "  {STRONG}×{}{STRONG:#}", legs.len())),
            (None, Some(_)) => title.push_str("  ×?"),
            (None, None) => {}
        }
        self.line(indent, &title);
        let indent = indent + 2;
        if !job.needs.is_empty() {
            self.row(indent, "after", &job.needs.join(", "));
        }
        if let Some(skipped) = job.decision.as_ref().filter(|decision| !decision.runs) {
            let reason = one_line(&skipped.reason);
            self.line(indent, &format!("{CALM}skipped{CALM:#}     {reason}"));
        }
        if job.condition != "success()" {
            self.row(indent, "if", &format!("${{{{ {} }}}}", job.condition));
        }
        self.legs(indent, job);
        let optional = [
            ("runs on", &job.runs_on),
            ("environment", &job.environment),
            ("timeout", &job.timeout_minutes),
        ];
        for (label, value) in optional {
            if let Some(value) = value {
                let unit = if label == "timeout" { " minutes" } else { "" };
                self.row(indent, label, &format!("{}{unit}", text(value)));
            }
        }
        if let Some(permissions) = &job.permissions {
            let granted = text(permissions);
            self.row(indent, "may", if granted.is_empty() { "nothing" } else { &granted });
        }
        if let Some(retry) = &job.retry {
            self.row(indent, "retry", &text(retry));
        }
        if let Some(concurrency) = &job.concurrency {
            self.concurrency(indent, concurrency);
        }
        self.work(indent, job);
    }

    fn legs(&mut self, indent: usize, job: &JobView) {
        if let Some(matrix) = &job.matrix {
            self.row(indent, "matrix", &text(matrix));
        }
        let legs = job.legs.as_deref().unwrap_or_default();
        for (index, leg) in legs.iter().take(LISTED_LEGS).enumerate() {
            self.row(indent, if index == 0 { "legs" } else { "" }, &text(leg));
        }
        if legs.len() > LISTED_LEGS {
            self.row(indent, "", &format!("and {} more", legs.len() - LISTED_LEGS));
        }
        if let Some(most) = &job.max_parallel {
            self.row(indent, "at a time", &text(most));
        }
    }

    fn concurrency(&mut self, indent: usize, concurrency: &ConcurrencyView) {
        let group = text(&concurrency.group);
        let rule = match (&concurrency.cancel_in_progress, concurrency.queue) {
            (Json::Bool(true), _) => "cancels the one before it".to_owned(),
            (Json::Bool(false), "max") => "waits in line".to_owned(),
            (Json::Bool(false), _) => "waits for the one before it".to_owned(),
            (open, _) => format!("cancels the one before it if {}", text(open)),
        };
        self.row(indent, "concurrency", &format!("{group} ({rule})"));
    }

    /// The steps, or the jobs of the called workflow.
    fn work(&mut self, indent: usize, job: &JobView) {
        if let Some(steps) = &job.steps {
            self.row(indent, "steps", &steps.len().to_string());
        }
        if let Some(uses) = &job.uses {
            self.row(indent, "calls", uses);
            match &job.jobs {
                Some(jobs) => self.jobs(jobs, indent + 2),
                None => self.row(indent, "", "(not at hand, so its jobs are not shown)"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{Decision, Event, Trigger};
    use crate::output::plan_json::view;
    use crate::testing::sample;

    fn strip(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    fn push() -> Event {
        Event {
            name: "push".into(),
            payload: kiln_core::value::Object::new(),
            reference: Some("refs/heads/main".into()),
            changed: None,
        }
    }

    #[test]
    fn a_plan_reads_from_trigger_to_last_job() {
        let triggers = [Trigger {
            event: "push".into(),
            filters: vec![("branches".into(), vec!["main".into(), "v*".into()])],
        }];
        let expect = "\
CI  .github/workflows/ci.yml
starts on   push (branches: main, v*)

lint
  runs on     ubuntu-latest
  steps       1

docs
  runs on     ubuntu-latest
  steps       1

test  ×3
  after       lint
  legs        os: ubuntu-24.04
              os: macos-15
              os: windows-2025
  runs on     ${{ matrix.os }}
  steps       1

build
  after       lint
  calls       ./.github/workflows/build.yml

    compile
      runs on     ubuntu-latest
      steps       1

    package
      after       compile
      runs on     ubuntu-latest
      steps       1

e2e  ×?
  after       build
  matrix      ${{ fromJSON(needs.build.outputs.matrix) }}
  runs on     ubuntu-latest
  steps       1

release  Release & \"publish\" <it>
  after       test, build, e2e
  if          ${{ success() && github.ref == 'refs/heads/main' }}
  runs on     ubuntu-latest
  steps       1

The run itself answers what is in ${{ }}.
";
        assert_eq!(strip(&render(&view(&sample(), &triggers, None))), expect);
    }

    #[test]
    fn a_skipped_workflow_says_why_and_shows_no_jobs() {
        let event = push();
        let decision = Decision::Skip("no changed file matches `paths`".into());
        let view = view(&sample(), &[], Some((&event, decision)));
        assert_eq!(
            strip(&render(&view)),
            "CI  .github/workflows/ci.yml\n\
             push on refs/heads/main is skipped: no changed file matches `paths`\n"
        );
    }

    #[test]
    fn no_name_can_steer_the_terminal() {
        let mut plan = sample();
        plan.workflows[0].name = Some("\u{1b}[31mred\nnext".into());
        plan.workflows[0].jobs[0].id = "a\u{7}b".into();
        let text = strip(&render(&view(&plan, &[], None)));
        assert!(text.starts_with(" [31mred next") || text.starts_with("[31mred next"), "{text:?}");
        assert!(!text.contains('\u{7}'));
    }
}
