//! Addresses of the web in a text that somebody printed.

use std::ops::Range;

const SCHEMES: [&str; 2] = ["https://", "http://"];

/// Where addresses begin and end, one behind the other.
pub(super) fn find(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find("http").map(|at| from + at) {
        let glued = text[..at].chars().next_back().is_some_and(char::is_alphanumeric);
        let scheme = SCHEMES.into_iter().find(|scheme| text[at..].starts_with(scheme));
        from = at + "http".len();
        let Some(start) = scheme.filter(|_| !glued).map(|scheme| at + scheme.len()) else {
            continue;
        };
        let length = length(&text[start..]);
        if length > 0 {
            from = start + length;
            found.push(at..from);
        }
    }
    found
}

/// How much of what follows the scheme belongs to the address; 0 if it is none.
fn length(rest: &str) -> usize {
    let whole = &rest[..rest.find(ends).unwrap_or(rest.len())];
    if !whole.starts_with(|first: char| first.is_alphanumeric() || first == '[') {
        return 0;
    }
    let count = |sign: char| whole.chars().filter(|letter| *letter == sign).count();
    let (mut round, mut square) =
        (count(')').saturating_sub(count('(')), count(']').saturating_sub(count('[')));
    // What ends a sentence, or closes what was opened before the address, is none of it.
    let trimmed = whole.trim_end_matches(|last: char| match last {
        '.' | ',' | ';' | ':' | '!' | '?' | '\'' | '*' | '…' => true,
        ')' if round > 0 => {
            round -= 1;
            true
        }
        ']' if square > 0 => {
            square -= 1;
            true
        }
        _ => false,
    });
    trimmed.len()
}

/// What no address goes on behind.
fn ends(letter: char) -> bool {
    letter.is_whitespace()
        || letter.is_control()
        || matches!(letter, '<' | '>' | '"' | '`' | '\\' | '^' | '{' | '}' | '|')
        || matches!(letter, '“' | '”' | '‘' | '’' | '«' | '»' | '\u{fffd}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &[&str]) {
        let found: Vec<&str> = find(text).into_iter().map(|range| &text[range]).collect();
        assert_eq!(found, expect, "{text}");
    }

    /// O2
    #[test]
    fn addresses_are_found_as_people_write_them() {
        check("https://a.example", &["https://a.example"]);
        check("at http://localhost:5173/, and more", &["http://localhost:5173/"]);
        check("(see https://a.example/x_(y).)", &["https://a.example/x_(y)"]);
        check("[docs](https://a.example/b)", &["https://a.example/b"]);
        check(
            "<https://a.example/b> \"https://c.example\"",
            &["https://a.example/b", "https://c.example"],
        );
        check("http://[::1]:80/x] y", &["http://[::1]:80/x"]);
        check("git+https://a.example/r.git#main?!", &["https://a.example/r.git#main"]);
        check("https://a.example/ü/“quoted”", &["https://a.example/ü/"]);
        check("https://a.examplehttps://b.example", &["https://a.examplehttps://b.example"]);
        check("'https://a.example'", &["https://a.example"]);
        check("url=https://a.example/?q=a%20b&c=d;", &["https://a.example/?q=a%20b&c=d"]);
    }

    #[test]
    fn what_is_no_address_of_the_web_is_not_found() {
        for text in [
            "",
            "http",
            "https://",
            "http:// x",
            "https://.",
            "https:///etc/passwd",
            "javascript:alert(1)",
            "javascript://https",
            "data:text/html,<script>",
            "xhttps://a.example",
            "ftp://a.example",
            "https://\u{202e}moc",
            "https://\u{fffd}x",
        ] {
            check(text, &[]);
        }
    }

    #[test]
    fn many_brackets_take_no_time() {
        let text = format!("https://a{}", ")".repeat(1 << 20));
        check(&text, &["https://a"]);
        let text = "http".repeat(1 << 18);
        assert!(find(&text).is_empty());
    }
}
