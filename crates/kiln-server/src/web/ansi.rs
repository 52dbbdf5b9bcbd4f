//! Lines of logs as HTML: colours, links, and what a terminal would have overwritten.

use std::fmt::Write as _;
use std::ops::Range;

use vte::{Params, Parser, Perform};

use super::links;

/// More of a line is not drawn; the raw log has it.
const LONGEST: usize = 16 << 10;

/// A line as it is shown.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Drawn {
    pub(super) html: String,
    /// Whether there is more than is drawn.
    pub(super) cut: bool,
}

/// Draws one line, as bytes that may hold anything. The style is that of the line before, and becomes that of the
/// line after: terminals do not end colours with lines.
pub(super) fn draw(text: &[u8], style: &mut Style) -> Drawn {
    let (gone, text) = overwritten(text);
    style.follow(gone);
    let (shown, rest) = text.split_at(text.len().min(LONGEST));
    let mut pen = Pen { style: *style, ..Pen::default() };
    Parser::new().advance(&mut pen, shown);
    *style = pen.style;
    style.follow(rest);
    Drawn { html: pen.html(), cut: !rest.is_empty() }
}

/// What a progress bar leaves: the last of what was printed over each other, behind what is gone.
fn overwritten(text: &[u8]) -> (&[u8], &[u8]) {
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    text.split_at(memchr::memrchr(b'\r', text).map_or(0, |at| at + 1))
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Colour {
    #[default]
    Usual,
    Palette(u8),
    Exact(u8, u8, u8),
}

/// How letters look.
#[expect(clippy::struct_excessive_bools, reason = "a terminal has that many switches")]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Style {
    front: Colour,
    back: Colour,
    bold: bool,
    faint: bool,
    italic: bool,
    underline: bool,
    struck: bool,
    inverse: bool,
}

/// Collects letters as the parser hears of them, with where their looks and links begin.
#[derive(Default)]
struct Pen {
    text: String,
    /// What the next letter looks like.
    style: Style,
    styles: Vec<(usize, Style)>,
    /// Links that the text says itself, and the one that is open.
    links: Vec<(Range<usize>, String)>,
    link: Option<(usize, String)>,
}

impl Pen {
    fn letter(&mut self, letter: char) {
        let last = self.styles.last().map(|(_, style)| *style).unwrap_or_default();
        if last != self.style {
            self.styles.push((self.text.len(), self.style));
        }
        // Signs that turn the direction of writing could show another text than there is.
        let turns = matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        self.text.push(if turns { '\u{fffd}' } else { letter });
    }

    fn end_link(&mut self) {
        if let Some((start, address)) = self.link.take().filter(|(at, _)| *at < self.text.len()) {
            self.links.push((start..self.text.len(), address));
        }
    }

    fn html(mut self) -> String {
        self.end_link();
        let mut links = std::mem::take(&mut self.links);
        // Addresses in the text are links, too, where it does not say one itself.
        let plain = links::find(&self.text).into_iter().filter(|found| {
            !links.iter().any(|(own, _)| own.start < found.end && found.start < own.end)
        });
        let plain: Vec<_> =
            plain.map(|range| (range.clone(), self.text[range].to_owned())).collect();
        links.extend(plain);
        links.sort_by_key(|(range, _)| range.start);
        let (mut out, mut at) = (String::with_capacity(self.text.len() + 16), 0);
        for (range, address) in links {
            self.piece(at..range.start, &mut out);
            out.push_str("<a rel=\"noreferrer noopener\" target=\"_blank\" href=\"");
            escape(&address, &mut out);
            out.push_str("\">");
            self.piece(range.clone(), &mut out);
            out.push_str("</a>");
            at = range.end;
        }
        self.piece(at..self.text.len(), &mut out);
        out
    }

    /// A part of the text, each look of it in a span.
    fn piece(&self, range: Range<usize>, out: &mut String) {
        let mut at = range.start;
        let mut next = self.styles.partition_point(|(from, _)| *from <= at);
        while at < range.end {
            let style = next.checked_sub(1).map(|place| self.styles[place].1).unwrap_or_default();
            let end = self.styles.get(next).map_or(range.end, |(from, _)| range.end.min(*from));
            let is_plain = style == Style::default();
            if !is_plain {
                style.tag(out);
            }
            escape(&self.text[at..end], out);
            if !is_plain {
                out.push_str("</span>");
            }
            (at, next) = (end, next + 1);
        }
    }
}

fn escape(text: &str, out: &mut String) {
    for letter in text.chars() {
        match letter {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            letter => out.push(letter),
        }
    }
}

impl Style {
    /// What a text leaves that is not drawn.
    pub(super) fn follow(&mut self, text: &[u8]) {
        if memchr::memchr(0x1b, text).is_some() {
            let mut follower = Follower(*self);
            Parser::new().advance(&mut follower, text);
            *self = follower.0;
        }
    }

    /// Numbers come one by one (`38;5;208`), or those that belong together with colons (`38:5:208`).
    fn select(&mut self, params: &Params) {
        let mut parts = params.iter();
        if params.is_empty() {
            *self = Self::default();
        }
        while let Some(part) = parts.next() {
            match *part {
                [code @ (38 | 48 | 58)] => {
                    let mut next = || parts.next().and_then(|part| part.first().copied());
                    let colour = match next() {
                        Some(5) => next().map(palette),
                        Some(2) => next()
                            .zip(next())
                            .zip(next())
                            .map(|((red, green), blue)| exact(red, green, blue)),
                        _ => None,
                    };
                    let Some(colour) = colour else { return };
                    self.paint(code, colour);
                }
                [code @ (38 | 48 | 58), 5, number, ..] => self.paint(code, palette(number)),
                // With the number of a space of colours between, as the standard has it, or without.
                [code @ (38 | 48 | 58), 2, _, red, green, blue, ..]
                | [code @ (38 | 48 | 58), 2, red, green, blue] => {
                    self.paint(code, exact(red, green, blue));
                }
                [4, kind, ..] => self.underline = kind != 0,
                [code] => self.apply(code),
                _ => {}
            }
        }
    }

    /// 58 is the colour of a line below, which is drawn in that of its letters.
    fn paint(&mut self, code: u16, colour: Colour) {
        match code {
            38 => self.front = colour,
            48 => self.back = colour,
            _ => {}
        }
    }

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
    fn tag(&self, out: &mut String) {
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
        let _ = write!(out, "<span class=\"{}\"{data}>", classes.join(" "));
    }
}

fn byte(number: u16) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

fn palette(number: u16) -> Colour {
    Colour::Palette(byte(number))
}

fn exact(red: u16, green: u16, blue: u16) -> Colour {
    Colour::Exact(byte(red), byte(green), byte(blue))
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
            self.style.select(params);
        }
    }

    /// OSC 8 is a link. Only addresses of the web are made one.
    fn osc_dispatch(&mut self, params: &[&[u8]], _: bool) {
        let [b"8", _, address @ ..] = params else { return };
        self.end_link();
        let address = address.join(&b';');
        let address = String::from_utf8_lossy(&address);
        if address.starts_with("https://") || address.starts_with("http://") {
            let address = address.chars().filter(|letter| !letter.is_control()).collect();
            self.link = Some((self.text.len(), address));
        }
    }
}

/// Hears of nothing but looks.
struct Follower(Style);

impl Perform for Follower {
    fn csi_dispatch(&mut self, params: &Params, _: &[u8], ignore: bool, action: char) {
        if action == 'm' && !ignore {
            self.0.select(params);
        }
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

    #[track_caller]
    fn check(text: &str, expect: &str) {
        assert_eq!(alone(text.as_bytes()).html, expect, "{text:?}");
    }

    fn alone(text: &[u8]) -> Drawn {
        draw(text, &mut Style::default())
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

    /// O2
    #[test]
    fn numbers_with_colons_mean_what_those_with_semicolons_do() {
        let red = "<span class=\"f196\" data-fg=\"#ff0000\">x</span>";
        check("\x1b[38:2::255:0:0mx", red);
        check("\x1b[38:2:255:0:0mx", red);
        check("\x1b[38;2;255;0;0mx", red);
        check("\x1b[48:5:208mx", "<span class=\"b208\">x</span>");
        check("\x1b[4:3mx\x1b[4:0my", "<span class=\"un\">x</span>y");
        // The colour of the line below is passed over, and none of its numbers is taken for another one.
        check("\x1b[58;5;1mx\x1b[58:2::9:1:3my", "xy");
        check("\x1b[1;58;2;3;4;7;9mx", "<span class=\"bo st\">x</span>");
        check("\x1b[38:2mx\x1b[38:9:1mx\x1b[:mx", "xxx");
    }

    /// O2
    #[test]
    fn a_style_goes_on_from_line_to_line() {
        let mut style = Style::default();
        let mut check = |text: &str, expect: &str| {
            assert_eq!(draw(text.as_bytes(), &mut style).html, expect, "{text:?}");
        };
        check("a\x1b[31mb", "a<span class=\"f1\">b</span>");
        check("c", "<span class=\"f1\">c</span>");
        check("", "");
        check("\x1b[1m9%\rd\x1b[0m", "<span class=\"f1 bo\">d</span>");
        check("e", "e");
        check(&format!("{}\x1b[32m", "x".repeat(LONGEST)), &"x".repeat(LONGEST));
        check("f", "<span class=\"f2\">f</span>");
    }

    /// O2
    #[test]
    fn addresses_become_links_also_in_several_colours() {
        let open = "<a rel=\"noreferrer noopener\" target=\"_blank\" href=";
        check(
            "see https://a.example/b.",
            &format!("see {open}\"https://a.example/b\">https://a.example/b</a>."),
        );
        check(
            "http://h:\x1b[1m80\x1b[22m/ x",
            &format!("{open}\"http://h:80/\">http://h:<span class=\"bo\">80</span>/</a> x"),
        );
        check(
            "https://a.example/?a=1&b='<script>",
            &format!(
                "{open}\"https://a.example/?a=1&amp;b=\">https://a.example/?a=1&amp;b=</a>&#39;&lt;script&gt;"
            ),
        );
        check(
            "javascript:alert(1) data:text/html,x https:// http:///x",
            "javascript:alert(1) data:text/html,x https:// http:///x",
        );
        // Where the text says a link itself, there is no other in it.
        check(
            "\x1b]8;;https://b.example\x07https://a.example\x1b]8;;\x07",
            &format!("{open}\"https://b.example\">https://a.example</a>"),
        );
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
        let long = alone("x".repeat(LONGEST + 1).as_bytes());
        assert!(long.cut && long.html.len() == LONGEST);
        assert_eq!(alone(b"\xff\x1b[").html, "\u{fffd}");
        let open = alone("\x1b[31mx".repeat(5_000).as_bytes()).html;
        assert!(open.ends_with("</span>"));
    }

    #[test]
    fn the_palette_has_all_colours_beyond_the_theme() {
        let css = stylesheet();
        assert!(css.contains(".f196{color:#ff0000}") && css.contains(".b255{background:#eeeeee}"));
        assert_eq!(css.lines().count(), 240);
    }

    /// How much lighter one colour is than another, as the guidelines for accessible pages count it.
    fn contrast(one: &str, other: &str) -> f64 {
        let light = |colour: &str| {
            let part = |at: usize| {
                let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
                if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5) + 0.05
        };
        let (one, other) = (light(one), light(other));
        one.max(other) / one.min(other)
    }

    /// O2: whatever theme it is, and whether a line is pointed at or chosen.
    #[test]
    fn the_sixteen_colours_of_a_theme_can_be_read_on_its_paper() {
        assert!((contrast("#ffffff", "#000000") - 21.0).abs() < 0.01);
        let css = include_str!("assets/kiln.css");
        let themes: Vec<&str> = css.split("--log-paper: ").skip(1).collect();
        assert_eq!(themes.len(), 3, "light, dark by the system, dark by choice");
        for theme in themes {
            let value = |name: &str| {
                let at = theme.find(&format!("{name}: ")).unwrap() + name.len() + 2;
                &theme[at..at + 7]
            };
            for paper in [&theme[..7], value("--log-hover"), value("--log-chosen")] {
                for number in 0..16 {
                    let colour = value(&format!("--ansi-{number}"));
                    let found = contrast(colour, paper);
                    assert!(found >= 4.5, "{number}: {colour} on {paper}: {found:.2}");
                }
            }
        }
    }
}
