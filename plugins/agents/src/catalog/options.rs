//! Options of the agents: the table `plugins.catalog` of the daemon's configuration.

use std::path::PathBuf;

use serde::Deserialize;

/// The options. Unknown keys are rejected.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Whether callers may apply catalogs. A caller who may can run any command on the node. Listing and replaying owed refreshes is always possible.
    pub enabled: bool,
    /// Directory of the ledger, the reports and the last catalog; below the daemon's state directory when absent. `rpcd apply` must use the same
    /// directory to see the same ledger.
    pub state_dir: PathBuf,
    /// Puppet's state directories, for its locks; the defaults of Puppet's packages when absent.
    pub puppet_state: Option<Vec<PathBuf>>,
    /// Maximum wait for another run, in seconds.
    pub lock_wait: u64,
}
