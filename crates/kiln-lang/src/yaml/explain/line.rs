//! Lines as the explanations see them: what is structure, and what is the text of a block.

/// A line that is not blank and not only a comment.
#[derive(Clone, Copy)]
pub(super) struct Line<'t> {
    pub(super) start: usize,
    pub(super) text: &'t str,
}

impl<'t> Line<'t> {
    pub(super) fn at(text: &'t str, at: usize) -> Self {
        let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let end = text[at..].find('\n').map_or(text.len(), |newline| at + newline);
        Self { start, text: &text[start..end] }
    }

    pub(super) fn indent(self) -> usize {
        self.text.len() - self.text.trim_start_matches(' ').len()
    }

    /// What follows the indentation. Only plain spaces indent, so any other white space is content.
    pub(super) fn content(self) -> &'t str {
        self.text[self.indent()..].trim_ascii_end()
    }

    /// The column at which keys of this line's mapping stand: `- key:` puts it after the dash.
    pub(super) fn key_column(self) -> usize {
        let rest = &self.text[self.indent()..];
        let after_dashes = rest.trim_start_matches(['-', ' ']);
        if rest.starts_with("- ") {
            self.indent() + rest.len() - after_dashes.len()
        } else {
            self.indent()
        }
    }

    pub(super) fn is_key(self) -> bool {
        let content = self.content().trim_start_matches("- ");
        content.ends_with(':') || content.contains(": ")
    }

    pub(super) fn is_item(self) -> bool {
        self.content().starts_with("- ") || self.content() == "-"
    }

    /// Whether the line could be nothing but text: no key, no item, no quote and no bracket.
    pub(super) fn is_bare_text(self) -> bool {
        let content = self.content();
        let key =
            content.strip_suffix(':').or_else(|| content.split_once(": ").map(|(key, _)| key));
        let is_key = key.is_some_and(|key| !key.contains(' ') || key.starts_with(['"', '\'', '$']));
        let opens = content.starts_with(['"', '\'', '[', '{', ']', '}', '?', '&', '*', '!']);
        !is_key && !opens && !self.is_item() && !matches!(content, "---" | "...")
    }

    /// What stands before the mark of a block, `run:` of `run: |`, and how deep the mark says its
    /// text is, if it does.
    fn block_mark(self) -> Option<(&'t str, Option<usize>)> {
        let content = self.content();
        let content =
            content.split_once(" #").map_or(content, |(before, _)| before).trim_ascii_end();
        let (before, mark) = content.rsplit_once(' ')?;
        let depth = mark.strip_prefix(['|', '>'])?.trim_matches(['+', '-']);
        let depth = if depth.is_empty() { None } else { Some(depth.parse().ok()?) };
        Some((before.trim_ascii_end(), depth))
    }

    /// The key that lost its colon before the mark of a block: `run |`.
    pub(super) fn key_without_colon(self) -> Option<&'t str> {
        let (before, _) = self.block_mark()?;
        let key = before.trim_start_matches("- ");
        (!key.ends_with(':') && !key.contains(' ') && !key.is_empty() && key != "-").then_some(key)
    }

    /// The column that the text of a block must exceed, and how deep its mark says it is.
    fn opens_block(self) -> Option<(usize, Option<usize>)> {
        let (before, depth) = self.block_mark()?;
        if before.ends_with(':') {
            return Some((self.key_column(), depth));
        }
        (before == "-").then(|| (self.indent(), depth))
    }
}

/// The mark `|` or `>` at the end of a line.
#[derive(Clone, Copy)]
pub(super) struct Block {
    /// The column of the key, which the text must exceed.
    pub(super) column: usize,
    /// How deep the text stands, once a line of it was seen.
    pub(super) depth: Option<usize>,
}

/// A line outside of the text of blocks.
#[derive(Clone, Copy)]
pub(super) struct Structure<'t> {
    pub(super) line: Line<'t>,
    pub(super) block: Option<Block>,
}

/// The lines of a text that are not the text of a block, as far as a look at single lines can tell.
pub(super) fn outline(text: &str) -> Vec<Structure<'_>> {
    let mut found: Vec<Structure<'_>> = Vec::new();
    let mut in_block = false;
    let mut start = 0;
    for written in text.split_inclusive('\n') {
        let line = Line { start, text: written.trim_end_matches(['\n', '\r']) };
        start += written.len();
        if line.content().is_empty() {
            continue;
        }
        let block = found.last_mut().and_then(|last| last.block.as_mut()).filter(|_| in_block);
        in_block = block.is_some_and(|block| {
            let is_text = line.indent() > block.column
                && block.depth.is_none_or(|depth| line.indent() >= depth);
            if is_text {
                block.depth.get_or_insert_with(|| line.indent());
            }
            is_text
        });
        if !in_block && !line.content().starts_with('#') {
            let block = line
                .opens_block()
                .map(|(column, depth)| Block { column, depth: depth.map(|depth| column + depth) });
            in_block = block.is_some();
            found.push(Structure { line, block });
        }
    }
    found
}
