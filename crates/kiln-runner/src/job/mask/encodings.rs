//! The forms in which a secret may show up in a log.
//!
//! GitHub's runner masks base64 at three offsets, and the escapes of JSON, URLs, XML, command lines
//! and expressions. The variants of the common tools are added here: lower-case hexadecimals,
//! form encoding, ASCII-only JSON, shell quoting, and base64 in lines.

use std::fmt::Write as _;

/// A shorter encoding says little about the secret and would hit much innocent text.
const MIN_CHARS: usize = 4;
/// The line lengths of `openssl base64` and `base64`.
const BASE64_WIDTHS: [usize; 2] = [64, 76];
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE64_URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The value itself and all its encodings, each once.
pub(super) fn all(value: &str) -> Vec<String> {
    let mut found = Vec::new();
    base64_forms(value.as_bytes(), BASE64, &mut found);
    base64_forms(value.as_bytes(), BASE64_URL, &mut found);
    percent_forms(value, &mut found);
    json_forms(value, &mut found);
    xml_forms(value, &mut found);
    shell_forms(value, &mut found);
    found.extend(pieces(value).into_iter().map(str::to_owned));
    found.retain(|form| form.len() >= MIN_CHARS);
    found.push(value.to_owned());
    found.sort_unstable();
    found.dedup();
    found
}

/// What of base64 depends on the secret alone, for every length of the text before it modulo
/// three; and the same with the last characters when the secret ends the text.
fn base64_forms(secret: &[u8], alphabet: &[u8; 64], found: &mut Vec<String>) {
    for before in 0..3 {
        let mut bytes = vec![0; before];
        bytes.extend_from_slice(secret);
        let text = base64(&bytes, alphabet);
        let first = (8 * before).div_ceil(6);
        let certain = 8 * bytes.len() / 6;
        found.extend(text.get(first..certain).map(str::to_owned));
        let to_end = &text[first..];
        found.push(to_end.to_owned());
        found.push(format!("{to_end}{}", "=".repeat((3 - bytes.len() % 3) % 3)));
        if before == 0 {
            let wrapped = BASE64_WIDTHS.into_iter().filter(|width| text.len() > *width);
            for line in wrapped.flat_map(|width| text.as_bytes().chunks(width)) {
                found.push(String::from_utf8_lossy(line).into_owned());
            }
        }
    }
}

/// Base64 without padding.
fn base64(bytes: &[u8], alphabet: &[u8; 64]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..=group.len() {
            text.push(char::from(alphabet[(bits >> (18 - 6 * digit) & 63) as usize]));
        }
    }
    text
}

fn percent_forms(value: &str, found: &mut Vec<String>) {
    // Strict; a path; `encodeURIComponent`; `encodeURI`; a form.
    for kept in ["", "/", "!'()*", "!'()*;/?:@&=+$,#", "* "] {
        let upper = percent(value, kept, |byte| format!("%{byte:02X}"));
        let lower = percent(value, kept, |byte| format!("%{byte:02x}"));
        for form in [upper, lower] {
            // A blank that was kept stands for the plus sign of forms.
            found.push(form.replace(' ', "+"));
        }
    }
}

fn percent(value: &str, kept: &str, escape: impl Fn(u8) -> String) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric()
            || b"-_.~".contains(&byte)
            || kept.as_bytes().contains(&byte)
        {
            text.push(char::from(byte));
        } else {
            text.push_str(&escape(byte));
        }
    }
    text
}

fn json_forms(value: &str, found: &mut Vec<String>) {
    let plain = json(value, |_| false);
    found.push(plain.replace('/', "\\/"));
    found.push(json(&plain, |_| false));
    found.push(json(value, |c| matches!(c, '<' | '>' | '&' | '\u{2028}' | '\u{2029}')));
    found.push(json(value, |c| !c.is_ascii()));
    found.push(plain);
}

/// A JSON string without its quotes; `as_code` names characters to write as `\u1234`.
fn json(value: &str, as_code: impl Fn(char) -> bool) -> String {
    let mut text = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            _ if c.is_ascii_control() || as_code(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(text, "\\u{unit:04x}").expect("text takes any characters");
                }
            }
            _ => text.push(c),
        }
    }
    text
}

fn xml_forms(value: &str, found: &mut Vec<String>) {
    let text = value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let attribute = text.replace('"', "&quot;");
    found.push(attribute.replace('\'', "&apos;"));
    found.push(attribute.replace('\'', "&#39;"));
    found.push(attribute);
    found.push(text);
}

fn shell_forms(value: &str, found: &mut Vec<String>) {
    let backslash = |special: &dyn Fn(char) -> bool| {
        let mut text = String::with_capacity(value.len());
        for c in value.chars() {
            if special(c) {
                text.push('\\');
            }
            text.push(c);
        }
        text
    };
    // The string of an expression, a shell's single quotes, an argument, a shell's double quotes,
    // and `printf %q`.
    found.push(value.replace('\'', "''"));
    found.push(value.replace('\'', "'\\''"));
    found.push(backslash(&|c| c == '"'));
    found.push(backslash(&|c| "\\\"$`".contains(c)));
    found.push(backslash(&|c| {
        c.is_ascii() && !c.is_ascii_alphanumeric() && !"_-./:=@%+".contains(c)
    }));
}

/// Parts of a value that tools print by themselves: what is within the quotes of a quoted value,
/// and what PowerShell shows before and after an ampersand when it fails to run the value.
fn pieces(value: &str) -> Vec<&str> {
    let unquoted = value
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .filter(|inner| inner.len() > 6);
    let halves = match value.find("&+") {
        // The character after the sign is shown apart, in colour.
        Some(at) => {
            let (head, tail) = value.split_at(at + 2);
            let mut rest = tail.chars();
            rest.next();
            Some((head, rest.as_str()))
        }
        None => value.rfind('&').map(|at| value.split_at(at + 1)),
    };
    let halves = halves.map(|(head, tail)| [head, tail]).into_iter().flatten();
    unquoted.into_iter().chain(halves.filter(|half| half.len() >= 6)).collect()
}
