//! Runs of Puppet that ask for another run. The names of the tests contain their acceptance points A1.1 to A1.9.
//!
//! Where Puppet is not installed, the tests with the real one are skipped if `MUSTER_TESTS_WITHOUT` names it; otherwise they fail.

mod barrier;
mod budget;
mod cancel;
mod events;
mod fixture;
mod fleet;
mod kills;
mod local_users;
mod locks;
mod operators;
mod puppet_runs;
