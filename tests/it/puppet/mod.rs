//! The agent `puppet` with the machine's real Puppet, and with permits of a real broker.
//!
//! Where Puppet is not installed these tests are skipped with a word, but not in continuous integration.

mod cap;
mod rig;
mod stories;
