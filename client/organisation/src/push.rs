//! Pushes changed account tokens to the running broker.
//!
//! The broker disconnects revoked principals as soon as it has the token.

use muster_bus::{
    BrokerAddress, BrokerCredentials, BucketError, Bus, BusError, BusOptions, Bytes,
    TokenRenewalError,
};
use muster_files::files;
use muster_wire::Millis;
use muster_wire::identity::Identity;
use muster_wire::stores;
use muster_wire::subject;
use muster_wire::token::UserCredentials;
use serde::Deserialize;

use crate::older_copy::OlderCopyError;
use crate::{AccountRealm, MAX_FILE_BYTES, Organisation, OrganisationError, PrincipalKind};

/// Subject on which the broker accepts account tokens.
const CLAIMS_UPDATE_SUBJECT: &str = "$SYS.REQ.CLAIMS.UPDATE";
/// Name of the publishing connection in the broker's connection list.
const ANNOUNCER_NAME: &str = "organisation";
/// Most characters of a broker's reply that an error repeats.
const MAX_REPLY_CHARS: usize = 200;

/// Pushing a token failed.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// An error of the organisation's own files.
    #[error(transparent)]
    Organisation(#[from] OrganisationError),
    /// The connection to the broker failed.
    #[error("the operation at the broker failed")]
    Bus(#[from] BusError),
    /// A name could not be reserved, so no credentials were issued.
    #[error(
        "no credentials were issued: the name `{name}` cannot be reserved at the broker, and an enroller could assign it to a machine; start the broker and run the command again"
    )]
    NotReserved {
        /// The name.
        name: String,
        /// The connection error.
        #[source]
        error: BusError,
    },
    /// The broker's stores cannot be created.
    #[error("cannot access the fleet's buckets")]
    Stores(#[from] BucketError),
    /// A store that was declared earlier does not exist.
    #[error(
        "the broker has lost the store {0}; run `rpc broker restore FILE` with a backup, or `rpc org push --create-missing`, which creates it empty, or from the server's files if they are those of a cluster"
    )]
    LostStore(&'static str),
    /// Servers that do not answer may have a store which the others do not have.
    #[error(
        "the store {store} does not exist, and {missing} of {servers} servers of the broker do not answer, which may have it; start them and run the command again, or create it empty with `--create-missing`"
    )]
    SilentServers {
        /// The store.
        store: &'static str,
        /// How many servers do not answer.
        missing: usize,
        /// All servers of the cluster.
        servers: usize,
    },
    /// Several servers have files of a store from the time before they belonged to the cluster.
    #[error(
        "the store {0} does not exist in the cluster, but the servers {1} have files of it; stop all but the one whose files are right, move their directory `jetstream` away, start them, and run the command again"
    )]
    SeveralHolders(&'static str, String),
    /// Servers have too little space for streams, and would offer the account none.
    #[error(
        "the stores of the fleet need {mebibytes} MiB; these servers offer less: {servers}. Set `max_file: 6GB` in their block `jetstream`, restart them, and run the command again"
    )]
    SmallServers {
        /// Names of the servers.
        servers: String,
        /// The space that is needed.
        mebibytes: u64,
    },
    /// Renewing tokens of nodes failed.
    #[error("cannot renew tokens of nodes")]
    Renewal(#[from] TokenRenewalError),
    /// No server of the broker described itself, so its operators are unknown.
    #[error(
        "no server of the broker answered a request for its operators within {0} s; check that the broker runs, or use --force"
    )]
    NoServers(u64),
    /// The directory is older than the broker's token.
    #[error(transparent)]
    OlderCopy(#[from] OlderCopyError),
    /// The broker refused the token.
    #[error("the broker rejected the account token: {0}")]
    Refused(String),
}

/// The broker's reply to a token update.
#[derive(Debug, Deserialize)]
struct ClaimsUpdateReply {
    data: Option<ClaimsUpdateStatus>,
    error: Option<ClaimsUpdateStatus>,
}

#[derive(Debug, Deserialize)]
struct ClaimsUpdateStatus {
    #[serde(default)]
    code: u16,
    #[serde(default, alias = "description")]
    message: String,
}

impl Organisation {
    /// Pushes the account tokens to the broker, then announces the token of the bootstrap account to enrollers. The fleet's token is
    /// published by [`Self::publish_account`].
    pub async fn push_tokens(&self, now: Millis) -> Result<(), PushError> {
        let trusts = self.account_trusts()?;
        let bus = self.connect(&self.system_credentials()?).await?;
        for trust in trusts.iter() {
            self.check_broker_token(&bus, trust).await?;
        }
        // The account of the stores first: the fleet's account imports from it.
        let mut tokens: Vec<_> =
            trusts.iter().map(|trust| trust.account_token().to_owned()).collect();
        // A broker keeps the token that was pushed last, so that of the system account must follow a new operator too.
        tokens.push(self.system_token()?);
        for token in tokens {
            push_token(&bus, token.clone()).await?;
            self.record_known(&token)?;
        }
        bus.close().await?;
        if let Some(newcomers) = trusts.newcomers_trust() {
            let bus = self.connect_temporarily(PrincipalKind::Enroller, now).await?;
            let token = Bytes::from(newcomers.account_token().to_owned());
            bus.publish(subject::NEWCOMERS_TRUST_SUBJECT, token).await?;
            bus.close().await?;
        }
        Ok(())
    }

    /// Deletes the renewed tokens of these nodes and their entries in the bucket of run permits, so that they occupy no permit.
    /// Does not read the entries.
    pub async fn clear_nodes(&self, nodes: &[&Identity], now: Millis) -> Result<(), PushError> {
        if nodes.is_empty() {
            return Ok(());
        }
        let bus = self.connect_administrator(now).await?;
        let bucket = bus.bucket(stores::PERMITS_BUCKET.name);
        // Without JetStream there are no permits. This key belongs to no node; the request only checks that the bucket exists.
        if !matches!(bucket.get_once("none").await, Err(BucketError::Missing { .. })) {
            let keys = nodes.iter().map(|node| stores::permit_keys(node.as_str()));
            for key in keys.flatten() {
                bucket.delete(&key).await?;
            }
            let tokens = bus.bucket(stores::TOKENS_BUCKET.name);
            for node in nodes {
                if tokens.get_once(node.as_str()).await?.is_some() {
                    tokens.delete(node.as_str()).await?;
                }
            }
        }
        Ok(bus.close().await?)
    }

    /// Connects to the fleet's account for one operation, with administrator permissions.
    pub(super) async fn connect_administrator(&self, now: Millis) -> Result<Bus, PushError> {
        self.connect(&self.administrator_credentials(now)?).await
    }

    /// Pushes the token of this account only.
    pub(super) async fn push_account(&self, realm: AccountRealm) -> Result<(), PushError> {
        let token = self.realm_trust(realm)?.account_token().to_owned();
        let bus = self.connect(&self.system_credentials()?).await?;
        push_token(&bus, token).await?;
        Ok(bus.close().await?)
    }

    /// Pushes the token of the system account only.
    pub(super) async fn push_system_token(&self) -> Result<(), PushError> {
        let bus = self.connect(&self.system_credentials()?).await?;
        push_token(&bus, self.system_token()?).await?;
        Ok(bus.close().await?)
    }

    /// The credentials that push account tokens to the broker.
    pub(super) fn system_credentials(&self) -> Result<UserCredentials, OrganisationError> {
        let path = self.layout().system_creds();
        let text = files::read_secret(&path, MAX_FILE_BYTES)?;
        UserCredentials::parse(&text).map_err(|source| OrganisationError::Creds(path, source))
    }

    /// Connects to the account of this kind of principal for one operation.
    pub(super) async fn connect_temporarily(
        &self,
        kind: PrincipalKind,
        now: Millis,
    ) -> Result<Bus, PushError> {
        let name = Identity::parse(ANNOUNCER_NAME).map_err(OrganisationError::from)?;
        self.connect(&self.temporary_credentials(kind, &name, now)?).await
    }

    pub(super) async fn connect(&self, creds: &UserCredentials) -> Result<Bus, PushError> {
        let broker = &self.profile().broker;
        let servers = broker.urls.iter().map(|url| BrokerAddress::parse(url, !broker.tls));
        let mut options = BusOptions::for_command(
            creds.claims().name.clone(),
            servers.collect::<Result<_, _>>()?,
        );
        let key = creds.key_pair().clone();
        let token = creds.jwt().to_owned();
        let sign = move |nonce: &[u8]| key.sign(nonce).to_bytes().to_vec();
        options.credentials = Some(BrokerCredentials::new(move || token.clone(), sign));
        options.inbox_prefix =
            Some(subject::inbox_prefix(&creds.key_pair().public_key().to_string()));
        options.authority = broker.tls.then(|| self.layout().authority_certificate());
        Ok(options.connect().await?)
    }
}

/// Gives the broker an account token.
async fn push_token(bus: &Bus, token: String) -> Result<(), PushError> {
    let reply = bus.request(CLAIMS_UPDATE_SUBJECT, Bytes::from(token)).await?;
    check_update_reply(reply.payload())
}

/// Fails if the broker refused the token.
fn check_update_reply(reply: &[u8]) -> Result<(), PushError> {
    let reason = match serde_json::from_slice(reply) {
        Ok(ClaimsUpdateReply { data: Some(ClaimsUpdateStatus { code: 200, .. }), error: None }) => {
            return Ok(());
        }
        Ok(ClaimsUpdateReply { error: Some(error), .. }) if !error.message.is_empty() => {
            error.message
        }
        _ => String::from_utf8_lossy(reply).into_owned(),
    };
    Err(PushError::Refused(reason.chars().take(MAX_REPLY_CHARS).collect()))
}

#[cfg(test)]
mod tests {
    use super::check_update_reply;

    #[test]
    fn only_a_success_reply_of_the_broker_is_accepted() {
        assert!(
            check_update_reply(
                br#"{"server":{},"data":{"account":"A","code":200,"message":"jwt updated"}}"#
            )
            .is_ok()
        );
        let told = |answer: &[u8]| check_update_reply(answer).unwrap_err().to_string();
        assert!(
            told(br#"{"error":{"code":500,"description":"jwt update resulted in error"}}"#)
                .contains("resulted in error")
        );
        assert!(told(br#"{"data":{"code":500}}"#).contains("500"));
        assert!(told(b"nonsense").contains("nonsense"));
        assert!(told(b"").contains("rejected the account token"));
    }
}
