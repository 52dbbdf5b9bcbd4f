//! Names that expressions make. They come from whoever writes workflows and end up in rows, logs and
//! pages, so they are bounded and hold no control characters.

use crate::expr::coerce::to_text;
use kiln_core::value::Value;

/// How many characters a name may have.
const LONGEST: usize = 400;

/// A name that only people read: made to fit.
pub(super) fn shown(value: &Value) -> String {
    let text = to_text(value);
    let mut plain = text.chars().map(|one| if one.is_control() { '\u{fffd}' } else { one });
    let mut name: String = plain.by_ref().take(LONGEST).collect();
    if plain.next().is_some() {
        name.pop();
        name.push('…');
    }
    name
}

/// A name that means something to Kiln: refused if it does not fit.
pub(super) fn exact(what: &str, value: &Value) -> Result<String, String> {
    let text = to_text(value);
    if text.contains(char::is_control) {
        return Err(format!("{what} has a control character, such as a line break; expected none"));
    }
    let length = text.chars().count();
    if length > LONGEST {
        return Err(format!("{what} has {length} characters; expected up to {LONGEST}"));
    }
    Ok(text.into_owned())
}
