//! Looks up names and ids of users and groups: in the machine's own files first, and on the local machine also in the name
//! service. Read-only; changes are made by the types `user` and `group`.
//!
//! A file is read again only when its fingerprint changes, so thousands of lookups cost two reads.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_system::error::found_or_none;
use muster_system::{Command, FileAttributes, System, SystemResult};

use crate::resource_type::{FileFingerprint, ResourceContext, file_fingerprint};

/// Maximum size of a passwd or group file, in bytes.
const MAX_ACCOUNT_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// The fields of a passwd line that are used elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PasswdUser {
    pub name: String,
    pub uid: u32,
    /// Numeric primary group id.
    pub gid: u32,
    pub home: String,
}

/// Cached content of passwd and group.
#[derive(Debug, Default)]
pub(crate) struct AccountNameCache {
    tables: RefCell<HashMap<AccountNameDatabase, Arc<AccountNameTable>>>,
    /// Name service results for entries missing from the files, by file and name or id.
    getent_results: RefCell<HashMap<(AccountNameDatabase, String), String>>,
}

/// Parsed content of one of the two files.
#[derive(Debug, Default)]
struct AccountNameTable {
    /// Fingerprint of the file when it was read.
    fingerprint: FileFingerprint,
    lines: Vec<String>,
    by_name: HashMap<String, usize>,
    by_number: HashMap<String, usize>,
}

/// One of the two databases, by its name in `/etc` and in the name service.
type AccountNameDatabase = &'static str;
const PASSWD: AccountNameDatabase = "passwd";
const GROUP: AccountNameDatabase = "group";

/// The user with that name, or with that uid if no user has that name.
pub fn find_user(cx: &ResourceContext<'_>, user: &str) -> SystemResult<Option<PasswdUser>> {
    Ok(find_line(cx, PASSWD, user)?.as_deref().and_then(parse_user))
}

/// All users in the machine's own file.
pub fn list_users(cx: &ResourceContext<'_>) -> SystemResult<Vec<PasswdUser>> {
    let table = load_table(cx, PASSWD)?;
    Ok(table.lines.iter().filter_map(|line| parse_user(line)).collect())
}

/// [`resolve_uid`] or [`resolve_gid`].
pub type IdLookup = fn(&ResourceContext<'_>, &str) -> SystemResult<Option<u32>>;

/// [`user_name`] or [`group_name`].
pub type NameLookup = fn(&ResourceContext<'_>, u32) -> SystemResult<String>;

/// The uid of a user given by name or uid; a numeric uid needs no entry.
pub fn resolve_uid(cx: &ResourceContext<'_>, user: &str) -> SystemResult<Option<u32>> {
    resolve_id(cx, PASSWD, user)
}

/// The gid of a group given by name or gid; a numeric gid needs no entry.
pub fn resolve_gid(cx: &ResourceContext<'_>, group: &str) -> SystemResult<Option<u32>> {
    resolve_id(cx, GROUP, group)
}

/// The name of a user, or its uid as text if it has none.
pub fn user_name(cx: &ResourceContext<'_>, uid: u32) -> SystemResult<String> {
    name_of_id(cx, PASSWD, uid)
}

/// The name of a group, or its gid as text if it has none.
pub fn group_name(cx: &ResourceContext<'_>, gid: u32) -> SystemResult<String> {
    name_of_id(cx, GROUP, gid)
}

fn resolve_id(
    cx: &ResourceContext<'_>,
    database: AccountNameDatabase,
    account: &str,
) -> SystemResult<Option<u32>> {
    let found = find_line(cx, database, account)?;
    let number = found.as_deref().and_then(|line| line.split(':').nth(2)?.parse().ok());
    Ok(number.or_else(|| account.parse().ok()))
}

fn name_of_id(
    cx: &ResourceContext<'_>,
    database: AccountNameDatabase,
    id: u32,
) -> SystemResult<String> {
    let id = id.to_string();
    let found = find_line(cx, database, &id)?;
    Ok(found.as_deref().and_then(|line| line.split(':').next()).unwrap_or(&id).to_owned())
}

/// The line whose name is `key`, or else the one whose id is.
fn find_line(
    cx: &ResourceContext<'_>,
    database: AccountNameDatabase,
    key: &str,
) -> SystemResult<Option<String>> {
    let table = load_table(cx, database)?;
    let position = table.by_name.get(key).or_else(|| table.by_number.get(key));
    if let Some(line) = position.and_then(|index| table.lines.get(*index)) {
        return Ok(Some(line.clone()));
    }
    if cx.system.root() != Path::new("/") || key.is_empty() || key.starts_with('-') {
        return Ok(None);
    }
    let getent_results = &cx.cache.names.getent_results;
    let cache_key = (database, key.to_owned());
    if let Some(line) = getent_results.borrow().get(&cache_key) {
        return Ok(Some(line.clone()));
    }
    let getent = Command::new(["getent", database, key]);
    match found_or_none(cx.system.run_command(&getent))? {
        Some(output) if output.is_success() => {
            let line = output.combined_text().lines().next().map(str::to_owned);
            // Cache only hits: a missing account may be created during the run.
            let store =
                |line: &String| drop(getent_results.borrow_mut().insert(cache_key, line.clone()));
            Ok(line.inspect(store))
        }
        _ => Ok(None),
    }
}

/// The current content of the file; read again only if it changed.
fn load_table(
    cx: &ResourceContext<'_>,
    database: AccountNameDatabase,
) -> SystemResult<Arc<AccountNameTable>> {
    let tables = &cx.cache.names.tables;
    let path = PathBuf::from("/etc").join(database);
    let fingerprint = file_fingerprint(cx.system, &path)?;
    let cached = tables.borrow().get(database).cloned();
    if let Some(table) = cached.filter(|table| table.fingerprint == fingerprint) {
        return Ok(table);
    }
    let bytes = found_or_none(cx.system.read_file(&path, MAX_ACCOUNT_FILE_BYTES))?;
    let text = String::from_utf8_lossy(bytes.as_deref().unwrap_or_default());
    let table = Arc::new(AccountNameTable::parse(&text, fingerprint));
    tables.borrow_mut().insert(database, Arc::clone(&table));
    cx.cache.names.getent_results.borrow_mut().clear();
    Ok(table)
}

impl AccountNameTable {
    /// The first line of a name or id takes precedence.
    fn parse(text: &str, fingerprint: FileFingerprint) -> Self {
        let mut table = Self { fingerprint, ..Self::default() };
        for (index, line) in text.lines().enumerate() {
            let mut fields = line.split(':');
            if let Some(name) = fields.next() {
                table.by_name.entry(name.to_owned()).or_insert(index);
            }
            if let Some(number) = fields.nth(1) {
                table.by_number.entry(number.to_owned()).or_insert(index);
            }
            table.lines.push(line.to_owned());
        }
        table
    }
}

fn parse_user(line: &str) -> Option<PasswdUser> {
    let mut fields = line.split(':');
    let name = fields.next()?.to_owned();
    let uid = fields.nth(1)?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    let home = fields.nth(1)?.to_owned();
    Some(PasswdUser { name, uid, gid, home })
}

/// Owner and group for a file created for a user, if this process can change ownership. In an unprivileged user's
/// scratch root (its `/` is not owned by root) files of other users are impossible.
pub fn settable_owner(
    system: &dyn System,
    user: Option<&PasswdUser>,
) -> SystemResult<FileAttributes> {
    let is_unprivileged = system.metadata(Path::new("/"))?.is_some_and(|root| root.uid != 0);
    let user = user.filter(|_| !is_unprivileged);
    Ok(FileAttributes {
        mode: None,
        uid: user.map(|user| user.uid),
        gid: user.map(|user| user.gid),
    })
}
