//! Issues credentials. They are recorded before they are written: nobody has a key that cannot be found and revoked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_wire::Millis;
use muster_wire::identity::Identity;
use muster_wire::token::claims::User;
use muster_wire::token::encode::{self, Validity};
use muster_wire::token::{Creds, KeyKind, KeyPair, PublicKey, scope};

use super::{Key, Kind, Lock, Organisation, OrganisationError, Realm, Record, State, ledger};
use crate::files;

/// How long credentials for one purpose are valid.
const PASSING: Duration = Duration::from_mins(1);
/// The name of the administrator in the broker's connection list.
const ADMINISTRATOR: &str = "administrator";

/// What is wanted.
#[derive(Debug, Clone)]
pub struct Order {
    /// For what kind of party.
    pub kind: Kind,
    /// Its name.
    pub name: Identity,
    /// What it may do, as its token says it: what a user may ask, which machines a bootstrap token lets in.
    pub tags: Vec<String>,
    /// How long the credentials are valid; nothing for ever.
    pub expires: Option<Duration>,
    /// Whether it may have valid credentials already.
    pub renew: bool,
    /// Where to write them; nothing for the organisation's own place.
    pub out: Option<PathBuf>,
}

/// What was issued.
#[derive(Debug)]
pub struct Issued {
    /// The record of it.
    pub record: Record,
    /// The credentials.
    pub creds: Creds,
    /// Where they are.
    pub path: PathBuf,
}

/// Credentials that are signed, and neither recorded nor written yet.
#[derive(Debug)]
pub struct Unrecorded {
    record: Record,
    creds: Creds,
    path: PathBuf,
}

impl Unrecorded {
    /// The record that will be written.
    pub fn record(&self) -> &Record {
        &self.record
    }
}

impl Organisation {
    /// Everybody who was ever given credentials.
    pub fn records(&self) -> Result<Vec<Record>, OrganisationError> {
        ledger::read(&self.layout().ledger())
    }

    /// The newest record of each key: every renewal of a node's token has a record of its own.
    pub fn newest_records(&self) -> Result<Vec<Record>, OrganisationError> {
        let mut newest: BTreeMap<PublicKey, Record> = BTreeMap::new();
        for record in self.records()? {
            newest.insert(record.key, record);
        }
        Ok(newest.into_values().collect())
    }

    /// Makes credentials, records them, and writes them where only their owner can read them.
    pub fn issue(
        &self,
        lock: &Lock,
        order: &Order,
        now: Millis,
    ) -> Result<Issued, OrganisationError> {
        self.record(lock, self.prepare(lock, order, now)?)
    }

    /// Makes credentials, and leaves it to [`Self::record`] to record and write them.
    pub fn prepare(
        &self,
        _lock: &Lock,
        order: &Order,
        now: Millis,
    ) -> Result<Unrecorded, OrganisationError> {
        self.refuse_duplicate(order, now)?;
        let path = order
            .out
            .clone()
            .unwrap_or_else(|| self.layout().party(order.kind, &order.name));
        let (creds, record) = self.sign(order, now)?;
        Ok(Unrecorded {
            record,
            creds,
            path,
        })
    }

    /// Records what was prepared, and writes the credentials.
    pub fn record(&self, _lock: &Lock, prepared: Unrecorded) -> Result<Issued, OrganisationError> {
        let Unrecorded {
            record,
            creds,
            path,
        } = prepared;
        ledger::append(&self.layout().ledger(), &record)?;
        write(&path, &creds)?;
        Ok(Issued {
            record,
            creds,
            path,
        })
    }

    /// Adds the records of nodes that an enroller let in. One whose key is recorded already is left out.
    pub fn record_enrolled(
        &self,
        _lock: &Lock,
        records: impl Iterator<Item = Record>,
    ) -> Result<(), OrganisationError> {
        let known: BTreeSet<PublicKey> = self.records()?.iter().map(|known| known.key).collect();
        for record in records.filter(|record| !known.contains(&record.key)) {
            ledger::append(&self.layout().ledger(), &record)?;
        }
        Ok(())
    }

    /// Credentials that exist for one purpose, for a minute, and in memory only.
    pub fn passing(
        &self,
        kind: Kind,
        name: &Identity,
        now: Millis,
    ) -> Result<Creds, OrganisationError> {
        let order = Order {
            kind,
            name: name.clone(),
            tags: Vec::new(),
            expires: Some(PASSING),
            renew: false,
            out: None,
        };
        Ok(self.sign(&order, now)?.0)
    }

    /// Credentials of the fleet's administrator, for a minute, and in memory only: they are signed with the account's own key, so that the
    /// broker takes their permissions from their token, and no node or caller believes them.
    pub fn administrator(&self, now: Millis) -> Result<Creds, OrganisationError> {
        let account = self.key(Key::Account)?;
        let pair = KeyPair::generate(KeyKind::User).map_err(OrganisationError::NewKey)?;
        let user = User::administrator(scope::administrator(&pair.public().to_string()));
        let issued_at = now / 1000;
        let validity = Validity {
            issued_at,
            expires: Some(issued_at.saturating_add(PASSING.as_secs())),
        };
        let name = Identity::parse(ADMINISTRATOR)
            .map_err(|error| OrganisationError::Name(error.to_string()))?;
        let token = encode::user(&name, pair.public(), user, validity, &account)?;
        let path = self.layout().key(Key::Account);
        Creds::new(&token, pair).map_err(|source| OrganisationError::Creds { path, source })
    }

    fn sign(&self, order: &Order, now: Millis) -> Result<(Creds, Record), OrganisationError> {
        let issued_at = now / 1000;
        let expires = order
            .expires
            .map(|time| issued_at.saturating_add(time.as_secs()));
        let role = self.key(match order.kind {
            Kind::User => Key::Caller,
            Kind::Node => Key::Node,
            Kind::Service => Key::Service,
            Kind::Newcomer => Key::Newcomer,
            Kind::Enroller => Key::Enroller,
        })?;
        let account = match order.kind.realm() {
            Realm::Fleet => self.profile().account,
            Realm::Newcomers => {
                (self.profile().newcomers_account).ok_or(OrganisationError::NoNewcomers)?
            }
        };
        let pair = KeyPair::generate(KeyKind::User).map_err(OrganisationError::NewKey)?;
        let key = pair.public();
        let user = User::new(account, order.tags.clone());
        let token = encode::user(
            &order.name,
            key,
            user,
            Validity { issued_at, expires },
            &role,
        )?;
        let path = self.layout().party(order.kind, &order.name);
        let creds =
            Creds::new(&token, pair).map_err(|source| OrganisationError::Creds { path, source })?;
        let (kind, name) = (order.kind, order.name.clone());
        Ok((
            creds,
            Record {
                kind,
                name,
                key,
                issued_at,
                expires,
                token,
            },
        ))
    }

    /// One name is one party: policies go by the name. In one account a name that a party of another kind has is refused unless all
    /// credentials of that party were revoked; expired ones may be renewed. The same kind needs `renew` while it has valid credentials.
    fn refuse_duplicate(&self, order: &Order, now: Millis) -> Result<(), OrganisationError> {
        let trusts = self.trusts()?;
        let mut records = self.records()?;
        records.retain(|record| {
            record.name == order.name && record.kind.realm() == order.kind.realm()
        });
        let state = |record: &Record| trusts.state(record, now / 1000);
        for record in records {
            let (name, key) = (record.name.to_string(), record.key);
            if record.kind != order.kind && state(&record) != State::Revoked {
                return Err(OrganisationError::NameOfOther {
                    name,
                    kind: record.kind,
                    key,
                    wanted: order.kind,
                });
            }
            if record.kind == order.kind && !order.renew && state(&record) == State::Valid {
                let kind = record.kind;
                return Err(OrganisationError::Duplicate { kind, name, key });
            }
        }
        Ok(())
    }
}

/// Writes credentials to a file, in place of older ones.
pub fn write(path: &Path, creds: &Creds) -> Result<(), OrganisationError> {
    if let Some(directory) = path
        .parent()
        .filter(|directory| !directory.as_os_str().is_empty())
    {
        files::private_directory(directory)?;
    }
    Ok(files::replace_secret(path, creds.format().as_bytes())?)
}
