//! What a machine keeps of itself in the state directory: who it wants to be, and later who it is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use muster_secret::Keeper;
use muster_system::StateDir;
use muster_wire::enrol::Welcome;
use muster_wire::identity::{Identity, Name};
use muster_wire::limits;
use muster_wire::token::claims::{Claims, User};
use muster_wire::token::decode::decode;
use muster_wire::token::life::TokenLife;
use muster_wire::token::{Creds, KeyKind, KeyPair};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::NewcomerError;
use crate::assemble::RENEWED_TOKEN;
use crate::clock::Clock;

/// Who it wants to be, with its key. Secret.
const WISH: &str = "newcomer.json";
/// Its credentials, once it has some. Secret. What is written last.
const CREDENTIALS: &str = "node.creds";
/// What it was told when it was enrolled.
const ENROLLED: &str = "enrolled.json";
/// The fleet's account token.
const ACCOUNT: &str = "account.jwt";
/// The mark of a node that is still provisioned. Whoever has provisioned it takes it away.
const PROVISIONING: &str = "provisioning";
/// The mark of a node that is not provisioned any more.
const DISABLED: &str = "provision.disabled";

/// Largest file of these, in bytes.
const FILE_BYTES: u64 = 1024 * 1024;

/// The state directory, as far as it tells who this machine is.
#[derive(Debug, Clone)]
pub struct Home {
    directory: PathBuf,
}

/// Who a machine wants to be.
pub(super) struct Wish {
    pub(super) identity: Identity,
    pub(super) key: KeyPair,
}

#[derive(Deserialize)]
struct WishRead {
    identity: Identity,
    seed: String,
}

#[derive(Serialize)]
struct WishWritten<'a> {
    identity: &'a Identity,
    seed: &'a str,
}

/// What a node was told when it was enrolled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enrolled {
    /// Its name.
    pub identity: Identity,
    /// Its collectives, unless its configuration says others.
    pub collectives: Vec<Name>,
    /// Where the fleet's broker is; where the configuration says, when empty.
    #[serde(default)]
    pub urls: Vec<String>,
    /// Facts that it has by its bootstrap token.
    #[serde(default)]
    pub facts: BTreeMap<String, String>,
}

impl Home {
    /// The home in this directory, which is made if need be.
    pub(super) fn open(state: &Path) -> Result<Self, NewcomerError> {
        StateDir::open(state)?;
        Ok(Self::at(state))
    }

    /// The home in this directory, whether it is there or not.
    pub fn at(state: &Path) -> Self {
        Self {
            directory: state.to_owned(),
        }
    }

    /// Its credentials, whether there are some or not.
    pub fn credentials(&self) -> PathBuf {
        self.directory.join(CREDENTIALS)
    }

    /// The fleet's account token.
    pub fn account(&self) -> PathBuf {
        self.directory.join(ACCOUNT)
    }

    /// Whether it was enrolled, and the credentials that it got are still good as far as their time goes. Others are not judged here.
    pub fn has_credentials(&self) -> bool {
        let path = self.credentials();
        let Ok(text) = muster_secret::read(&path, Keeper::Daemon, Creds::FILE_BYTES) else {
            return path.exists();
        };
        !Creds::parse(&text).is_ok_and(|creds| self.is_over(&creds))
    }

    /// Whether the credentials' token is over, and so is the renewed one, if there is one.
    fn is_over(&self, creds: &Creds) -> bool {
        let now = Clock::system().now();
        let is_over = |claims: &Claims<User>| {
            TokenLife::of_claims(claims).is_some_and(|life| life.is_over(now))
        };
        let read = |state: StateDir| state.read(RENEWED_TOKEN, FILE_BYTES).ok()?;
        let renewed = self.state().ok().and_then(read).unwrap_or_default();
        let renewed = String::from_utf8_lossy(&renewed);
        let has_renewed = decode::<User>(renewed.trim()).is_ok_and(|token| {
            let claims = token.unverified();
            claims.sub == creds.key().public() && !is_over(claims)
        });
        is_over(creds.claims()) && !has_renewed
    }

    /// Whether somebody is still to do something with it before it offers everything.
    pub fn is_provisioning(&self) -> bool {
        self.directory.join(PROVISIONING).exists() && !self.directory.join(DISABLED).exists()
    }

    /// What it was told.
    pub fn enrolled(&self) -> Result<Enrolled, NewcomerError> {
        let path = self.directory.join(ENROLLED);
        let bytes = self.state()?.read(ENROLLED, FILE_BYTES)?;
        serde_json::from_slice(&bytes.unwrap_or_default()).map_err(damaged(&path))
    }

    /// Who it wanted to be before; else this, with a new key. Either is on the disk when this returns. A name that the configuration
    /// gives takes the place of one that was found out.
    pub(super) fn wish(
        &self,
        configured: Option<&Identity>,
        found: &Identity,
    ) -> Result<Wish, NewcomerError> {
        let path = self.directory.join(WISH);
        let text = match muster_secret::read(&path, Keeper::Daemon, FILE_BYTES) {
            Ok(text) => text,
            Err(error) if error.is_missing() => {
                let wish = Wish {
                    identity: configured.unwrap_or(found).clone(),
                    key: KeyPair::generate(KeyKind::User)?,
                };
                self.keep(&wish)?;
                return Ok(wish);
            }
            Err(error) => return Err(error.into()),
        };
        let read: WishRead = serde_json::from_str(&text).map_err(damaged(&path))?;
        let seed = Zeroizing::new(read.seed);
        let key = KeyPair::from_seed(&seed).map_err(damaged(&path))?;
        let wish = Wish {
            identity: configured.unwrap_or(&read.identity).clone(),
            key,
        };
        if wish.identity != read.identity {
            self.keep(&wish)?;
        }
        Ok(wish)
    }

    fn keep(&self, wish: &Wish) -> Result<(), NewcomerError> {
        let seed = wish.key.seed();
        let written = WishWritten {
            identity: &wish.identity,
            seed: &seed,
        };
        let path = self.directory.join(WISH);
        let bytes = Zeroizing::new(serde_json::to_vec(&written).map_err(damaged(&path))?);
        Ok(self.state()?.replace(WISH, &bytes)?)
    }

    /// Makes the machine the node that it was welcomed as. The credentials come last: without them it asks again, and is told the
    /// same.
    pub(super) fn settle(&self, wish: &Wish, welcome: &Welcome) -> Result<(), NewcomerError> {
        let state = self.state()?;
        let told = Enrolled {
            identity: welcome.identity.clone(),
            collectives: welcome.collectives.clone(),
            urls: welcome.urls.clone(),
            facts: welcome.facts.clone(),
        };
        let path = self.credentials();
        let told = serde_json::to_vec_pretty(&told).map_err(damaged(&path))?;
        let creds = Creds::new(&welcome.token, wish.key.clone()).map_err(|source| {
            NewcomerError::Creds {
                path: path.clone(),
                source,
            }
        })?;
        state.replace(ACCOUNT, welcome.account.as_bytes())?;
        state.replace(ENROLLED, &told)?;
        if welcome.provisioning && !state.contains(DISABLED) {
            state.replace(PROVISIONING, b"")?;
        }
        Ok(state.replace(CREDENTIALS, creds.format().as_bytes())?)
    }

    fn state(&self) -> Result<StateDir, NewcomerError> {
        Ok(StateDir::open(&self.directory)?)
    }
}

/// Reads a file that is no secret, such as an account's token.
pub(super) fn read(what: &'static str, path: &Path) -> Result<String, NewcomerError> {
    let failed = |source| NewcomerError::Read {
        what,
        path: path.to_owned(),
        source,
    };
    let size = std::fs::metadata(path).map_err(failed)?.len();
    if size > limits::TOKEN_BYTES as u64 {
        return Err(failed(std::io::ErrorKind::FileTooLarge.into()));
    }
    std::fs::read_to_string(path).map_err(failed)
}

fn damaged<E: std::error::Error + Send + Sync + 'static>(
    path: &Path,
) -> impl Fn(E) -> NewcomerError {
    move |source| NewcomerError::Damaged {
        path: path.to_owned(),
        source: Box::new(source),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use muster_wire::enrol::{Welcome, issue};
    use muster_wire::token::{KeyKind, KeyPair};

    use super::{Enrolled, Home};

    fn welcome(home: &Home) -> (super::Wish, Welcome) {
        let wish = home.wish(None, &"web1".parse().unwrap()).unwrap();
        let [account, role] = [1, 2].map(|seed| KeyPair::from_raw(KeyKind::Account, &[seed; 32]));
        let token = issue(
            &wish.identity,
            wish.key.public(),
            account.public(),
            None,
            &role,
            1_800_000_000_000,
        );
        let welcome = Welcome {
            identity: wish.identity.clone(),
            token: token.unwrap(),
            account: "an account's token".to_owned(),
            collectives: vec!["muster".parse().unwrap()],
            urls: Vec::new(),
            facts: [("role".to_owned(), "web".to_owned())].into(),
            provisioning: true,
        };
        (wish, welcome)
    }

    #[test]
    fn name_and_key_come_back_and_the_configuration_may_rename() {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::open(&scratch.path().join("state")).unwrap();
        let first = home.wish(None, &"web1".parse().unwrap()).unwrap();
        let again = home.wish(None, &"web2".parse().unwrap()).unwrap();
        assert_eq!(again.identity.as_str(), "web1");
        assert_eq!(again.key.public(), first.key.public());
        let named = "db1".parse().unwrap();
        let renamed = home.wish(Some(&named), &"web2".parse().unwrap()).unwrap();
        assert_eq!(renamed.identity, named);
        assert_eq!(renamed.key.public(), first.key.public());
        let kept = home.wish(None, &"web2".parse().unwrap()).unwrap();
        assert_eq!(kept.identity, named);
        let path = scratch.path().join("state/newcomer.json");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(&path, "{").unwrap();
        let damaged = home.wish(None, &named).err().unwrap().to_string();
        assert!(damaged.contains("newcomer.json is damaged"), "{damaged}");
    }

    #[test]
    fn a_welcome_makes_credentials_and_a_mark_that_others_take_away() {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::open(scratch.path()).unwrap();
        assert!(!home.has_credentials() && !home.is_provisioning());
        let (wish, welcome) = welcome(&home);
        home.settle(&wish, &welcome).unwrap();
        assert!(home.has_credentials() && home.is_provisioning());
        let Enrolled {
            identity, facts, ..
        } = home.enrolled().unwrap();
        assert_eq!(identity, wish.identity);
        assert_eq!(facts["role"], "web");
        std::fs::remove_file(scratch.path().join("provisioning")).unwrap();
        assert!(!home.is_provisioning());

        // Who was provisioned before stays so, though its credentials were lost.
        std::fs::write(scratch.path().join("provision.disabled"), "").unwrap();
        home.settle(&wish, &welcome).unwrap();
        assert!(!home.is_provisioning());
        std::fs::remove_file(scratch.path().join("provision.disabled")).unwrap();
        assert!(!home.is_provisioning());
    }
}
