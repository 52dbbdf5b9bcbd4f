//! A whole installation with the real binary: servers, runners, repositories, on both databases.

mod away;
mod bounds;
mod browser;
mod cancel;
mod chaos;
mod cleanup;
mod clients;
mod clock;
mod contract;
mod cut;
mod disk;
mod forwarded;
mod from_step;
mod gateway;
mod held;
mod killed;
mod leaving;
mod load;
mod logs;
mod newcomer;
mod outbound;
mod path;
mod points;
mod policy;
mod private;
mod program;
mod proxy;
mod published;
mod reuse;
mod servers;
mod sources;
mod uploads;
mod world;

use world::{Kind, Program, World};

/// A test for each database.
macro_rules! on_both {
    ($($(#[$meta:meta])* fn $name:ident($world:ident) $body:block)*) => {
        $(
            mod $name {
                use super::*;

                $(#[$meta])*
                #[test]
                fn sqlite() {
                    let $world = World::new(Kind::Sqlite);
                    $body
                }

                $(#[$meta])*
                #[test]
                fn postgres() {
                    let $world = World::new(Kind::Postgres);
                    $body
                }
            }
        )*
    };
}
use on_both;
