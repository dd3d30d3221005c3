//! Parity with Puppet: the same catalog, applied by the machine's own Puppet and by `rpcd apply`, must do and say the same.
//!
//! `tests/parity` holds the corpus: manifests, the catalogs that Puppet compiles of them, and what Puppet was seen to do with
//! each. Where Puppet is, the tests prove that the recordings are true and go on with random catalogs; where it is not, ours
//! is held against the recordings. `UPDATE_GOLDEN=1` compiles and records anew.

mod compare;
mod known;
mod oracle;
mod ours;
mod outcome;
mod random;
mod recorded;
mod scenario;
mod world;

pub(crate) use oracle::tell;
