//! The scenarios of `gateway` on a server with a runner, which keeps bytes in a folder or in a bucket.

use std::fs;

use kiln_testkit::s3::{BUCKET, KEY, S3Server};

use super::world::{Program, Server};
use super::{Kind, World};
use crate::Place;
use crate::gateway::{Machine, scenarios};

struct Installation {
    world: World,
    server: Server,
    _runner: Program,
    /// Where it keeps bytes, if that is no folder.
    bucket: Option<S3Server>,
}

impl Machine for Installation {
    fn run(&self) -> String {
        let run = self.world.trigger(&self.server, "app");
        let ended = self.world.ended(&self.server, run);
        let jobs = ended["jobs"].as_array().expect("a run has jobs");
        let logs: String = jobs.iter().map(|job| self.world.log(&self.server, job)).collect();
        assert_eq!(ended["conclusion"], "success", "{ended:#}\n{logs}");
        if self.bucket.is_some() {
            // Beside the logs there are the bytes of what jobs left, and none of them in a folder of the server.
            let kept = names(&self.world, &format!("s3/{BUCKET}"));
            assert!(kept.iter().any(|name| name != "logs"), "{kept:?}");
            assert_eq!(names(&self.world, "server/bytes"), Vec::<String>::new());
        }
        logs
    }
}

/// What is in a folder, if it is there.
fn names(world: &World, folder: &str) -> Vec<String> {
    let entries = fs::read_dir(world.place.path().join(folder)).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn installation(kind: Kind, write: &dyn Fn(&Place)) -> Box<dyn Machine> {
    let world = World::new(kind);
    let server = world.server("server");
    with_repository(world, server, None, write)
}

fn with_bucket(write: &dyn Fn(&Place)) -> Box<dyn Machine> {
    let world = World::new(Kind::Sqlite);
    let bucket = S3Server::start(world.place.path());
    let settings = [
        format!("storage.s3_bucket={BUCKET}"),
        format!("storage.s3_endpoint={}", bucket.endpoint()),
        format!("storage.s3_key_id={}", KEY.0),
        format!("storage.s3_secret={}", KEY.1),
    ];
    let settings: Vec<&str> = settings.iter().flat_map(|one| ["--set", one]).collect();
    let server = world.server_with("server", &settings);
    with_repository(world, server, Some(bucket), write)
}

fn with_repository(
    world: World,
    server: Server,
    bucket: Option<S3Server>,
    write: &dyn Fn(&Place),
) -> Box<dyn Machine> {
    let runner = world.runner(&server, "one", &["linux"]);
    write(&world.place.below("repositories/app"));
    let path = world.place.path().join("repositories/app/.github/workflows/ci.yml");
    let workflow = fs::read_to_string(path).expect("it was just written");
    world.repository(&server, "app", &workflow);
    Box::new(Installation { world, server, _runner: runner, bucket })
}

macro_rules! scenarios {
    ($($name:ident)*) => {
        $(
            mod $name {
                use super::*;

                #[test]
                fn sqlite() {
                    scenarios::$name(&|write| installation(Kind::Sqlite, write));
                }

                #[test]
                fn postgres() {
                    scenarios::$name(&|write| installation(Kind::Postgres, write));
                }
            }
        )*
    };
}

scenarios! {
    caches_are_found_by_key_and_by_beginning_and_never_change
    a_cache_is_there_in_the_next_run
    clients_of_the_first_version_of_caches_work_as_well
    a_large_cache_goes_both_ways
    artifacts_are_uploaded_listed_downloaded_replaced_and_deleted
    a_large_artifact_goes_both_ways
    jobs_side_by_side_do_not_disturb_each_other
    a_second_save_of_a_built_in_cache_moves_only_what_changed
    the_built_in_cache_does_what_its_inputs_say
    a_job_can_say_who_it_is_if_it_may
    only_actions_have_the_tokens_and_only_as_long_as_their_job_lasts
    artifacts_go_from_job_to_job_without_a_mirror
    a_word_that_was_read_from_another_step_is_good_for_nothing
    the_token_of_a_job_opens_its_repository
}

macro_rules! scenarios_in_a_bucket {
    ($($name:ident)*) => {
        mod in_a_bucket {
            use super::*;

            $(
                /// C3 R8 R9
                #[test]
                fn $name() {
                    scenarios::$name(&with_bucket);
                }
            )*
        }
    };
}

scenarios_in_a_bucket! {
    a_second_save_of_a_built_in_cache_moves_only_what_changed
    artifacts_go_from_job_to_job_without_a_mirror
    caches_are_found_by_key_and_by_beginning_and_never_change
    artifacts_are_uploaded_listed_downloaded_replaced_and_deleted
}
