//! Who there is, and what they have set: everything but runs and what waits.
//!
//! Every question takes a [`Scope`](scope::Scope); what belongs to another organization is answered like
//! what does not exist. Every decision takes an [`Actor`](actor::Actor) and leaves an audit row in the same
//! transaction. Bookkeeping that nobody decides (run numbers, signs of life, what a forge sent) does not.

pub mod actor;
pub mod audit;
pub mod deliveries;
pub mod documents;
pub mod environments;
pub mod holder;
pub mod members;
pub(crate) mod names;
pub mod one_time_keys;
pub mod organizations;
pub mod page;
pub mod places;
pub mod pools;
pub mod queues;
pub mod registration_keys;
pub mod repositories;
pub mod runners;
pub mod schedules;
pub mod scope;
pub mod secrets;
pub mod settings;
pub mod teams;
pub mod tokens;
pub mod users;
pub mod variables;
pub mod workflows;
