//! Lines of logs as HTML: colours, links, and what a terminal would have overwritten.

use std::fmt::Write as _;

use vte::{Params, Parser, Perform};

/// More of a line is not drawn; the raw log has it.
const LONGEST: usize = 16 << 10;

/// A line as it is shown.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Drawn {
    pub(super) html: String,
    /// Whether there is more than is drawn.
    pub(super) cut: bool,
}

/// Draws one line, as bytes that may hold anything.
pub(super) fn draw(text: &[u8]) -> Drawn {
    let text = overwritten(text);
    let cut = text.len() > LONGEST;
    let mut pen = Pen::default();
    let mut parser = Parser::new();
    parser.advance(&mut pen, &text[..text.len().min(LONGEST)]);
    pen.close();
    Drawn { html: pen.out, cut }
}

/// What a progress bar leaves: the last of what was printed over each other.
fn overwritten(text: &[u8]) -> &[u8] {
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    match memchr::memrchr(b'\r', text) {
        Some(at) => &text[at + 1..],
        None => text,
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Colour {
    #[default]
    Usual,
    Palette(u8),
    Exact(u8, u8, u8),
}

#[expect(clippy::struct_excessive_bools, reason = "a terminal has that many switches")]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Style {
    front: Colour,
    back: Colour,
    bold: bool,
    faint: bool,
    italic: bool,
    underline: bool,
    struck: bool,
    inverse: bool,
}

/// Writes HTML as the parser hears of letters and signs.
#[derive(Default)]
struct Pen {
    out: String,
    style: Style,
    /// What the open span has, if one is open.
    open: Option<Style>,
    link: bool,
}

impl Pen {
    fn close(&mut self) {
        self.end_span();
        self.end_link();
    }

    fn end_span(&mut self) {
        if self.open.take().is_some() {
            self.out.push_str("</span>");
        }
    }

    fn end_link(&mut self) {
        if std::mem::take(&mut self.link) {
            self.out.push_str("</a>");
        }
    }

    fn begin_span(&mut self) {
        if self.open.as_ref() == Some(&self.style) {
            return;
        }
        self.end_span();
        if self.style == Style::default() {
            return;
        }
        let tag = self.style.tag();
        self.out.push_str(&tag);
        self.open = Some(self.style.clone());
    }

    fn letter(&mut self, letter: char) {
        if self.open.is_some() || self.style != Style::default() {
            self.begin_span();
        }
        self.write(letter);
    }

    fn write(&mut self, letter: char) {
        match letter {
            '<' => self.out.push_str("&lt;"),
            '>' => self.out.push_str("&gt;"),
            '&' => self.out.push_str("&amp;"),
            '"' => self.out.push_str("&quot;"),
            '\'' => self.out.push_str("&#39;"),
            // Signs that turn the direction of writing could show another text than there is.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => self.out.push('\u{fffd}'),
            letter => self.out.push(letter),
        }
    }

    fn select(&mut self, params: &Params) {
        let numbers: Vec<u16> =
            params.iter().flat_map(|part| part.iter().copied()).take(64).collect();
        let mut rest = numbers.as_slice();
        if rest.is_empty() {
            self.style = Style::default();
        }
        while let Some((&code, more)) = rest.split_first() {
            rest = match code {
                38 | 48 => {
                    let (colour, after) = exact(more);
                    if let Some(colour) = colour {
                        *(if code == 38 { &mut self.style.front } else { &mut self.style.back }) =
                            colour;
                    }
                    after
                }
                code => {
                    self.style.apply(code);
                    more
                }
            };
        }
    }
}

impl Style {
    fn apply(&mut self, code: u16) {
        let low = |base: u16| u8::try_from(code - base).unwrap_or_default();
        match code {
            0 => *self = Self::default(),
            1 => self.bold = true,
            2 => self.faint = true,
            3 => self.italic = true,
            4 | 21 => self.underline = true,
            7 => self.inverse = true,
            9 => self.struck = true,
            22 => (self.bold, self.faint) = (false, false),
            23 => self.italic = false,
            24 => self.underline = false,
            27 => self.inverse = false,
            29 => self.struck = false,
            30..=37 => self.front = Colour::Palette(low(30)),
            39 => self.front = Colour::Usual,
            40..=47 => self.back = Colour::Palette(low(40)),
            49 => self.back = Colour::Usual,
            90..=97 => self.front = Colour::Palette(low(90) + 8),
            100..=107 => self.back = Colour::Palette(low(100) + 8),
            _ => {}
        }
    }

    /// Colours are classes, because the page's policy forbids styles in it; exact ones are also said as
    /// numbers, which the module applies.
    fn tag(&self) -> String {
        let (front, back) =
            if self.inverse { (self.back, self.front) } else { (self.front, self.back) };
        let mut classes = Vec::new();
        let mut data = String::new();
        for (colour, letter, name) in [(front, 'f', "fg"), (back, 'b', "bg")] {
            match colour {
                Colour::Usual => {}
                Colour::Palette(number) => classes.push(format!("{letter}{number}")),
                Colour::Exact(red, green, blue) => {
                    classes.push(format!("{letter}{}", nearest(red, green, blue)));
                    let _ = write!(data, " data-{name}=\"#{red:02x}{green:02x}{blue:02x}\"");
                }
            }
        }
        if self.inverse && front == Colour::Usual {
            classes.push("inv".to_owned());
        }
        let more = [
            (self.bold, "bo"),
            (self.faint, "fa"),
            (self.italic, "it"),
            (self.underline, "un"),
            (self.struck, "st"),
        ];
        classes.extend(more.into_iter().filter(|(on, _)| *on).map(|(_, name)| name.to_owned()));
        format!("<span class=\"{}\"{data}>", classes.join(" "))
    }
}

/// What follows `38` or `48`: `5;N` or `2;R;G;B`, and what is left.
fn exact(rest: &[u16]) -> (Option<Colour>, &[u16]) {
    let byte = |number: u16| u8::try_from(number).unwrap_or(u8::MAX);
    match rest {
        [5, number, rest @ ..] => (Some(Colour::Palette(byte(*number))), rest),
        [2, red, green, blue, rest @ ..] => {
            (Some(Colour::Exact(byte(*red), byte(*green), byte(*blue))), rest)
        }
        _ => (None, &[]),
    }
}

/// The colour of the palette of 256 that is like this one.
fn nearest(red: u8, green: u8, blue: u8) -> u8 {
    let step = |value: u8| (u16::from(value) * 5 + 127) / 255;
    let cube = 16 + 36 * step(red) + 6 * step(green) + step(blue);
    u8::try_from(cube).unwrap_or(u8::MAX)
}

impl Perform for Pen {
    fn print(&mut self, letter: char) {
        self.letter(letter);
    }

    fn execute(&mut self, byte: u8) {
        if byte == b'\t' {
            self.letter('\t');
        }
    }

    fn csi_dispatch(&mut self, params: &Params, _: &[u8], ignore: bool, action: char) {
        if action == 'm' && !ignore {
            self.select(params);
        }
    }

    /// OSC 8 is a link. Only addresses of the web are made one.
    fn osc_dispatch(&mut self, params: &[&[u8]], _: bool) {
        let [b"8", _, address @ ..] = params else { return };
        self.end_span();
        self.end_link();
        let address = address.join(&b';');
        let address = String::from_utf8_lossy(&address);
        if !address.starts_with("https://") && !address.starts_with("http://") {
            return;
        }
        self.out.push_str("<a rel=\"noreferrer noopener\" target=\"_blank\" href=\"");
        for letter in address.chars().filter(|letter| !letter.is_control()) {
            self.write(letter);
        }
        self.out.push_str("\">");
        self.link = true;
    }
}

/// The classes of the palette of 256. The first 16 are the theme's, in the stylesheet itself.
pub(super) fn stylesheet() -> String {
    let mut css = String::new();
    let level = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
    let mut add = |number: u8, red: u8, green: u8, blue: u8| {
        let _ = writeln!(
            css,
            ".f{number}{{color:#{red:02x}{green:02x}{blue:02x}}}.b{number}{{background:#{red:02x}{green:02x}{blue:02x}}}"
        );
    };
    for number in 16..=231_u8 {
        let at = number - 16;
        add(number, level(at / 36), level(at / 6 % 6), level(at % 6));
    }
    for number in 232..=255_u8 {
        let grey = 8 + 10 * (number - 232);
        add(number, grey, grey, grey);
    }
    css
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &str) {
        assert_eq!(draw(text.as_bytes()).html, expect, "{text:?}");
    }

    /// O2
    #[test]
    fn colours_become_classes() {
        check("plain", "plain");
        check("\x1b[31mred\x1b[0m after", "<span class=\"f1\">red</span> after");
        check("\x1b[1;92mok\x1b[m", "<span class=\"f10 bo\">ok</span>");
        check("\x1b[38;5;208mo", "<span class=\"f208\">o</span>");
        check("\x1b[48;2;255;0;0mx", "<span class=\"b196\" data-bg=\"#ff0000\">x</span>");
        check("\x1b[7mx\x1b[27my", "<span class=\"inv\">x</span>y");
        check("\x1b[38;5mx", "x");
        check("\x1b[31m\x1b[39mx", "x");
    }

    #[test]
    fn what_was_written_over_is_folded() {
        check("10%\r50%\r100%", "100%");
        check("windows line\r", "windows line");
        check("a\tb", "a\tb");
        check("a\x08b\x07", "ab");
    }

    /// O2
    #[test]
    fn nothing_of_a_line_is_markup() {
        check("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;");
        check("a & \"b\" 'c'", "a &amp; &quot;b&quot; &#39;c&#39;");
        check("\x1b]8;;javascript:alert(1)\x07x\x1b]8;;\x07", "x");
        check(
            "\x1b]8;;https://example.com/\"onx=\x07x\x1b]8;;\x07y",
            "<a rel=\"noreferrer noopener\" target=\"_blank\" href=\"https://example.com/&quot;onx=\">x</a>y",
        );
        check("\u{202e}txt", "\u{fffd}txt");
    }

    #[test]
    fn long_and_broken_lines_are_bounded() {
        let long = draw("x".repeat(LONGEST + 1).as_bytes());
        assert!(long.cut && long.html.len() == LONGEST);
        assert_eq!(draw(b"\xff\x1b[").html, "\u{fffd}");
        let open = draw("\x1b[31mx".repeat(5_000).as_bytes()).html;
        assert!(open.ends_with("</span>"));
    }

    #[test]
    fn the_palette_has_all_colours_beyond_the_theme() {
        let css = stylesheet();
        assert!(css.contains(".f196{color:#ff0000}") && css.contains(".b255{background:#eeeeee}"));
        assert_eq!(css.lines().count(), 240);
    }
}
