//! Parity with Puppet: the same catalog, applied by the machine's Puppet and by `rpcd apply`, must have the same
//! effects and messages.
//!
//! `tests/parity` contains the corpus: manifests, the catalogs that Puppet compiles from them, and recordings of the
//! results. Where Puppet is installed, the tests verify the recordings and compare random catalogs; elsewhere, `rpcd`
//! is compared with the recordings. `UPDATE_GOLDEN=1` compiles and records again.

mod compare;
mod known_differences;
mod oracle;
mod outcome;
mod puppet_resource;
mod random;
mod recorded;
mod records;
mod rpcd_runs;
mod scenario;
mod scratch_root;

pub(crate) use oracle::print_line;
