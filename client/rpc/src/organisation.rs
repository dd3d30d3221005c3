//! An organisation on disk: its keys, its account, its parties, and the broker's certificate.
//!
//! ```text
//! operator key --signs--> account token --names--> signing key of a role --signs--> a party's token
//! ```
//!
//! Whoever has the directory is the organisation. Nothing here talks to a broker except [`push`], and nothing prints.

pub mod account;
pub mod authority;
pub mod bundle;
mod create;
mod error;
mod issue;
mod layout;
pub mod ledger;
pub mod lifetime;
pub mod names;
mod newcomers;
mod profile;
mod prune;
pub mod push;
mod renewal;
#[cfg(test)]
mod testing;

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use muster_wire::token::{KeyKind, KeyPair, Trust};

use crate::files;

pub use create::{Plan, create};
pub use error::OrganisationError;
pub use issue::{Issued, Order};
pub use layout::{Key, Layout};
pub use ledger::{Kind, Realm, Record, State};
pub use newcomers::Trusts;
pub use profile::Profile;

/// Largest file of ours that is read.
const FILE_BYTES: u64 = 16 * 1024 * 1024;

/// An organisation that was opened.
#[derive(Debug)]
pub struct Organisation {
    layout: Layout,
    profile: Profile,
}

/// The right to change an organisation, until it is dropped.
#[derive(Debug)]
pub struct Lock(
    #[expect(dead_code, reason = "held, not read: closing the file ends the lock")] File,
);

impl Organisation {
    /// Opens the one that is meant: the given directory, or the environment's, or else the current one.
    pub fn find(
        given: Option<&Path>,
        environment: Option<&Path>,
    ) -> Result<Self, OrganisationError> {
        match given.or(environment) {
            Some(directory) => Self::open(directory),
            None if Layout::new(PathBuf::from(".")).profile().is_file() => {
                Self::open(Path::new("."))
            }
            None => Err(OrganisationError::Nowhere),
        }
    }

    /// Opens the organisation in this directory.
    pub fn open(directory: &Path) -> Result<Self, OrganisationError> {
        let absolute = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        let layout = Layout::new(absolute);
        if !layout.profile().is_file() {
            return Err(OrganisationError::None {
                directory: layout.directory().to_owned(),
            });
        }
        let text = files::read(&layout.profile(), FILE_BYTES)?;
        let profile = Profile::parse(&text).map_err(|source| OrganisationError::Profile {
            path: layout.profile(),
            source: Box::new(source),
        })?;
        Ok(Self { layout, profile })
    }

    /// Waits until nobody else changes the organisation.
    ///
    /// The locked file may have been replaced meanwhile; then others lock the one that has its place, and so do we.
    pub fn lock(&self) -> Result<Lock, OrganisationError> {
        let path = self.layout.profile();
        let failed = files::failed("lock", &path);
        loop {
            let file = File::open(&path).map_err(&failed)?;
            file.lock().map_err(&failed)?;
            let (held, there) = (file.metadata(), std::fs::metadata(&path));
            let number = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
            if held.map(number).map_err(&failed)? == there.map(number).map_err(&failed)? {
                return Ok(Lock(file));
            }
        }
    }

    /// Where its files are.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Its public description.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Says where the broker is reached from now on.
    pub fn set_urls(&mut self, urls: Vec<String>) -> Result<(), OrganisationError> {
        self.profile.broker.urls = urls;
        files::replace(&self.layout.profile(), self.profile.text()?.as_bytes())?;
        Ok(())
    }

    /// The fleet's account token that is in force, verified.
    pub fn trust(&self) -> Result<Trust, OrganisationError> {
        self.trust_of(Realm::Fleet)
    }

    /// The token of an account that is in force, verified.
    pub fn trust_of(&self, realm: Realm) -> Result<Trust, OrganisationError> {
        if realm == Realm::Newcomers && self.profile.newcomers_account.is_none() {
            return Err(OrganisationError::NoNewcomers);
        }
        let path = self.layout.token(realm);
        let token = files::read(&path, FILE_BYTES)?;
        Trust::new(self.profile.operator, token.trim())
            .map_err(|source| OrganisationError::Token { path, source })
    }

    /// One of its secret keys.
    pub fn key(&self, key: Key) -> Result<KeyPair, OrganisationError> {
        let path = self.layout.key(key);
        let seed = files::read_secret(&path, FILE_BYTES)?;
        let unusable = |source| OrganisationError::Key {
            path: path.clone(),
            source,
        };
        let pair = KeyPair::from_seed(seed.trim()).map_err(unusable)?;
        let kind = if key == Key::Operator {
            KeyKind::Operator
        } else {
            KeyKind::Account
        };
        pair.public().expect_kind(kind).map_err(unusable)?;
        Ok(pair)
    }
}
