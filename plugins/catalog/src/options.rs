//! What the operator of a node allows: the table `plugins.catalog` of the daemon's configuration.

use std::path::PathBuf;

use serde::Deserialize;

/// The options. Unknown keys are refused.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Whether callers may have catalogs applied: whoever may, may run any command. What is owed can be seen and made in any case.
    pub enabled: bool,
    /// Where the engine keeps ledger, reports and the last catalog; below the daemon's own state when absent. `rpcd apply` must be
    /// given the same directory, to know of the same debts.
    pub state_dir: PathBuf,
    /// Puppet's state directories, for its locks; those of Puppet's packages when absent.
    pub puppet_state: Option<Vec<PathBuf>>,
    /// How long a run waits for another one, in seconds.
    pub lock_wait: u64,
}
