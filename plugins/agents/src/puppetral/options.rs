//! Options of the agent: the table `plugins.puppetral` of the daemon's configuration.
//!
//! This module only parses them; [`policy`](crate::puppetral::policy), [`managed`](crate::puppetral::managed) and [`run_lock`](crate::puppetral::run_lock) apply them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

/// Default for the longest wait of a change for a run of Puppet.
const DEFAULT_LOCK_WAIT: Duration = Duration::from_mins(1);

/// The options. Unknown keys are rejected. The default allows every built-in type but `exec`.
///
/// They restrict which resources may be *requested*. A file or a cron job can also make a machine run commands; to prevent that, configure a list of
/// types that contains neither.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// The only types that may be changed; when absent, all built-in types but `exec`. Listing `exec`, or a type of Puppet or of a module, allows it.
    pub allow_types: Option<BTreeSet<String>>,
    /// Types that may not be changed, even if they are allowed. When absent: `exec`, unless it is allowed by name.
    pub deny_types: Option<BTreeSet<String>>,
    /// For each listed type, the only names that may be changed. A name is the one by which the machine identifies the resource, not its title; for
    /// an exec it is the command. Does not restrict a `target`.
    pub allow_names: BTreeMap<String, BTreeSet<String>>,
    /// Puppet's list of managed resources, `resources.txt`; Puppet's default location when absent.
    pub resources_file: Option<PathBuf>,
    /// Whether a resource on that list may be changed.
    pub allow_managed: bool,
    /// Directory of the undo records, which contain the replaced state; when absent none are kept. The daemon sets its own directory.
    pub state_dir: Option<PathBuf>,
    /// The Ruby with Puppet, which provides the types that are not built in; searched when absent.
    pub ruby: Option<String>,
    /// Settings of Puppet (`confdir`, `modulepath`, ...) for those types; the machine's own when absent.
    pub puppet_settings: BTreeMap<String, String>,
    /// Directory of the descriptions of types that external programs provide.
    pub types_dir: PathBuf,
    /// The lock of Puppet's runs, `agent_catalog_run.lock`; Puppet's default location when absent.
    pub lock: Option<PathBuf>,
    /// Longest wait of a change for a run of Puppet, in seconds; with 0 it fails at once.
    #[serde(deserialize_with = "deserialize_seconds")]
    pub lock_wait: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            allow_types: None,
            deny_types: None,
            allow_names: BTreeMap::new(),
            resources_file: None,
            allow_managed: false,
            state_dir: None,
            ruby: None,
            types_dir: muster_engine::external::TYPES_DIRECTORY.into(),
            puppet_settings: BTreeMap::new(),
            lock: None,
            lock_wait: DEFAULT_LOCK_WAIT,
        }
    }
}

fn deserialize_seconds<'de, D: Deserializer<'de>>(source: D) -> Result<Duration, D::Error> {
    u32::deserialize(source).map(|seconds| Duration::from_secs(seconds.into()))
}
