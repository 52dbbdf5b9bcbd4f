//! Tables for the cron dialect, its calendar and its words.

use proptest::prelude::*;

use super::{Civil, Cron};

#[track_caller]
fn cron(text: &str) -> Cron {
    Cron::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

#[track_caller]
fn time(text: &str) -> Civil {
    let parts: Vec<i32> =
        text.split(['-', ' ', ':']).map(|part| part.parse().expect(text)).collect();
    let part = |at: usize| u32::try_from(parts[at]).expect(text);
    Civil::new(parts[0], part(1), part(2), part(3), part(4)).expect(text)
}

#[track_caller]
fn check_next(text: &str, after: &str, expect: &str) {
    let next = cron(text).next_after(time(after)).expect("fires");
    assert_eq!(next.to_string(), expect, "{text} after {after}");
}

#[track_caller]
fn check_error(text: &str, marked: &str, message: &str) {
    let error = Cron::parse(text).expect_err(text);
    assert!(error.message.contains(message), "{text}: {}", error.message);
    assert_eq!(&text[error.span], marked, "{text}: {}", error.message);
}

#[test]
fn what_github_accepts_is_accepted() {
    for text in [
        "0 0 * * *",
        "0 000 001 * *",
        "15 * * * *",
        "2,10 4,5 * * *",
        "30 4-6 * * *",
        "0 4-4 * * *",
        "20/15 * * * *",
        "28 */4 * * *",
        "28 5,*/4,6-8 * * *",
        "0 0 * * SUN",
        "0 0 * jan-Mar sun-TUE",
        "0 0 * * SUN-2",
        "0 2-4/5 * * *",
        "0   0  *  *               *",
    ] {
        cron(text);
    }
}

#[test]
fn what_github_refuses_is_refused() {
    for text in [
        "0 0 * *",
        "0 0 * * * * *",
        "0 -1 * * *",
        "0 1- * * *",
        "0 /1 * * *",
        "0 1/ * * *",
        "0 ,1 * * *",
        "0 1, * * *",
        "0 5--5 * * *",
        "0 *//5 * * *",
        "0 */* * * *",
        "0 5/* * * *",
        "0 *-4 5-* *-* *",
        "0 ,, * * *",
        ", , , , ,",
        "0 ** * * *",
        "0 0 * * BUN",
        "0 0 * SUN JAN",
        "0 0 * * FRI-TUE",
        "0 12-4 * * *",
        "0 */0 * * *",
        "0 2/4-5 * * *",
        "0 2-4-6 * * *",
        "0 2/4/6 * * *",
        "0 * * */FEB */TUE",
        "",
        "   ",
        "0 0 * * 7",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * 32 * *",
        "* * * 13 *",
        "*/60 * * * *",
        "0 0 L * *",
        "+5 * * * *",
        "0x5 * * * *",
        "٣ * * * *",
    ] {
        assert!(Cron::parse(text).is_err(), "{text}");
    }
}

#[test]
fn errors_name_the_field_its_limits_and_the_place() {
    check_error("60 * * * *", "60", "`60` does not fit the minute, which goes from 0 to 59");
    check_error("0 4,25 * * *", "25", "`25` does not fit the hour, which goes from 0 to 23");
    check_error("0 0 1-40 * *", "40", "day of the month, which goes from 1 to 31");
    check_error("0 0 * FOO *", "FOO", "1 to 12 or JAN to DEC");
    check_error("0 0 * * 7", "7", "Sunday is `0` or `SUN`");
    check_error("0 0 * * FRI-MON", "FRI-MON", "runs backwards");
    check_error("*/0 * * * *", "0", "a number from 1 to 59");
    check_error("*/ * * * *", "/", "must be followed by a step");
    check_error("0 1,,2 * * *", "", "missing here");
    check_error("0 0 ? * *", "?", "write `*`");
    check_error("  @daily ", "@daily", "write `0 0 * * *`");
    check_error("@reboot", "@reboot", "write the five fields");
    check_error("0 0 * *", "0 0 * *", "this has 4");
    check_error("0 0 0 * * *  ", "*", "seconds and years are not supported");
}

#[test]
fn impossible_days_never_fire() {
    let check = |text: &str, expect: bool| assert_eq!(cron(text).never_fires(), expect, "{text}");
    check("0 0 30 2 *", true);
    check("0 0 31 4,6,9,11 *", true);
    check("0 0 31 2,4,6 *", true);
    check("0 0 29 2 *", false);
    check("0 0 31 4,5 *", false);
    check("0 0 30-31 2 *", true);
    // With both days given, the weekday alone is enough.
    check("0 0 30 2 MON", false);
    // A step on a star still has to hold.
    check("0 0 30 2 */2", true);
    check("0 0 */2 2 MON", false);
    check("* * * * *", false);
    assert_eq!(cron("0 0 30 2 *").next_after(time("2026-01-01 00:00")), None);
    assert_eq!(cron("0 0 30 2 *").shortest_interval_minutes(), None);
}

#[test]
fn the_next_time_is_strictly_later_and_on_the_calendar() {
    check_next("* * * * *", "2026-05-01 10:00", "2026-05-01 10:01");
    check_next("30 4 * * *", "2026-05-01 04:30", "2026-05-02 04:30");
    check_next("30 4 * * *", "2026-05-01 04:29", "2026-05-01 04:30");
    check_next("*/15 9-17 * * 1-5", "2026-05-01 17:45", "2026-05-04 09:00");
    check_next("0 0 1 * *", "2026-12-31 23:59", "2027-01-01 00:00");
    check_next("0 0 29 2 *", "2026-01-01 00:00", "2028-02-29 00:00");
    check_next("0 0 29 2 *", "2096-03-01 00:00", "2104-02-29 00:00");
    check_next("0 0 31 * *", "2026-04-01 00:00", "2026-05-31 00:00");
    check_next("59 23 31 12 *", "2026-12-31 23:59", "2027-12-31 23:59");
    check_next("0 0 * 3 *", "2026-04-01 00:00", "2027-03-01 00:00");
    // 1 June 2026 is a Monday; either day is enough.
    check_next("0 0 13 * FRI", "2026-06-01 00:00", "2026-06-05 00:00");
    check_next("0 0 13 * FRI", "2026-06-12 00:00", "2026-06-13 00:00");
    // A stepped star on the days has to hold together with the weekday.
    check_next("0 0 */10 * MON", "2026-06-01 00:00", "2026-08-31 00:00");
    check_next("0 0 29 2 */6", "2026-01-01 00:00", "2032-02-29 00:00");
    assert_eq!(cron("0 0 1 1 *").next_after(time("9999-06-01 00:00")), None);
}

#[test]
fn the_calendar_knows_weekdays_and_month_ends() {
    let check = |text: &str, weekday: u32| assert_eq!(time(text).weekday(), weekday, "{text}");
    check("1970-01-01 00:00", 4);
    check("2000-02-29 00:00", 2);
    check("2026-11-15 00:00", 0);
    check("1900-03-01 00:00", 4);
    check("0001-01-01 00:00", 1);
    check("9999-12-31 00:00", 5);
    for (year, month, day, hour, minute) in [
        (2026, 2, 29, 0, 0),
        (1900, 2, 29, 0, 0),
        (2026, 13, 1, 0, 0),
        (2026, 1, 0, 0, 0),
        (2026, 1, 1, 24, 0),
        (2026, 1, 1, 0, 60),
        (0, 1, 1, 0, 0),
        (10_000, 1, 1, 0, 0),
    ] {
        assert_eq!(Civil::new(year, month, day, hour, minute), None);
    }
}

#[test]
fn the_shortest_interval_crosses_hours_and_midnight() {
    let check = |text: &str, expect: u32| {
        assert_eq!(cron(text).shortest_interval_minutes(), Some(expect), "{text}");
    };
    check("* * * * *", 1);
    check("*/5 * * * *", 5);
    check("*/7 * * * *", 4);
    check("0,58 * * * *", 2);
    check("0,58 9 * * *", 58);
    check("2,59 * * * *", 3);
    check("0-4 3 1 1 *", 1);
    check("0 * * * *", 60);
    check("30 4 * * *", 24 * 60);
    check("0,59 0,23 * * *", 1);
    check("0 0 * * MON", 7 * 24 * 60);
    check("0 0 * * MON,TUE", 24 * 60);
    check("0 0 1 * *", 28 * 24 * 60);
    check("0 0 1 * MON", 24 * 60);
    check("0 0 29 2 *", (4 * 365 + 1) * 24 * 60);
    check("0 0 1 1 *", 365 * 24 * 60);
}

#[test]
fn schedules_read_well() {
    let check = |text: &str, expect: &str| assert_eq!(cron(text).describe(), expect, "{text}");
    check("* * * * *", "every minute");
    check("*/15 * * * *", "every 15 minutes");
    check("*/15 * * * 1-5", "every 15 minutes on weekdays");
    check("*/15 9-17 * * 1-5", "every 15 minutes from 09:00 to 17:59 on weekdays");
    check("0 * * * *", "every hour");
    check("5 * * * *", "every hour at minute 5");
    check("0,20 9-17 * * *", "every hour from 09:00 to 17:59 at minutes 0 and 20");
    check("0 */2 * * *", "every 2 hours");
    check("15 */2 * * *", "every 2 hours at minute 15");
    check("30 4 * * *", "every day at 04:30");
    check("15 4,5 * * *", "every day at 04:15 and 05:15");
    check("0 0 * * SUN", "at 00:00 on Sundays");
    check("0 0 * * 0,6", "at 00:00 on weekends");
    check("0 0 * * 1,3,4,5", "at 00:00 on Mondays and Wednesdays to Fridays");
    check("0 12 1 * *", "at 12:00 on day 1 of the month");
    check("0 12 1,15 * *", "at 12:00 on days 1 and 15 of the month");
    check("0 12 1 1,7 *", "at 12:00 on day 1 of the month in January and July");
    check("0 12 * 6-8 *", "every day at 12:00 in June to August");
    check("0 0 13 * FRI", "at 00:00 on day 13 of the month and on Fridays");
    check("0 0 1-7 * */6", "at 00:00 on weekends that fall on days 1 to 7 of the month");
    check("0 0 1-31 * MON", "every day at 00:00");
    check("*/7 * * * *", "every hour at minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56");
}

prop_compose! {
    fn any_schedule()(
        minute in "(\\*|[1-5]?[0-9]|\\*/[1-9]|[0-9]-5[0-9])",
        hour in "(\\*|1?[0-9]|\\*/[2-9]|[0-9]-1[0-9])",
        day in "(\\*|1?[1-9]|2[0-9]|3[01]|\\*/[2-9]|1-7)",
        month in "(\\*|[1-9]|2,6|\\*/5)",
        weekday in "(\\*|[0-6]|1-5|\\*/3)",
    ) -> String {
        format!("{minute} {hour} {day} {month} {weekday}")
    }
}

/// Whether the schedule is due, read from its text without the bit sets.
fn is_due(text: &str, at: Civil) -> bool {
    let words: Vec<&str> = text.split(' ').collect();
    let holds = |word: &str, value: u32, low: u32, high: u32| {
        word.split(',').any(|item| {
            let (range, step) = item.split_once('/').unwrap_or((item, "1"));
            let step: u32 = step.parse().expect("step");
            let (from, to) = match range.split_once('-') {
                Some((from, to)) => (from.parse().expect("low"), to.parse().expect("high")),
                None if range == "*" => (low, high),
                None => (range.parse().expect("value"), range.parse().expect("value")),
            };
            (from..=to).contains(&value) && (value - from).is_multiple_of(step)
        })
    };
    let day = holds(words[2], at.day(), 1, 31);
    let weekday = holds(words[4], at.weekday(), 0, 6);
    let either = !words[2].starts_with('*') && !words[4].starts_with('*');
    holds(words[0], at.minute(), 0, 59)
        && holds(words[1], at.hour(), 0, 23)
        && holds(words[3], at.month(), 1, 12)
        && if either { day || weekday } else { day && weekday }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn the_next_time_is_the_first_one_due(
        text in any_schedule(),
        (day, hour, minute) in (1u32..=28, 0u32..24, 0u32..60),
    ) {
        let start = Civil::new(2027, 12, day, hour, minute).expect("exists");
        let next = cron(&text).next_after(start);
        // Minute by minute, over the turn of the year into a leap year.
        let minutely = cron("* * * * *");
        let mut at = start;
        for _ in 0..60 * 24 * 40 {
            at = minutely.next_after(at).expect("there is always a next minute");
            prop_assert_eq!(is_due(&text, at), next == Some(at), "{} at {}", text, at);
            if next == Some(at) {
                break;
            }
        }
    }

}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_with_a_span_inside_it(text in r"[*0-9,/@A-Z \-é]{0,24}") {
        match Cron::parse(&text) {
            Ok(cron) => { prop_assert!(!cron.describe().is_empty()); }
            Err(error) => prop_assert!(text.get(error.span).is_some()),
        }
    }
}
