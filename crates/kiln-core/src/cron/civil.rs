//! Just enough calendar: dates from year 1 to 9999, their weekdays and successors.

use std::fmt;

const LAST_YEAR: i32 = 9999;

/// A time on a calendar and a clock, in no particular zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Civil {
    date: Date,
    hour: u32,
    minute: u32,
}

impl Civil {
    /// Nothing if there is no such time; years run from 1 to 9999.
    pub fn new(year: i32, month: u32, day: u32, hour: u32, minute: u32) -> Option<Self> {
        let date = Date::new(year, month, day)?;
        (hour < 24 && minute < 60).then_some(Self { date, hour, minute })
    }

    pub fn year(self) -> i32 {
        self.date.year
    }

    pub fn month(self) -> u32 {
        self.date.month
    }

    pub fn day(self) -> u32 {
        self.date.day
    }

    pub fn hour(self) -> u32 {
        self.hour
    }

    pub fn minute(self) -> u32 {
        self.minute
    }

    /// Days from Sunday, which is 0.
    pub fn weekday(self) -> u32 {
        self.date.weekday()
    }

    pub(super) fn date(self) -> Date {
        self.date
    }

    /// The same day at another time; the caller knows that the time exists.
    pub(super) fn at(self, hour: u32, minute: u32) -> Self {
        Self { hour, minute, ..self }
    }
}

impl fmt::Display for Civil {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Date { year, month, day } = self.date;
        write!(f, "{year:04}-{month:02}-{day:02} {:02}:{:02}", self.hour, self.minute)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Date {
    year: i32,
    month: u32,
    day: u32,
}

impl Date {
    pub(super) fn new(year: i32, month: u32, day: u32) -> Option<Self> {
        let exists = (1..=LAST_YEAR).contains(&year)
            && (1..=12).contains(&month)
            && (1..=days_in_month(year, month)).contains(&day);
        exists.then_some(Self { year, month, day })
    }

    pub(super) fn month(self) -> u32 {
        self.month
    }

    pub(super) fn day(self) -> u32 {
        self.day
    }

    pub(super) fn next_day(self) -> Option<Self> {
        if self.day < days_in_month(self.year, self.month) {
            return Some(Self { day: self.day + 1, ..self });
        }
        self.next_month()
    }

    /// The first day of the next month.
    pub(super) fn next_month(self) -> Option<Self> {
        if self.month < 12 {
            return Some(Self { month: self.month + 1, day: 1, ..self });
        }
        Self::new(self.year + 1, 1, 1)
    }

    pub(super) fn at(self, hour: u32, minute: u32) -> Civil {
        Civil { date: self, hour, minute }
    }

    /// Days from Sunday. The table holds how far each month shifts the weekday of its first day;
    /// January and February count to the year before, so that the leap day comes last.
    pub(super) fn weekday(self) -> u32 {
        const SHIFT: [i32; 12] = [0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4];
        let year = if self.month < 3 { self.year - 1 } else { self.year };
        let shift = SHIFT[self.month as usize - 1];
        let day = i32::try_from(self.day).expect("a day of a month");
        let sum = year + year / 4 - year / 100 + year / 400 + shift + day;
        u32::try_from(sum.rem_euclid(7)).expect("a remainder of seven")
    }
}

/// How many days a month has; the month is 1 to 12.
pub(super) fn days_in_month(year: i32, month: u32) -> u32 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}
