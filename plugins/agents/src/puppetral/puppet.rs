//! Locations of Puppet's state files.

use std::path::{Path, PathBuf};

/// Defaults of Puppet's packages, then of Debian's.
const STATE_DIRECTORIES: [&str; 2] =
    ["/opt/puppetlabs/puppet/cache/state", "/var/cache/puppet/state"];

/// The configured file, or the possible locations of a state file of this name.
pub(crate) fn state_file(configured: Option<&Path>, name: &str) -> Vec<PathBuf> {
    configured.map_or_else(
        || STATE_DIRECTORIES.iter().map(|directory| Path::new(directory).join(name)).collect(),
        |path| vec![path.to_owned()],
    )
}
