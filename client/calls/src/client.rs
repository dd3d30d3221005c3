//! The connected client: credentials, trust and the broker connection.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Instant;

use muster_base::unix_millis_now;
use muster_bus::{BrokerAddress, BrokerCredentials, Bus, BusOptions, TrustLookupError};
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::limits::MAX_REQUEST_BYTES;
use muster_wire::sign::{EnvelopeSignError, Signer};
use muster_wire::subject;
use muster_wire::token::{AccountTrust, PublicKey, TokenCache};
use tokio::sync::mpsc;

use crate::call::RpcCall;
use crate::client_inner::ClientInner;
use crate::discovery::window::DiscoveryWindow;
use crate::error::{ClientError, Result};
use crate::event::{CallEvent, CallEventStream};
use crate::offline_signer::OfflineSigner;
use crate::outgoing_request::largest_message;
use crate::reply_collector;

/// Complete client settings. The client reads no environment variables and searches for no files.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// The broker's addresses.
    pub servers: Vec<BrokerAddress>,
    /// PEM file of the CA that issued the broker's certificate.
    pub authority: Option<PathBuf>,
    /// The caller's `.creds` file.
    pub credentials: PathBuf,
    /// The operator's public key.
    pub operator: String,
    /// File with the account's token.
    pub account: PathBuf,
    /// The collective that requests are sent to.
    pub collective: SubjectName,
    /// Time limits of broadcast discovery.
    pub window: DiscoveryWindow,
}

/// A connected client. Clones share the connection.
#[derive(Debug, Clone)]
pub struct Client {
    pub(crate) inner: Arc<ClientInner>,
}

impl Client {
    /// Reads credentials and trust, then connects.
    pub async fn connect(settings: ClientSettings) -> Result<Self> {
        let OfflineSigner { signer, trust } =
            OfflineSigner::load(&settings.credentials, &settings.operator, &settings.account)?;
        let mut options = BusOptions::for_command(signer.identity().as_str(), settings.servers);
        options.authority = settings.authority;
        options.credentials = Some(BrokerCredentials::from_signer(&signer));
        options.inbox_prefix = Some(subject::inbox_prefix(&signer.public_key().to_string()));
        let bus = options.connect().await?;
        let client = Self::new(bus, signer, trust, settings.collective, settings.window);
        // The broker itself rejects revoked users, so an unreadable trust bucket does not fail the connection.
        let _ = Box::pin(client.refresh_trust()).await;
        client.inner.check_collective()?;
        Ok(client)
    }

    /// Creates a client on an existing connection.
    pub fn new(
        bus: Bus,
        signer: Signer,
        trust: AccountTrust,
        collective: SubjectName,
        window: DiscoveryWindow,
    ) -> Self {
        let inner = ClientInner {
            bus,
            signer,
            trust: RwLock::new(Arc::new(trust)),
            trust_checked: Mutex::new(Instant::now()),
            tokens: TokenCache::default(),
            collective,
            window,
            keys: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Adopts the account's newest token, if the fleet's trust bucket holds one; tokens that it revokes are rejected from then on. Returns whether
    /// there was a newer one.
    pub async fn refresh_trust(&self) -> Result<bool, TrustLookupError> {
        self.inner.refresh_trust().await
    }

    /// The trusted account token.
    pub fn trust(&self) -> Arc<AccountTrust> {
        self.inner.trust()
    }

    /// The caller's identity.
    pub fn identity(&self) -> &Identity {
        self.inner.signer.identity()
    }

    /// The caller's public key.
    pub fn key(&self) -> PublicKey {
        self.inner.signer.public_key()
    }

    /// Imports the cache of verified node tokens that an earlier client with the same key exported with [`Self::export_verified_tokens`]. Ignores
    /// anything else. Returns the number of imported tokens.
    pub fn import_verified_tokens(&self, bytes: &[u8]) -> usize {
        let ClientInner { tokens, .. } = &*self.inner;
        tokens.import_verified(&self.inner.trust(), self.key(), bytes, unix_millis_now())
    }

    /// Exports the cache of verified node tokens, signed with the caller's key, for a later client. `None` if no token was added.
    pub fn export_verified_tokens(&self) -> Option<Vec<u8>> {
        let ClientInner { tokens, signer, .. } = &*self.inner;
        tokens.export_verified(&self.inner.trust(), signer.key_pair(), unix_millis_now())
    }

    /// The connection, for messages that are no requests. Closing it leaves the client's open.
    pub fn bus(&self) -> Bus {
        self.inner.bus.lend_connection()
    }

    /// Maximum size of a message, in bytes, as the broker states.
    pub fn max_payload(&self) -> usize {
        self.inner.bus.max_payload()
    }

    /// The collective that requests are sent to.
    pub fn collective(&self) -> &SubjectName {
        &self.inner.collective
    }

    /// Starts a call and returns its events. The call runs in its own task; requires a tokio runtime.
    pub fn call(&self, call: RpcCall) -> CallEventStream {
        let (sender, receiver) = mpsc::channel(1024);
        let inner = Arc::clone(&self.inner);
        tokio::spawn(async move {
            inner.refresh_old_trust().await;
            if let Err(error) = reply_collector::run_call(&inner, call, &sender).await {
                // A send error means that the event stream was dropped; nothing to report.
                let _ = sender.send(CallEvent::Failed(error)).await;
            }
        });
        CallEventStream(receiver)
    }

    /// Checks that the largest message of this call is below the limits of the broker and of the nodes. Sends nothing.
    pub fn check_request_size(&self, call: &RpcCall) -> Result<()> {
        let ClientInner { bus, signer, collective, .. } = &*self.inner;
        let limit = MAX_REQUEST_BYTES.min(bus.max_payload());
        match largest_message(signer, collective, call) {
            Ok(bytes) if bytes <= limit => Ok(()),
            Ok(bytes) | Err(EnvelopeSignError::Oversized { bytes, .. }) => {
                Err(ClientError::RequestTooLarge { bytes, limit })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Closes the broker connection.
    pub async fn close(&self) -> Result<()> {
        Ok(self.inner.bus.close().await?)
    }
}
