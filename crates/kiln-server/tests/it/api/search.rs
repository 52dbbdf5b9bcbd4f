//! Search in logs, against a naive search.

use kiln_core::run::Conclusion;
use kiln_server::logs::LogId;
use kiln_server::service::log::search::{self, Query};
use kiln_store::directory::members::Role;
use kiln_store::runs::Word;
use kiln_testkit::dice::Dice;
use serde_json::Value;

use super::logs::{Known, random_lines, raw, running};
use super::people::{As, Person, person, site};
use crate::support::Server;

const JOB: &str = "  build: {runs-on: linux, steps: [{run: 'true'}]}\n";

/// All answers of a search, taken piece by piece.
async fn all(ada: &Person<'_>, path: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let mut after = String::new();
    for _ in 0..500 {
        let answer = ada.get(&format!("{path}{after}")).await.expect(200);
        found.extend(answer["items"].as_array().unwrap().iter().cloned());
        match answer["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return found,
        }
    }
    panic!("{path} never ends")
}

fn numbers(found: &[Value]) -> Vec<u64> {
    found.iter().map(|item| item["line"].as_u64().unwrap()).collect()
}

/// C8
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_finds_what_a_naive_one_finds() {
    let server = Server::start(kiln_testkit::database::Database::sqlite()).await;
    let ada = person(&server, "adam", As::administrator()).await;
    let (log, _) = running(&server, &ada).await;
    let lines = random_lines(&mut Dice::new(11), 20_000);
    server.app.logs.append(log, 0, raw(&lines)).await.unwrap();
    let path = format!("/api/jobs/{}/log/search", log.job);
    let text = |line: &Known| String::from_utf8_lossy(&line.text).into_owned();
    let naive = |fits: &dyn Fn(&Known) -> bool| -> Vec<u64> {
        lines.iter().filter(|line| fits(line)).map(|line| line.number).collect()
    };
    let is_word = |line: &Known| text(line).starts_with("ok 7") && text(line).len() == 6;
    let questions: Vec<(&str, Vec<u64>)> = vec![
        ("q=error%2099", naive(&|line| text(line).contains("error 99"))),
        ("q=ERROR%2099&ignore_case=true", naive(&|line| text(line).contains("error 99"))),
        ("q=%5Eok%207..%24&regex=true", naive(&|line| is_word(line))),
        (
            "q=ok%207%5Cd%2B&regex=true&step=2",
            naive(&|line| line.step == 1 && text(line).starts_with("ok 7") && text(line).len() > 4),
        ),
        // Times and steps are not text.
        ("q=1700000000", vec![]),
        ("q=nowhere", vec![]),
    ];
    for archived in [false, true] {
        assert_eq!(archived, archived && server.app.logs.archive(log).await.unwrap());
        for (query, expect) in &questions {
            for limit in [1_000, 7] {
                let found = all(&ada, &format!("{path}?{query}&limit={limit}")).await;
                assert_eq!(&numbers(&found), expect, "{query}");
            }
        }
        let found = ada.get(&format!("{path}?q=z&limit=1&context=2")).await.expect(200);
        let first = &found["items"][0];
        let number = usize::try_from(first["line"].as_u64().unwrap()).unwrap();
        let known = &lines[number - 1];
        assert_eq!(first["step"], known.step + 1);
        let around = |from: usize, to: usize| -> Vec<Value> {
            lines[from..to].iter().map(|line| text(line).into()).collect()
        };
        assert_eq!(first["before"].as_array().unwrap(), &around(number - 3, number - 1));
        assert_eq!(first["after"].as_array().unwrap(), &around(number, number + 2));
        assert_eq!((&first["job"], &first["attempt"]), (&"build".into(), &1.into()));
    }
    for bad in ["", "?q=", "?q=(&regex=true", "?q=x&after=1", "?q=x&step=0"] {
        ada.get(&format!("{path}{bad}")).await.expect(422);
    }
}

on_both! {
    /// C8
    all_runs_of_a_repository_are_searched_by_those_who_may
}

async fn all_runs_of_a_repository_are_searched_by_those_who_may(server: Server) {
    let place = server.repository("acme", "app").await;
    let other = server.repository("evil", "app").await;
    let ada = person(&server, "adam", As::member(place.org, Role::Viewer)).await;
    let eve = person(&server, "evelyn", As::member(other.org, Role::Admin)).await;
    let site = site(&server, &place);
    let mut runs = Vec::new();
    for number in 0..5 {
        runs.push(server.run(&place, JOB).await.0);
        let claimed = site.claim(1, 1).await.remove(0);
        let log = LogId { job: claimed.job, claim: claimed.claim };
        let text = format!("1 0 a needle in run {number}\n2 0 hay\n3 1 another needle\n");
        server.app.logs.append(log, 0, text.into()).await.unwrap();
        site.finish(&claimed, 1, Conclusion::Success).await;
        if number % 2 == 0 {
            server.app.logs.archive(log).await.unwrap();
        }
    }
    let path = "/api/repos/acme/app/log/search?q=needle";
    for limit in [100, 3, 1] {
        let found = all(&ada, &format!("{path}&limit={limit}")).await;
        let places: Vec<(i64, u64)> = found
            .iter()
            .map(|item| (item["run_id"].as_i64().unwrap(), item["line"].as_u64().unwrap()))
            .collect();
        let newest_first: Vec<(i64, u64)> =
            runs.iter().rev().flat_map(|run| [(*run, 1), (*run, 3)]).collect();
        assert_eq!(places, newest_first, "{limit}");
    }
    let of_run = format!("/api/runs/{}/log/search?q=needle", runs[2]);
    assert_eq!(numbers(&all(&ada, &of_run).await), [1, 3]);
    for path in [path, &of_run] {
        eve.get(path).await.expect(404);
    }
    let job = all(&ada, path).await[0]["job_id"].as_i64().unwrap();
    eve.get(&format!("/api/jobs/{job}/log/search?q=needle")).await.expect(404);
    eve.get(&format!("/api/jobs/{job}/log/live")).await.expect(404);
    // A place of another repository leads to nothing.
    let theirs = "/api/repos/evil/app/log/search?q=needle";
    let after = all(&ada, &format!("{path}&limit=1")).await;
    assert!(!after.is_empty());
    let answer = eve.get(&format!("{theirs}&after={job}.1.0")).await.expect(200);
    assert_eq!(answer["items"], serde_json::json!([]));
}

on_both! {
    /// C8
    earlier_attempts_and_claims_are_searched_too
}

async fn earlier_attempts_and_claims_are_searched_too(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "adam", As::member(place.org, Role::Developer)).await;
    let site = site(&server, &place);
    let run = server.run(&place, JOB).await;
    let print = async |claimed: &kiln_store::claims::Claimed, text: &str| {
        let log = LogId { job: claimed.job, claim: claimed.claim };
        server.app.logs.append(log, 0, format!("1 0 needle {text}\n").into()).await.unwrap();
    };
    // The first claim is lost, the second fails, and the run is run again.
    let lost = site.claim(1, 1).await.remove(0);
    print(&lost, "lost").await;
    site.say(&lost, 1, Word::Lost { reason: "gone".to_owned() }).await;
    let second = site.claim(2, 1).await.remove(0);
    assert_eq!((second.job, second.claim), (lost.job, 2));
    print(&second, "failed").await;
    site.finish(&second, 2, Conclusion::Failure).await;
    ada.post(&format!("/api/runs/{}/rerun", run.0), serde_json::json!({})).await.expect(201);
    let again = site.claim(3, 1).await.remove(0);
    print(&again, "again").await;
    let told = |found: &[Value]| -> Vec<(u64, u64, String)> {
        let one = |item: &Value| {
            let number = |name: &str| item[name].as_u64().unwrap();
            (number("run_attempt"), number("attempt"), item["text"].as_str().unwrap().to_owned())
        };
        found.iter().map(one).collect()
    };
    let all_of = |texts: &[(u64, u64, &str)]| -> Vec<(u64, u64, String)> {
        texts.iter().map(|(run, claim, text)| (*run, *claim, format!("needle {text}"))).collect()
    };
    let first = [(1, 1, "lost"), (1, 2, "failed")];
    let of_repo = "/api/repos/acme/app/log/search?q=needle".to_owned();
    let of_run = format!("/api/runs/{}/log/search?q=needle", run.0);
    for path in [&of_repo, &of_run] {
        for limit in ["", "&limit=1"] {
            let found = told(&all(&ada, &format!("{path}{limit}")).await);
            assert_eq!(found, all_of(&[first[0], first[1], (2, 1, "again")]), "{path}{limit}");
        }
        assert_eq!(told(&all(&ada, &format!("{path}&attempt=1")).await), all_of(&first));
        let second = told(&all(&ada, &format!("{path}&attempt=2")).await);
        assert_eq!(second, all_of(&[(2, 1, "again")]));
        assert_eq!(told(&all(&ada, &format!("{path}&attempt=3")).await), []);
    }
    let of_job = format!("/api/jobs/{}/log/search?q=needle", lost.job);
    assert_eq!(told(&all(&ada, &of_job).await), all_of(&first));
    assert_eq!(told(&all(&ada, &format!("{of_job}&attempt=2")).await), all_of(&first[1..]));
}

on_both! {
    /// C8: also where there is nothing to search, a request ends in time and says where to go on.
    a_search_ends_in_time_where_runs_have_no_logs
}

async fn a_search_ends_in_time_where_runs_have_no_logs(server: Server) {
    let place = server.repository("acme", "app").await;
    let mut runs = Vec::new();
    for _ in 0..5 {
        runs.push(server.run(&place, JOB).await);
    }
    // The oldest has a log, the others none.
    let site = site(&server, &place);
    let claimed = site.claim(1, 1).await.remove(0);
    let log = LogId { job: claimed.job, claim: claimed.claim };
    server.app.logs.append(log, 0, "1 0 needle\n".into()).await.unwrap();
    let scope = kiln_store::Scope::Org(place.org);
    let (mut after, mut requests, mut found) = (None, 0, Vec::new());
    loop {
        let query = Query {
            matcher: kiln_server::service::log::Matcher::new("needle", false, false).unwrap(),
            steps: Vec::new(),
            context: 0,
            limit: 10,
            after,
            attempt: None,
            patience: std::time::Duration::ZERO,
        };
        let answer = search::in_repo(&server.app, scope, place.repo, query).await.unwrap();
        requests += 1;
        found.extend(answer.items.into_iter().map(|item| item.text));
        match answer.next {
            Some(next) => after = Some(next.parse().unwrap()),
            None => break,
        }
        assert!(requests < 50, "it comes to an end");
    }
    assert_eq!(found, ["needle"]);
    assert!(requests >= runs.len(), "{requests}: a request without time goes one run further");
}
