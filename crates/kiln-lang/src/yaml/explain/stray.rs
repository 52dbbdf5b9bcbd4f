//! Lines that are neither a key nor part of a value: the text of a block that is not indented, a
//! forgotten colon, the end of a script without `|`.

use crate::diag::Diagnostic;

use super::line::{Block, Line, Structure, outline};
use super::{Place, key_name, spaces};

impl Place<'_> {
    /// The first line before the scanner's place that belongs to nothing.
    pub(super) fn stray_line(&self, complaint: &str) -> Option<Diagnostic> {
        let lines = outline(self.text);
        let mut last = lines.iter().rposition(|structure| structure.line.start <= self.at)?;
        // The scanner waits for a colon and notices only on the next line that none comes.
        if complaint.contains("simple key") && !lines[last].line.is_bare_text() {
            last = last.checked_sub(1)?;
        }
        let owner = lines[..last].iter().rposition(|other| !other.line.is_bare_text())?;
        let above = lines[owner];
        let stray = lines[owner + 1..=last].iter().find(|other| {
            above.block.is_some() || other.line.indent() <= above.line.key_column()
        })?;
        let outside_block = above.block.filter(|block| is_meant_for(stray.line, *block));
        match outside_block {
            Some(block) => Some(self.outside_block(stray.line, above, block)),
            None if stray.line.is_bare_text() => Some(self.no_key(stray.line, above.line)),
            None => None,
        }
    }

    fn outside_block(&self, stray: Line<'_>, above: Structure<'_>, block: Block) -> Diagnostic {
        let start = stray.start + stray.indent();
        let header = above.line.start + above.line.indent();
        let depth = block.depth.unwrap_or(block.column + 2);
        let name = key_name(above.line.content());
        self.error(
            start,
            start + stray.content().len(),
            format!("this line is indented too little for the block of {name}"),
        )
        .label(format!("{} here", spaces(stray.indent())))
        .related(self.span(header, header + above.line.content().len()), "the block starts here")
        .help(format!("indent each line of the block by at least {}", spaces(depth)))
    }

    fn no_key(&self, stray: Line<'_>, above: Line<'_>) -> Diagnostic {
        let start = stray.start + stray.indent();
        let content = stray.content();
        if let Some(key) = stray.key_without_colon() {
            let mark = &content[key.len()..].trim_ascii();
            let found =
                self.error(start, start + key.len(), format!("a `:` is missing after `{key}`"));
            return found.help(format!("write `{key}: {mark}`"));
        }
        if let Some((key, value)) = content.split_once(':').filter(|(key, _)| !key.contains(' ')) {
            return self.no_space_after_colon(start + key.len(), key, value);
        }
        let found = self.error(start, start + content.len(), "this line has no `:`");
        let found = found.label("not a key and a value");
        if key_name(above.content()) == "`run`" {
            found.help("for a script of several lines write `run: |` and indent them all below it")
        } else {
            let key = content.split_whitespace().next().unwrap_or_default();
            found.help(format!("a key is followed by a colon and a space: `{key}: …`"))
        }
    }

    pub(super) fn no_space_after_colon(&self, colon: usize, key: &str, value: &str) -> Diagnostic {
        let odd = value.chars().next().filter(|first| first.is_whitespace());
        let help = format!("write `{key}: {}`", value.trim());
        match odd {
            Some(odd) => {
                let at = colon + 1;
                self.error(at, at + odd.len_utf8(), "a plain space must follow the `:`")
                    .label("looks like a space, but is none")
                    .help(help)
            }
            None => self.error(colon, colon + 1, "a space is missing after this `:`").help(help),
        }
    }

    /// `push` with `branches:` indented below it: it should have been `push:`.
    pub(super) fn missing_colon_of_parent(&self, complaint: &str) -> Option<Diagnostic> {
        let parent = self.lines_before().next()?;
        let applies = complaint.contains("mapping values are not allowed")
            && self.line.is_key()
            && !parent.is_key()
            && parent.key_column() < self.line.indent();
        let key = parent.content().trim_start_matches("- ");
        if !applies || key.contains([' ', '"', '\'']) {
            return None;
        }
        let start = parent.start + parent.key_column();
        let found = self.error(start, start + key.len(), format!("a `:` is missing after `{key}`"));
        let below = key_name(self.line.content());
        Some(found.label(format!("{below} stands below it")).help(format!("write `{key}:`")))
    }
}

/// Whether a line was surely meant for the block above it: it is no key and no item, or it stands
/// deeper than the key of the block and so can be nothing else.
fn is_meant_for(line: Line<'_>, block: Block) -> bool {
    line.is_bare_text() || line.indent() > block.column
}
