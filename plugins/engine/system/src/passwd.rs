//! Finds a user in `/etc/passwd` and a group in `/etc/group` of a machine. Those of other databases, such as LDAP, are not found.

use std::path::Path;

use crate::{System, SystemResult};

const MAX_PASSWD_BYTES: u64 = 16 * 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PasswdUser {
    pub uid: u32,
    /// ID of the primary group.
    pub gid: u32,
}

/// Finds the ID of the group with this name; `None` if there is no such group.
pub fn find_group(system: &dyn System, name: &str) -> SystemResult<Option<u32>> {
    let group = system.read_file(Path::new("/etc/group"), MAX_PASSWD_BYTES)?;
    let group = String::from_utf8_lossy(&group);
    Ok(group.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then_some(())?;
        fields.nth(1)?.parse().ok()
    }))
}

/// Finds the user with this name; `None` if there is no such user.
pub fn find_user(system: &dyn System, name: &str) -> SystemResult<Option<PasswdUser>> {
    let passwd = system.read_file(Path::new("/etc/passwd"), MAX_PASSWD_BYTES)?;
    let passwd = String::from_utf8_lossy(&passwd);
    Ok(passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then_some(())?;
        let uid = fields.nth(1)?.parse().ok()?;
        Some(PasswdUser { uid, gid: fields.next()?.parse().ok()? })
    }))
}
