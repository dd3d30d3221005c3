//! passwd, shadow, group and gshadow together: read from the machine, asked about users and groups, written back.
//!
//! Does not lock; who writes holds the lock from before reading until after writing.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use muster_system::{Attributes, System, SystemError};

use super::model::{Group, Password, Shadow, User};
use super::table::{Table, members};

/// Longest of the four files that is read, in bytes.
const LIMIT: u64 = 64 * 1024 * 1024;

const PASSWD: &str = "/etc/passwd";
const SHADOW: &str = "/etc/shadow";
const GROUP: &str = "/etc/group";
const GSHADOW: &str = "/etc/gshadow";

/// The four files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Database {
    /// `passwd(5)`.
    pub passwd: Table,
    /// `shadow(5)`; `None` when it may not be read.
    pub shadow: Option<Table>,
    /// `group(5)`.
    pub group: Table,
    /// `gshadow(5)`; `None` when there is none, which is common, or it may not be read.
    pub gshadow: Option<Table>,
}

impl Database {
    /// Reads all four. A missing file is an empty one.
    pub fn load(system: &dyn System) -> Result<Self, SystemError> {
        let has_gshadow = system.metadata(Path::new(GSHADOW))?.is_some();
        Ok(Self {
            passwd: load(system, PASSWD)?,
            shadow: permitted(load(system, SHADOW))?,
            group: load(system, GROUP)?,
            gshadow: if has_gshadow {
                permitted(load(system, GSHADOW))?
            } else {
                None
            },
        })
    }

    /// Writes the files that differ from what was read. passwd comes last: a change that was cut off is seen as not
    /// made, and made again.
    pub fn save(&self, system: &dyn System, before: &Self) -> Result<(), SystemError> {
        if self.gshadow != before.gshadow {
            save(system, GSHADOW, self.gshadow.as_ref(), 0o600)?;
        }
        if self.group != before.group {
            save(system, GROUP, Some(&self.group), 0o644)?;
        }
        if self.shadow != before.shadow {
            save(system, SHADOW, self.shadow.as_ref(), 0o600)?;
        }
        if self.passwd != before.passwd {
            save(system, PASSWD, Some(&self.passwd), 0o644)?;
        }
        Ok(())
    }

    /// One user.
    pub fn user(&self, name: &str) -> Option<User> {
        let entry = self.passwd.get(name)?;
        let shadow = self.shadow.as_ref().and_then(|shadow| shadow.get(name));
        let mut user = user(&entry, shadow.as_deref())?;
        user.groups = self
            .group
            .entries()
            .filter(|group| {
                group
                    .get(3)
                    .is_some_and(|list| list.split(',').any(|one| one == name))
            })
            .filter_map(|group| group.into_iter().next())
            .collect();
        user.groups.sort();
        Some(user)
    }

    /// Every user, in the order of the file. A second entry of the same name is nobody.
    pub fn users(&self) -> Vec<User> {
        let mut shadows: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for entry in self.shadow.iter().flat_map(Table::entries) {
            shadows.entry(field(&entry, 0)).or_insert(entry);
        }
        let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for group in self.groups() {
            for member in &group.members {
                groups
                    .entry(member.clone())
                    .or_default()
                    .push(group.name.clone());
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        let mut users = Vec::new();
        for entry in self.passwd.entries() {
            let shadow = shadows.get(&field(&entry, 0)).map(Vec::as_slice);
            let Some(mut user) = user(&entry, shadow) else {
                continue;
            };
            if seen.insert(user.name.clone()) {
                user.groups = groups.remove(&user.name).unwrap_or_default();
                user.groups.sort();
                users.push(user);
            }
        }
        users
    }

    /// One group.
    pub fn group(&self, name: &str) -> Option<Group> {
        group(&self.group.get(name)?)
    }

    /// Every group, in the order of the file.
    pub fn groups(&self) -> Vec<Group> {
        let mut seen = std::collections::BTreeSet::new();
        self.group
            .entries()
            .filter_map(|entry| group(&entry))
            .filter(|group| seen.insert(group.name.clone()))
            .collect()
    }
}

fn load(system: &dyn System, path: &str) -> Result<Table, SystemError> {
    match system.read(Path::new(path), LIMIT) {
        Ok(content) => Ok(Table::parse(&content)),
        Err(error) if error.is_not_found() => Ok(Table::parse(b"")),
        Err(error) => Err(error),
    }
}

fn permitted(table: Result<Table, SystemError>) -> Result<Option<Table>, SystemError> {
    match table {
        Err(SystemError::File { source, .. })
            if source.kind() == io::ErrorKind::PermissionDenied =>
        {
            Ok(None)
        }
        other => other.map(Some),
    }
}

/// Mode and owner stay as they are; `mode` is for a new file.
fn save(
    system: &dyn System,
    path: &str,
    table: Option<&Table>,
    mode: u32,
) -> Result<(), SystemError> {
    let Some(table) = table else { return Ok(()) };
    let path = Path::new(path);
    let is_new = system.metadata(path)?.is_none();
    let attributes = Attributes {
        mode: is_new.then_some(mode),
        ..Attributes::default()
    };
    system.write(path, &table.render(), &attributes)
}

fn field(entry: &[String], at: usize) -> String {
    entry.get(at).cloned().unwrap_or_default()
}

/// A line of passwd, or of `getent passwd`, with the line of shadow. Supplementary groups are not in either.
pub fn user(passwd: &[String], shadow: Option<&[String]>) -> Option<User> {
    let days = |entry: &[String], at| entry.get(at).and_then(|text: &String| text.parse().ok());
    let shadow = shadow.map(|entry| Shadow {
        password: Password::new(field(entry, 1)),
        min_age: days(entry, 3).unwrap_or(-1),
        max_age: days(entry, 4).unwrap_or(-1),
        warn_days: days(entry, 5).unwrap_or(-1),
        expiry: days(entry, 7).filter(|day| *day >= 0),
    });
    Some(User {
        name: field(passwd, 0),
        uid: passwd.get(2)?.parse().ok()?,
        gid: passwd.get(3)?.parse().ok()?,
        comment: field(passwd, 4),
        home: field(passwd, 5),
        shell: field(passwd, 6),
        groups: Vec::new(),
        shadow,
    })
}

/// A line of group, or of `getent group`.
pub fn group(entry: &[String]) -> Option<Group> {
    let mut members = members(&field(entry, 3));
    members.sort();
    members.dedup();
    Some(Group {
        name: field(entry, 0),
        gid: entry.get(2)?.parse().ok()?,
        members,
    })
}
