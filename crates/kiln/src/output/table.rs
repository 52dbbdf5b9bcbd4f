//! Tables that fit the terminal. Where there is none, nothing is cut.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};

use clap::builder::styling::Style;

use super::frame;
use super::one_line;
use super::text::{QUIET, fit, width};

/// Between two columns.
const GAP: usize = 2;

/// A head, and how much of the column must stay when room is short.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub(crate) head: &'static str,
    /// Never cut below this; `usize::MAX` for a column that is never cut.
    pub(crate) least: usize,
}

/// A column that is shown whole.
pub(crate) const fn whole(head: &'static str) -> Column {
    Column { head, least: usize::MAX }
}

/// A column that may be cut down to so many columns of the terminal.
pub(crate) const fn cut(head: &'static str, least: usize) -> Column {
    Column { head, least }
}

#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub(crate) fn styled(text: impl AsRef<str>, style: Style) -> Self {
        Self { text: one_line(text.as_ref()), style }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::styled(text, Style::new())
    }
}

#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// As it is printed now.
    pub(crate) fn text(&self) -> String {
        self.within(room())
    }

    /// In at most so many columns, if there is a limit.
    pub(crate) fn within(&self, room: Option<usize>) -> String {
        let widths = self.widths(room);
        let heads: Vec<Cell> =
            self.columns.iter().map(|column| Cell::styled(column.head, QUIET)).collect();
        std::iter::once(&heads).chain(&self.rows).map(|row| line(row, &widths, room)).collect()
    }

    /// What each column needs; the widest give way first.
    fn widths(&self, room: Option<usize>) -> Vec<usize> {
        let need = |(index, column): (usize, &Column)| {
            let cells = self.rows.iter().filter_map(|row| row.get(index));
            cells.map(|cell| width(&cell.text)).chain([width(column.head)]).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = self.columns.iter().enumerate().map(need).collect();
        let Some(room) = room else { return widths };
        let gaps = GAP * widths.len().saturating_sub(1);
        let mut over = (widths.iter().sum::<usize>() + gaps).saturating_sub(room);
        while over > 0 {
            let can = |index: &usize| widths[*index] > self.columns[*index].least;
            let widest = (0..widths.len()).filter(can).max_by_key(|index| widths[*index]);
            let Some(widest) = widest else { break };
            widths[widest] -= 1;
            over -= 1;
        }
        widths
    }
}

/// One row. What still does not fit is cut at the edge of the terminal.
fn line(row: &[Cell], widths: &[usize], room: Option<usize>) -> String {
    let mut text = String::new();
    let mut left = room.unwrap_or(usize::MAX);
    for (index, (cell, wide)) in row.iter().zip(widths).enumerate() {
        let shown = fit(&cell.text, (*wide).min(left));
        let style = cell.style;
        if !shown.is_empty() {
            let _ = write!(text, "{style}{shown}{style:#}");
        }
        left = left.saturating_sub(*wide + GAP);
        if index + 1 < row.len() && left > 0 {
            text.push_str(&" ".repeat(wide.saturating_sub(width(&shown)) + GAP));
        }
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// The width of the terminal, if one shows the table.
pub(crate) fn room() -> Option<usize> {
    io::stdout().is_terminal().then(|| frame::size().columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table =
            Table::new(&[whole("STATUS"), cut("TITLE", 8), cut("BRANCH", 6), whole("AGE")]);
        table.row([
            "✓ succeeded".into(),
            "Make the tests faster".into(),
            "main".into(),
            "3m".into(),
        ]);
        table.row([
            "✗ failed".into(),
            "日本語のタイトル".into(),
            "feature/long-name".into(),
            "12m".into(),
        ]);
        table
    }

    fn bare(table: &Table, room: Option<usize>) -> Vec<String> {
        let text = anstream::adapter::strip_str(&table.within(room)).to_string();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_table_is_as_wide_as_it_needs() {
        assert_eq!(
            bare(&sample(), None),
            [
                "STATUS       TITLE                  BRANCH             AGE",
                "✓ succeeded  Make the tests faster  main               3m",
                "✗ failed     日本語のタイトル       feature/long-name  12m",
            ]
        );
    }

    #[test]
    fn the_widest_columns_give_way_first() {
        assert_eq!(
            bare(&sample(), Some(44)),
            [
                "STATUS       TITLE         BRANCH        AGE",
                "✓ succeeded  Make the te…  main          3m",
                "✗ failed     日本語のタ…   feature/lon…  12m",
            ]
        );
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for room in 1..70 {
            for line in bare(&sample(), Some(room)) {
                assert!(width(&line) <= room, "{room}: {line}");
            }
        }
    }

    #[test]
    fn what_a_cell_holds_cannot_steer_the_terminal() {
        let mut table = Table::new(&[whole("NAME")]);
        table.row([Cell::from("a\x1b[2Jb\nc")]);
        assert_eq!(table.within(None).lines().last(), Some("a [2Jb c"));
    }
}
