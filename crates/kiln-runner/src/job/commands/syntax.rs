//! The two ways to write a command in a line of output.
//!
//! `::name key=value,key=value::data` begins a line, after blanks at most. The older
//! `##[name key=value;key=value]data` may stand anywhere in it.

use memchr::memmem;

/// A command as it was written, unescaped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Written {
    /// In lower case, since the case of names does not matter.
    pub name: String,
    properties: Vec<(String, String)>,
    pub data: String,
}

impl Written {
    /// The value of a property that is not empty. The last one counts; its case does not matter.
    pub(super) fn property(&self, name: &str) -> Option<&str> {
        let named = |(key, _): &&(String, String)| key.eq_ignore_ascii_case(name);
        self.properties.iter().rev().find(named).map(|(_, value)| value.as_str())
    }
}

/// Whether a line is worth a closer look; most of a log is not.
pub(super) fn may_hold_command(line: &[u8]) -> bool {
    // Text may begin with a blank of any kind, but every such line holds the characters somewhere.
    let begins = line.first().is_some_and(|byte| *byte == b':' || !byte.is_ascii_graphic());
    (begins && memmem::find(line, b"::").is_some()) || memmem::find(line, b"##[").is_some()
}

/// Reads a command whose name is known; anything else is ordinary text.
pub(super) fn parse(line: &str, is_known: impl Fn(&str) -> bool) -> Option<Written> {
    parse_colons(line, &is_known).or_else(|| parse_brackets(line, &is_known))
}

const DATA: &[(&str, char)] = &[("%25", '%'), ("%0D", '\r'), ("%0A", '\n')];
const PROPERTY: &[(&str, char)] =
    &[("%25", '%'), ("%0D", '\r'), ("%0A", '\n'), ("%3A", ':'), ("%2C", ',')];
const BRACKETS: &[(&str, char)] =
    &[("%25", '%'), ("%0D", '\r'), ("%0A", '\n'), ("%3B", ';'), ("%5D", ']')];

fn parse_colons(line: &str, is_known: &impl Fn(&str) -> bool) -> Option<Written> {
    let (head, data) = line.trim_start().strip_prefix("::")?.split_once("::")?;
    let (name, properties) = head.split_once(' ').unwrap_or((head, ""));
    is_known(name).then(|| Written {
        name: name.to_lowercase(),
        properties: properties_of(properties.trim(), ',', PROPERTY),
        data: unescape(data, DATA),
    })
}

fn parse_brackets(line: &str, is_known: &impl Fn(&str) -> bool) -> Option<Written> {
    let (_, rest) = line.split_once("##[")?;
    let (head, data) = rest.split_once(']')?;
    let (name, properties) = head.split_once(' ').unwrap_or((head, ""));
    is_known(name).then(|| Written {
        name: name.to_lowercase(),
        properties: properties_of(properties, ';', BRACKETS),
        data: unescape(data, BRACKETS),
    })
}

/// Pairs without a key or a value are passed over, as are further equal signs between the two.
fn properties_of(text: &str, separator: char, escapes: &[(&str, char)]) -> Vec<(String, String)> {
    let pairs = text.split(separator).filter_map(|pair| {
        let (key, value) = pair.trim_start_matches('=').split_once('=')?;
        let value = value.trim_start_matches('=');
        (!value.is_empty()).then(|| (key.to_owned(), unescape(value, escapes)))
    });
    pairs.collect()
}

/// Undoes the escapes of the table; other percent signs are ordinary.
fn unescape(text: &str, escapes: &[(&str, char)]) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        let (before, from) = rest.split_at(at);
        plain.push_str(before);
        let known = escapes.iter().find(|(escape, _)| from.starts_with(escape));
        let (length, c) = known.map_or((1, '%'), |(escape, c)| (escape.len(), *c));
        plain.push(c);
        rest = &from[length..];
    }
    plain.push_str(rest);
    plain
}
