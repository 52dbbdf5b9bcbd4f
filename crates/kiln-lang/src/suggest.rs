//! What a person may have meant by a name that nothing has.

/// Longer names are not compared.
const MAX_LENGTH: usize = 64;

/// The candidate nearest to a misspelt name, if one is near enough to be meant.
pub fn closest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    // A name this long is no typing error, and the comparison is quadratic.
    if name.len() > MAX_LENGTH {
        return None;
    }
    let name = name.to_lowercase();
    let length = name.chars().count();
    let limit = (length / 3).clamp(1, 3);
    let rank = |candidate: &str| {
        let candidate = candidate.to_lowercase();
        let distance = distance(&name, &candidate, limit);
        // `timeout` stands for `timeout-minutes`, but only when no likelier slip is found.
        let is_beginning = length > 3 && candidate.starts_with(&name);
        if distance > limit && is_beginning { limit } else { distance }
    };
    candidates
        .into_iter()
        .map(|candidate| (rank(candidate), candidate))
        .filter(|(rank, _)| *rank <= limit)
        .min_by_key(|(rank, _)| *rank)
        .map(|(_, candidate)| candidate)
}

/// As [`closest`], for candidates whose number the author of the file chooses. There can be as many
/// mistakes as candidates, so nothing is suggested once a file has many findings.
pub fn closest_of_many<'c>(
    name: &str,
    candidates: impl IntoIterator<Item = &'c str>,
    findings: usize,
) -> Option<&'c str> {
    const MANY: usize = 20;
    if findings < MANY { closest(name, candidates) } else { None }
}

/// Edit distance in which swapping two neighbours counts once; anything above `limit` is `limit + 1`.
fn distance(left: &str, right: &str, limit: usize) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    if left.len().abs_diff(right.len()) > limit {
        return limit + 1;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut previous: Vec<usize> = (0..=right.len()).collect();
    for row in 1..=left.len() {
        let mut current = vec![row];
        for column in 1..=right.len() {
            let same = left[row - 1] == right[column - 1];
            let mut cost = (previous[column - 1] + usize::from(!same))
                .min(previous[column] + 1)
                .min(current[column - 1] + 1);
            let swapped = row > 1
                && column > 1
                && left[row - 1] == right[column - 2]
                && left[row - 2] == right[column - 1];
            if swapped {
                cost = cost.min(before[column - 2] + 1);
            }
            current.push(cost);
        }
        before = std::mem::replace(&mut previous, current);
    }
    previous[right.len()].min(limit + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_hand_finds_what_was_meant() {
        let keys = ["steps", "strategy", "runs-on", "needs", "name"];
        for (slip, meant) in [
            ("step", Some("steps")),
            ("stesp", Some("steps")),
            ("Runs-On", Some("runs-on")),
            ("run-on", Some("runs-on")),
            ("runs_on", Some("runs-on")),
            ("need", Some("needs")),
            ("stratgey", Some("strategy")),
            ("container", None),
            ("strat", Some("strategy")),
            ("x", None),
        ] {
            assert_eq!(closest(slip, keys), meant, "{slip}");
        }
    }
}
