//! The agent `puppet` with the machine's real Puppet, and with permits of a real broker.
//!
//! Where Puppet is not installed, these tests are skipped if `MUSTER_TESTS_WITHOUT` names it; otherwise they fail.

mod agent_mode;
mod lost_refreshes;
pub(crate) mod puppet_daemon;
pub(crate) mod puppet_node;
mod run_limit;
