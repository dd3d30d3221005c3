//! Brings a changed account token to where it counts: the running broker, and all nodes and clients that listen.
//!
//! The broker drops revoked parties by itself as soon as it has the token.

use muster_bus::{Bus, BusError, Bytes, Options, RenewalError, Secret, Server, StoreError};
use muster_wire::Millis;
use muster_wire::identity::Identity;
use muster_wire::stores;
use muster_wire::subject;
use muster_wire::token::head::AccountHead;
use muster_wire::token::{Creds, Trust};
use serde::Deserialize;

use super::{FILE_BYTES, Kind, Organisation, OrganisationError};
use crate::files;

/// Where the broker takes account tokens.
const UPDATE: &str = "$SYS.REQ.CLAIMS.UPDATE";
/// The name of whoever announces, in the broker's connection list.
const ANNOUNCER: &str = "organisation";
/// Most characters that are repeated of what a broker says.
const SAID_CHARS: usize = 200;

/// Why the token did not get there.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// The organisation's own files.
    #[error(transparent)]
    Organisation(#[from] OrganisationError),
    /// The way to the broker.
    #[error("the account's token did not reach the broker")]
    Bus(#[from] BusError),
    /// A name could not be reserved, so that nothing was issued.
    #[error(
        "nothing was issued: the name `{name}` cannot be reserved in the broker, and an enroller could give it to a machine; start the broker and run the command again"
    )]
    NotReserved {
        /// The name.
        name: String,
        /// The way to the broker.
        #[source]
        error: BusError,
    },
    /// The broker keeps nothing.
    #[error("the fleet's stores cannot be made")]
    Stores(#[from] StoreError),
    /// Tokens of nodes could not be renewed.
    #[error("tokens of nodes were not renewed")]
    Renewal(#[from] RenewalError),
    /// The broker does not take it.
    #[error("the broker does not take the account's token: {0}")]
    Refused(String),
}

/// What a broker answers.
#[derive(Debug, Deserialize)]
struct Answer {
    #[serde(default)]
    data: Option<Word>,
    #[serde(default)]
    error: Option<Word>,
}

#[derive(Debug, Deserialize)]
struct Word {
    #[serde(default)]
    code: u16,
    #[serde(default, alias = "description")]
    message: String,
}

impl Organisation {
    /// Gives the accounts' tokens to the broker, then announces each to those who go by it.
    pub async fn push(&self, now: Millis) -> Result<(), PushError> {
        let trusts = self.trusts()?;
        let path = self.layout().system_creds();
        let text = files::read_secret(&path, FILE_BYTES).map_err(OrganisationError::from)?;
        let creds =
            Creds::parse(&text).map_err(|source| OrganisationError::Creds { path, source })?;
        let bus = self.options(&creds)?.connect().await?;
        let tokens = [Some(trusts.fleet()), trusts.newcomers()];
        for trust in tokens.into_iter().flatten() {
            let token = Bytes::from(trust.token().to_owned());
            judge(bus.request(UPDATE, token).await?.payload())?;
        }
        bus.close().await?;
        if let Some(newcomers) = trusts.newcomers() {
            let of_newcomers = [subject::NEWCOMERS_TRUST.to_owned()];
            self.announce(Kind::Enroller, newcomers, &of_newcomers, now)
                .await?;
        }
        Ok(())
    }

    /// Makes the fleet's stores in the broker, and repairs those that an earlier version made. A broker without `JetStream` has none.
    pub async fn declare_stores(&self, replicas: usize, now: Millis) -> Result<(), PushError> {
        let bus = self.administer(now).await?;
        for store in &stores::ALL {
            bus.declare(store, replicas).await?;
        }
        Ok(bus.close().await?)
    }

    /// Writes the fleet's account token into its bucket of trust, where nodes and callers find it when they connect and learn of changes.
    /// The token comes first: a head that is there leads to its token.
    pub async fn publish_account(&self, now: Millis) -> Result<(), PushError> {
        let trust = self.trust()?;
        let head = AccountHead::of_trust(&trust).to_json().map_err(|source| {
            OrganisationError::Format {
                what: "the head of the account's tokens",
                source: source.into(),
            }
        })?;
        let bus = self.administer(now).await?;
        let bucket = bus.bucket(stores::TRUST.name);
        let token = Bytes::from(trust.token().to_owned());
        bucket.put(stores::TRUST_ACCOUNT, token).await?;
        bucket.put(stores::TRUST_HEAD, Bytes::from(head)).await?;
        Ok(bus.close().await?)
    }

    /// Removes the renewed tokens of these nodes, and what they wrote into the bucket of run permits: they hold no place any more. It
    /// reads nothing of theirs.
    pub async fn clear_nodes(&self, nodes: &[&Identity], now: Millis) -> Result<(), PushError> {
        if nodes.is_empty() {
            return Ok(());
        }
        let bus = self.administer(now).await?;
        let bucket = bus.bucket(stores::PERMITS.name);
        // Without JetStream there are no permits. The key that is asked for is none of a node's.
        if !matches!(
            bucket.get_once("none").await,
            Err(StoreError::Missing { .. })
        ) {
            let keys = nodes.iter().map(|node| stores::permit_keys(node.as_str()));
            for key in keys.flatten() {
                bucket.delete(&key).await?;
            }
            let tokens = bus.bucket(stores::TRUST.name);
            for node in nodes {
                let key = stores::renewed_token(node.as_str());
                if tokens.get_once(&key).await?.is_some() {
                    tokens.delete(&key).await?;
                }
            }
        }
        Ok(bus.close().await?)
    }

    /// A connection to the fleet's account for a moment, with the rights of its administrator.
    async fn administer(&self, now: Millis) -> Result<Bus, PushError> {
        let creds = self.administrator(now)?;
        Ok(self.options(&creds)?.connect().await?)
    }

    /// A connection for a moment, to the account of such parties.
    pub(super) async fn visit(&self, kind: Kind, now: Millis) -> Result<Bus, PushError> {
        let name = Identity::parse(ANNOUNCER)
            .map_err(|error| OrganisationError::Name(error.to_string()))?;
        let creds = self.passing(kind, &name, now)?;
        Ok(self.options(&creds)?.connect().await?)
    }

    async fn announce(
        &self,
        by: Kind,
        trust: &Trust,
        subjects: &[String],
        now: Millis,
    ) -> Result<(), PushError> {
        let bus = self.visit(by, now).await?;
        let token = Bytes::from(trust.token().to_owned());
        for subject in subjects {
            bus.publish(subject, token.clone()).await?;
        }
        Ok(bus.close().await?)
    }

    /// How to connect with these credentials.
    pub fn options(&self, creds: &Creds) -> Result<Options, BusError> {
        let broker = &self.profile().broker;
        let servers = broker
            .urls
            .iter()
            .map(|url| Server::parse(url, !broker.tls));
        let mut options = Options::command(
            creds.claims().name.clone(),
            servers.collect::<Result<_, _>>()?,
        );
        let key = creds.key().clone();
        let token = creds.jwt().to_owned();
        let sign = move |nonce: &[u8]| key.sign(nonce).to_bytes().to_vec();
        options.secret = Some(Secret::new(move || token.clone(), sign));
        options.inbox_prefix = Some(subject::inbox_prefix(&creds.key().public().to_string()));
        options.authority = broker.tls.then(|| self.layout().authority());
        Ok(options)
    }
}

/// Whether the broker took the token.
fn judge(answer: &[u8]) -> Result<(), PushError> {
    let said = || {
        String::from_utf8_lossy(answer)
            .chars()
            .take(SAID_CHARS)
            .collect::<String>()
    };
    match serde_json::from_slice(answer) {
        Ok(Answer {
            data: Some(Word { code: 200, .. }),
            error: None,
        }) => Ok(()),
        Ok(Answer {
            error: Some(word), ..
        }) if !word.message.is_empty() => Err(PushError::Refused(
            word.message.chars().take(SAID_CHARS).collect(),
        )),
        _ => Err(PushError::Refused(said())),
    }
}

#[cfg(test)]
mod tests {
    use super::judge;

    #[test]
    fn only_a_clear_yes_is_a_yes() {
        assert!(
            judge(br#"{"server":{},"data":{"account":"A","code":200,"message":"jwt updated"}}"#)
                .is_ok()
        );
        let told = |answer: &[u8]| judge(answer).unwrap_err().to_string();
        assert!(
            told(br#"{"error":{"code":500,"description":"jwt update resulted in error"}}"#)
                .contains("resulted in error")
        );
        assert!(told(br#"{"data":{"code":500}}"#).contains("500"));
        assert!(told(b"nonsense").contains("nonsense"));
        assert!(told(b"").contains("does not take"));
    }
}
