//! From a few letters to a page.

use kiln_core::access::Right;
use kiln_core::run::Conclusion;
use kiln_store::directory::members::Role;

use super::browser::{Browser, World};
use crate::api::people::{As, person};
use crate::support::Server;

on_both! {
    /// O1
    a_few_letters_lead_to_a_page
}

async fn a_few_letters_lead_to_a_page(server: Server) {
    let world = World::new(&server).await;
    world.finish(Conclusion::Failure).await;
    let browser = Browser::of(&world.ada).await;
    let name = &world.place.name;
    let link = |path: &str| format!("href=\"{path}\" data-open");
    let (run, repo) = (link(&world.path("")), link(&format!("/{name}")));
    // Without a word, the pages of the bar and the newest runs.
    let all = browser.get("/jump").await.expect(200);
    all.has(&[&link("/queue"), &link("/runners"), &run, "id=\"palette\"", "Ctrl K"])
        .lacks(&[&repo]);
    let some = browser.get("/jump?q=QUEUE").await.expect(200);
    some.has(&[&link("/queue")]).lacks(&[&link("/runners")]);
    let found = browser.get(&format!("/jump?q={}", name.replace('/', "%2F"))).await.expect(200);
    found.has(&[&repo, "/actions/workflows/"]).lacks(&[&link("/queue")]);
    // A run by its number, and by its short name.
    let number = world.path("").rsplit('/').next().unwrap().to_owned();
    for text in [number.clone(), format!("%23{number}")] {
        browser.get(&format!("/jump?q={text}")).await.expect(200).has(&[&run]);
    }
    let none = browser.get("/jump?q=99999999").await.expect(200);
    none.has(&["Nothing is called so"]);
    browser.get(&format!("/jump?q={}", "x+".repeat(3_000))).await.expect(200);
}

on_both! {
    /// O1 G1
    what_belongs_to_others_is_not_jumped_to
}

async fn what_belongs_to_others_is_not_jumped_to(server: Server) {
    let world = World::new(&server).await;
    let other = server.repository("other", "tool").await;
    let (roles, scopes) = (vec![(other.org, Role::Viewer)], vec![Right::Read]);
    let eve = As { roles, scopes, ..As::default() };
    let eve = Browser::of(&person(&server, "eve", eve).await).await;
    let number = world.path("").rsplit('/').next().unwrap().to_owned();
    let name = world.place.name.replace('/', "%2F");
    for text in ["", &number, &name] {
        eve.get(&format!("/jump?q={text}"))
            .await
            .expect(200)
            .lacks(&[&format!("/{}", world.place.name)]);
    }
    eve.get("/jump?q=tool").await.expect(200).has(&["href=\"/other/tool\""]);
}
