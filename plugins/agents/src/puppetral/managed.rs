//! Whether Puppet manages a resource, by Puppet's list `resources.txt`, with lines such as `user[rip]`.
//!
//! The list is from Puppet's last run with a catalog. Read-only.

use std::path::Path;

use muster_api::system::{System, SystemResult};
use muster_engine::resource::Resource;
use serde_json::Value;

use crate::puppetral::options::Options;
use crate::puppetral::puppet;

/// Largest list, in bytes: about 100 for each of 300 000 resources.
const MAX_LIST_BYTES: u64 = 32 * 1024 * 1024;

/// Whether Puppet manages a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ManagedStatus {
    /// The list contains it.
    Yes,
    /// The list does not contain it.
    No,
    /// There is no list: Puppet has not run here.
    Unknown,
}

impl From<ManagedStatus> for Value {
    fn from(managed: ManagedStatus) -> Self {
        match managed {
            ManagedStatus::Yes => Self::Bool(true),
            ManagedStatus::No => Self::Bool(false),
            ManagedStatus::Unknown => Self::from("unknown"),
        }
    }
}

/// Searches the list for the resource.
pub(crate) fn look_up_managed(
    system: &dyn System,
    options: &Options,
    resource: &Resource,
) -> SystemResult<ManagedStatus> {
    for path in puppet::state_file(options.resources_file.as_deref(), "resources.txt") {
        if let Some(list) = read_list(system, &path)? {
            let names = list.lines().any(|line| matches_resource(line.trim(), resource));
            return Ok(if names { ManagedStatus::Yes } else { ManagedStatus::No });
        }
    }
    Ok(ManagedStatus::Unknown)
}

fn read_list(system: &dyn System, path: &Path) -> SystemResult<Option<String>> {
    match system.read_file(path, MAX_LIST_BYTES) {
        Ok(list) => Ok(Some(String::from_utf8_lossy(&list).into_owned())),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Puppet writes the name; for types without a name the reference in lower case.
fn matches_resource(line: &str, resource: &Resource) -> bool {
    let Some((type_name, rest)) = line.split_once('[') else { return false };
    let Some(name) = rest.strip_suffix(']') else { return false };
    let is_same = |known: &str| name == known || name == known.to_lowercase();
    type_name == resource.type_name && (is_same(&resource.name) || is_same(&resource.title))
}
