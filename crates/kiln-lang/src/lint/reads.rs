//! What the expressions of a file read, indexed so that large files stay quick.

use std::collections::HashSet;

use crate::expr::analysis::ContextPath;

/// Places are asked for by at most so many segments: `needs.build.outputs.x`.
const MAX_SEGMENTS: usize = 4;
/// With more computed paths than this, everything counts as read.
const MAX_COMPUTED: usize = 500;

/// The paths of all expressions.
#[derive(Debug, Default)]
pub(super) struct Reads {
    /// Every path and every beginning of one.
    beginnings: HashSet<String>,
    /// The paths themselves: a short one reads all that is beneath it.
    paths: HashSet<String>,
    /// Paths with a segment that is known only during the run.
    computed: Vec<Vec<String>>,
}

impl Reads {
    pub(super) fn new<'p>(paths: impl Iterator<Item = &'p ContextPath>) -> Self {
        let mut reads = Self::default();
        for path in paths {
            let segments = &path.segments[..path.segments.len().min(MAX_SEGMENTS)];
            if segments.iter().any(|segment| segment == "*") {
                reads.computed.push(segments.to_vec());
                continue;
            }
            for length in 1..=segments.len() {
                reads.beginnings.insert(segments[..length].join("."));
            }
            reads.paths.insert(path.segments.join("."));
        }
        reads
    }

    pub(super) fn contains(&self, wanted: &[&str]) -> bool {
        let matches = |path: &Vec<String>| {
            path.iter().zip(wanted).all(|(own, wanted)| own == wanted || own == "*")
        };
        self.beginnings.contains(&wanted.join("."))
            || (1..wanted.len()).any(|length| self.paths.contains(&wanted[..length].join(".")))
            || self.computed.len() > MAX_COMPUTED
            || self.computed.iter().any(matches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::analysis::context_paths;

    #[track_caller]
    fn check(expr: &str, wanted: &str, expected: bool) {
        let expr = crate::expr::parse(expr).unwrap().unwrap();
        let reads = Reads::new(context_paths(&expr).iter());
        let wanted: Vec<&str> = wanted.split('.').collect();
        assert_eq!(reads.contains(&wanted), expected, "{expr}: {wanted:?}");
    }

    #[test]
    fn a_path_reads_what_it_names_and_what_is_beneath() {
        check("needs.a.outputs.b", "needs.a.outputs.b", true);
        check("needs.a.outputs.b.c.d", "needs.a.outputs.b", true);
        check("needs.a.outputs", "needs.a.outputs.b", true);
        check("f(needs)", "needs.a.outputs.b", true);
        check("needs.*.outputs.b", "needs.a.outputs.b", true);
        check("needs[x]", "needs.a.outputs.b", true);
        check("needs.a.result", "needs.a.outputs.b", false);
        check("needs.*.result", "needs.a.outputs.b", false);
        check("needs.a.outputs.bb", "needs.a.outputs.b", false);
        check("inputs.x", "inputs.x", true);
    }
}
