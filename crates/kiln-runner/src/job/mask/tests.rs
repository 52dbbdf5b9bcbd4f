//! Tests that no secret survives, in no encoding and across no boundary.

use proptest::prelude::*;

use super::*;

fn masker(values: &[&str]) -> Masker {
    let mut masker = Masker::default();
    for value in values {
        masker.add(value).unwrap();
    }
    masker
}

#[track_caller]
fn check(values: &[&str], text: &str, expected: &str) {
    assert_eq!(masker(values).mask_text(text), expected);
}

/// R6
#[test]
fn a_secret_becomes_stars_wherever_it_stands() {
    check(&["hunter2"], "login with hunter2, hunter2!", "login with ***, ***!");
    check(&["hunter2"], "hunter", "hunter");
    check(&["pässwörd"], "ist pässwörd.", "ist ***.");
}

/// R6
#[test]
fn secrets_that_overlap_or_touch_become_one_mask() {
    check(&["abcd", "cdef"], "xabcdefx", "x***x");
    check(&["abcd", "ef"], "xabcdefx", "x***x");
    check(&["abcd", "abcdef"], "abcdefg", "***g");
    check(&["cde", "abcdefg"], "abcdefg", "***");
}

/// R6
#[test]
fn each_line_of_a_value_is_masked_but_not_its_brackets() {
    let key = "{\n  \"user\": \"me\",\r\n  \"key\": \"abc\"\n}\n";
    check(&[key], "\"key\": \"abc\"", "***");
    check(&[key], "x \"user\": \"me\", y", "x *** y");
    check(&[key], "fn main() { }", "fn main() { }");
    check(&[" padded "], "(padded)", "(***)");
}

/// R6
#[test]
fn empty_and_single_characters_are_refused() {
    let mut masker = Masker::default();
    for blank in ["", " ", "\n", " \t\r\n"] {
        assert_eq!(masker.add(blank), Err(Refused::Empty));
    }
    for short in ["a", "*", " x ", "ä", "x\n"] {
        assert_eq!(masker.add(short), Err(Refused::TooShort), "{short:?}");
    }
    assert_eq!(masker.mask_text("a x { } ä"), "a x { } ä");
    assert_eq!(masker.add("no"), Ok(()), "two characters are masked, as GitHub does");
    assert_eq!(masker.mask_text("nothing"), "***thing");
}

/// R6
#[test]
fn base64_is_masked_at_every_offset() {
    let secret = "s3cr3t-value!";
    let masker = masker(&[secret]);
    for prefix in ["", "a", "ab", "abc", "user:", "user12:"] {
        for suffix in ["", "x", "\n", "xyz"] {
            let plain = format!("{prefix}{secret}{suffix}");
            for alphabet_url in [false, true] {
                let text = reference_base64(plain.as_bytes(), alphabet_url);
                let shown = masker.mask_text(&text).into_owned();
                let left: usize = shown.replace(STARS, "").len();
                let whole = text.len() - 4 * secret.len() / 3;
                assert!(shown.contains(STARS), "{plain:?} as {text} became {shown}");
                assert!(left <= whole + 3, "{plain:?} as {text} became {shown}");
            }
        }
    }
}

#[test]
fn base64_in_lines_is_masked() {
    let secret: String = (0..200_u8).map(|i| char::from(b'a' + i.wrapping_mul(7) % 26)).collect();
    let text = reference_base64(secret.as_bytes(), false);
    let masker = masker(&[&secret]);
    for width in [64, 76] {
        for line in text.as_bytes().chunks(width) {
            let shown = masker.mask_line(line);
            assert!(shown.len() < 8, "{}", String::from_utf8_lossy(&shown));
        }
    }
}

/// R6
#[test]
fn the_usual_escapes_are_masked() {
    let secret = "p&ss \"w'rd\"/<ö>$\\x\ty";
    let masker = masker(&[secret]);
    let forms = [
        serde_json::to_string(secret).unwrap().trim_matches('"').to_owned() + "\"",
        "p\\u0026ss \\\"w'rd\\\"/\\u003cö\\u003e$\\\\x\\ty".to_owned(),
        "p&ss \\\"w'rd\\\"/<\\u00f6>$\\\\x\\ty".to_owned(),
        "p&ss \\\"w'rd\\\"\\/<ö>$\\\\x\\ty".to_owned(),
        "p&ss \\\\\\\"w'rd\\\\\\\"/<ö>$\\\\\\\\x\\\\ty".to_owned(),
        "p%26ss%20%22w%27rd%22%2F%3C%C3%B6%3E%24%5Cx%09y".to_owned(),
        "p%26ss%20%22w%27rd%22%2f%3c%c3%b6%3e%24%5cx%09y".to_owned(),
        "p%26ss+%22w%27rd%22%2F%3C%C3%B6%3E%24%5Cx%09y".to_owned(),
        "p%26ss%20%22w'rd%22%2F%3C%C3%B6%3E%24%5Cx%09y".to_owned(),
        "p%26ss%20%22w%27rd%22/%3C%C3%B6%3E%24%5Cx%09y".to_owned(),
        "p&ss%20%22w'rd%22/%3C%C3%B6%3E$%5Cx%09y".to_owned(),
        "p&amp;ss &quot;w&apos;rd&quot;/&lt;ö&gt;$\\x\ty".to_owned(),
        "p&amp;ss \"w'rd\"/&lt;ö&gt;$\\x\ty".to_owned(),
        "p&amp;ss &quot;w&#39;rd&quot;/&lt;ö&gt;$\\x\ty".to_owned(),
        "p&ss \"w'\\''rd\"/<ö>$\\x\ty".to_owned(),
        "p&ss \"w''rd\"/<ö>$\\x\ty".to_owned(),
        "p&ss \\\"w'rd\\\"/<ö>\\$\\\\x\ty".to_owned(),
    ];
    for form in &forms {
        let form = form.trim_end_matches('"');
        assert_eq!(masker.mask_text(&format!("[{form}]")), "[***]", "{form}");
    }
}

#[test]
fn parts_that_tools_show_by_themselves_are_masked() {
    check(&["\"quoted-value\""], "quoted-value", "***");
    check(&["secretpart1&secretpart2"], "secretpart2", "***");
    check(&["secretpart1&+secretpart2"], "s ecretpart2", "s ***");
    check(&["secretpart1&+"], "secretpart1&+", "***");
}

#[test]
fn nothing_is_copied_without_a_match() {
    assert!(matches!(Masker::default().mask_line(b"text"), Cow::Borrowed(_)));
    assert!(matches!(masker(&["secret"]).mask_line(b"text"), Cow::Borrowed(_)));
    let mut carry = Carry::default();
    let chunk = Masker::default().mask_chunk(&mut carry, b"text", false).into_owned();
    assert_eq!(chunk, b"text", "without secrets nothing waits");
}

/// R6
#[test]
fn a_mask_added_later_counts_from_then_on() {
    let mut masker = masker(&["first-secret"]);
    assert_eq!(masker.mask_text("second-secret"), "second-secret");
    masker.add("second-secret").unwrap();
    assert_eq!(masker.mask_text("first-secret second-secret"), "*** ***");
}

/// R6
#[test]
fn secrets_are_not_shown_when_debugged() {
    let mut carry = Carry::default();
    let masker = masker(&["hunter2"]);
    masker.mask_chunk(&mut carry, b"hunt", false);
    assert!(!format!("{masker:?} {carry:?}").contains("hunt"));
}

#[test]
fn a_thousand_masks_one_after_the_other_are_quick_and_all_work() {
    let mut masker = Masker::default();
    for index in 0..1000 {
        masker.add(&format!("secret-{index:05}")).unwrap();
    }
    assert!(masker.generations.len() < 16, "{} generations", masker.generations.len());
    assert_eq!(masker.mask_text("secret-00000 secret-00999 secret-1"), "*** *** secret-1");
}

#[test]
fn there_is_a_limit_to_masks() {
    let mut masker = masker(&["first-one"]);
    masker.pattern_bytes = MAX_PATTERN_BYTES - 1000;
    let large = "x".repeat(2000);
    assert_eq!(masker.add(&large), Err(Refused::TooMany));
    assert_eq!(masker.add(&large), Err(Refused::TooMany), "it is not known the second time either");
    assert_eq!(masker.add_all(["", "x", "short-one"]), Ok(()), "short ones still fit");
    assert_eq!(masker.add_all(["third-one", &large]), Err(Refused::TooMany));
    assert_eq!(masker.mask_text("first-one short-one third-one"), "*** *** ***");
}

#[test]
fn a_run_of_one_secret_does_not_pile_up_in_the_carry() {
    let masker = masker(&["aa"]);
    let mut carry = Carry::default();
    let mut shown = Vec::new();
    for _ in 0..100 {
        shown.extend_from_slice(&masker.mask_chunk(&mut carry, &[b'a'; 100], false));
        assert!(carry.bytes.len() < 10);
    }
    shown.extend_from_slice(&masker.mask_chunk(&mut carry, b"!", true));
    assert_eq!(shown, b"***!");
}

fn reference_base64(bytes: &[u8], url: bool) -> String {
    let mut bits: Vec<u8> =
        bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect();
    while !bits.len().is_multiple_of(6) {
        bits.push(0);
    }
    let digit = |bits: &[u8]| match bits.iter().fold(0, |sum, bit| sum << 1 | bit) {
        value @ 0..26 => char::from(b'A' + value),
        value @ 26..52 => char::from(b'a' + value - 26),
        value @ 52..62 => char::from(b'0' + value - 52),
        62 => {
            if url {
                '-'
            } else {
                '+'
            }
        }
        _ => {
            if url {
                '_'
            } else {
                '/'
            }
        }
    };
    let mut text: String = bits.chunks(6).map(digit).collect();
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    text
}

/// Secrets without stars, since those could form from the masks themselves.
fn secrets() -> impl Strategy<Value = Vec<String>> {
    let value =
        prop_oneof!["[ab]{2,5}", "[a-zA-Z0-9+/=&\"'<>\\\\ %äß-]{6,20}", "[a-z]{3,8}\n[a-z]{3,8}",];
    prop::collection::vec(value.prop_filter("blank", |v| v.trim().chars().nth(1).is_some()), 1..5)
}

/// A text in which secrets and pieces of them occur.
fn texts(secrets: &[String]) -> impl Strategy<Value = String> + use<> {
    let words: Vec<String> = secrets
        .iter()
        .flat_map(|secret| encodings::all(secret))
        .chain(secrets.iter().map(|secret| secret.chars().skip(1).collect()))
        .chain(["a", "b", "x", " ", "ä"].map(str::to_owned))
        .collect();
    prop::collection::vec(prop::sample::select(words), 0..30).prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// R6
    #[test]
    fn no_secret_survives_and_pieces_equal_the_whole(
        (secrets, text) in secrets().prop_flat_map(|s| (Just(s.clone()), texts(&s))),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut masker = Masker::default();
        for secret in &secrets {
            masker.add(secret).unwrap();
        }
        let whole = masker.mask_text(&text).into_owned();
        for secret in secrets.iter().flat_map(|secret| encodings::all(secret)) {
            prop_assert!(!whole.contains(&secret), "{secret:?} is left in {whole:?}");
        }

        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.sort_unstable();
        let (mut carry, mut shown, mut at) = (Carry::default(), Vec::new(), 0);
        for cut in cuts {
            shown.extend_from_slice(&masker.mask_chunk(&mut carry, &text.as_bytes()[at..cut], false));
            at = cut;
        }
        shown.extend_from_slice(&masker.mask_chunk(&mut carry, &text.as_bytes()[at..], true));
        prop_assert_eq!(String::from_utf8_lossy(&shown), whole);
        prop_assert!(carry.is_idle());
    }

    #[test]
    fn base64_of_a_text_around_a_secret_hides_what_is_certain(
        secret in "[ -~]{6,40}", prefix in "[a-z]{0,4}", suffix in "[a-z]{0,4}",
    ) {
        prop_assume!(secret.trim().len() >= 6);
        let mut masker = Masker::default();
        masker.add(&secret).unwrap();
        let text = reference_base64(format!("{prefix}{secret}{suffix}").as_bytes(), false);
        let first = (8 * prefix.len()).div_ceil(6);
        let last = 8 * (prefix.len() + secret.len()) / 6;
        let certain = &text[first..last];
        prop_assert!(!masker.mask_text(&text).contains(certain));
    }
}
