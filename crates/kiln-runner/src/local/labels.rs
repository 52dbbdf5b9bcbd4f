//! Which jobs this machine can take, by the labels it answers to.

use kiln_core::run::{LegNo, Neighbourhood};
use kiln_lang::engine::{self, Expressions};

/// Why this machine cannot take a leg, in words; nothing when it can.
pub(super) fn missing(
    own: &[String],
    expressions: &Expressions,
    hood: &Neighbourhood,
    leg: LegNo,
) -> Option<String> {
    if own.is_empty() {
        return None;
    }
    match engine::labels(expressions, hood, leg) {
        Ok(wanted) => lacking(own, &wanted),
        Err(message) => Some(format!("its labels are not known: {message}")),
    }
}

/// Labels are compared without regard to case, as on GitHub.
fn lacking(own: &[String], wanted: &[String]) -> Option<String> {
    let has = |label: &&String| own.iter().any(|own| own.eq_ignore_ascii_case(label));
    let lacking: Vec<_> =
        wanted.iter().filter(|label| !has(label)).map(|label| format!("`{label}`")).collect();
    let noun = if lacking.len() == 1 { "label" } else { "labels" };
    let has = own.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>();
    (!lacking.is_empty()).then(|| {
        format!("needs the {noun} {}; this machine has {}", lacking.join(", "), has.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(own: &[&str], wanted: &[&str], expect: Option<&str>) {
        let owned = |labels: &[&str]| labels.iter().map(|&label| label.to_owned()).collect();
        let (own, wanted): (Vec<String>, Vec<String>) = (owned(own), owned(wanted));
        assert_eq!(lacking(&own, &wanted).as_deref(), expect, "{own:?} {wanted:?}");
    }

    #[test]
    fn a_job_is_taken_when_the_machine_has_all_its_labels() {
        check(&["linux"], &["linux"], None);
        check(&["Linux", "gpu"], &["linux"], None);
        check(&["linux"], &[], None);
        check(&["a"], &["b"], Some("needs the label `b`; this machine has `a`"));
        check(
            &["a", "x"],
            &["b", "a", "c"],
            Some("needs the labels `b`, `c`; this machine has `a`, `x`"),
        );
    }
}
