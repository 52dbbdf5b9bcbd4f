//! Texts as parts of addresses.

use std::fmt::Write as _;

/// Letters, digits and little else as they are, the rest as `%` and two hexadecimals.
pub(crate) fn encoded(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut all, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte) {
            all.push(char::from(byte));
        } else {
            let _ = write!(all, "%{byte:02X}");
        }
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_parts_of_addresses() {
        let check = |name: &str, expect: &str| assert_eq!(encoded(name), expect);
        check("dist-1.0_x.zip", "dist-1.0_x.zip");
        check("a b%2F", "a%20b%252F");
        check("ü#?&", "%C3%BC%23%3F%26");
    }
}
