//! Commit messages that ask for no runs.

/// The request to skip in a commit message, as it should be quoted to people.
pub(super) fn find(message: &str) -> Option<&'static str> {
    const MARKERS: [&str; 5] =
        ["[skip ci]", "[ci skip]", "[no ci]", "[skip actions]", "[actions skip]"];
    let lower = message.to_ascii_lowercase();
    let marker = MARKERS.into_iter().find(|marker| lower.contains(marker));
    marker.or_else(|| has_trailer(&lower).then_some("skip-checks: true"))
}

/// The trailer has to be the last line, in a paragraph of its own below the text. GitHub asks for
/// two empty lines before it; git itself leaves only one of them, so one is enough here.
fn has_trailer(message: &str) -> bool {
    let mut lines = message.trim_end().lines().rev();
    let is_trailer = lines
        .next()
        .and_then(|line| line.split_once(':'))
        .is_some_and(|(key, value)| key.trim() == "skip-checks" && value.trim() == "true");
    // Other trailers may stand above, then the empty line, then some text.
    let mut above = lines.skip_while(|line| line.contains(':'));
    is_trailer && above.next().is_some_and(|line| line.trim().is_empty()) && above.next().is_some()
}
