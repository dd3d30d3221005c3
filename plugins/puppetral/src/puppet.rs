//! Where Puppet keeps its state on a machine.

use std::path::{Path, PathBuf};

/// Puppet's own packages, then those of Debian and its kin.
const STATE_DIRECTORIES: [&str; 2] = [
    "/opt/puppetlabs/puppet/cache/state",
    "/var/cache/puppet/state",
];

/// The file that an operator named, or the places where a state file of this name may be.
pub(crate) fn state_file(named: Option<&Path>, name: &str) -> Vec<PathBuf> {
    named.map_or_else(
        || {
            STATE_DIRECTORIES
                .iter()
                .map(|directory| Path::new(directory).join(name))
                .collect()
        },
        |path| vec![path.to_owned()],
    )
}
