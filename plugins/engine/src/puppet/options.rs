//! Options of the resident Puppet.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

#[derive(Debug, Clone)]
pub struct PuppetBridgeOptions {
    /// The Ruby interpreter that has Puppet. Default: the one of Puppet's own packages, else the one in the path.
    pub ruby: Option<String>,
    /// Puppet settings by name (`confdir`, `vardir`, `modulepath`, ...); others keep the values of this machine.
    pub settings: BTreeMap<String, String>,
    /// Timeout of a read, and of the start of the process.
    pub read_timeout: Duration,
    /// Timeout of one change or refresh.
    pub change_timeout: Duration,
    /// Idle time after which the process ends.
    pub idle_timeout: Duration,
}

impl PuppetBridgeOptions {
    /// The directories of these settings whose content Puppet executes.
    pub(super) fn executed_paths(&self) -> impl Iterator<Item = &Path> {
        ["confdir", "codedir", "modulepath"]
            .into_iter()
            .filter_map(|name| self.settings.get(name))
            .flat_map(|value| value.split(':'))
            .filter(|path| path.starts_with('/'))
            .map(Path::new)
    }
}

impl Default for PuppetBridgeOptions {
    fn default() -> Self {
        Self {
            ruby: None,
            settings: BTreeMap::new(),
            read_timeout: Duration::from_mins(1),
            change_timeout: Duration::from_mins(10),
            idle_timeout: Duration::from_secs(30),
        }
    }
}
