//! Whether Puppet manages a resource: its list of them, `resources.txt`, as `user[rip]` a line.
//!
//! The list is that of Puppet's last run with a catalog. Only reads.

use std::path::Path;

use muster_api::system::{System, SystemError};
use muster_engine::resource::Resource;
use serde_json::Value;

use crate::options::Options;
use crate::puppet;

/// The longest list that is read, in bytes: some 100 for each of 300 000 resources.
const LIMIT: u64 = 32 * 1024 * 1024;

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Managed {
    /// The list names it.
    Yes,
    /// The list does not name it.
    No,
    /// There is no list: Puppet never ran here.
    Unknown,
}

impl From<Managed> for Value {
    fn from(managed: Managed) -> Self {
        match managed {
            Managed::Yes => Self::Bool(true),
            Managed::No => Self::Bool(false),
            Managed::Unknown => Self::from("unknown"),
        }
    }
}

/// Looks the resource up.
pub(crate) fn look_up(
    system: &dyn System,
    options: &Options,
    resource: &Resource,
) -> Result<Managed, SystemError> {
    for path in puppet::state_file(options.resources_file.as_deref(), "resources.txt") {
        if let Some(list) = read(system, &path)? {
            let names = list.lines().any(|line| is_entry(line.trim(), resource));
            return Ok(if names { Managed::Yes } else { Managed::No });
        }
    }
    Ok(Managed::Unknown)
}

fn read(system: &dyn System, path: &Path) -> Result<Option<String>, SystemError> {
    match system.read(path, LIMIT) {
        Ok(list) => Ok(Some(String::from_utf8_lossy(&list).into_owned())),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Puppet writes the name; for types without one the reference in lower case.
fn is_entry(line: &str, resource: &Resource) -> bool {
    let Some((type_name, rest)) = line.split_once('[') else {
        return false;
    };
    let Some(name) = rest.strip_suffix(']') else {
        return false;
    };
    let same = |known: &str| name == known || name == known.to_lowercase();
    type_name == resource.type_name && (same(&resource.name) || same(&resource.title))
}
