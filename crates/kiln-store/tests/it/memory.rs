//! What the writer of SQLite remembers of runs is never older than the rows.

use kiln_core::run::{Conclusion, Rejected};
use kiln_store::claims::Claimed;
use kiln_store::runs::{Answer, Refused, Word};
use kiln_store::{Refusal, Store, StoreError, Tx};
use kiln_testkit::database::Database;
use kiln_testkit::runs::Site;

const JOB: &str = "  only: {runs-on: linux, steps: [{run: x}]}\n";
/// As if the job had been lost, and another runner had claimed it.
const OTHER_CLAIM: &str = "UPDATE jobs SET claim = claim + 1, runner_id = 9 WHERE id = $1";

async fn claimed(store: Store) -> (Site, Claimed) {
    let site = Site::new(store).await;
    site.run(JOB).await;
    let job = site.claim(1, 1).await.remove(0);
    (site, job)
}

async fn take_away(store: &Store, job: &Claimed) {
    let id = job.job.0;
    let work = async move |tx: &mut Tx<'_>| tx.execute(OTHER_CLAIM, &[id.into()]).await;
    assert_eq!(store.write(work).await.unwrap(), 1);
}

fn check_stale(answer: &Answer) {
    let stale = matches!(answer, Answer::Refused(Refused::Rejected(Rejected::Stale { .. })));
    assert!(stale, "{answer:?}");
}

#[tokio::test]
async fn what_another_process_wrote_is_seen() {
    let database = Database::sqlite();
    let (site, job) = claimed(database.open()).await;
    take_away(&database.open(), &job).await;
    check_stale(&site.say(&job, 1, Word::Started).await);
}

async fn what_a_statement_wrote_is_seen(store: Store) {
    let (site, job) = claimed(store).await;
    take_away(site.store(), &job).await;
    check_stale(&site.say(&job, 1, Word::Started).await);
}
on_both!(what_a_statement_wrote_is_seen);

/// The claim is undone with the rest of its transaction, also where many share one.
async fn what_was_undone_is_not_remembered(store: Store) {
    let site = Site::new(store).await;
    site.run(JOB).await;
    let queues = site.queues().await;
    let undone = async move |tx: &mut Tx<'_>| -> Result<(), StoreError> {
        let runner = kiln_core::id::RunnerId(7);
        let (queues, nonce) = (queues.clone(), "n".to_owned());
        let asking = kiln_store::claims::Asking {
            runner,
            queues: queues.into_iter().map(Into::into).collect(),
            org: None,
            want: 1,
            nonce,
            warm: Vec::new(),
        };
        let given =
            kiln_store::claims::claim(tx, kiln_core::queue::Policy::Fair, &[asking]).await?;
        assert_eq!(given.jobs[0].len(), 1);
        Err(Refusal::Conflict("only to look".to_owned()).into())
    };
    let tries: Vec<_> = (0..20)
        .map(|_| {
            let (store, undone) = (site.store().clone(), undone.clone());
            tokio::spawn(async move { store.write(undone).await.is_err() })
        })
        .collect();
    for tried in tries {
        assert!(tried.await.unwrap());
    }
    let job = site.claim(1, 1).await.remove(0);
    assert_eq!(job.claim, 1, "it was never claimed before");
    assert_eq!(site.finish(&job, 1, Conclusion::Success).await, Answer::Accepted);
}
on_both!(what_was_undone_is_not_remembered);
