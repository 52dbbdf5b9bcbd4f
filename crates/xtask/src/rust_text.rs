//! A light reading of rustfmt'ed Rust: which bytes are code, which code is for tests, where functions
//! begin and end.
//!
//! A full parser would know more than the checks ask; this one only tells literals from code and
//! counts brackets.

use std::ops::Range;

/// One function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub name: String,
    pub at: usize,
    /// Lines from the signature to the closing brace.
    pub lines: usize,
}

/// Whether everything in the file is for tests, judged by where it lies.
pub(crate) fn is_test_path(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name == "tests.rs"
        || name.ends_with("_tests.rs")
        || path.split('/').any(|part| part == "tests" || part == "benches")
}

/// The 1-based line of a byte offset.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    1 + text[..offset].matches('\n').count()
}

/// The source with comments and literals blanked out; offsets and lines stay as they are.
pub(crate) fn code(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut masked = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let Some(end) = non_code_end(bytes, at) else {
            at += 1;
            continue;
        };
        for byte in &mut masked[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end;
    }
    String::from_utf8(masked).expect("whole literals were replaced by spaces")
}

/// The byte ranges of items under `#[cfg(test)]`; `code` is what [`code`] returned.
pub(crate) fn test_items(code: &str) -> Vec<Range<usize>> {
    let mut items: Vec<Range<usize>> = Vec::new();
    for marker in ["#[cfg(test)]", "#[cfg(all(test,"] {
        for (start, _) in code.match_indices(marker) {
            items.push(start..item_end(code, start));
        }
    }
    items.sort_by_key(|item| item.start);
    items
}

/// All functions with a body, outer before inner; `code` is what [`code`] returned.
pub(crate) fn functions(code: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let is_word =
            !code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_');
        let name: String =
            code[at + 3..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let end = item_end(code, at);
        if is_word && !name.is_empty() && code[..end].ends_with('}') {
            let lines = line_of(code, end) - line_of(code, at) + 1;
            found.push(Function { name, at, lines });
        }
    }
    found
}

/// Just past the `}` or `;` that ends the item which starts at `start`.
fn item_end(code: &str, start: usize) -> usize {
    let (mut nesting, mut braces) = (0_usize, 0_usize);
    for (index, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'(' | b'[' => nesting += 1,
            b')' | b']' => nesting = nesting.saturating_sub(1),
            b'{' => braces += 1,
            b'}' => {
                braces = braces.saturating_sub(1);
                if braces == 0 && nesting == 0 {
                    return index + 1;
                }
            }
            b';' if nesting == 0 && braces == 0 => return index + 1,
            _ => {}
        }
    }
    code.len()
}

/// Where the comment or literal that starts at `at` ends, if one does.
fn non_code_end(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = &bytes[at..];
    match rest {
        [b'/', b'/', ..] => Some(at + until(rest, b"\n").unwrap_or(rest.len())),
        [b'/', b'*', ..] => Some(at + block_comment_length(rest)),
        [b'"', ..] => Some(at + quoted_length(rest, b'"')),
        [b'r', b'"' | b'#', ..] => raw_string_length(rest).map(|length| at + length),
        [b'\'', b'\\', ..] => Some(at + quoted_length(rest, b'\'')),
        // `'x'` is a character, `'x` alone a lifetime.
        [b'\'', next, ..] => {
            let width = match next {
                0x00..=0x7f => 1,
                0x80..=0xdf => 2,
                0xe0..=0xef => 3,
                _ => 4,
            };
            (rest.get(1 + width) == Some(&b'\'')).then_some(at + width + 2)
        }
        _ => None,
    }
}

fn until(bytes: &[u8], end: &[u8]) -> Option<usize> {
    bytes.windows(end.len()).position(|window| window == end)
}

fn quoted_length(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

fn raw_string_length(rest: &[u8]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|&&byte| byte == b'#').count();
    let body = 1 + hashes;
    if rest.get(body) != Some(&b'"') {
        return None; // A raw identifier such as `r#type`.
    }
    let end = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
    let length = until(&rest[body + 1..], &end).map(|found| body + 1 + found + end.len());
    Some(length.unwrap_or(rest.len()))
}

fn block_comment_length(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] if depth == 1 => return at + 2,
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_code(source: &str, expected: &str) {
        assert_eq!(code(source), expected, "{source}");
        assert_eq!(code(source).len(), source.len());
    }

    #[test]
    fn comments_and_literals_are_blanked() {
        check_code("a // b {\nc", "a       \nc");
        check_code("a /* { /* { */ } */ b", "a                   b");
        check_code(r#"f("}\"{") + g"#, "f(      ) + g");
        check_code("f(r#\"}\"\"#) + g", "f(       ) + g");
        check_code("f('{', '\\'', 'é')", "f(   ,     ,     )");
    }

    #[test]
    fn lifetimes_and_raw_identifiers_are_code() {
        check_code("fn f<'a>(r#type: &'a str)", "fn f<'a>(r#type: &'a str)");
    }

    #[test]
    fn text_that_never_ends_does_not_panic() {
        for source in ["\"abc", "r##\"abc\"#", "/* /* */", "'\\", "fn f() {", "#[cfg(test)]", "'"] {
            let masked = code(source);
            functions(&masked);
            test_items(&masked);
        }
    }

    fn check_functions(source: &str, expected: &[(&str, usize)]) {
        let found: Vec<(String, usize)> =
            functions(&code(source)).into_iter().map(|found| (found.name, found.lines)).collect();
        let expected: Vec<(String, usize)> =
            expected.iter().map(|(name, lines)| ((*name).to_owned(), *lines)).collect();
        assert_eq!(found, expected, "{source}");
    }

    #[test]
    fn functions_are_counted_from_signature_to_brace() {
        check_functions(
            "fn a() {}\npub fn b(\n    x: u8,\n) {\n    x;\n}\n",
            &[("a", 1), ("b", 5)],
        );
        check_functions("fn a() -> [u8; 2] {\n    \"}\";\n}\n", &[("a", 3)]);
        check_functions("fn a() {\n    fn b() {\n    }\n}\n", &[("a", 4), ("b", 2)]);
    }

    #[test]
    fn declarations_and_function_pointers_are_not_functions() {
        check_functions("trait T {\n    fn a();\n}\ntype F = fn (u8);\nlet my_fn = 1;\n", &[]);
    }

    #[test]
    fn items_for_tests_are_found_whole() {
        let source =
            "fn a() {}\n#[cfg(test)]\n#[rustfmt::skip]\nmod tests {\n    fn b() {}\n}\nfn c() {}";
        let items = test_items(source);
        assert_eq!(items.len(), 1);
        assert!(source[items[0].clone()].starts_with("#[cfg(test)]"));
        assert!(source[items[0].clone()].ends_with("fn b() {}\n}"));
        assert_eq!(test_items("#[cfg(test)]\nmod tests;\nfn c() {}")[0], 0..23);
    }

    #[test]
    fn files_of_tests_are_known_by_their_place() {
        for path in ["crates/a/tests/it/main.rs", "crates/a/src/b/tests.rs", "src/b_tests.rs"] {
            assert!(is_test_path(path), "{path}");
        }
        for path in ["crates/a/src/contests.rs", "crates/a/src/lib.rs"] {
            assert!(!is_test_path(path), "{path}");
        }
    }
}
