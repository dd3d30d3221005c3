//! The account database: passwd, shadow, group and gshadow are loaded, queried, changed and saved together.
//!
//! Does no locking; a writer must hold the lock from before the read until after the write.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use muster_system::error::found_or_none;
use muster_system::{FileAttributes, System, SystemError, SystemResult};

use super::model::{CryptedPassword, GroupAccount, ShadowEntry, UserAccount};
use super::table::{AccountTable, parse_members};

const MAX_ACCOUNT_FILE_BYTES: u64 = 64 * 1024 * 1024;

const PASSWD_FILE: &str = "/etc/passwd";
const SHADOW_FILE: &str = "/etc/shadow";
const GROUP_FILE: &str = "/etc/group";
const GSHADOW_FILE: &str = "/etc/gshadow";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountDatabase {
    pub passwd: AccountTable,
    /// `shadow(5)`; `None` if it is not readable.
    pub shadow: Option<AccountTable>,
    pub group: AccountTable,
    /// `gshadow(5)`; `None` if it does not exist, which is common, or is not readable.
    pub gshadow: Option<AccountTable>,
}

impl AccountDatabase {
    /// Reads all four files. A missing file counts as empty.
    pub fn load(system: &dyn System) -> SystemResult<Self> {
        let has_gshadow = system.metadata(Path::new(GSHADOW_FILE))?.is_some();
        Ok(Self {
            passwd: load_table(system, PASSWD_FILE)?,
            shadow: table_if_permitted(load_table(system, SHADOW_FILE))?,
            group: load_table(system, GROUP_FILE)?,
            gshadow: if has_gshadow {
                table_if_permitted(load_table(system, GSHADOW_FILE))?
            } else {
                None
            },
        })
    }

    /// Writes the files that differ from `before`. passwd is written last: an interrupted change is detected as missing
    /// and repeated.
    pub fn save(&self, system: &dyn System, before: &Self) -> SystemResult<()> {
        for (path, mode, table, old) in [
            (GSHADOW_FILE, 0o600, self.gshadow.as_ref(), before.gshadow.as_ref()),
            (GROUP_FILE, 0o644, Some(&self.group), Some(&before.group)),
            (SHADOW_FILE, 0o600, self.shadow.as_ref(), before.shadow.as_ref()),
            (PASSWD_FILE, 0o644, Some(&self.passwd), Some(&before.passwd)),
        ] {
            if let Some(table) = table.filter(|table| Some(*table) != old) {
                save_table(system, path, table, mode)?;
            }
        }
        Ok(())
    }

    pub fn find_user(&self, name: &str) -> Option<UserAccount> {
        let entry = self.passwd.get(name)?;
        let shadow = self.shadow.as_ref().and_then(|shadow| shadow.get(name));
        let mut user = parse_user(&entry, shadow.as_deref())?;
        user.groups = self
            .group
            .entries()
            .filter(|group| group.get(3).is_some_and(|list| list.split(',').any(|one| one == name)))
            .filter_map(|group| group.into_iter().next())
            .collect();
        user.groups.sort();
        Some(user)
    }

    /// All users in file order. Repeated entries of a name are ignored.
    pub fn list_users(&self) -> Vec<UserAccount> {
        let mut shadows: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for entry in self.shadow.iter().flat_map(AccountTable::entries) {
            shadows.entry(field_text(&entry, 0)).or_insert(entry);
        }
        let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for group in self.list_groups() {
            for member in &group.members {
                groups.entry(member.clone()).or_default().push(group.name.clone());
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        let mut users = Vec::new();
        for entry in self.passwd.entries() {
            let shadow = shadows.get(&field_text(&entry, 0)).map(Vec::as_slice);
            let Some(mut user) = parse_user(&entry, shadow) else { continue };
            if seen.insert(user.name.clone()) {
                user.groups = groups.remove(&user.name).unwrap_or_default();
                user.groups.sort();
                users.push(user);
            }
        }
        users
    }

    pub fn find_group(&self, name: &str) -> Option<GroupAccount> {
        parse_group(&self.group.get(name)?)
    }

    /// All groups in file order.
    pub fn list_groups(&self) -> Vec<GroupAccount> {
        let mut seen = std::collections::BTreeSet::new();
        self.group
            .entries()
            .filter_map(|entry| parse_group(&entry))
            .filter(|group| seen.insert(group.name.clone()))
            .collect()
    }
}

fn load_table(system: &dyn System, path: &str) -> SystemResult<AccountTable> {
    let content = found_or_none(system.read_file(Path::new(path), MAX_ACCOUNT_FILE_BYTES))?;
    Ok(AccountTable::parse(content.as_deref().unwrap_or_default()))
}

fn table_if_permitted(table: SystemResult<AccountTable>) -> SystemResult<Option<AccountTable>> {
    match table {
        Err(SystemError::File { source, .. })
            if source.kind() == io::ErrorKind::PermissionDenied =>
        {
            Ok(None)
        }
        other => other.map(Some),
    }
}

/// Mode and owner are preserved; `mode` applies to a new file.
fn save_table(
    system: &dyn System,
    path: &str,
    table: &AccountTable,
    mode: u32,
) -> SystemResult<()> {
    let path = Path::new(path);
    let is_new = system.metadata(path)?.is_none();
    let attributes = FileAttributes { mode: is_new.then_some(mode), ..FileAttributes::default() };
    system.write_file(path, &table.render(), &attributes)
}

fn field_text(entry: &[String], index: usize) -> String {
    entry.get(index).cloned().unwrap_or_default()
}

/// Parses a line of passwd or of `getent passwd`, with the line of shadow. Supplementary groups are in neither.
pub fn parse_user(passwd: &[String], shadow: Option<&[String]>) -> Option<UserAccount> {
    let days =
        |entry: &[String], index| entry.get(index).and_then(|text: &String| text.parse().ok());
    let shadow = shadow.map(|entry| ShadowEntry {
        password: CryptedPassword::new(field_text(entry, 1)),
        min_age: days(entry, 3).unwrap_or(-1),
        max_age: days(entry, 4).unwrap_or(-1),
        warn_days: days(entry, 5).unwrap_or(-1),
        expiry: days(entry, 7).filter(|day| *day >= 0),
    });
    Some(UserAccount {
        name: field_text(passwd, 0),
        uid: passwd.get(2)?.parse().ok()?,
        gid: passwd.get(3)?.parse().ok()?,
        comment: field_text(passwd, 4),
        home: field_text(passwd, 5),
        shell: field_text(passwd, 6),
        groups: Vec::new(),
        shadow,
    })
}

/// Parses a line of group or of `getent group`.
pub fn parse_group(entry: &[String]) -> Option<GroupAccount> {
    let mut members = parse_members(&field_text(entry, 3));
    members.sort();
    members.dedup();
    Some(GroupAccount { name: field_text(entry, 0), gid: entry.get(2)?.parse().ok()?, members })
}
