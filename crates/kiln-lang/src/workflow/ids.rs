//! Ids of jobs and steps: which are allowed, and which are made up for steps that have none.

use std::collections::{HashMap, HashSet};

/// GitHub's limit on the length of an id, exclusive.
const MAX_LENGTH: usize = 100;

/// What is wrong with an id that a person chose.
pub fn fault(id: &str) -> Option<String> {
    let starts_well = id.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if !starts_well || !id.chars().all(is_id_char) {
        return Some(format!(
            "`{id}` is not a valid id: use letters, digits, `_` and `-`, and start with a letter or `_`"
        ));
    }
    if id.starts_with("__") {
        return Some(format!("`{id}` is not a valid id: a leading `__` is reserved"));
    }
    (id.len() >= MAX_LENGTH).then(|| {
        format!("the id has {} characters; it must have fewer than {MAX_LENGTH}", id.len())
    })
}

fn is_id_char(char: char) -> bool {
    char.is_ascii_alphanumeric() || char == '_' || char == '-'
}

/// Makes ids for steps that have none, as GitHub does: `__run`, `__run_2`, `__actions_checkout`.
#[derive(Debug, Default)]
pub struct Generator {
    taken: HashSet<String>,
    /// The number to try next for each stem, so that a thousand steps do not count from one each.
    counts: HashMap<String, usize>,
}

impl Generator {
    /// With the ids that are already given.
    pub fn new(taken: impl IntoIterator<Item = String>) -> Self {
        Self { taken: taken.into_iter().collect(), counts: HashMap::new() }
    }

    /// The next free id for a step that does `what`: `run`, or the name of an action.
    pub fn next(&mut self, what: &str) -> String {
        let legal = |char: char| if is_id_char(char) { char } else { '_' };
        let base: String = "__".chars().chain(what.chars().map(legal)).collect();
        let count = self.counts.entry(base.clone()).or_insert(1);
        loop {
            let suffix = if *count == 1 { String::new() } else { format!("_{count}") };
            let kept = base.len().min(MAX_LENGTH - suffix.len());
            let id = format!("{}{suffix}", &base[..kept]);
            *count += 1;
            if self.taken.insert(id.clone()) {
                return id;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_letters_digits_dashes_and_underscores() {
        for good in ["a", "_", "_a", "a__", "build-2", "A_b"] {
            assert_eq!(fault(good), None, "{good}");
        }
        for bad in ["", "-a", "0a", "a.b", "a b", "ü", "__a", "__", &"a".repeat(100)] {
            assert!(fault(bad).is_some(), "{bad}");
        }
    }

    /// P1
    #[test]
    fn generated_ids_count_up_and_stay_short() {
        let mut ids = Generator::new(["__run_2".to_owned()]);
        assert_eq!(ids.next("run"), "__run");
        assert_eq!(ids.next("run"), "__run_3");
        assert_eq!(ids.next("actions/checkout"), "__actions_checkout");
        assert_eq!(ids.next("actions/checkout"), "__actions_checkout_2");
        assert_eq!(ids.next(&"x".repeat(200)).len(), 100);
        assert!(ids.next(&"x".repeat(200)).ends_with("x_2"));
    }
}
