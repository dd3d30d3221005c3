//! Names and numbers of users and groups: the machine's own files first, and on the machine that we run on its name
//! service too. Does not change them; that is what the types `user` and `group` are for.
//!
//! The files are read once and again only when they are others than before, so that thousands of files cost two looks.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_system::{Attributes, Command, System, SystemError};

use crate::memo::{Seen, seen};
use crate::resource_type::Cx;

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

/// What is kept of passwd and group.
#[derive(Debug, Default)]
pub(crate) struct Known {
    passwd: RefCell<Option<Arc<Table>>>,
    group: RefCell<Option<Arc<Table>>>,
    /// What the name service said about those that the files do not have, by file and name or number.
    asked: RefCell<HashMap<(&'static str, String), String>>,
}

/// One of the two files.
#[derive(Debug, Default)]
struct Table {
    /// How the file was when it was read.
    seen: Seen,
    lines: Vec<String>,
    by_name: HashMap<String, usize>,
    by_number: HashMap<String, usize>,
}

#[derive(Debug, Clone, Copy)]
enum Database {
    Passwd,
    Group,
}

impl Database {
    fn word(self) -> &'static str {
        match self {
            Self::Passwd => "passwd",
            Self::Group => "group",
        }
    }
}

/// The user of that name, or of that number when no user has it as a name.
pub fn user(cx: &Cx<'_>, who: &str) -> Result<Option<User>, SystemError> {
    Ok(line(cx, Database::Passwd, who)?
        .as_deref()
        .and_then(parse_user))
}

/// Every user in the machine's own file.
pub fn users(cx: &Cx<'_>) -> Result<Vec<User>, SystemError> {
    let table = table(cx, Database::Passwd)?;
    Ok(table
        .lines
        .iter()
        .filter_map(|line| parse_user(line))
        .collect())
}

/// The number of a user given by name or number; a number needs no entry.
pub fn uid(cx: &Cx<'_>, who: &str) -> Result<Option<u32>, SystemError> {
    id(cx, Database::Passwd, who)
}

/// The number of a group given by name or number; a number needs no entry.
pub fn gid(cx: &Cx<'_>, who: &str) -> Result<Option<u32>, SystemError> {
    id(cx, Database::Group, who)
}

/// The name of a user, or its number as text when it has none.
pub fn user_name(cx: &Cx<'_>, uid: u32) -> Result<String, SystemError> {
    name(cx, Database::Passwd, uid)
}

/// The name of a group, or its number as text when it has none.
pub fn group_name(cx: &Cx<'_>, gid: u32) -> Result<String, SystemError> {
    name(cx, Database::Group, gid)
}

fn id(cx: &Cx<'_>, database: Database, who: &str) -> Result<Option<u32>, SystemError> {
    let found = line(cx, database, who)?;
    let number = found
        .as_deref()
        .and_then(|line| line.split(':').nth(2)?.parse().ok());
    Ok(number.or_else(|| who.parse().ok()))
}

fn name(cx: &Cx<'_>, database: Database, id: u32) -> Result<String, SystemError> {
    let id = id.to_string();
    let found = line(cx, database, &id)?;
    Ok(found
        .as_deref()
        .and_then(|line| line.split(':').next())
        .unwrap_or(&id)
        .to_owned())
}

/// The line whose name is `key`, or else the one whose number is.
fn line(cx: &Cx<'_>, database: Database, key: &str) -> Result<Option<String>, SystemError> {
    let table = table(cx, database)?;
    let own = table.by_name.get(key).or_else(|| table.by_number.get(key));
    if let Some(line) = own.and_then(|at| table.lines.get(*at)) {
        return Ok(Some(line.clone()));
    }
    if cx.system.root() != Path::new("/") || key.is_empty() || key.starts_with('-') {
        return Ok(None);
    }
    let asked = &cx.memo.names.asked;
    let question = (database.word(), key.to_owned());
    if let Some(line) = asked.borrow().get(&question) {
        return Ok(Some(line.clone()));
    }
    let getent = Command::new(["getent", database.word(), key]);
    match cx.system.run(&getent) {
        Ok(output) if output.success() => {
            let line = output.text().lines().next().map(str::to_owned);
            // Only what was found is kept: who is missing now may be there in a moment.
            let keep = |line: &String| drop(asked.borrow_mut().insert(question, line.clone()));
            Ok(line.inspect(keep))
        }
        Ok(_) => Ok(None),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The file as it is now, read anew only if it changed.
fn table(cx: &Cx<'_>, database: Database) -> Result<Arc<Table>, SystemError> {
    let known = match database {
        Database::Passwd => &cx.memo.names.passwd,
        Database::Group => &cx.memo.names.group,
    };
    let path = PathBuf::from("/etc").join(database.word());
    let now = seen(cx.system, &path)?;
    if let Some(table) = known.borrow().as_ref().filter(|table| table.seen == now) {
        return Ok(Arc::clone(table));
    }
    let text = match cx.system.read(&path, LIMIT) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.is_not_found() => String::new(),
        Err(error) => return Err(error),
    };
    let table = Arc::new(Table::parse(&text, now));
    *known.borrow_mut() = Some(Arc::clone(&table));
    cx.memo.names.asked.borrow_mut().clear();
    Ok(table)
}

impl Table {
    /// The first line of a name or number counts.
    fn parse(text: &str, seen: Seen) -> Self {
        let mut table = Self {
            seen,
            ..Self::default()
        };
        for (at, line) in text.lines().enumerate() {
            let mut fields = line.split(':');
            if let Some(name) = fields.next() {
                table.by_name.entry(name.to_owned()).or_insert(at);
            }
            if let Some(number) = fields.nth(1) {
                table.by_number.entry(number.to_owned()).or_insert(at);
            }
            table.lines.push(line.to_owned());
        }
        table
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
