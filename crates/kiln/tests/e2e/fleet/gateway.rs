//! The scenarios of `gateway` on a server with a runner.

use super::world::{Program, Server};
use super::{Kind, World};
use crate::Place;
use crate::gateway::{Machine, scenarios};

struct Installation {
    world: World,
    server: Server,
    _runner: Program,
}

impl Machine for Installation {
    fn run(&self) -> String {
        let run = self.world.trigger(&self.server, "app");
        let ended = self.world.ended(&self.server, run);
        let jobs = ended["jobs"].as_array().expect("a run has jobs");
        let logs: String = jobs.iter().map(|job| self.world.log(&self.server, job)).collect();
        assert_eq!(ended["conclusion"], "success", "{ended:#}\n{logs}");
        logs
    }
}

fn installation(kind: Kind, write: &dyn Fn(&Place)) -> Box<dyn Machine> {
    let world = World::new(kind);
    let server = world.server("server");
    let runner = world.runner(&server, "one", &["linux"]);
    write(&world.place.below("repositories/app"));
    let path = world.place.path().join("repositories/app/.github/workflows/ci.yml");
    let workflow = std::fs::read_to_string(path).expect("it was just written");
    world.repository(&server, "app", &workflow);
    Box::new(Installation { world, server, _runner: runner })
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
