//! Users and groups as values: what is there, what is wanted, and one change.
//!
//! Passwords are only ever the crypted form, and never show in `Debug`.

use std::fmt;

/// A crypted password, or a lock such as `!`.
#[derive(Clone, PartialEq, Eq)]
pub struct CryptedPassword(String);

impl CryptedPassword {
    /// Wraps it.
    pub fn new(crypted: impl Into<String>) -> Self {
        Self(crypted.into())
    }

    /// For the shadow file, and for the one who was allowed to ask.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for CryptedPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// A user as found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserAccount {
    /// Login name.
    pub name: String,
    /// Number.
    pub uid: u32,
    /// Number of the primary group.
    pub gid: u32,
    /// GECOS field.
    pub comment: String,
    /// Home directory; may not exist.
    pub home: String,
    /// Login shell.
    pub shell: String,
    /// Supplementary groups, sorted.
    pub groups: Vec<String>,
    /// Password and ageing, where they may be read.
    pub shadow: Option<ShadowEntry>,
}

/// A line of shadow, `shadow(5)`. Days are counted from 1 January 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShadowEntry {
    /// Crypted password.
    pub password: CryptedPassword,
    /// Days before the password may be changed again; -1 for no rule.
    pub min_age: i64,
    /// Days after which it must be changed; -1 for no rule.
    pub max_age: i64,
    /// Days of warning; -1 for no rule.
    pub warn_days: i64,
    /// Day on which the account expires.
    pub expiry: Option<i64>,
}

/// A user to create. What is `None` is left to the machine's defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewUser {
    /// Login name.
    pub name: String,
    /// Number.
    pub uid: Option<u32>,
    /// Primary group by name or number.
    pub gid: Option<String>,
    /// Supplementary groups.
    pub groups: Vec<String>,
    /// GECOS field.
    pub comment: Option<String>,
    /// Home directory.
    pub home: Option<String>,
    /// Login shell.
    pub shell: Option<String>,
    /// Crypted password; locked without.
    pub password: Option<CryptedPassword>,
    /// See [`ShadowEntry::min_age`].
    pub min_age: Option<i64>,
    /// See [`ShadowEntry::max_age`].
    pub max_age: Option<i64>,
    /// See [`ShadowEntry::warn_days`].
    pub warn_days: Option<i64>,
    /// Day of expiry, `YYYY-MM-DD`.
    pub expiry: Option<String>,
    /// Whether the home directory is made too.
    pub managehome: bool,
    /// Whether the number comes from the system's range.
    pub system: bool,
    /// Whether the number may be somebody else's too.
    pub allowdupe: bool,
}

/// One change of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserChange {
    /// Number, and whether it may be somebody else's too.
    Uid(u32, bool),
    /// Primary group by name or number.
    Gid(String),
    /// GECOS field.
    Comment(String),
    /// Home directory; nothing is moved.
    Home(String),
    /// Login shell.
    Shell(String),
    /// Crypted password.
    Password(CryptedPassword),
    /// See [`ShadowEntry::min_age`].
    MinAge(i64),
    /// See [`ShadowEntry::max_age`].
    MaxAge(i64),
    /// See [`ShadowEntry::warn_days`].
    WarnDays(i64),
    /// Day of expiry, `YYYY-MM-DD`, or never.
    Expiry(Option<String>),
    /// All supplementary groups.
    Groups(Vec<String>),
}

/// A group as found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupAccount {
    /// Name.
    pub name: String,
    /// Number.
    pub gid: u32,
    /// Members by name, sorted.
    pub members: Vec<String>,
}

/// A group to create.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewGroup {
    /// Name.
    pub name: String,
    /// Number; the machine's choice without.
    pub gid: Option<u32>,
    /// Members by name.
    pub members: Vec<String>,
    /// Whether the number comes from the system's range.
    pub system: bool,
    /// Whether the number may be another group's too.
    pub allowdupe: bool,
}

/// One change of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupChange {
    /// Number, and whether it may be another group's too.
    Gid(u32, bool),
    /// All members.
    Members(Vec<String>),
}
