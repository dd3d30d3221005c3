//! What the operator of a node allows: the table `plugins.puppetral` of the daemon's configuration.
//!
//! Only what the words mean; [`policy`](crate::policy), [`managed`](crate::managed) and
//! [`run_lock`](crate::run_lock) act on them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

/// How long a change waits for a run of Puppet to end when nothing is said.
const DEFAULT_LOCK_WAIT: Duration = Duration::from_mins(1);

/// The options. Unknown keys are refused. The default allows every type of the engine's own but `exec`.
///
/// They say which resources may be *asked* for. A file or a cron job can make a machine run commands too: whoever must not,
/// gets a list of types that holds neither.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// The only types that may be changed; all of the engine's own but `exec` when absent. Naming `exec`, or a type of Puppet's or
    /// of a module, here allows it.
    pub allow_types: Option<BTreeSet<String>>,
    /// Types that may not be changed, even if they are allowed. When absent: `exec`, unless it is allowed by name.
    pub deny_types: Option<BTreeSet<String>>,
    /// For each type listed here, the only names that may be changed: those that the machine knows the resources by, whatever
    /// their titles are; for an exec its command. Says nothing of where a `target` may be.
    pub allow_names: BTreeMap<String, BTreeSet<String>>,
    /// Puppet's list of the resources that it manages, `resources.txt`; where Puppet usually has it when absent.
    pub resources_file: Option<PathBuf>,
    /// Whether a resource on that list may be changed all the same.
    pub allow_managed: bool,
    /// Where is kept what changes replace, to take them back; nothing is kept when absent. The daemon gives a place of its own.
    pub state_dir: Option<PathBuf>,
    /// The Ruby that has Puppet, which is asked about types that are not the engine's own; found when absent.
    pub ruby: Option<String>,
    /// Settings of Puppet (`confdir`, `modulepath`, ...) for those types; the machine's own when absent.
    pub puppet_settings: BTreeMap<String, String>,
    /// Where types of programs in other languages are described.
    pub types_dir: PathBuf,
    /// The lock of Puppet's runs, `agent_catalog_run.lock`; where Puppet usually has it when absent.
    pub lock: Option<PathBuf>,
    /// How many seconds a change waits for a run of Puppet to end; 0 fails at once.
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
