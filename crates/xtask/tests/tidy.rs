//! Tidy runs with the tests, so that a rule of the repository is broken at most once.

use xtask::repository::Repository;
use xtask::tidy;

#[test]
fn the_repository_is_tidy() {
    let repository = Repository::open().expect("the repository can be read");
    let report = tidy::run(&repository).expect("the checks can run");
    assert!(report.findings.is_empty(), "\n{report}");
    // Seen with `--no-capture`; what is only worth knowing must not fail a build.
    println!("{report}");
}
