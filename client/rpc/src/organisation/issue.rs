//! Issues credentials. They are recorded before they are written: nobody has a key that cannot be found and revoked.

use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_wire::Millis;
use muster_wire::identity::Identity;
use muster_wire::token::claims::User;
use muster_wire::token::encode::{self, Validity};
use muster_wire::token::{Creds, KeyKind, KeyPair};

use super::{Key, Kind, Lock, Organisation, OrganisationError, Realm, Record, State, ledger};
use crate::files;

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

impl Organisation {
    /// Everybody who was ever given credentials.
    pub fn records(&self) -> Result<Vec<Record>, OrganisationError> {
        ledger::read(&self.layout().ledger())
    }

    /// Makes credentials, records them, and writes them where only their owner can read them.
    pub fn issue(
        &self,
        _lock: &Lock,
        order: &Order,
        now: Millis,
    ) -> Result<Issued, OrganisationError> {
        if !order.renew {
            self.refuse_duplicate(order, now)?;
        }
        let path = order
            .out
            .clone()
            .unwrap_or_else(|| self.layout().party(order.kind, &order.name));
        let (creds, record) = self.sign(order, now)?;
        ledger::append(&self.layout().ledger(), &record)?;
        write(&path, &creds)?;
        Ok(Issued {
            record,
            creds,
            path,
        })
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
            expires: Some(Duration::from_mins(1)),
            renew: false,
            out: None,
        };
        Ok(self.sign(&order, now)?.0)
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

    fn refuse_duplicate(&self, order: &Order, now: Millis) -> Result<(), OrganisationError> {
        let trusts = self.trusts()?;
        let same = |record: &Record| {
            record.kind == order.kind
                && record.name == order.name
                && trusts.state(record, now / 1000) == State::Valid
        };
        match self.records()?.into_iter().find(same) {
            None => Ok(()),
            Some(Record {
                kind, name, key, ..
            }) => Err(OrganisationError::Duplicate {
                kind,
                name: name.to_string(),
                key,
            }),
        }
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
