//! Data model of users and groups: current state, creation parameters, and single changes.
//!
//! Passwords are stored in crypted form only and omitted from `Debug`.

use std::fmt;

/// A crypted password, or a lock such as `!`.
#[derive(Clone, PartialEq, Eq)]
pub struct CryptedPassword(String);

impl CryptedPassword {
    pub fn new(crypted: impl Into<String>) -> Self {
        Self(crypted.into())
    }

    /// The plain value, for the shadow file and authorized queries.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for CryptedPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// An existing user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserAccount {
    pub name: String,
    pub uid: u32,
    /// Gid of the primary group.
    pub gid: u32,
    /// GECOS field.
    pub comment: String,
    /// Home directory; need not exist.
    pub home: String,
    pub shell: String,
    /// Supplementary groups, sorted.
    pub groups: Vec<String>,
    /// Password and ageing, if readable.
    pub shadow: Option<ShadowEntry>,
}

/// A line of shadow, `shadow(5)`. Days are counted from 1 January 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShadowEntry {
    pub password: CryptedPassword,
    /// Minimum days between password changes; -1 for no limit.
    pub min_age: i64,
    /// Maximum days between password changes; -1 for no limit.
    pub max_age: i64,
    /// Days of warning before expiry; -1 for none.
    pub warn_days: i64,
    /// Day on which the account expires.
    pub expiry: Option<i64>,
}

/// `None` selects the machine's default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewUser {
    pub name: String,
    pub uid: Option<u32>,
    /// Primary group by name or number.
    pub gid: Option<String>,
    /// Supplementary groups.
    pub groups: Vec<String>,
    /// GECOS field.
    pub comment: Option<String>,
    pub home: Option<String>,
    pub shell: Option<String>,
    /// Crypted password; the account is locked if `None`.
    pub password: Option<CryptedPassword>,
    /// See [`ShadowEntry::min_age`].
    pub min_age: Option<i64>,
    /// See [`ShadowEntry::max_age`].
    pub max_age: Option<i64>,
    /// See [`ShadowEntry::warn_days`].
    pub warn_days: Option<i64>,
    /// Day of expiry, `YYYY-MM-DD`.
    pub expiry: Option<String>,
    /// Whether to create the home directory.
    pub managehome: bool,
    /// Whether to allocate the uid from the system range.
    pub system: bool,
    /// Whether a uid that is already in use is allowed.
    pub allowdupe: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserChange {
    Password(CryptedPassword),
    /// Any other property.
    Property {
        /// The property of the type `user`.
        name: String,
        /// The new value as text: numbers in decimal, groups separated by commas, an empty expiry for never.
        value: String,
        /// Whether a uid that is already in use is allowed.
        allowdupe: bool,
    },
}

/// An existing group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupAccount {
    pub name: String,
    pub gid: u32,
    /// Members by name, sorted.
    pub members: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewGroup {
    pub name: String,
    /// Gid; chosen automatically if `None`.
    pub gid: Option<u32>,
    /// Members by name.
    pub members: Vec<String>,
    /// Whether to allocate the gid from the system range.
    pub system: bool,
    /// Whether a gid that is already in use is allowed.
    pub allowdupe: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupChange {
    /// Gid, and whether one that is already in use is allowed.
    Gid(u32, bool),
    /// All members.
    Members(Vec<String>),
}
