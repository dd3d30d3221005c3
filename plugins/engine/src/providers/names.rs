//! Names and numbers of users and groups: the machine's own files first, and on the machine that we run on its name
//! service too. Does not change them; that is what the types `user` and `group` are for.

use std::path::Path;

use muster_system::{Attributes, Command, System, SystemError};

/// Longest passwd or group file that is read, in bytes.
const LIMIT: u64 = 64 * 1024 * 1024;

/// A line of passwd, as far as others need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Login name.
    pub name: String,
    /// Numeric user.
    pub uid: u32,
    /// Numeric primary group.
    pub gid: u32,
    /// Home directory.
    pub home: String,
}

/// The user of that name, or of that number when no user has it as a name.
pub fn user(system: &dyn System, who: &str) -> Result<Option<User>, SystemError> {
    Ok(line(system, "passwd", who)?.as_deref().and_then(parse_user))
}

/// Every user in the machine's own file.
pub fn users(system: &dyn System) -> Result<Vec<User>, SystemError> {
    Ok(text(system, "passwd")?
        .lines()
        .filter_map(parse_user)
        .collect())
}

/// The number of a user given by name or number; a number needs no entry.
pub fn uid(system: &dyn System, who: &str) -> Result<Option<u32>, SystemError> {
    id(system, "passwd", who)
}

/// The number of a group given by name or number; a number needs no entry.
pub fn gid(system: &dyn System, who: &str) -> Result<Option<u32>, SystemError> {
    id(system, "group", who)
}

/// The name of a user, or its number as text when it has none.
pub fn user_name(system: &dyn System, uid: u32) -> Result<String, SystemError> {
    name(system, "passwd", uid)
}

/// The name of a group, or its number as text when it has none.
pub fn group_name(system: &dyn System, gid: u32) -> Result<String, SystemError> {
    name(system, "group", gid)
}

fn id(system: &dyn System, database: &str, who: &str) -> Result<Option<u32>, SystemError> {
    let found = line(system, database, who)?;
    let number = found
        .as_deref()
        .and_then(|line| line.split(':').nth(2)?.parse().ok());
    Ok(number.or_else(|| who.parse().ok()))
}

fn name(system: &dyn System, database: &str, id: u32) -> Result<String, SystemError> {
    let id = id.to_string();
    let found = line(system, database, &id)?;
    Ok(found
        .as_deref()
        .and_then(|line| line.split(':').next())
        .unwrap_or(&id)
        .to_owned())
}

/// The line whose name is `key`, or else the one whose number is.
fn line(system: &dyn System, database: &str, key: &str) -> Result<Option<String>, SystemError> {
    let text = text(system, database)?;
    let with = |field: usize| {
        text.lines()
            .find(|line| line.split(':').nth(field) == Some(key))
    };
    if let Some(line) = with(0).or_else(|| with(2)) {
        return Ok(Some(line.to_owned()));
    }
    if system.root() != Path::new("/") || key.starts_with('-') {
        return Ok(None);
    }
    match system.run(&Command::new(["getent", database, key])) {
        Ok(output) if output.success() => Ok(output.text().lines().next().map(str::to_owned)),
        Ok(_) => Ok(None),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn text(system: &dyn System, database: &str) -> Result<String, SystemError> {
    match system.read(&Path::new("/etc").join(database), LIMIT) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.is_not_found() => Ok(String::new()),
        Err(error) => Err(error),
    }
}

fn parse_user(line: &str) -> Option<User> {
    let mut fields = line.split(':');
    let name = fields.next()?.to_owned();
    let uid = fields.nth(1)?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    let home = fields.nth(1)?.to_owned();
    Some(User {
        name,
        uid,
        gid,
        home,
    })
}

/// Owner and group for a file that is created for a user, where this process can give files away: an ordinary user's
/// scratch root (its `/` does not belong to root) cannot hold the files of others.
pub fn settable_owner(system: &dyn System, user: Option<&User>) -> Result<Attributes, SystemError> {
    let ordinary = system
        .metadata(Path::new("/"))?
        .is_some_and(|root| root.uid != 0);
    let user = user.filter(|_| !ordinary);
    Ok(Attributes {
        mode: None,
        uid: user.map(|user| user.uid),
        gid: user.map(|user| user.gid),
    })
}
