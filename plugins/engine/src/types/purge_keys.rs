//! Purges ssh keys that are not in the catalog: with `purge_ssh_keys`, a `user` generates an absent `ssh_authorized_key` for each.

use std::path::PathBuf;

use super::ssh_authorized_key::{SshAuthorizedKeyResourceType, keys_file_at};
use crate::error::{DescribeOperation as _, Result};
use crate::providers::account_names;
use crate::resource::Resource;
use crate::resource_type::{BoundResource, CatalogResources, absent_resource};

/// Default key file, relative to the home directory.
const DEFAULT_KEYS_FILE: &str = ".ssh/authorized_keys";

pub(super) fn is_purge_requested(resource: &Resource) -> bool {
    !matches!(resource.get_list("purge_ssh_keys").as_slice(), [] | ["false"])
        && resource.get_text("ensure") != Some("absent")
}

/// Accepts `true`, `false` or paths.
pub(super) fn check_purge_value(resource: &Resource) -> Result<()> {
    let is_single = resource.get_list("purge_ssh_keys").len() == 1;
    let is_valid = |word: &str| match word {
        "true" | "false" => is_single,
        path => ["/", "%h/", "~/"].iter().any(|start| path.starts_with(start)),
    };
    let expected = "true, false or paths: absolute, or below the home directory such as `%h/.ssh/authorized_keys`";
    resource.check_items("purge_ssh_keys", expected, is_valid)
}

pub(super) fn generate_absent_keys(
    resource: &BoundResource<'_>,
    siblings: &dyn CatalogResources,
) -> Result<Vec<Resource>> {
    if !is_purge_requested(resource) {
        return Ok(Vec::new());
    }
    let account = account_names::find_user(resource.cx, &resource.name)
        .during(resource, "looking up the user")?;
    let home = match (resource.get_text("home"), account) {
        (Some(home), _) => home.to_owned(),
        (None, Some(user)) => user.home,
        // The user does not exist yet, so it has no known key files.
        (None, None) => return Ok(Vec::new()),
    };
    let mut absent_keys = Vec::new();
    for word in resource.get_list("purge_ssh_keys") {
        let path = match word {
            "true" => PathBuf::from(&home).join(DEFAULT_KEYS_FILE),
            path => match path.strip_prefix("%h/").or(path.strip_prefix("~/")) {
                Some(relative_path) => PathBuf::from(&home).join(relative_path),
                None => PathBuf::from(path),
            },
        };
        let keys = keys_file_at(&path).list_instances(resource.cx.system);
        for (name, _) in keys.during(resource, format_args!("reading {}", path.display()))? {
            if siblings.find_resource("ssh_authorized_key", &name).is_none() {
                absent_keys.push(absent_key(resource, &name, &path.to_string_lossy())?);
            }
        }
    }
    Ok(absent_keys)
}

fn absent_key(user: &Resource, name: &str, target: &str) -> Result<Resource> {
    let attributes = [("user", user.name.as_str()), ("target", target)];
    absent_resource(&SshAuthorizedKeyResourceType, user, name, &attributes)
}
