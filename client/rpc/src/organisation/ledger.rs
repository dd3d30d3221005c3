//! The list of all credentials that were ever issued: one JSON object a line, only ever added to, nothing secret.
//!
//! Whether a key is revoked is not written here: the account's token says it, and broker and nodes go by that.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use clap::ValueEnum;
use muster_wire::identity::Identity;
use muster_wire::token::claims::Account;
use muster_wire::token::life::TokenLife;
use muster_wire::token::{PublicKey, Seconds};
use serde::{Deserialize, Serialize};

use super::OrganisationError;
use crate::files::{self, FileError};

/// Largest list that is read, in bytes: some 250,000 records.
const LEDGER_BYTES: u64 = 256 * 1024 * 1024;

/// Kinds of parties, as operators call them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Asks
    User,
    /// Answers
    Node,
    /// Asks and answers
    Service,
    /// Brings in new machines: a bootstrap credential
    Newcomer,
    /// Lets new machines in, and gives them their identity
    Enroller,
}

/// The accounts whose parties are issued here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Realm {
    /// Those who ask and answer.
    Fleet,
    /// Those who are nobody yet, and who lets them in.
    Newcomers,
}

impl Kind {
    /// The account that such parties belong to.
    pub fn realm(self) -> Realm {
        match self {
            Self::User | Self::Node | Self::Service => Realm::Fleet,
            Self::Newcomer | Self::Enroller => Realm::Newcomers,
        }
    }

    /// The word for several.
    pub fn plural(self) -> &'static str {
        match self {
            Self::User => "users",
            Self::Node => "nodes",
            Self::Service => "services",
            Self::Newcomer => "newcomers",
            Self::Enroller => "enrollers",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::User => "user",
            Self::Node => "node",
            Self::Service => "service",
            Self::Newcomer => "newcomer",
            Self::Enroller => "enroller",
        })
    }
}

/// One issue of credentials.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// What kind of party.
    pub kind: Kind,
    /// Its name.
    pub name: Identity,
    /// Its key.
    pub key: PublicKey,
    /// When.
    pub issued_at: Seconds,
    /// Until when; nothing for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Seconds>,
    /// The token itself, which says what the party may do; empty for a node that an enroller let in and that was revoked here.
    pub token: String,
}

/// Whether credentials are good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// They are.
    Valid,
    /// Their time is over.
    Expired,
    /// They were voided.
    Revoked,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Valid => "valid",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        })
    }
}

impl Record {
    /// The life of a node's token, if it ends. Tokens of others are not renewed.
    pub fn life(&self) -> Option<TokenLife> {
        let expires = self.expires.filter(|_| self.kind == Kind::Node)?;
        Some(TokenLife {
            expires,
            lifetime: expires.saturating_sub(self.issued_at),
        })
    }

    /// When the account voided this key, if it did: the instant up to which tokens are void.
    pub fn revoked_at(&self, account: &Account) -> Option<Seconds> {
        let of = |key: &str| account.revocations.get(key).copied();
        of(&self.key.to_string())
            .max(of("*"))
            .filter(|until| self.issued_at <= *until)
    }

    /// Whether these credentials are good at this instant.
    pub fn state(&self, account: &Account, now: Seconds) -> State {
        match (self.revoked_at(account), self.expires) {
            (Some(_), _) => State::Revoked,
            (None, Some(until)) if until <= now => State::Expired,
            _ => State::Valid,
        }
    }
}

/// Reads the list. No file is an empty one.
pub fn read(path: &Path) -> Result<Vec<Record>, OrganisationError> {
    let text = match files::read(path, LEDGER_BYTES) {
        Err(FileError::System { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Vec::new());
        }
        text => text?,
    };
    parse(&text).map_err(|(line, source)| OrganisationError::Ledger {
        path: path.to_owned(),
        line,
        source,
    })
}

/// Adds one record.
pub fn append(path: &Path, record: &Record) -> Result<(), OrganisationError> {
    let mut line = serde_json::to_vec(record).map_err(|error| OrganisationError::Format {
        what: "the record",
        source: error.into(),
    })?;
    line.push(b'\n');
    Ok(files::append(path, &line)?)
}

fn parse(text: &str) -> Result<Vec<Record>, (usize, serde_json::Error)> {
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(index, line)| serde_json::from_str(line).map_err(|error| (index + 1, error)))
        .collect()
}

/// Finds the records of a party by a name, of one kind of party, or by a key.
#[derive(Debug)]
pub struct Finder<'a> {
    by_name: HashMap<&'a str, Vec<&'a Record>>,
    by_key: HashMap<String, Vec<&'a Record>>,
}

impl<'a> Finder<'a> {
    /// Finds in these records.
    pub fn new(records: &'a [Record]) -> Self {
        let mut by_name: HashMap<&str, Vec<&Record>> = HashMap::new();
        let mut by_key: HashMap<String, Vec<&Record>> = HashMap::new();
        for record in records {
            by_name
                .entry(record.name.as_str())
                .or_default()
                .push(record);
            by_key
                .entry(record.key.to_string())
                .or_default()
                .push(record);
        }
        Self { by_name, by_key }
    }

    /// The records of this name or key, all of one kind of party.
    pub fn find(
        &self,
        party: &str,
        kind: Option<Kind>,
    ) -> Result<Vec<&'a Record>, OrganisationError> {
        let name = Identity::parse(party).ok();
        let named = name.and_then(|name| self.by_name.get(name.as_str()));
        let keyed = self.by_key.get(party);
        let meant = named.into_iter().chain(keyed).flatten().copied();
        let found: Vec<&Record> = meant
            .filter(|record| kind.is_none_or(|kind| kind == record.kind))
            .collect();
        let mut kinds: Vec<Kind> = found.iter().map(|record| record.kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        match kinds.len() {
            0 => Err(OrganisationError::Unknown(party.to_owned())),
            1 => Ok(found),
            _ => Err(OrganisationError::Ambiguous {
                name: party.to_owned(),
                kinds,
            }),
        }
    }
}

/// The records of one party, as [`Finder::find`] finds them.
pub fn find<'a>(
    records: &'a [Record],
    party: &str,
    kind: Option<Kind>,
) -> Result<Vec<&'a Record>, OrganisationError> {
    Finder::new(records).find(party, kind)
}

#[cfg(test)]
mod tests {
    use muster_wire::token::claims::{Account, Limits};
    use muster_wire::token::{KeyKind, KeyPair};

    use super::{Kind, OrganisationError, Record, State, find, parse};

    fn record(kind: Kind, name: &str, key: u8, expires: Option<u64>) -> Record {
        Record {
            kind,
            name: name.parse().unwrap(),
            key: KeyPair::from_raw(KeyKind::User, &[key; 32]).public(),
            issued_at: 100,
            expires,
            token: "a.b.c".to_owned(),
        }
    }

    #[test]
    fn the_account_says_who_is_revoked_and_the_clock_who_is_expired() {
        let mut account = Account::new(Limits::default(), Vec::new());
        let (one, other) = (
            record(Kind::User, "rip", 1, None),
            record(Kind::User, "rip", 2, Some(200)),
        );
        account.revoke(&one.key, 99);
        assert_eq!(
            one.state(&account, 1000),
            State::Valid,
            "revoked before it was issued"
        );
        account.revoke(&one.key, 100);
        assert_eq!(one.state(&account, 1000), State::Revoked);
        assert_eq!(one.revoked_at(&account), Some(100));
        assert_eq!(other.state(&account, 199), State::Valid);
        assert_eq!(other.state(&account, 200), State::Expired);
        account.revocations.insert("*".to_owned(), 150);
        assert_eq!(other.state(&account, 199), State::Revoked);
    }

    #[test]
    fn parties_are_found_by_name_kind_or_key() {
        let records = [
            record(Kind::User, "a", 1, None),
            record(Kind::Node, "a", 2, None),
            record(Kind::User, "a", 3, None),
        ];
        assert!(matches!(
            find(&records, "b", None),
            Err(OrganisationError::Unknown(_))
        ));
        let Err(OrganisationError::Ambiguous { kinds, .. }) = find(&records, "a", None) else {
            panic!("two kinds have the name");
        };
        assert_eq!(kinds, [Kind::User, Kind::Node]);
        assert_eq!(find(&records, "A", Some(Kind::User)).unwrap().len(), 2);
        let key = records[2].key.to_string();
        assert_eq!(find(&records, &key, None).unwrap()[0].key, records[2].key);
    }

    #[test]
    fn a_damaged_line_is_named() {
        let good = serde_json::to_string(&record(Kind::Node, "a", 1, None)).unwrap();
        assert_eq!(parse(&format!("{good}\n\n{good}\n")).unwrap().len(), 2);
        assert_eq!(parse(&format!("{good}\n{{}}\n")).unwrap_err().0, 2);
    }
}
