//! What a companion says about runners, from its file to the runner that gets the job.

use kiln_proto::runner::{Capabilities, Register};
use serde_json::Value;

use crate::api::people::{As, CI, Person, commit, empty, person};
use crate::runner::{LINUX, Runner, capabilities, registration};
use crate::support::{Place, Server};

/// A run of one job on `linux`, with this said about it in the companion.
async fn run_of(server: &Server, ada: &Person<'_>, place: &Place, companion: &str) -> i64 {
    let companion = format!("jobs:\n  build: {{{companion}}}\n");
    commit(server, place, &[("ci.yml", CI), (".kiln/workflows/ci.yml", &companion)]);
    ada.trigger(place, empty()).await
}

/// A runner on `linux` that has something besides.
async fn having<'s>(
    server: &'s Server,
    key: &str,
    name: &str,
    change: impl FnOnce(&mut Capabilities),
) -> Runner<'s> {
    let (asked, private) = registration(key, name, LINUX);
    let mut has = capabilities(LINUX);
    change(&mut has);
    Runner::of(server, &Register { capabilities: has, ..asked }, private).await
}

async fn job_of(ada: &Person<'_>, run: i64) -> Value {
    ada.get(&format!("/api/runs/{run}")).await.expect(200)["jobs"][0].clone()
}

on_both! {
    /// S2 S16
    a_job_goes_to_a_runner_that_has_all_its_companion_requires
}

async fn a_job_goes_to_a_runner_that_has_all_its_companion_requires(server: Server) {
    let place = server.repository("acme", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    let ada = person(&server, "adam", As::administrator()).await;
    let requires = "requires: {tools: nix, cores: 8, features: kvm, memory: 16 GB}";
    let run = run_of(&server, &ada, &place, requires).await;
    let all = |has: &mut Capabilities| {
        has.tools = vec!["nix".to_owned()];
        has.features = vec!["kvm".to_owned()];
        (has.cores, has.memory_mb) = (8, 16_000);
    };
    // Each of them lacks one thing, and is idle all the same.
    let lacking: [fn(&mut Capabilities); 4] = [
        |has| has.tools = vec!["docker".to_owned()],
        |has| has.features.clear(),
        |has| has.cores = 7,
        |has| has.memory_mb = 15_999,
    ];
    for (number, lack) in lacking.into_iter().enumerate() {
        let lacks = |has: &mut Capabilities| {
            all(has);
            lack(has);
        };
        let runner = having(&server, &key, &format!("r{number}"), lacks).await;
        assert!(runner.claim("a", 0).await.is_none(), "{number}");
    }
    let waits = job_of(&ada, run).await;
    assert_eq!(waits["status"], "queued");
    let reason = waits["reason"].as_str().unwrap();
    let named = ["nix", "kvm", "core", "memory"].iter().any(|word| reason.contains(word));
    assert!(named, "it must name what is missing: {reason}");
    let right = having(&server, &key, "right", all).await;
    let job = right.claim("a", 20).await.expect("it has all");
    assert_eq!(job_of(&ada, run).await["id"], job.job_id);
}

on_both! {
    /// S16
    a_job_waits_for_the_runner_that_its_companion_prefers
}

async fn a_job_waits_for_the_runner_that_its_companion_prefers(server: Server) {
    let place = server.repository("acme", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    let ada = person(&server, "adam", As::administrator()).await;
    let cold = Runner::new(&server, &key, "cold", LINUX).await;
    let run = run_of(&server, &ada, &place, "prefer: [{labels: [warm], after: 3600}]").await;
    assert!(cold.claim("a", 1).await.is_none(), "it is left to a warm one");
    let warm = Runner::new(&server, &key, "warm", &["linux", "warm"]).await;
    let (got, other) = tokio::join!(warm.claim("a", 20), cold.claim("b", 1));
    assert_eq!(job_of(&ada, run).await["id"], got.expect("it is preferred").job_id);
    assert!(other.is_none());
    // Once its time is over, anybody may who can.
    let run = run_of(&server, &ada, &place, "prefer: [{labels: [hot], after: 2}]").await;
    assert!(cold.claim("c", 0).await.is_none(), "not yet");
    let job = cold.claim("d", 20).await.expect("nobody else came");
    assert_eq!(job_of(&ada, run).await["id"], job.job_id);
}
