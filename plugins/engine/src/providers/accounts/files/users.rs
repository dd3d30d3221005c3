//! The effects of useradd, usermod, userdel and chage on the four files. Pure: operates on parsed files.

use std::collections::BTreeSet;

use super::super::database::AccountDatabase;
use super::super::defaults::AccountDefaults;
use super::super::table::parse_members;
use super::super::{AccountError, NewUser, Result, UserAccount, UserChange, dates};
use super::{groups, require_shadow};

/// A password that never matches.
const LOCKED_PASSWORD: &str = "!";

/// Properties by their field in passwd.
const PASSWD_FIELDS: [(&str, usize); 5] =
    [("uid", 2), ("gid", 3), ("comment", 4), ("home", 5), ("shell", 6)];
/// Properties by their field in shadow.
const SHADOW_FIELDS: [(&str, usize); 4] =
    [("password_min_age", 3), ("password_max_age", 4), ("password_warn_days", 5), ("expiry", 7)];

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
    let age =
        |given: Option<i64>, default| given.map_or(default, |age| age_field(&age.to_string()));
    let (min, max, warn) = (age(new.min_age, min), age(new.max_age, max), age(new.warn_days, warn));
    let expiry = new.expiry.as_deref().map_or(Ok(String::new()), expiry_day)?;
    let today = today.to_string();
    let fields = [name, password, &today, &min, &max, &warn, "", &expiry, ""];
    require_shadow(database)?.put(&fields);
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
    let (property, value, allowdupe) = match change {
        UserChange::Password(password) => {
            set_shadow(database, name, 1, password.expose())?;
            set_shadow(database, name, 2, &today.to_string())?;
            // `x` in passwd refers to the password in shadow.
            database.passwd.set_field(name, 1, "x");
            return Ok(before);
        }
        UserChange::Property { name, value, allowdupe } => (name.as_str(), value, *allowdupe),
    };
    let value = match property {
        "groups" => {
            groups::set_memberships(database, name, &parse_members(value))?;
            return Ok(before);
        }
        "gid" => group_number(database, value)?.to_string(),
        "expiry" if !value.is_empty() => expiry_day(value)?,
        "password_min_age" | "password_max_age" | "password_warn_days" => age_field(value),
        _ => value.clone(),
    };
    if let Some(uid) = value.parse().ok().filter(|uid| property == "uid" && *uid != before.uid) {
        check_free(database, uid, allowdupe)?;
    }
    let position = |fields: &[(&str, usize)]| {
        fields.iter().find(|(known, _)| *known == property).map(|(_, field)| *field)
    };
    if let Some(field) = position(&PASSWD_FIELDS) {
        database.passwd.set_field(name, field, &value);
    } else if let Some(field) = position(&SHADOW_FIELDS) {
        set_shadow(database, name, field, &value)?;
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
    let found = defaults.uids.free_id(&taken, system);
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
fn age_field(age: &str) -> String {
    if age.starts_with('-') { String::new() } else { age.to_owned() }
}

fn expiry_day(date: &str) -> Result<String> {
    let day = dates::parse_day(date).map(|day| day.to_string());
    day.ok_or_else(|| AccountError::Refused(format!("`{date}` is not a date such as 2030-12-31")))
}
