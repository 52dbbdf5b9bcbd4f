//! A grid of characters on which lines meet and boxes stand.

/// Columns that a text takes on a terminal.
pub(super) fn width(text: &str) -> i32 {
    text.chars().map(char_width).sum()
}

/// Wide are the scripts and symbols of East Asia and emoji; combining marks take no room.
pub(super) fn char_width(c: char) -> i32 {
    match u32::from(c) {
        0x300..=0x36f | 0x200b..=0x200f | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f
        | 0x2e80..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1f64f
        | 0x1f680..=0x1f6ff
        | 0x1f900..=0x1f9ff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

const UP: u8 = 1;
const DOWN: u8 = 2;
const LEFT: u8 = 4;
const RIGHT: u8 = 8;

/// Lines turn or meet here; without it, four directions are two lines that only cross.
const JOINT: u8 = 16;

/// A line turns to the right here; what comes from the left passes beneath it.
const ABOVE: u8 = 32;

/// What stands in one place: something written, or the directions in which lines leave it.
#[derive(Clone, Copy)]
enum Cell {
    Lines(u8),
    Written(char),
    /// The second half of a wide character.
    Covered,
}

/// A grid that grows as it is drawn on. Lines that meet become corners and crossings.
#[derive(Default)]
pub(super) struct Canvas {
    rows: Vec<Vec<Cell>>,
}

impl Canvas {
    fn cell(&mut self, y: i32, x: i32) -> Option<&mut Cell> {
        let (y, x) = (usize::try_from(y).ok()?, usize::try_from(x).ok()?);
        if self.rows.len() <= y {
            self.rows.resize(y + 1, Vec::new());
        }
        let row = &mut self.rows[y];
        if row.len() <= x {
            row.resize(x + 1, Cell::Lines(0));
        }
        Some(&mut row[x])
    }

    pub(super) fn put(&mut self, y: i32, x: i32, c: char) {
        if let Some(cell) = self.cell(y, x) {
            *cell = Cell::Written(c);
        }
    }

    pub(super) fn write(&mut self, y: i32, mut x: i32, text: &str) {
        for c in text.chars() {
            let width = char_width(c);
            if width > 0 {
                self.put(y, x, c);
            }
            if let Some(cell) = self.cell(y, x + 1).filter(|_| width == 2) {
                *cell = Cell::Covered;
            }
            x += width;
        }
    }

    fn line(&mut self, y: i32, x: i32, direction: u8) {
        if let Some(Cell::Lines(lines)) = self.cell(y, x) {
            *lines |= direction;
        }
    }

    pub(super) fn horizontal(&mut self, y: i32, from: i32, to: i32) {
        for x in from..to {
            self.line(y, x, RIGHT);
            self.line(y, x + 1, LEFT);
        }
    }

    pub(super) fn vertical(&mut self, x: i32, from: i32, to: i32) {
        for y in from.min(to)..from.max(to) {
            self.line(y, x, DOWN);
            self.line(y + 1, x, UP);
        }
    }

    /// Says that the lines at this place belong together.
    pub(super) fn joint(&mut self, y: i32, x: i32) {
        self.line(y, x, JOINT);
    }

    /// Says that a line turns to the right at this place and has nothing to do with the line that may
    /// come from the left.
    pub(super) fn turn_right(&mut self, y: i32, x: i32) {
        self.line(y, x, JOINT | ABOVE);
    }

    pub(super) fn finish(self) -> String {
        let mut out = String::new();
        for row in self.rows {
            let line: String = row.into_iter().filter_map(Cell::shown).collect();
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

impl Cell {
    fn shown(self) -> Option<char> {
        match self {
            Self::Covered => None,
            Self::Written(c) => Some(c),
            Self::Lines(lines) => Some(drawn(lines)),
        }
    }
}

fn drawn(lines: u8) -> char {
    let joint = lines & JOINT != 0;
    let hidden = if lines & ABOVE == 0 { 0 } else { LEFT };
    let directions = lines & (UP | DOWN | LEFT | RIGHT) & !hidden;
    match directions {
        0 => ' ',
        _ if directions & (UP | DOWN) == 0 => '─',
        _ if directions & (LEFT | RIGHT) == 0 => '│',
        _ if directions == DOWN | RIGHT => '╭',
        _ if directions == DOWN | LEFT => '╮',
        _ if directions == UP | RIGHT => '╰',
        _ if directions == UP | LEFT => '╯',
        _ if directions & LEFT == 0 => '├',
        _ if directions & RIGHT == 0 => '┤',
        _ if directions & UP == 0 => '┬',
        _ if directions & DOWN == 0 => '┴',
        _ if joint => '┼',
        // One line passes over the other.
        _ => '│',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_only_cross_are_not_joined() {
        let mut canvas = Canvas::default();
        canvas.horizontal(1, 0, 4);
        canvas.vertical(2, 0, 2);
        assert_eq!(canvas.finish(), "  │\n──│──\n  │\n");
    }

    #[test]
    fn lines_that_belong_together_are_joined() {
        let mut canvas = Canvas::default();
        canvas.horizontal(1, 0, 4);
        canvas.vertical(2, 0, 2);
        canvas.joint(1, 2);
        assert_eq!(canvas.finish(), "  │\n──┼──\n  │\n");
    }

    #[test]
    fn a_turn_hides_what_comes_from_the_left() {
        let mut canvas = Canvas::default();
        canvas.horizontal(1, 0, 4);
        canvas.vertical(2, 0, 1);
        canvas.turn_right(1, 2);
        assert_eq!(canvas.finish(), "  │\n──╰──\n");
    }

    #[test]
    fn places_outside_are_ignored() {
        let mut canvas = Canvas::default();
        canvas.put(-1, 0, 'x');
        canvas.write(0, -1, "ab");
        assert_eq!(canvas.finish(), "b\n");
    }
}
