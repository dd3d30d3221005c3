//! Follows the organisation's brokers. Their addresses and authorities are in the account token, which the operator signs; a node or caller tries them, and keeps them in files if
//! one of the servers answers. Configured addresses stay in use, after them.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use muster_files::{read_limited_text, replace_file};
use muster_wire::token::BrokerRecord;
use serde::{Deserialize, Serialize};

use crate::connect::BrokerAddress;
use crate::error::BusError;
use crate::probe::probe_broker;

const STATE_FILE: &str = "broker.json";
const AUTHORITIES_FILE: &str = "broker-ca.pem";
/// Authorities during a trial.
const TRIAL_FILE: &str = "broker-ca.trial.pem";
const FILE_MODE: u32 = 0o644;
/// Largest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Where to connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerPlace {
    /// Addresses, as in `broker.urls`.
    pub urls: Vec<String>,
    /// PEM file of the authorities; the system's trust store if absent.
    pub authority: Option<PathBuf>,
}

/// New addresses or authorities are not used.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// No server answered at the new addresses.
    #[error("no server answers as the account token says: {0}")]
    NoAnswer(String),
    /// An address is not permitted by the configuration.
    #[error("an address in the account token is not permitted")]
    Address(#[from] BusError),
    /// A file cannot be read or written.
    #[error("cannot access {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
}

/// Follows the brokers for one node or caller.
#[derive(Debug, Clone)]
pub struct BrokerFollower {
    directory: PathBuf,
    configured: BrokerPlace,
    plaintext_on_loopback: bool,
}

/// What was tried with success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FollowedBroker {
    /// The configuration at that time. If it was changed since, it is used alone until the next trial.
    configured_urls: Vec<String>,
    configured_authorities: String,
    site: String,
    urls: Vec<String>,
    authorities: String,
}

impl FollowedBroker {
    /// Whether the configuration says the same.
    fn is_configured(&self) -> bool {
        self.urls.iter().all(|url| self.configured_urls.contains(url))
            && self.authorities.trim() == self.configured_authorities.trim()
    }
}

impl BrokerFollower {
    /// Creates a follower that keeps its files in this directory.
    pub fn new(directory: PathBuf, configured: BrokerPlace, plaintext_on_loopback: bool) -> Self {
        Self { directory, configured, plaintext_on_loopback }
    }

    /// The present place: followed addresses before configured ones. Writes no file.
    pub fn place(&self) -> BrokerPlace {
        match self.followed() {
            Some(followed) => self.place_of(&followed),
            None => self.configured.clone(),
        }
    }

    /// Configured addresses that the account token no longer has. They stay in use after the followed ones.
    pub fn left_urls(&self) -> Vec<String> {
        let followed = self.followed().map_or_else(Vec::new, |followed| followed.urls);
        let is_left = |url: &&String| !followed.is_empty() && !followed.contains(url);
        self.configured.urls.iter().filter(is_left).cloned().collect()
    }

    /// The present place, with the authorities in a file whose content changes with them, so that the next connection uses them.
    pub fn prepare(&self) -> Result<BrokerPlace, FollowError> {
        let followed = self.followed();
        let mut place =
            followed.as_ref().map_or_else(|| self.configured.clone(), |known| self.place_of(known));
        if place.authority.is_some() {
            let text = match followed.filter(|known| !known.authorities.is_empty()) {
                Some(known) => known.authorities,
                None => self.configured_authorities()?,
            };
            place.authority = Some(self.write_file(AUTHORITIES_FILE, &text)?);
        }
        Ok(place)
    }

    /// Tries what the account token says, if it is new, and keeps it if a server answers. Returns the new place; `None` if nothing changes.
    pub async fn follow(&self, record: &BrokerRecord) -> Result<Option<BrokerPlace>, FollowError> {
        let known = self.followed();
        let site = match &known {
            Some(known) => record.site(&known.site),
            None => record.site_of(&self.configured.urls),
        };
        let Some(site) = site else { return Ok(None) };
        let configured_authorities = self.configured_authorities()?;
        // Without a configured authority, the certificate is not of the organisation's own.
        let has_own = !configured_authorities.is_empty();
        let followed = FollowedBroker {
            configured_urls: self.configured.urls.clone(),
            site: site.name.clone(),
            urls: site.urls.clone(),
            authorities: if has_own { record.authorities.clone() } else { String::new() },
            configured_authorities,
        };
        if known.as_ref() == Some(&followed) {
            return Ok(None);
        }
        if !followed.is_configured() {
            self.try_servers(&followed).await?;
        }
        if !followed.authorities.is_empty() {
            self.write_file(AUTHORITIES_FILE, &followed.authorities)?;
        }
        let text = serde_json::to_string(&followed).map_err(|error| FollowError::File {
            path: self.directory.join(STATE_FILE),
            source: error.into(),
        })?;
        self.write_file(STATE_FILE, &text)?;
        Ok(Some(self.place_of(&followed)))
    }

    /// The addresses of a place, if the configuration permits them.
    pub fn addresses(&self, place: &BrokerPlace) -> Result<Vec<BrokerAddress>, FollowError> {
        let parse = |url: &String| BrokerAddress::parse(url, self.plaintext_on_loopback);
        Ok(place.urls.iter().map(parse).collect::<Result<_, _>>()?)
    }

    /// Fails if no server answers with a certificate of the new authorities.
    async fn try_servers(&self, followed: &FollowedBroker) -> Result<(), FollowError> {
        let authority = match followed.authorities.as_str() {
            "" => None,
            authorities => Some(self.write_file(TRIAL_FILE, authorities)?),
        };
        let place = BrokerPlace { urls: followed.urls.clone(), authority: None };
        let mut problems = Vec::new();
        for address in self.addresses(&place)? {
            match probe_broker(&address, authority.as_deref()).await.failure {
                None => return Ok(()),
                Some(failure) => problems.push(format!("{}: {failure}", address.as_str())),
            }
        }
        Err(FollowError::NoAnswer(problems.join("; ")))
    }

    fn place_of(&self, followed: &FollowedBroker) -> BrokerPlace {
        let mut urls = followed.urls.clone();
        let others = self.configured.urls.iter().filter(|url| !followed.urls.contains(url));
        urls.extend(others.cloned());
        let authority = if followed.authorities.is_empty() {
            self.configured.authority.clone()
        } else {
            Some(self.directory.join(AUTHORITIES_FILE))
        };
        BrokerPlace { urls, authority }
    }

    /// What was tried, unless the configuration was changed since. An unreadable file counts as none.
    fn followed(&self) -> Option<FollowedBroker> {
        let text = read_text(&self.directory.join(STATE_FILE)).ok()?;
        let followed: FollowedBroker = serde_json::from_str(&text).ok()?;
        let is_same = followed.configured_urls == self.configured.urls
            && followed.configured_authorities == self.configured_authorities().ok()?;
        is_same.then_some(followed)
    }

    /// The text of the configured authorities; empty if none are configured.
    fn configured_authorities(&self) -> Result<String, FollowError> {
        self.configured.authority.as_deref().map_or(Ok(String::new()), read_text)
    }

    fn write_file(&self, name: &str, text: &str) -> Result<PathBuf, FollowError> {
        let path = self.directory.join(name);
        if read_text(&path).is_ok_and(|present| present == text) {
            return Ok(path);
        }
        let written = std::fs::create_dir_all(&self.directory)
            .and_then(|()| replace_file(&path, text.as_bytes(), FILE_MODE));
        match written {
            Ok(()) => Ok(path),
            Err(source) => Err(FollowError::File { path, source }),
        }
    }
}

fn read_text(path: &Path) -> Result<String, FollowError> {
    File::open(path)
        .and_then(|file| read_limited_text(file, MAX_FILE_BYTES))
        .map_err(|source| FollowError::File { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::TcpListener;

    use muster_wire::token::{BrokerRecord, BrokerSite};

    use super::{BrokerFollower, BrokerPlace};

    /// A server that greets as a broker without TLS, at a free port.
    fn greeter() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("nats://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let _ = std::io::Write::write_all(
                    &mut stream.unwrap(),
                    b"INFO {\"version\":\"2.11.0\"}\r\n",
                );
            }
        });
        url
    }

    fn record(sites: &[(&str, &[&str])]) -> BrokerRecord {
        let site = |(name, urls): &(&str, &[&str])| BrokerSite {
            name: (*name).to_owned(),
            urls: urls.iter().map(|url| (*url).to_owned()).collect(),
        };
        BrokerRecord { sites: sites.iter().map(site).collect(), authorities: String::new() }
    }

    #[tokio::test]
    async fn new_addresses_are_used_once_a_server_answered_and_the_configuration_wins() {
        let scratch = tempfile::tempdir().unwrap();
        let (old, silent, new) = ("nats://127.0.0.1:1", "nats://127.0.0.1:2", greeter());
        let follower = |urls: &[&str]| {
            let urls = urls.iter().map(|url| (*url).to_owned()).collect();
            let configured = BrokerPlace { urls, authority: None };
            BrokerFollower::new(scratch.path().to_owned(), configured, true)
        };
        let node = follower(&[old]);
        // The record that names the site is remembered without a trial, because it says what the configuration says.
        let first = record(&[("", &[old]), ("berlin", &[silent])]);
        assert_eq!(node.follow(&first).await.unwrap().unwrap().urls, [old]);
        assert!(node.follow(&first).await.unwrap().is_none());
        // Nothing answers there, so the node stays.
        let wrong = record(&[("", &[silent])]);
        let refused = node.follow(&wrong).await.unwrap_err().to_string();
        assert!(refused.contains(silent), "{refused}");
        assert_eq!(node.place().urls, [old]);
        // The addresses of its site, although none of them is configured.
        let moved = record(&[("berlin", &[silent]), ("", &[&new])]);
        assert_eq!(node.follow(&moved).await.unwrap().unwrap().urls, [new.as_str(), old]);
        assert_eq!(node.place().urls, [new.as_str(), old]);
        // A changed configuration is used alone, and other addresses belong to no site.
        let other = follower(&["nats://127.0.0.1:3"]);
        assert_eq!(other.place().urls, ["nats://127.0.0.1:3"]);
        assert!(other.follow(&moved).await.unwrap().is_none());
        fs::write(scratch.path().join("broker.json"), "{").unwrap();
        assert_eq!(node.place().urls, [old]);
    }
}
