//! Tables of GitHub's documented examples and of the traps around them.

use proptest::prelude::*;

use super::{Filter, Pattern};

#[track_caller]
fn check(pattern: &str, name: &str, expect: bool) {
    let compiled = Pattern::parse(pattern).unwrap_or_else(|e| panic!("{pattern}: {e}"));
    assert_eq!(compiled.matches(name), expect, "{pattern:?} on {name:?}");
}

#[track_caller]
fn check_list(patterns: &[&str], name: &str, expect: bool) {
    let filter = Filter::parse(patterns).unwrap_or_else(|e| panic!("{patterns:?}: {e:?}"));
    assert_eq!(filter.matches(name), expect, "{patterns:?} on {name:?}");
}

#[track_caller]
fn check_error(pattern: &str, marked: &str, message: &str) {
    let error = Pattern::parse(pattern).expect_err(pattern);
    assert!(error.message.contains(message), "{pattern:?}: {}", error.message);
    assert_eq!(&pattern[error.span], marked, "{pattern:?}: {}", error.message);
}

#[test]
fn documented_branch_and_tag_patterns_match_as_documented() {
    check("feature/*", "feature/my-branch", true);
    check("feature/*", "feature/your-branch", true);
    check("feature/*", "feature/a/b", false);
    check("feature/*", "feature", false);
    check("feature/**", "feature/beta-a/my-branch", true);
    check("feature/**", "feature/your-branch", true);
    check("feature/**", "feature/mona/the/octocat", true);
    check("feature/**", "feature", false);
    check("feature/**", "my/feature/x", false);
    check("main", "main", true);
    check("main", "maintenance", false);
    check("main", "Main", false);
    check("main", "my-main", false);
    check("releases/mona-the-octocat", "releases/mona-the-octocat", true);
    check("*", "main", true);
    check("*", "releases", true);
    check("*", "path/with/slash", false);
    check("**", "all/the/branches", true);
    check("**", "every/tag", true);
    check("*feature", "mona-feature", true);
    check("*feature", "feature", true);
    check("*feature", "ver-10-feature", true);
    check("*feature", "feature-2", false);
    check("*feature", "mona/feature", false);
    check("v2*", "v2", true);
    check("v2*", "v2.0", true);
    check("v2*", "v2.9", true);
    check("v2*", "v3", false);
    check("v[12].[0-9]+.[0-9]+", "v1.10.1", true);
    check("v[12].[0-9]+.[0-9]+", "v2.0.0", true);
    check("v[12].[0-9]+.[0-9]+", "v3.0.0", false);
    check("v[12].[0-9]+.[0-9]+", "v1.0", false);
    check("v[12].[0-9]+.[0-9]+", "v1x0x0", false);
    check("v[12].[0-9]+.[0-9]+", "v2.0.0-rc1", false);
    check("[CB]at", "Cat", true);
    check("[CB]at", "Bat", true);
    check("[CB]at", "Rat", false);
    check("[1-2]00", "100", true);
    check("[1-2]00", "300", false);
    check("Octo*", "Octocat", true);
    check("releases/**-alpha", "releases/beta/3-alpha", true);
    check("releases/**-alpha", "releases/10-alpha", true);
    check("releases/**-alpha", "releases/10", false);
    check("v1.**", "v1.2.3", true);
}

#[test]
fn documented_path_patterns_match_as_documented() {
    check("*", "README.md", true);
    check("*", "server.rb", true);
    check("*.jsx?", "page.js", true);
    check("*.jsx?", "page.jsx", true);
    check("*.jsx?", "page.jsxx", false);
    check("*.jsx?", "page.jsy", false);
    check("*.js", "app.js", true);
    check("*.js", "src/app.js", false);
    check("**.js", "index.js", true);
    check("**.js", "js/index.js", true);
    check("**.js", "src/js/app.js", true);
    check("**.js", "src/js/app.jsx", false);
    check("docs/*", "docs/README.md", true);
    check("docs/*", "docs/file.txt", true);
    check("docs/*", "docs/a/file.txt", false);
    check("docs/**", "docs/README.md", true);
    check("docs/**", "docs/mona/octocat.txt", true);
    check("docs/**", "my/docs/README.md", false);
    check("docs/**/*.md", "docs/README.md", true);
    check("docs/**/*.md", "docs/mona/hello-world.md", true);
    check("docs/**/*.md", "docs/a/markdown/file.md", true);
    check("docs/**/*.md", "docs.md", false);
    check("**/docs/**", "docs/hello.md", true);
    check("**/docs/**", "dir/docs/my-file.txt", true);
    check("**/docs/**", "space/docs/plan/space.doc", true);
    check("**/docs/**", "mydocs/file", false);
    check("**/README.md", "README.md", true);
    check("**/README.md", "js/README.md", true);
    check("**/README.md", "js/MY-README.md", false);
    check("**/*src/**", "a/src/app.js", true);
    check("**/*src/**", "my-src/code/js/app.js", true);
    check("**/*-post.md", "my-post.md", true);
    check("**/*-post.md", "path/their-post.md", true);
    check("**/migrate-*.sql", "migrate-10909.sql", true);
    check("**/migrate-*.sql", "db/migrate-v1.0.sql", true);
    check("**/migrate-*.sql", "db/sept/migrate-v1.sql", true);
}

#[test]
fn the_traps_of_the_dialect() {
    // A dot is a dot.
    check(".yml", "fyml", false);
    // `+` belongs to the character before it, also to a class or an escaped character.
    check("ab+", "abbb", true);
    check("ab+", "a", false);
    check("ab+c", "ac", false);
    check("c\\+\\+", "c++", true);
    check("\\++", "+++", true);
    check("[ab]?c", "c", true);
    check("[ab]?c", "abc", false);
    // A repeated slash is a character like any other.
    check("a/?b", "ab", true);
    check("a/?b", "a/b", true);
    check("**/?b", "xb", true);
    // Behind a star, `?` changes nothing.
    check("*?", "", true);
    check("*?.js", "a.js", true);
    // Only a `**` that opens a segment swallows its slash.
    check("a**/b", "ab", false);
    check("a**/b", "a/b", true);
    check("a**/b", "axy/z/b", true);
    check("**/b", "/b", false);
    check("**/**/b", "b", true);
    check("**/**/b", "x/y/z/b", true);
    check("**/**/b", "x/b", true);
    check("a/**/b/**/c", "a/b/c", true);
    check("a/**/b/**/c", "a/x/b/y/z/c", true);
    check("a/**/b/**/c", "a/x/y/z/c", false);
    // Three stars are no more than two.
    check("a***", "a/b", true);
    // Escapes.
    check("\\!file", "!file", true);
    check("escape\\\\backslash", "escape\\backslash", true);
    check("a\\*b", "a*b", true);
    check("a\\*b", "axb", false);
    check("\\[x\\]", "[x]", true);
    check("a]", "a]", true);
    check("\\a", "a", true);
    // `!` has no meaning past the first character.
    check("a!b", "a!b", true);
    // Classes: literals beside ranges, hyphens at the edges, escapes.
    check("[a-c9]", "b", true);
    check("[a-c9]", "9", true);
    check("[a-c9]", "d", false);
    check("[._-]", "-", true);
    check("[-a]", "-", true);
    check("[\\]]", "]", true);
    check("[*?]", "*", true);
    check("[*?]", "x", false);
    // No character is more than one character.
    check("caf[é]?", "café", true);
    check("日本+", "日本本", true);
    check("*", "", true);
    check("x", "", false);
}

#[test]
fn the_last_matching_pattern_decides() {
    check_list(&["*.md", "!README.md"], "hello.md", true);
    check_list(&["*.md", "!README.md"], "README.md", false);
    check_list(&["*.md", "!README.md"], "docs/hello.md", false);
    check_list(&["*.md", "!README.md", "README*"], "hello.md", true);
    check_list(&["*.md", "!README.md", "README*"], "README.md", true);
    check_list(&["*.md", "!README.md", "README*"], "README.doc", true);
    check_list(&["!README.md", "*.md"], "README.md", true);
    check_list(&["releases/**", "!releases/**-alpha"], "releases/10", true);
    check_list(&["releases/**", "!releases/**-alpha"], "releases/beta/3-alpha", false);
    check_list(&["path/a", "path/b"], "path/b", true);
    check_list(&["path/a", "path/b"], "path/c", false);
    check_list(&[], "anything", false);
}

#[test]
fn a_list_of_only_negated_patterns_never_matches() {
    let filter = Filter::parse(&["!a", "!b/**"]).expect("valid");
    assert!(filter.never_matches());
    for name in ["a", "b/c", "c", ""] {
        assert!(!filter.matches(name), "{name}");
    }
    assert!(!Filter::parse(&["!a", "b"]).expect("valid").never_matches());
}

#[test]
fn the_deciding_pattern_can_be_named() {
    let filter = Filter::parse(&["src/**", "!src/gen/**", "src/gen/keep.rs"]).expect("valid");
    let deciding = |name| filter.deciding(name).map(Pattern::text);
    assert_eq!(deciding("src/lib.rs"), Some("src/**"));
    assert_eq!(deciding("src/gen/x.rs"), Some("!src/gen/**"));
    assert_eq!(deciding("src/gen/keep.rs"), Some("src/gen/keep.rs"));
    assert_eq!(deciding("docs/x"), None);
}

#[test]
fn errors_point_at_the_mistake_and_say_what_to_write() {
    check_error("", "", "cannot be empty");
    check_error("!", "!", "must be followed by");
    check_error("?x", "?", "write `\\?`");
    check_error("+", "+", "there is none");
    check_error("!+x", "+", "there is none");
    check_error("a*+", "+", "cannot repeat `*`");
    check_error("a**+", "+", "cannot repeat `**`");
    check_error("a++", "+", "cannot repeat `+`");
    check_error("v[12", "[", "`]` is missing");
    check_error("v[12\\", "[", "missing after this `[`");
    check_error("v[", "[", "write `\\[`");
    check_error("v[]x", "[]", "lists no characters");
    check_error("v[z-a]", "z-a", "write `a-z`");
    check_error("é[9-0]", "9-0", "reversed");
    check_error("[+-/]", "+-/", "letters or digits");
    check_error("[!a]", "[!", "cannot be negated");
    check_error("[^a]", "[^", "cannot be negated");
    check_error("a\\", "\\", "escapes nothing");
    let long = "a".repeat(5000);
    check_error(&long, &long, "at most 4096 bytes");
    assert_eq!(Filter::parse(&["ok", "[", "x"]).expect_err("invalid").0, 1);
}

#[test]
fn hostile_patterns_cost_no_more_than_their_length() {
    // A backtracking matcher would not return from these in a lifetime.
    let name = "a".repeat(4000);
    for hostile in ["a*", "a+", "a?", "**a", "a*?"] {
        check(&(hostile.repeat(200) + "b"), &name, false);
    }
    check(&"**/".repeat(600), &"a/".repeat(2000), true);
}

/// The plain meaning of a pattern, by trying everything; only for short inputs.
fn naive(pattern: &[char], name: &[char], opens: bool) -> bool {
    let Some(&first) = pattern.first() else {
        return name.is_empty();
    };
    let splits = |take: &dyn Fn(&[char]) -> bool, rest: &[char]| {
        (0..=name.len()).any(|n| take(&name[..n]) && naive(rest, &name[n..], false))
    };
    match (first, pattern.get(1), pattern.get(2)) {
        ('*', Some('*'), Some('/')) if opens => {
            naive(&pattern[3..], name, true)
                || (2..=name.len())
                    .any(|n| name[n - 1] == '/' && naive(&pattern[3..], &name[n..], true))
        }
        ('*', Some('*'), _) => splits(&|_| true, &pattern[2..]),
        ('*', ..) => splits(&|part| !part.contains(&'/'), &pattern[1..]),
        (c, Some('?'), _) => splits(&|part| part.is_empty() || part == [c], &pattern[2..]),
        (c, Some('+'), _) => {
            splits(&|part| !part.is_empty() && part.iter().all(|&x| x == c), &pattern[2..])
        }
        (c, ..) => name.first() == Some(&c) && naive(&pattern[1..], &name[1..], c == '/'),
    }
}

proptest! {
    #[test]
    fn matching_agrees_with_trying_everything(
        parts in prop::collection::vec(
            prop::sample::select(vec!["a", "b", "/", "*b", "**a", "/**/", "a?", "b+", "/*"]), 1..6),
        name in "[ab/]{0,8}",
    ) {
        let pattern = parts.concat();
        // Runs of stars and repeated slashes are read greedily, which the model does not do.
        prop_assume!(!pattern.contains("***") && !pattern.contains("/?") && !pattern.contains("/+"));
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        let expect = naive(&chars(&pattern), &chars(&name), true);
        let got = Pattern::parse(&pattern).expect("valid").matches(&name);
        prop_assert_eq!(got, expect, "{} on {}", pattern, name);
    }

    #[test]
    fn any_text_is_read_or_refused_with_a_span_inside_it(text in r"[\PC]{0,20}", name in r"\PC{0,20}") {
        match Pattern::parse(&text) {
            Ok(pattern) => { pattern.matches(&name); }
            Err(error) => prop_assert!(text.get(error.span).is_some()),
        }
    }
}
