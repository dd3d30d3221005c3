//! The effects of groupadd, groupmod, groupdel and gpasswd on group and gshadow. Pure: operates on parsed files.

use std::collections::BTreeSet;

use super::super::database::AccountDatabase;
use super::super::defaults::AccountDefaults;
use super::super::table::{parse_members, update_members};
use super::super::{AccountError, GroupAccount, GroupChange, NewGroup, Result};

pub(super) fn create_group(
    database: &mut AccountDatabase,
    new: &NewGroup,
    defaults: &AccountDefaults,
) -> Result<()> {
    if database.find_group(&new.name).is_some() {
        return Err(AccountError::Refused(format!("group '{}' already exists", new.name)));
    }
    let gid = match new.gid {
        Some(gid) => {
            check_free(database, gid, new.allowdupe)?;
            gid
        }
        None => free_gid(database, defaults, new.system, None)?,
    };
    add_group(database, &new.name, gid);
    set_members(database, &new.name, &new.members);
    Ok(())
}

/// Adds a group without members.
pub(super) fn add_group(database: &mut AccountDatabase, name: &str, gid: u32) {
    database.group.put(&[name, "x", &gid.to_string(), ""]);
    if let Some(gshadow) = &mut database.gshadow {
        gshadow.put(&[name, "!", "", ""]);
    }
}

/// The preferred gid if it is free, otherwise one of the range.
pub(super) fn free_gid(
    database: &AccountDatabase,
    defaults: &AccountDefaults,
    system: bool,
    preferred: Option<u32>,
) -> Result<u32> {
    let taken: BTreeSet<u32> = database.list_groups().iter().map(|group| group.gid).collect();
    if let Some(preferred) = preferred.filter(|gid| !taken.contains(gid)) {
        return Ok(preferred);
    }
    let found = defaults.gids.free_id(&taken, system);
    found.ok_or_else(|| AccountError::Refused("no GID of the configured range is free".to_owned()))
}

pub(super) fn change_group(
    database: &mut AccountDatabase,
    name: &str,
    change: &GroupChange,
) -> Result<()> {
    let group = require_group(database, name)?;
    match change {
        GroupChange::Members(members) => set_members(database, name, members),
        GroupChange::Gid(gid, allowdupe) => {
            if *gid == group.gid {
                return Ok(());
            }
            check_free(database, *gid, *allowdupe)?;
            database.group.set_field(name, 2, &gid.to_string());
            // Users follow the gid change of their primary group.
            for user in database.list_users().iter().filter(|user| user.gid == group.gid) {
                database.passwd.set_field(&user.name, 3, &gid.to_string());
            }
        }
    }
    Ok(())
}

pub(super) fn remove_group(database: &mut AccountDatabase, name: &str) -> Result<()> {
    let group = require_group(database, name)?;
    if let Some(user) = database.list_users().iter().find(|user| user.gid == group.gid) {
        let problem = format!("cannot remove the primary group of user '{}'", user.name);
        return Err(AccountError::Refused(problem));
    }
    remove_group_entries(database, name);
    Ok(())
}

/// Removes the entries of a group, even if it is in use.
pub(super) fn remove_group_entries(database: &mut AccountDatabase, name: &str) {
    database.group.remove(name);
    if let Some(gshadow) = &mut database.gshadow {
        gshadow.remove(name);
    }
}

/// Makes a user a member of exactly these groups.
pub(super) fn set_memberships(
    database: &mut AccountDatabase,
    user: &str,
    groups: &[String],
) -> Result<()> {
    for group in groups {
        require_group(database, group)?;
    }
    for group in database.list_groups() {
        let should_be_member = groups.contains(&group.name);
        if should_be_member != group.members.iter().any(|member| member == user) {
            let mut members = group.members;
            members.retain(|member| member != user);
            members.extend(should_be_member.then(|| user.to_owned()));
            set_members(database, &group.name, &members);
        }
    }
    Ok(())
}

/// Removes a user from all groups, and from the administrators in gshadow.
pub(super) fn remove_from_all_groups(database: &mut AccountDatabase, user: &str) -> Result<()> {
    set_memberships(database, user, &[])?;
    let Some(gshadow) = &mut database.gshadow else { return Ok(()) };
    for entry in gshadow.entries().collect::<Vec<_>>() {
        let Some(name) = entry.first() else { continue };
        for field in [2, 3] {
            let list = entry.get(field).map(String::as_str).unwrap_or_default();
            let mut left = parse_members(list);
            left.retain(|member| member != user);
            if left.len() < parse_members(list).len() {
                gshadow.set_field(name, field, &left.join(","));
            }
        }
    }
    Ok(())
}

fn set_members(database: &mut AccountDatabase, name: &str, desired: &[String]) {
    let list = |entry: Option<Vec<String>>| {
        entry.and_then(|fields| fields.into_iter().nth(3)).unwrap_or_default()
    };
    let members = update_members(&list(database.group.get(name)), desired);
    database.group.set_field(name, 3, &members);
    if let Some(gshadow) = &mut database.gshadow {
        let members = update_members(&list(gshadow.get(name)), desired);
        gshadow.set_field(name, 3, &members);
    }
}

pub(super) fn require_group(database: &AccountDatabase, name: &str) -> Result<GroupAccount> {
    let group = database.find_group(name);
    group.ok_or_else(|| AccountError::Refused(format!("group '{name}' does not exist")))
}

fn check_free(database: &AccountDatabase, gid: u32, allowdupe: bool) -> Result<()> {
    let owner = database.list_groups().into_iter().find(|group| group.gid == gid && !allowdupe);
    owner.map_or(Ok(()), |owner| {
        let problem = format!("GID {gid} already exists, it belongs to group '{}'", owner.name);
        Err(AccountError::Refused(problem))
    })
}
