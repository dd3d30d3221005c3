//! The effects of useradd, usermod, userdel and chage on the four files. Pure: operates on parsed files.

use std::collections::BTreeSet;

use super::super::database::AccountDatabase;
use super::super::defaults::{AccountDefaults, free_id, free_system_id};
use super::super::{AccountError, NewUser, Result, UserAccount, UserChange, dates};
use super::{groups, require_shadow};

/// A password that never matches.
const LOCKED_PASSWORD: &str = "!";

/// Adds the user and returns the resulting entry.
pub(super) fn create_user(
    database: &mut AccountDatabase,
    new: &NewUser,
    defaults: &AccountDefaults,
    today: i64,
) -> Result<UserAccount> {
    let name = new.name.as_str();
    if database.find_user(name).is_some() {
        return Err(AccountError::Refused(format!("user '{name}' already exists")));
    }
    let uid = match new.uid {
        Some(uid) => {
            check_free(database, uid, new.allowdupe)?;
            uid
        }
        None => free_uid(database, defaults, new.system)?,
    };
    let gid = primary_group(database, new, uid, defaults)?;
    let home = new.home.clone().unwrap_or_else(|| format!("{}/{name}", defaults.home));
    let shell = new.shell.as_deref().unwrap_or(&defaults.shell);
    let comment = new.comment.as_deref().unwrap_or_default();
    database.passwd.put(&[name, "x", &uid.to_string(), &gid.to_string(), comment, &home, shell]);

    let password = new.password.as_ref().map_or(LOCKED_PASSWORD, |password| password.expose());
    // System users have no ageing.
    let [min, max, warn] = if new.system { Default::default() } else { defaults.ageing.clone() };
    let min = new.min_age.map_or(min, age_field);
    let max = new.max_age.map_or(max, age_field);
    let warn = new.warn_days.map_or(warn, age_field);
    let expiry = new.expiry.as_deref().map_or(Ok(String::new()), expiry_day)?;
    require_shadow(database)?.put(&[
        name,
        password,
        &today.to_string(),
        &min,
        &max,
        &warn,
        "",
        &expiry,
        "",
    ]);
    groups::set_memberships(database, name, &new.groups)?;
    require_user(database, name)
}

/// Gid of the primary group; creates the group if each user has its own.
fn primary_group(
    database: &mut AccountDatabase,
    new: &NewUser,
    uid: u32,
    defaults: &AccountDefaults,
) -> Result<u32> {
    if let Some(gid) = &new.gid {
        return group_number(database, gid);
    }
    if let Some(group) = database.find_group(&new.name) {
        return Ok(group.gid);
    }
    if !defaults.user_groups {
        return group_number(database, &defaults.group);
    }
    let gid = groups::free_gid(database, defaults, new.system, Some(uid))?;
    groups::add_group(database, &new.name, gid);
    Ok(gid)
}

fn group_number(database: &AccountDatabase, group: &str) -> Result<u32> {
    match group.parse::<u32>() {
        Ok(gid) if database.list_groups().iter().any(|group| group.gid == gid) => Ok(gid),
        _ => groups::require_group(database, group).map(|group| group.gid),
    }
}

/// Applies one change; returns the previous user.
pub(super) fn change_user(
    database: &mut AccountDatabase,
    name: &str,
    change: &UserChange,
    today: i64,
) -> Result<UserAccount> {
    let before = require_user(database, name)?;
    match change {
        UserChange::Uid(uid, allowdupe) => {
            if *uid != before.uid {
                check_free(database, *uid, *allowdupe)?;
            }
            database.passwd.set_field(name, 2, &uid.to_string());
        }
        UserChange::Gid(gid) => {
            let gid = group_number(database, gid)?;
            database.passwd.set_field(name, 3, &gid.to_string());
        }
        UserChange::Comment(comment) => drop(database.passwd.set_field(name, 4, comment)),
        UserChange::Home(home) => drop(database.passwd.set_field(name, 5, home)),
        UserChange::Shell(shell) => drop(database.passwd.set_field(name, 6, shell)),
        UserChange::Groups(group_names) => groups::set_memberships(database, name, group_names)?,
        UserChange::Password(password) => {
            set_shadow(database, name, 1, password.expose())?;
            set_shadow(database, name, 2, &today.to_string())?;
            // `x` in passwd refers to the password in shadow.
            database.passwd.set_field(name, 1, "x");
        }
        UserChange::MinAge(age) => set_shadow(database, name, 3, &age_field(*age))?,
        UserChange::MaxAge(age) => set_shadow(database, name, 4, &age_field(*age))?,
        UserChange::WarnDays(age) => set_shadow(database, name, 5, &age_field(*age))?,
        UserChange::Expiry(day) => {
            let day = day.as_deref().map_or(Ok(String::new()), expiry_day)?;
            set_shadow(database, name, 7, &day)?;
        }
    }
    Ok(before)
}

/// Removes the user from all files, including its own group if no other user has it.
pub(super) fn remove_user(
    database: &mut AccountDatabase,
    user: &UserAccount,
    user_groups: bool,
) -> Result<()> {
    database.passwd.remove(&user.name);
    require_shadow(database)?.remove(&user.name);
    groups::remove_from_all_groups(database, &user.name)?;
    let own_group = database.find_group(&user.name).filter(|group| {
        user_groups
            && group.gid == user.gid
            && group.members.is_empty()
            && database.list_users().iter().all(|other| other.gid != group.gid)
    });
    if own_group.is_some() {
        groups::remove_group_entries(database, &user.name);
    }
    Ok(())
}

/// The user of that name, or an error.
pub(super) fn require_user(database: &AccountDatabase, name: &str) -> Result<UserAccount> {
    let user = database.find_user(name);
    user.ok_or_else(|| AccountError::Refused(format!("user '{name}' does not exist")))
}

/// Sets a field of shadow; a user without a line gets one with a locked password.
fn set_shadow(database: &mut AccountDatabase, name: &str, field: usize, value: &str) -> Result<()> {
    let passwd_password = database.passwd.get(name).and_then(|entry| entry.into_iter().nth(1));
    let table = require_shadow(database)?;
    if table.get(name).is_none() {
        let password = passwd_password
            .filter(|passwd_password| passwd_password != "x")
            .unwrap_or_else(|| LOCKED_PASSWORD.to_owned());
        table.put(&[name, &password, "", "", "", "", "", "", ""]);
    }
    table.set_field(name, field, value);
    Ok(())
}

fn free_uid(database: &AccountDatabase, defaults: &AccountDefaults, system: bool) -> Result<u32> {
    let taken: BTreeSet<u32> = database.list_users().iter().map(|user| user.uid).collect();
    let found = if system {
        free_system_id(&taken, &defaults.system_uids)
    } else {
        free_id(&taken, &defaults.uids)
    };
    found.ok_or_else(|| AccountError::Refused("no UID of the configured range is free".to_owned()))
}

fn check_free(database: &AccountDatabase, uid: u32, allowdupe: bool) -> Result<()> {
    let owner = database.list_users().into_iter().find(|user| user.uid == uid && !allowdupe);
    owner.map_or(Ok(()), |owner| {
        let problem = format!("UID {uid} already exists, it belongs to user '{}'", owner.name);
        Err(AccountError::Refused(problem))
    })
}

/// shadow represents no limit as an empty field.
fn age_field(age: i64) -> String {
    if age < 0 { String::new() } else { age.to_string() }
}

fn expiry_day(date: &str) -> Result<String> {
    let day = dates::parse_day(date).map(|day| day.to_string());
    day.ok_or_else(|| AccountError::Refused(format!("`{date}` is not a date such as 2030-12-31")))
}
