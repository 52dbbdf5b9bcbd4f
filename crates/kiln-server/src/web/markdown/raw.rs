//! Tags in Markdown: how many there may be, and how deep inside of each other.
//!
//! What a tag means is not decided here; but a tree of a hundred thousand open tags takes minutes to build, so it is
//! never begun.

/// The most tags of a text, and how many may be open at once.
const MOST: usize = 50_000;
const DEEPEST: usize = 48;
/// The longest name that a tag is known by.
const NAME: usize = 16;

/// Tags that have no content, or end by themselves where the next one begins.
const SHORT: [&str; 15] = [
    "area", "br", "col", "dd", "dt", "hr", "img", "input", "li", "link", "meta", "p", "td", "th",
    "tr",
];

/// What is open so far.
#[derive(Debug, Default)]
pub(super) struct Raw {
    seen: usize,
    open: Vec<String>,
}

impl Raw {
    /// Whether this piece may stay HTML. Otherwise it is text.
    pub(super) fn takes(&mut self, piece: &str) -> bool {
        if self.seen > MOST {
            return false;
        }
        let mut rest = piece;
        let mut open = self.open.clone();
        while let Some(at) = rest.find('<') {
            rest = &rest[at + 1..];
            self.seen += 1;
            let (is_end, name) = name_of(rest);
            if name.is_empty() || SHORT.contains(&name.as_str()) {
                continue;
            }
            if !is_end {
                open.push(name);
            } else if let Some(last) = open.iter().rposition(|own| *own == name) {
                // Only this one: a parser keeps open what was not closed in order.
                open.remove(last);
            }
            if self.seen > MOST || open.len() > DEEPEST {
                return false;
            }
        }
        self.open = open;
        self.seen <= MOST
    }
}

/// What follows `<`: whether it ends something, and the name in small letters.
fn name_of(text: &str) -> (bool, String) {
    let is_end = text.starts_with('/');
    let text = text.strip_prefix('/').unwrap_or(text);
    let name = text.chars().take_while(char::is_ascii_alphanumeric).take(NAME);
    (is_end, name.map(|one| one.to_ascii_lowercase()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_open_too_deep_is_text() {
        let mut raw = Raw::default();
        for _ in 0..DEEPEST {
            assert!(raw.takes("<div>"));
        }
        assert!(!raw.takes("<div>"));
        assert!(raw.takes("</div>") && raw.takes("<b>"));
        // Ends of what is not open close nothing.
        assert!(raw.takes("</i>") && !raw.takes("<b>"));
    }

    #[test]
    fn there_are_not_too_many_tags() {
        let mut raw = Raw::default();
        assert!((0..MOST).all(|_| raw.takes("<br>")));
        assert!(!raw.takes("<br>"));
    }

    #[test]
    fn cells_end_by_themselves() {
        let mut raw = Raw::default();
        assert!(raw.takes(&format!("<table>{}</table>", "<tr><td>x".repeat(1_000))));
        assert!(raw.open.is_empty());
    }
}
