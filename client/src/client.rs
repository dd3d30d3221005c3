//! A caller's connection: its key, whom it trusts, and the door to the broker.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Instant;

use muster_bus::{BrokerAddress, BrokerCredentials, Bus, BusOptions, TrustLookupError};
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::sign::Signer;
use muster_wire::subject;
use muster_wire::token::{AccountTrust, PublicKey, TokenCache};
use tokio::sync::mpsc;

use crate::call::RpcCall;
use crate::client_inner::{ClientInner, now};
use crate::discovery::DiscoveryWindow;
use crate::error::ClientError;
use crate::event::{CallEvent, CallEventStream};
use crate::offline_signer::OfflineSigner;
use crate::reply_collector;

/// Everything that a caller needs to know, resolved: no environment, no search for files.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// The broker's addresses.
    pub servers: Vec<BrokerAddress>,
    /// PEM file of the authority of the broker's certificate.
    pub authority: Option<PathBuf>,
    /// The caller's `.creds` file.
    pub credentials: PathBuf,
    /// The operator's public key.
    pub operator: String,
    /// File with the account's token.
    pub account: PathBuf,
    /// The collective to ask.
    pub collective: SubjectName,
    /// How long discovery waits.
    pub window: DiscoveryWindow,
}

/// A connected caller. Clones share the connection.
#[derive(Debug, Clone)]
pub struct Client {
    pub(crate) party: Arc<ClientInner>,
}

impl Client {
    /// Reads credentials and trust, and connects.
    pub async fn connect(settings: ClientSettings) -> Result<Self, ClientError> {
        let OfflineSigner { signer, trust } =
            OfflineSigner::load(&settings.credentials, &settings.operator, &settings.account)?;
        let mut options = BusOptions::for_command(signer.identity().as_str(), settings.servers);
        options.authority = settings.authority;
        options.secret = Some(BrokerCredentials::from_signer(&signer));
        options.inbox_prefix = Some(subject::inbox_prefix(&signer.public_key().to_string()));
        let bus = options.connect().await?;
        let client = Self::new(bus, signer, trust, settings.collective, settings.window);
        // The broker itself refuses revoked parties, so a bucket that cannot be read stops no command.
        let _ = Box::pin(client.refresh_trust()).await;
        Ok(client)
    }

    /// A caller on a connection that stands already.
    pub fn new(
        bus: Bus,
        signer: Signer,
        trust: AccountTrust,
        collective: SubjectName,
        window: DiscoveryWindow,
    ) -> Self {
        let trust = RwLock::new(Arc::new(trust));
        let tokens = TokenCache::default();
        Self {
            party: Arc::new(ClientInner {
                bus,
                signer,
                trust,
                trust_checked: Mutex::new(Instant::now()),
                tokens,
                collective,
                window,
                keys: Mutex::default(),
            }),
        }
    }

    /// Takes over the account's newest token, if the fleet's bucket of trust names one: what it revokes is refused from then on. Returns
    /// whether there was a newer one.
    pub async fn refresh_trust(&self) -> Result<bool, TrustLookupError> {
        self.party.refresh_trust().await
    }

    /// The account token that is trusted.
    pub fn trust(&self) -> Arc<AccountTrust> {
        self.party.trust()
    }

    /// Who asks.
    pub fn identity(&self) -> &Identity {
        self.party.signer.identity()
    }

    /// The public key of who asks.
    pub fn key(&self) -> PublicKey {
        self.party.signer.public_key()
    }

    /// Takes in which tokens of nodes an earlier client with the same key has verified, as [`Self::export_verified_tokens`] wrote it. What is not
    /// that is ignored. Answers how many they are.
    pub fn import_verified_tokens(&self, bytes: &[u8]) -> usize {
        let ClientInner { tokens, .. } = &*self.party;
        tokens.import_verified(&self.party.trust(), self.key(), bytes, now())
    }

    /// Which tokens were verified until now, signed with the caller's key, for a later client. `None` if there is no new one.
    pub fn export_verified_tokens(&self) -> Option<Vec<u8>> {
        let ClientInner { tokens, signer, .. } = &*self.party;
        tokens.export_verified(&self.party.trust(), signer.key_pair(), now())
    }

    /// The collective that is asked.
    pub fn collective(&self) -> &SubjectName {
        &self.party.collective
    }

    /// Asks, and hands out what happens. The call runs by itself; must be called within a tokio runtime.
    pub fn call(&self, call: RpcCall) -> CallEventStream {
        let (sender, receiver) = mpsc::channel(1024);
        let party = Arc::clone(&self.party);
        tokio::spawn(async move {
            party.refresh_old_trust().await;
            if let Err(error) = reply_collector::run_call(&party, call, &sender).await {
                // Nobody is listening any more: then nobody misses it.
                let _ = sender.send(CallEvent::Failed(error)).await;
            }
        });
        CallEventStream(receiver)
    }

    /// Leaves the broker.
    pub async fn close(&self) -> Result<(), ClientError> {
        Ok(self.party.bus.close().await?)
    }
}
