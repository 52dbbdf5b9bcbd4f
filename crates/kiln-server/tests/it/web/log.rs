//! The page of a log: as it grows, in colours, searched, and what can be done beside it.

use kiln_core::id::RunnerId;
use kiln_core::run::Conclusion;
use kiln_proto::log::Line;
use kiln_server::logs::LogId;
use kiln_store::Tx;
use kiln_store::directory::members::Role;
use kiln_store::runs::{self, Happened, JobNews, Report, Reported, Said, Word};
use reqwest::Method;
use serde_json::{Value, json};

use super::browser::{Browser, World, encoded};
use crate::api::live::{events, next};
use crate::api::people::{As, person};
use crate::support::Server;

const START: u64 = 1_700_000_000_000;

/// The first job prints lines, each at a time and of a step; they begin at an offset, and end at the next one.
async fn print(server: &Server, world: &World<'_>, from: u64, lines: &[(u64, u32, &str)]) -> u64 {
    let mut bytes = Vec::new();
    for (at, step, text) in lines {
        Line { at: START + at, step: *step, text: text.as_bytes() }.write(&mut bytes);
    }
    server.app.logs.append(world.log, from, bytes.into()).await.unwrap()
}

/// The runner of the first job says something.
async fn say(server: &Server, world: &World<'_>, sequence: u64, what: Said) {
    let said = Reported { sequence, at: kiln_server::clock::now(), what };
    let report = Report {
        job: world.log.job,
        claim: world.log.claim,
        runner: RunnerId(1),
        events: vec![said],
    };
    let work = async move |tx: &mut Tx<'_>| runs::report(tx, std::slice::from_ref(&report)).await;
    server.app.store.write(work).await.unwrap();
}

fn started(step: u32, name: &str) -> Said {
    Said::StepStarted { step, name: name.to_owned() }
}

fn failed(step: u32) -> Said {
    let (outcome, conclusion) = (Conclusion::Failure, Conclusion::Failure);
    Said::StepFinished { step, outcome, conclusion, exit_code: Some(1) }
}

#[track_caller]
fn html(event: &Value) -> &str {
    event["html"].as_str().unwrap_or_else(|| panic!("no lines: {event}"))
}

on_both! {
    /// O2
    steps_of_a_log_that_grows_are_called_by_their_names
}

async fn steps_of_a_log_that_grows_are_called_by_their_names(server: Server) {
    let world = World::new(&server).await;
    let browser = Browser::of(&world.ada).await;
    say(&server, &world, 1, started(0, "Compile it")).await;
    let at = print(&server, &world, 0, &[(0, 0, "\x1b[32mgreen"), (5, 0, "still")]).await;
    let page = browser.get(&world.job("")).await.expect(200);
    page.has(&["<span class=\"name\">Compile it</span>", "data-after=\"1-2\"", "data-since"]);
    let path = world.job("/follow?after=1-1");
    let stream = browser.request(Method::GET, &path).send().await.unwrap();
    assert_eq!(stream.status(), 200);
    let mut stream = events(stream);
    // What was there before has an effect on what comes, and no head comes twice.
    let (seat, event) = next(&mut stream).await;
    assert_eq!((seat.as_deref(), &event["first"]), (Some("1-2"), &json!(2)));
    let first = html(&event);
    assert!(first.contains("<span class=\"f2\">still</span>"), "{first}");
    assert!(first.contains("data-d=\"+0.005\"") && !first.contains("step-head"), "{first}");
    // The viewer came before this step began.
    say(&server, &world, 2, started(1, "Link <it>")).await;
    let at = print(&server, &world, at, &[(10, 1, "linking")]).await;
    let (_, event) = next(&mut stream).await;
    let second = html(&event);
    assert!(second.contains("<span class=\"name\">Link &lt;it&gt;</span>"), "{second}");
    assert!(second.contains("data-step=\"2\"") && !second.contains("class=\"f2\""), "{second}");
    // Nobody has said what this step is called.
    let at = print(&server, &world, at, &[(12, 2, "unknown")]).await;
    let (_, event) = next(&mut stream).await;
    assert!(html(&event).contains("<span class=\"name\">Step 3</span>"), "{event}");
    print(&server, &world, at, &[(13, 1, "##[error]it broke")]).await;
    let (_, event) = next(&mut stream).await;
    assert!(html(&event).contains("Error: "), "{event}");
    say(&server, &world, 3, failed(1)).await;
    world.finish(Conclusion::Failure).await;
    let (_, event) = next(&mut stream).await;
    assert_eq!(event, json!({ "conclusion": "failure" }));
    // The page asks again then, and has what belongs to the end.
    let page = browser.get(&world.job("")).await.expect(200);
    page.has(&["data-line=\"5\"", "First error", "Re-run this job"]).lacks(&[
        "data-live",
        "data-follow",
        "Cancel the run",
    ]);
}

on_both! {
    /// O1
    a_job_under_way_can_be_cancelled_and_shows_its_neighbours
}

async fn a_job_under_way_can_be_cancelled_and_shows_its_neighbours(server: Server) {
    let world = World::new(&server).await;
    let browser = Browser::of(&world.ada).await;
    let page = browser.get(&world.job("")).await.expect(200);
    page.has(&[
        "Cancel the run",
        "2 jobs in this run",
        "aria-current=\"page\">build</a>",
        "data-live",
    ])
    .lacks(&["Re-run this job", "id=\"first-error\""]);
    // Whoever may only look has no button, and the part of the page is there.
    let eve = person(&server, "eve", As::member(world.place.org, Role::Viewer)).await;
    let viewer = Browser::of(&eve).await;
    let page = viewer.get(&world.job("")).await.expect(200);
    page.has(&["id=\"actions\""]).lacks(&["Cancel the run", "/cancel"]);
    viewer.press(&world.path("/cancel"), &[]).await.expect(403);
    let pressed = browser.press(&world.path("/cancel"), &[]).await;
    assert_eq!(pressed.location(), world.path(""));
    let seen = world.ada.get(&format!("/api/runs/{}", world.run)).await.expect(200);
    assert!(seen["cancelled_by"].is_string() || seen["conclusion"] == "cancelled", "{seen}");
}

on_both! {
    /// O2
    colours_times_and_links_do_not_end_with_blocks
}

async fn colours_times_and_links_do_not_end_with_blocks(server: Server) {
    let world = World::new(&server).await;
    let browser = Browser::of(&world.ada).await;
    let plain: Vec<String> = (1..=600).map(|number| format!("line {number}")).collect();
    let mut lines: Vec<(u64, u32, &str)> =
        (0..).zip(&plain).map(|(at, text)| (at * 7, 0, text.as_str())).collect();
    lines[149].2 = "\x1b[38:2::1:2:3mbegins";
    lines[409].2 = "\x1b[0mends";
    for line in &mut lines[450..] {
        line.0 += 125_000;
        line.1 = 1;
    }
    lines[451].2 =
        "see <https://example.com/?a=1&b=\"x\">, javascript:alert(1) (http://localhost:1/).";
    print(&server, &world, 0, &lines).await;
    let block = browser.get(&world.job("/lines?from=201&count=200")).await.expect(200);
    block.has(&[
        "<span class=\"f16\" data-fg=\"#010203\">line 201</span>",
        "data-d=\"+0.007\"",
        "<span class=\"f16\" data-fg=\"#010203\">line 400</span>",
    ]);
    let block = browser.get(&world.job("/lines?from=411&count=100")).await.expect(200);
    block
        .has(&[
            "<span class=\"t\">line 411</span>",
            "class=\"l slow\" id=\"L451\"",
            "2 min 5 s later",
            "href=\"https://example.com/?a=1&amp;b=\">https://example.com/?a=1&amp;b=</a>&quot;x&quot;&gt;",
            "javascript:alert(1) (<a",
            "href=\"http://localhost:1/\">http://localhost:1/</a>).",
        ])
        .lacks(&["href=\"javascript", "data-fg"]);
}

on_both! {
    /// O2
    lines_that_say_the_same_are_one_with_a_number
}

async fn lines_that_say_the_same_are_one_with_a_number(server: Server) {
    let world = World::new(&server).await;
    let browser = Browser::of(&world.ada).await;
    let wait =
        ["waiting", "waiting", "waiting", "waiting", "done", "twice", "twice", "", "", "", "", ""];
    let mut lines: Vec<(u64, u32, &str)> = wait.iter().map(|text| (0, 0, *text)).collect();
    lines.extend([
        (0, 1, "waiting"),
        (0, 1, "waiting"),
        (20_000, 1, "waiting"),
        (20_000, 1, "waiting"),
    ]);
    print(&server, &world, 0, &lines).await;
    let page = browser.get(&world.job("/lines?from=1&count=99")).await.expect(200);
    assert_eq!(page.text.matches("class=\"l same\"").count(), 3, "{}", page.text);
    assert_eq!(page.text.matches("class=\"more\"").count(), 1, "{}", page.text);
    page.has(&[
        "class=\"l\" id=\"L1\"",
        "× 4</button>",
        "class=\"l same\" id=\"L4\"",
        "class=\"l slow\" id=\"L15\"",
    ]);
}

on_both! {
    /// O2: pages keep blocks of 200 lines, and unfold what is in one of them.
    what_is_folded_lies_in_one_block
}

async fn what_is_folded_lies_in_one_block(server: Server) {
    let world = World::new(&server).await;
    let browser = Browser::of(&world.ada).await;
    print(&server, &world, 0, &vec![(0, 0, "the same"); 450]).await;
    let page = browser.get(&world.job("/lines?from=1&count=450")).await.expect(200);
    assert_eq!(page.text.matches("class=\"more\"").count(), 3);
    let page =
        page.has(&["id=\"L1\"", "class=\"l same\" id=\"L200\"", "× 200</button>", "× 50</button>"]);
    page.has(&["class=\"l\" id=\"L201\"", "class=\"l\" id=\"L401\""]).lacks(&["× 450", "× 400"]);
}

on_both! {
    /// O2
    a_group_ends_where_it_says_so_or_the_next_begins_or_its_step_ends
}

async fn a_group_ends_where_it_says_so_or_the_next_begins_or_its_step_ends(server: Server) {
    let world = World::new(&server).await;
    let browser = Browser::of(&world.ada).await;
    let texts = [
        (0, "##[group]one"),
        (0, "a ##[endgroup] in a line"),
        (0, "##[endgroup]"),
        (0, "##[group]two"),
        (0, "b"),
        (0, "##[group]three"),
        (0, "c"),
        (1, "of another step"),
        (1, "##[endgroup]"),
    ];
    let lines: Vec<(u64, u32, &str)> = texts.iter().map(|(step, text)| (0, *step, *text)).collect();
    print(&server, &world, 0, &lines).await;
    let check = async |from: u64, expect: &str| {
        let answer = browser.get(&world.job(&format!("/lines?end_of_group={from}"))).await;
        assert_eq!(answer.expect(200).text, expect, "{from}");
    };
    check(1, "3").await;
    check(4, "5").await;
    check(6, "7").await;
    check(99, "null").await;
}

on_both! {
    /// O2 C8
    a_search_counts_all_hits_and_draws_them
}

async fn a_search_counts_all_hits_and_draws_them(server: Server) {
    let world = World::new(&server).await;
    let browser = Browser::of(&world.ada).await;
    let find = async |query: &str| -> Value {
        let page = browser.get(&world.job(&format!("/search?{query}"))).await.expect(200);
        serde_json::from_str(&page.text).unwrap()
    };
    assert_eq!(find("q=x").await["lines"], json!([]), "there is no log yet");
    let plain: Vec<String> =
        (1..=2_500).map(|number| format!("\x1b[31mhit\x1b[0m {number}")).collect();
    let mut lines: Vec<(u64, u32, &str)> =
        (0..).zip(&plain).map(|(at, text)| (at, 0, text.as_str())).collect();
    lines[9].2 = "<b>HIT</b>";
    print(&server, &world, 0, &lines).await;
    let first = find("q=hit&ignore_case=true").await;
    assert_eq!(first["lines"].as_array().unwrap().len(), 1_000);
    let html = first["html"].as_str().unwrap();
    assert!(html.contains("<span class=\"f1\">hit</span> 1</span>"), "{}", &html[..500]);
    assert!(html.contains("&lt;b&gt;HIT&lt;/b&gt;") && html.contains("data-a=\"22:13:20.009\""));
    assert!(!html.contains(" id=\"") && !html.contains("step-head"), "the log itself has these");
    let after = encoded(first["next"].as_str().unwrap());
    let rest = find(&format!("q=hit&ignore_case=true&count=true&after={after}")).await;
    assert_eq!((&rest["count"], &rest["next"]), (&json!(1_500), &Value::Null));
    let second = find(&format!("q=hit&ignore_case=true&after={after}")).await;
    assert_eq!(second["lines"][0], 1_001);
    assert_eq!(find("q=hit&count=true").await["count"], 2_499);
    assert_eq!(find("q=HIT").await["lines"], json!([10]));
    let expression = encoded("[0-9]99$");
    assert_eq!(find(&format!("q={expression}&regex=true&count=true")).await["count"], 24);
    assert_eq!(find(&format!("q={expression}&count=true")).await["count"], 0);
    // What cannot be searched for is said in words, to whoever may look.
    let wrong = browser.get(&world.job("/search?q=(&regex=true")).await.expect(422);
    wrong.has(&["not a regular expression"]).lacks(&["<html"]);
    browser.get(&world.job("/search?q=")).await.expect(422);
    browser.get(&world.job("/search?q=x&after=x")).await.expect(422);
    let other = server.repository("other", "tool").await;
    let eve = person(&server, "eve", As::member(other.org, Role::Developer)).await;
    Browser::of(&eve).await.get(&world.job("/search?q=x")).await.expect(404);
}

on_both! {
    /// O2
    the_first_error_is_that_of_the_attempt_one_looks_at
}

async fn the_first_error_is_that_of_the_attempt_one_looks_at(server: Server) {
    let world = World::new(&server).await;
    let browser = Browser::of(&world.ada).await;
    print(&server, &world, 0, &[(0, 0, "fine"), (1, 0, "##[error]broken")]).await;
    world.finish(Conclusion::Failure).await;
    let there = world.job("?line=2#L2");
    assert_eq!(browser.get(&world.path("/error")).await.location(), there);
    browser.press(&world.path("/rerun"), &[]).await.expect(303);
    let claimed = world.site.claim(1, 1).await.remove(0);
    world.site.finish(&claimed, 1, Conclusion::Success).await;
    browser.get(&world.path("?attempt=1")).await.expect(200).has(&["/error?attempt=1\""]);
    assert_eq!(browser.get(&world.path("/error?attempt=1")).await.location(), there);
    // The second attempt has none.
    assert_eq!(browser.get(&world.path("/error")).await.location(), world.path(""));
    let second = browser.get(&world.path("/error?attempt=2")).await;
    assert_eq!(second.location(), world.path("?attempt=2"));
    browser.get(&world.path("/error?attempt=9")).await.expect(404);
    let seen = browser.get(&world.job("")).await.expect(200);
    seen.has(&[
        "broken",
        "data-line=\"2\"",
        "This is from attempt 1 of the run",
        "The current one is 2",
    ]);
}

on_both! {
    /// O2 S7
    lines_of_a_job_that_begins_again_are_named_with_their_claim
}

async fn lines_of_a_job_that_begins_again_are_named_with_their_claim(server: Server) {
    let world = World::new(&server).await;
    let browser = Browser::of(&world.ada).await;
    print(&server, &world, 0, &[(0, 0, "first"), (1, 0, "\x1b[31mtry")]).await;
    let path = world.job("/follow?after=1-2");
    let stream = browser.request(Method::GET, &path).send().await.unwrap();
    let mut stream = events(stream);
    let lost = Word::Lost { reason: "gone".to_owned() };
    let news =
        JobNews { job: world.log.job, claim: Some(1), runner: None, word: lost, heard: None };
    server.app.traffic.happened(Happened::Job(news)).await.unwrap();
    let (seat, event) = next(&mut stream).await;
    assert_eq!((seat.as_deref(), event), (Some("2-0"), json!({ "claim": 2 })));
    let again = world.site.claim(2, 1).await.remove(0);
    assert_eq!((again.job, again.claim), (world.log.job, 2));
    let second = LogId { job: again.job, claim: 2 };
    let mut bytes = Vec::new();
    Line { at: START, step: 0, text: b"##[error]second try" }.write(&mut bytes);
    server.app.logs.append(second, 0, bytes.into()).await.unwrap();
    // Nothing of the first log goes on in the second one.
    let (seat, event) = next(&mut stream).await;
    assert_eq!((seat.as_deref(), &event["first"]), (Some("2-1"), &json!(1)));
    let shown = html(&event);
    assert!(shown.contains("step-head") && !shown.contains("class=\"f1\""), "{shown}");
    world.site.finish(&again, 2, Conclusion::Failure).await;
    let there = world.job("?line=1&claim=2#L1");
    assert_eq!(browser.get(&world.path("/error")).await.location(), there);
    assert_eq!(browser.get(&world.job("?at=error")).await.location(), there);
    assert_eq!(
        browser.get(&world.job("?step=1&claim=1")).await.location(),
        world.job("?line=1&claim=1#L1")
    );
    let page = browser.get(&world.job("?claim=1")).await.expect(200);
    page.has(&["first", "data-claim=\"1\"", "aria-current=\"true\">1</a>"])
        .lacks(&["second try", "data-follow"]);
    browser.get(&world.job("?claim=3")).await.expect(404);
    assert!(
        browser.get(&world.job("/search?q=second&claim=1")).await.text.contains("\"lines\":[]")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_modules_of_a_log_are_served() {
    let server = Server::start(kiln_testkit::database::Database::sqlite()).await;
    let world = World::new(&server).await;
    let browser = Browser::of(&world.ada).await;
    let page = browser.get(&world.job("")).await.expect(200).text;
    let asked: Vec<&str> = page
        .split('"')
        .filter(|part| part.starts_with("/assets/") && part.split('.').next_back() == Some("js"))
        .collect();
    assert_eq!(asked.len(), 7, "{asked:?}");
    for path in &asked {
        let module = browser.get(path).await.expect(200).text;
        for name in module.split("from './").skip(1).chain(module.split("import './").skip(1)) {
            let name = name.split('\'').next().unwrap();
            assert!(asked.iter().any(|path| path.ends_with(&format!("/{name}"))), "{name}");
        }
    }
}
