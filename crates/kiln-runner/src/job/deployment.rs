//! The environment that a job deploys to, and the address that it reports at its end.

use kiln_core::plan::{Data, Template};
use kiln_core::run::Conclusion;
use kiln_core::value::Value;
use kiln_lang::engine::{evaluate_data, evaluate_template};
use kiln_lang::expr::coerce::to_text;

use super::driver::JobRun;
use super::environment::Variables;
use super::frame::Frame;

/// Where a job deployed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployment {
    pub environment: String,
    /// Where people find what was deployed, if the job says so.
    pub url: Option<String>,
}

impl JobRun<'_, '_> {
    /// Asked after the last step, because the address may come from its outputs. One that cannot be
    /// evaluated fails the job, one that holds a secret is dropped, both as on GitHub.
    pub(super) fn deployment(&mut self, frame: &mut Frame) -> Option<Deployment> {
        let environment = self.shared.task.environment.clone()?;
        let url = match self.environment_url(frame) {
            Ok(url) => url,
            Err(message) => {
                self.output().error(self.step, &format!("`environment.url`: {message}"));
                frame.status = Conclusion::Failure;
                None
            }
        };
        let hidden = |text: &String| self.output().has_secret(text);
        if url.as_ref().is_some_and(hidden) {
            let warning =
                "##[warning]the address of the environment may hold a secret and is dropped";
            self.output().say(self.step, warning);
            return Some(Deployment { environment, url: None });
        }
        Some(Deployment { environment, url })
    }

    fn environment_url(&self, frame: &Frame) -> Result<Option<String>, String> {
        let env = self.env(frame, &Variables::default());
        let value = match self.shared.task.steps().and_then(|steps| steps.environment.as_ref()) {
            Some(map @ Data::Map(_)) => match map.get("url") {
                Some(url) => evaluate_data(url, &env)?,
                None => return Ok(None),
            },
            // The whole of it may come from one expression.
            Some(Data::Scalar(template @ Template::Expr(_))) => {
                match evaluate_template(template, &env)? {
                    Value::Object(whole) => whole.get("url").cloned().unwrap_or_default(),
                    _ => return Ok(None),
                }
            }
            _ => return Ok(None),
        };
        Ok(Some(to_text(&value).into_owned()).filter(|url| !url.is_empty()))
    }
}
