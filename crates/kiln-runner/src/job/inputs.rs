//! The inputs of a step whose work Kiln does itself, read as the published action reads them.

use super::driver::JobRun;
use super::environment::Variables;

#[derive(Debug, Clone, Copy)]
pub(super) struct Inputs<'w>(pub(super) &'w Variables);

impl<'w> Inputs<'w> {
    /// Empty if it is not given.
    pub(super) fn get(self, name: &str) -> &'w str {
        let given = self.0.iter().find(|(given, _)| given.eq_ignore_ascii_case(name));
        given.map_or("", |(_, value)| value.trim())
    }

    pub(super) fn required(self, name: &str) -> Result<&'w str, String> {
        match self.get(name) {
            "" => Err(format!("Input required and not supplied: {name}")),
            value => Ok(value),
        }
    }

    pub(super) fn is_set(self, name: &str) -> Result<bool, String> {
        match self.get(name).to_ascii_lowercase().as_str() {
            "" | "false" => Ok(false),
            "true" => Ok(true),
            other => Err(format!("`{name}` is `{other}`, expected `true` or `false`")),
        }
    }

    /// A whole number within these bounds; the first of them if it is not given.
    pub(super) fn number(self, name: &str, usual: u32, most: u32) -> Result<u32, String> {
        match self.get(name) {
            "" => Ok(usual),
            text => {
                text.parse().ok().filter(|number| *number <= most).ok_or_else(|| {
                    format!("`{name}` is `{text}`, expected a number from 0 to {most}")
                })
            }
        }
    }
}

impl JobRun<'_, '_> {
    /// What the published action would not know is a mistake that is worth a word.
    pub(super) fn warn_of_unknown(&self, with: &Variables, known: &[&str]) {
        let is_known = |name: &str| known.iter().any(|known| known.eq_ignore_ascii_case(name));
        for name in with.keys().filter(|name| !is_known(name)) {
            let known = known.join(", ");
            let text = format!("##[warning]the action has no input `{name}`; it has: {known}");
            self.output().say(self.step, &text);
        }
    }
}
