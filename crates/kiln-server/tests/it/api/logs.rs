//! Lines of a log by their number, step and time, before and after it is archived.

use bytes::Bytes;
use kiln_core::id::JobId;
use kiln_core::run::Conclusion;
use kiln_core::time::Timestamp;
use kiln_proto::log::Line;
use kiln_server::logs::LogId;
use kiln_testkit::dice::Dice;
use serde_json::Value;

use super::people::{As, CI, Person, commit, empty, person, site};
use crate::support::Server;

/// A line as the test knows it.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) number: u64,
    pub(super) at: u64,
    pub(super) step: u32,
    pub(super) text: Vec<u8>,
}

/// Lines of several steps, many of them such as nobody should print; clocks go back now and then.
pub(super) fn random_lines(dice: &mut Dice, count: u64) -> Vec<Known> {
    let mut at = 1_700_000_000_000;
    let mut step = 0;
    let words = ["error", "warning: x", "ok", "\u{1b}[31mred\u{1b}[0m", "10%\r20%", "é日🦀", ""];
    let mut lines = Vec::new();
    for number in 1..=count {
        at = at + dice.below(50) - dice.below(20);
        if dice.below(count / 6 + 1) == 0 {
            step += 1;
        }
        let word = words[usize::try_from(dice.below(words.len() as u64)).unwrap()];
        let mut text = format!("{word} {}", dice.below(1_000)).into_bytes();
        match dice.below(200) {
            0 => text.extend_from_slice(b"\0\xff\xfe"),
            1 => text.extend(vec![b'z'; usize::try_from(dice.below(30_000)).unwrap()]),
            _ => {}
        }
        // What belongs to no step comes at any time.
        let step = if dice.below(100) == 0 { 0 } else { step };
        lines.push(Known { number, at, step, text });
    }
    lines
}

pub(super) fn raw(lines: &[Known]) -> Bytes {
    let mut bytes = Vec::new();
    for line in lines {
        Line { at: line.at, step: line.step, text: &line.text }.write(&mut bytes);
    }
    bytes.into()
}

fn numbered(lines: &[&Known]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines {
        bytes.extend_from_slice(format!("{} ", line.number).as_bytes());
        Line { at: line.at, step: line.step, text: &line.text }.write(&mut bytes);
    }
    bytes
}

/// A job that runs, with a log of nothing yet.
pub(crate) async fn running(
    server: &Server,
    ada: &Person<'_>,
) -> (LogId, kiln_testkit::runs::Site) {
    let place = server.repository("acme", "app").await;
    commit(server, &place, &[("ci.yml", CI)]);
    ada.trigger(&place, empty()).await;
    let site = site(server, &place);
    let claimed = site.claim(1, 1).await.remove(0);
    (LogId { job: claimed.job, claim: claimed.claim }, site)
}

/// What is asked for, and the lines that a naive reader finds.
fn question<'k>(dice: &mut Dice, lines: &'k [Known]) -> (String, Vec<&'k Known>) {
    let count = lines.len() as u64;
    let mut query = String::from("format=numbered");
    let mut wanted: Vec<&Known> = lines.iter().collect();
    let mut add = |text: String| query.push_str(&text);
    if dice.below(2) == 0 {
        let from = dice.below(count + 5) + 1;
        add(format!("&from_line={from}"));
        wanted.retain(|line| line.number >= from);
    }
    if dice.below(3) == 0 {
        let (one, two) = (dice.below(9), dice.below(9));
        add(format!("&step={},{}", one + 1, two + 1));
        wanted.retain(|line| [one, two].contains(&u64::from(line.step)));
    }
    if dice.below(3) == 0 {
        let since = lines[usize::try_from(dice.below(count)).unwrap()].at;
        add(format!("&since={}", Timestamp(since).rfc3339()));
        wanted.retain(|line| line.at >= since);
    }
    if dice.below(4) == 0 {
        add("&grep=error".to_owned());
        wanted.retain(|line| line.text.windows(5).any(|part| part == b"error"));
    }
    if dice.below(3) == 0 {
        let tail = dice.below(300);
        add(format!("&tail={tail}"));
        let skipped = wanted.len().saturating_sub(usize::try_from(tail).unwrap());
        wanted.drain(..skipped);
    }
    if dice.below(3) == 0 {
        let most = dice.below(500);
        add(format!("&lines={most}"));
        wanted.truncate(usize::try_from(most).unwrap());
    }
    (query, wanted)
}

async fn bytes(ada: &Person<'_>, path: &str) -> Bytes {
    let response = ada.request(reqwest::Method::GET, path).send().await.unwrap();
    assert_eq!(response.status(), 200, "{path}");
    response.bytes().await.unwrap()
}

/// C8
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_are_found_as_a_naive_reader_finds_them_before_and_after_the_archive() {
    let server = Server::start(kiln_testkit::database::Database::sqlite()).await;
    let ada = person(&server, "adam", As::administrator()).await;
    let (log, _) = running(&server, &ada).await;
    let mut dice = Dice::new(7);
    let lines = random_lines(&mut dice, 20_000);
    let all = raw(&lines);
    let mut at = 0;
    while at < all.len() {
        let end = all.len().min(at + 1 + usize::try_from(dice.below(300_000)).unwrap());
        server.app.logs.append(log, at as u64, all.slice(at..end)).await.unwrap();
        at = end;
    }
    let path = format!("/api/jobs/{}/log", log.job);
    for archived in [false, true] {
        if archived {
            assert!(server.app.logs.archive(log).await.unwrap());
        }
        assert_eq!(bytes(&ada, &format!("{path}?format=raw")).await, all);
        for turn in 0..60 {
            let (query, wanted) = question(&mut dice, &lines);
            let found = bytes(&ada, &format!("{path}?{query}")).await;
            assert!(
                found == numbered(&wanted),
                "{archived} {turn}: {query}: {} bytes",
                found.len()
            );
        }
        for _ in 0..20 {
            let (from, limit) = (dice.below(all.len() as u64), dice.below(700_000));
            let found = bytes(&ada, &format!("{path}?format=raw&from={from}&limit={limit}")).await;
            let start = usize::try_from(from).unwrap();
            let end = all.len().min(start + usize::try_from(limit).unwrap());
            assert_eq!(found, all[start..end]);
        }
        let github = bytes(&ada, &format!("/repos/acme/app/actions/jobs/{}/logs", log.job)).await;
        let first = format!("{} ", Timestamp(lines[0].at).rfc3339()).into_bytes();
        let first = [&first[..], &lines[0].text, b"\n"].concat();
        assert!(github.starts_with(&first));
        assert_eq!(memchr_count(&github), lines.len());
    }
}

fn memchr_count(bytes: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', bytes).count()
}

on_both! {
    /// C8
    lines_come_in_every_form_and_what_cannot_be_is_refused
}

async fn lines_come_in_every_form_and_what_cannot_be_is_refused(server: Server) {
    let ada = person(&server, "adam", As::administrator()).await;
    let (log, _) = running(&server, &ada).await;
    let lines: Vec<Known> = (1..=5)
        .map(|number| {
            let (at, step) = (number * 1_000, u32::try_from(number / 3).unwrap());
            Known { number, at, step, text: format!("line {number}").into_bytes() }
        })
        .collect();
    let all = [&raw(&lines)[..], b"6000 1 half"].concat();
    server.app.logs.append(log, 0, all.into()).await.unwrap();
    let path = format!("/api/jobs/{}/log", log.job);
    let get = async |query: &str| ada.get(&format!("{path}?{query}")).await;
    for (query, expect) in [
        ("from_line=4", "line 4\nline 5\nhalf\n"),
        ("from_line=2&lines=2", "line 2\nline 3\n"),
        ("step=1", "line 1\nline 2\n"),
        ("tail=2", "line 4\nline 5\nhalf\n"),
        ("grep=LINE%204&ignore_case=true", "line 4\n"),
        ("grep=%5Eline%20%5B12%5D%24&regex=true", "line 1\nline 2\n"),
        (
            "since=1970-01-01T00:00:05Z&format=timed",
            "1970-01-01T00:00:05.000Z line 5\n1970-01-01T00:00:06.000Z half\n",
        ),
        ("step=2&lines=1&format=raw", "3000 1 line 3\n"),
        ("lines=0", ""),
    ] {
        let answer = get(query).await;
        assert_eq!(answer.headers["kiln-log-lines"], "5", "{query}");
        assert_eq!(answer.expect(200), expect, "{query}");
    }
    let shown = get("from_line=2&lines=1&format=json").await;
    assert_eq!(shown.headers["content-type"], "application/x-ndjson");
    let expect = serde_json::json!({
        "type": "log_line", "step": 1, "line_number": 2,
        "timestamp": "1970-01-01T00:00:02.000Z", "content": "line 2",
    });
    assert_eq!(shown.expect(200), expect);
    for bad in [
        "step=0",
        "step=x",
        "since=yesterday",
        "grep=(&regex=true",
        "grep=",
        "tail=-1",
        "lines=x",
        "from=1&tail=2",
        "limit=5&grep=x",
        "format=xml",
    ] {
        get(bad).await.expect(422);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_lines_are_kept_as_they_are() {
    let server = Server::start(kiln_testkit::database::Database::sqlite()).await;
    let ada = person(&server, "adam", As::administrator()).await;
    let (log, _) = running(&server, &ada).await;
    let mut all = b"1 0 a\0b\n2 0 \xff\xfe\n3 0 x\ry\n\n4\n5 0 ".to_vec();
    all.extend(vec![b'l'; 1_500_000]);
    all.extend_from_slice(b"\n6 0 last\n");
    server.app.logs.append(log, 0, all.clone().into()).await.unwrap();
    let path = format!("/api/jobs/{}/log", log.job);
    for archived in [false, true] {
        assert_eq!(archived, archived && server.app.logs.archive(log).await.unwrap());
        assert_eq!(bytes(&ada, &format!("{path}?format=raw")).await, all);
        let small = bytes(&ada, &format!("{path}?format=numbered&lines=5")).await;
        assert_eq!(&small[..], b"1 1 0 a\0b\n2 2 0 \xff\xfe\n3 3 0 x\ry\n4 0 0 \n5 0 0 4\n");
        // A line that is too long counts as two.
        let last = ada.get(&format!("{path}?format=json&tail=1")).await.expect(200);
        assert_eq!(
            (&last["content"], &last["line_number"]),
            (&Value::from("last"), &Value::from(8))
        );
    }
}

const TWO: &str = "  a: {runs-on: linux, steps: [{run: 'true'}]}
  b: {runs-on: linux, needs: a, steps: [{run: 'false'}]}
";

on_both! {
    /// C8: what a re-run took over printed something when it ran, and that is its log in every attempt.
    a_job_that_was_taken_over_has_the_log_of_the_one_that_ran
}

async fn a_job_that_was_taken_over_has_the_log_of_the_one_that_ran(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "adam", As::administrator()).await;
    let site = site(&server, &place);
    let run = server.run(&place, TWO).await;
    let first = site.claim(1, 1).await.remove(0);
    let log = LogId { job: first.job, claim: first.claim };
    server.app.logs.append(log, 0, "1000 0 hello\n".into()).await.unwrap();
    site.finish(&first, 1, Conclusion::Success).await;
    let second = site.claim(1, 1).await.remove(0);
    site.finish(&second, 1, Conclusion::Failure).await;
    // Twice: what was taken over is taken over again.
    for attempt in [2_u32, 3] {
        let failed = serde_json::json!({ "failed": true });
        ada.post(&format!("/api/runs/{run}/rerun"), failed).await.expect(201);
        let seen = ada.get(&format!("/api/runs/{run}")).await.expect(200);
        let jobs = seen["jobs"].as_array().unwrap();
        let job = jobs.iter().find(|job| job["name"] == "a").unwrap();
        assert_eq!((&seen["attempt"], &job["run_attempt"]), (&attempt.into(), &1.into()));
        assert_ne!(job["id"], first.job.0);
        let before = ada.get(&format!("/api/runs/{run}?attempt=1")).await.expect(200);
        let ran = before["jobs"].as_array().unwrap().iter().find(|job| job["name"] == "a").unwrap();
        assert_eq!((&job["runner_id"], &job["runner"]), (&ran["runner_id"], &ran["runner"]));
        assert_eq!(job["runner_id"], 1, "who ran it is known in every attempt");
        assert!(
            seen["created_at"].as_str() > before["created_at"].as_str(),
            "an attempt has its own time"
        );
        let path = format!("/api/jobs/{}/log", job["id"]);
        assert_eq!(ada.get(&path).await.expect(200), "hello\n");
        assert_eq!(ada.get(&format!("{path}?tail=1")).await.expect(200), "hello\n");
        let found = ada.get(&format!("{path}/search?q=hello")).await.expect(200);
        assert_eq!(found["items"][0]["text"], "hello", "{found}");
        let live = bytes(&ada, &format!("{path}/live")).await;
        let live = String::from_utf8_lossy(&live);
        let told = ["\"content\":\"hello\"", "job_complete", "\"conclusion\":\"success\""];
        assert!(told.iter().all(|part| live.contains(part)), "{live}");
        let again = site.claim(1, 1).await.remove(0);
        site.finish(&again, 1, Conclusion::Failure).await;
        let all = bytes(&ada, &format!("/repos/acme/app/actions/runs/{run}/logs")).await;
        let text = unpacked(&all, "0_a.txt");
        assert_eq!(text, "1970-01-01T00:00:01.000Z hello\n", "attempt {attempt}");
    }
}

/// A file of an archive.
fn unpacked(archive: &[u8], name: &str) -> String {
    let mut file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut file, archive).unwrap();
    let entries = kiln_server::zip::file::entries(&mut file).unwrap();
    let entry = entries.iter().find(|entry| entry.name == name).unwrap();
    let mut text = Vec::new();
    kiln_server::zip::file::unpack(&mut file, entry, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

/// H3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_of_nothing_is_empty() {
    let server = Server::start(kiln_testkit::database::Database::sqlite()).await;
    let ada = person(&server, "adam", As::administrator()).await;
    let (log, _) = running(&server, &ada).await;
    assert!(!server.app.logs.archive(log).await.unwrap());
    for query in ["", "?tail=5", "?format=json", "?grep=x"] {
        assert_eq!(ada.get(&format!("/api/jobs/{}/log{query}", log.job)).await.expect(200), "");
    }
    let gone = JobId(log.job.0 + 5);
    ada.get(&format!("/api/jobs/{gone}/log?tail=5")).await.expect(404);
}
