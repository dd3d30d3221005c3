//! What groupadd, groupmod, groupdel and gpasswd do to group and gshadow. Pure: the files are values here.

use std::collections::BTreeSet;

use super::super::database::Database;
use super::super::defaults::{Defaults, free_id, free_system_id};
use super::super::table::{members, with_members};
use super::super::{AccountError, Group, GroupChange, NewGroup};

pub(super) fn create(
    database: &mut Database,
    new: &NewGroup,
    defaults: &Defaults,
) -> Result<(), AccountError> {
    if database.group(&new.name).is_some() {
        return Err(AccountError::Refused(format!(
            "group '{}' already exists",
            new.name
        )));
    }
    let gid = match new.gid {
        Some(gid) => {
            check_free(database, gid, new.allowdupe)?;
            gid
        }
        None => free_gid(database, defaults, new.system, None)?,
    };
    add(database, &new.name, gid);
    set_members(database, &new.name, &new.members);
    Ok(())
}

/// Adds a group without members.
pub(super) fn add(database: &mut Database, name: &str, gid: u32) {
    database.group.put(&[name, "x", &gid.to_string(), ""]);
    if let Some(gshadow) = &mut database.gshadow {
        gshadow.put(&[name, "!", "", ""]);
    }
}

/// The preferred number if it is free, or one of the range.
pub(super) fn free_gid(
    database: &Database,
    defaults: &Defaults,
    system: bool,
    preferred: Option<u32>,
) -> Result<u32, AccountError> {
    let taken: BTreeSet<u32> = database.groups().iter().map(|group| group.gid).collect();
    if let Some(preferred) = preferred.filter(|gid| !taken.contains(gid)) {
        return Ok(preferred);
    }
    let found = if system {
        free_system_id(&taken, &defaults.system_gids)
    } else {
        free_id(&taken, &defaults.gids)
    };
    found.ok_or_else(|| AccountError::Refused("no group number of the range is free".to_owned()))
}

pub(super) fn change(
    database: &mut Database,
    name: &str,
    change: &GroupChange,
) -> Result<(), AccountError> {
    let group = known(database, name)?;
    match change {
        GroupChange::Members(members) => set_members(database, name, members),
        GroupChange::Gid(gid, allowdupe) => {
            if *gid == group.gid {
                return Ok(());
            }
            check_free(database, *gid, *allowdupe)?;
            database.group.set(name, 2, &gid.to_string());
            // Users follow their primary group.
            for user in database.users().iter().filter(|user| user.gid == group.gid) {
                database.passwd.set(&user.name, 3, &gid.to_string());
            }
        }
    }
    Ok(())
}

pub(super) fn remove(database: &mut Database, name: &str) -> Result<(), AccountError> {
    let group = known(database, name)?;
    if let Some(user) = database.users().iter().find(|user| user.gid == group.gid) {
        let problem = format!("cannot remove the primary group of user '{}'", user.name);
        return Err(AccountError::Refused(problem));
    }
    take_out(database, name);
    Ok(())
}

/// Removes the entries of a group, whoever uses it.
pub(super) fn take_out(database: &mut Database, name: &str) {
    database.group.remove(name);
    if let Some(gshadow) = &mut database.gshadow {
        gshadow.remove(name);
    }
}

/// Makes a user a member of exactly these groups.
pub(super) fn set_memberships(
    database: &mut Database,
    user: &str,
    groups: &[String],
) -> Result<(), AccountError> {
    for group in groups {
        known(database, group)?;
    }
    for group in database.groups() {
        let wanted = groups.contains(&group.name);
        if wanted != group.members.iter().any(|member| member == user) {
            let mut members = group.members;
            members.retain(|member| member != user);
            members.extend(wanted.then(|| user.to_owned()));
            set_members(database, &group.name, &members);
        }
    }
    Ok(())
}

/// Takes a user out of all groups, and out of the administrators in gshadow.
pub(super) fn forget_member(database: &mut Database, user: &str) -> Result<(), AccountError> {
    set_memberships(database, user, &[])?;
    let Some(gshadow) = &mut database.gshadow else {
        return Ok(());
    };
    for entry in gshadow.entries().collect::<Vec<_>>() {
        let Some(name) = entry.first() else { continue };
        for field in [2, 3] {
            let list = entry.get(field).map(String::as_str).unwrap_or_default();
            let mut left = members(list);
            left.retain(|member| member != user);
            if left.len() < members(list).len() {
                gshadow.set(name, field, &left.join(","));
            }
        }
    }
    Ok(())
}

fn set_members(database: &mut Database, name: &str, wanted: &[String]) {
    let list = |entry: Option<Vec<String>>| {
        entry
            .and_then(|fields| fields.into_iter().nth(3))
            .unwrap_or_default()
    };
    let members = with_members(&list(database.group.get(name)), wanted);
    database.group.set(name, 3, &members);
    if let Some(gshadow) = &mut database.gshadow {
        let members = with_members(&list(gshadow.get(name)), wanted);
        gshadow.set(name, 3, &members);
    }
}

/// The group of that name.
pub(super) fn known(database: &Database, name: &str) -> Result<Group, AccountError> {
    let group = database.group(name);
    group.ok_or_else(|| AccountError::Refused(format!("group '{name}' does not exist")))
}

fn check_free(database: &Database, gid: u32, allowdupe: bool) -> Result<(), AccountError> {
    let owner = database
        .groups()
        .into_iter()
        .find(|group| group.gid == gid && !allowdupe);
    owner.map_or(Ok(()), |owner| {
        let problem = format!(
            "GID {gid} already exists, it belongs to group '{}'",
            owner.name
        );
        Err(AccountError::Refused(problem))
    })
}
