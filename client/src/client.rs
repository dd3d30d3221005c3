//! A caller's connection: its key, whom it trusts, and the door to the broker.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use muster_bus::{Bus, Options, Secret, Server};
use muster_wire::Millis;
use muster_wire::identity::{Identity, Name};
use muster_wire::sign::Signer;
use muster_wire::subject;
use muster_wire::token::{Creds, PublicKey, TokenCache, Trust};
use tokio::sync::mpsc;

use crate::call::Call;
use crate::discovery::Window;
use crate::error::ClientError;
use crate::event::{Event, Events};
use crate::gather;

/// Everything that a caller needs to know, resolved: no environment, no search for files.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The broker's addresses.
    pub servers: Vec<Server>,
    /// PEM file of the authority of the broker's certificate.
    pub authority: Option<PathBuf>,
    /// The caller's `.creds` file.
    pub credentials: PathBuf,
    /// The operator's public key.
    pub operator: String,
    /// File with the account's token.
    pub account: PathBuf,
    /// The collective to ask.
    pub collective: Name,
    /// How long discovery waits.
    pub window: Window,
}

/// A connected caller. Clones share the connection.
#[derive(Debug, Clone)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) bus: Bus,
    pub(crate) signer: Signer,
    pub(crate) trust: RwLock<Arc<Trust>>,
    pub(crate) tokens: TokenCache,
    pub(crate) collective: Name,
    pub(crate) window: Window,
}

impl Client {
    /// Reads credentials and trust, and connects.
    pub async fn connect(settings: Settings) -> Result<Self, ClientError> {
        let signer = signer(&settings.credentials)?;
        let trust = trust(&settings.operator, &settings.account)?;
        let key = signer.clone();
        let secret = Secret::new(signer.token().to_owned(), move |nonce| {
            key.key().sign(nonce).to_bytes().to_vec()
        });
        let mut options = Options::command(signer.identity().as_str(), settings.servers);
        options.authority = settings.authority;
        options.secret = Some(secret);
        options.inbox_prefix = Some(subject::inbox_prefix(&signer.public().to_string()));
        let bus = options.connect().await?;
        Ok(Self::new(
            bus,
            signer,
            trust,
            settings.collective,
            settings.window,
        ))
    }

    /// A caller on a connection that stands already.
    pub fn new(bus: Bus, signer: Signer, trust: Trust, collective: Name, window: Window) -> Self {
        let trust = RwLock::new(Arc::new(trust));
        let tokens = TokenCache::default();
        Self {
            inner: Arc::new(Inner {
                bus,
                signer,
                trust,
                tokens,
                collective,
                window,
            }),
        }
    }

    /// Who asks.
    pub fn identity(&self) -> &Identity {
        self.inner.signer.identity()
    }

    /// The collective that is asked.
    pub fn collective(&self) -> &Name {
        &self.inner.collective
    }

    /// Asks, and hands out what happens. The call runs by itself; must be called within a tokio runtime.
    pub fn call(&self, call: Call) -> Events {
        let (sender, receiver) = mpsc::channel(1024);
        let inner = Arc::clone(&self.inner);
        tokio::spawn(async move {
            if let Err(error) = gather::run(&inner, call, &sender).await {
                // Nobody is listening any more: then nobody misses it.
                let _ = sender.send(Event::Failed(error)).await;
            }
        });
        Events(receiver)
    }

    /// Leaves the broker.
    pub async fn close(&self) -> Result<(), ClientError> {
        Ok(self.inner.bus.close().await?)
    }
}

impl Inner {
    pub(crate) fn trust(&self) -> Arc<Trust> {
        Arc::clone(&self.trust.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether our own token lets us ask this agent. The broker refuses the rest, but tells the connection, not the call.
    pub(crate) fn check_granted(&self, agent: &Name) -> Result<(), ClientError> {
        let trust = self.trust();
        let Ok(own) = self.tokens.verify_user(&trust, self.signer.token(), now()) else {
            return Ok(());
        };
        let granted: Vec<&str> = own
            .tags
            .iter()
            .filter_map(|tag| tag.strip_prefix("agent:"))
            .collect();
        let covers =
            |grant: &&str| *grant == "*" || grant.split('.').next() == Some(agent.as_str());
        if own.role != muster_wire::token::Role::Caller || granted.iter().any(covers) {
            return Ok(());
        }
        Err(ClientError::NotGranted {
            agent: agent.to_string(),
            allowed: granted.join(", "),
        })
    }
}

pub(crate) fn now() -> Millis {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

fn signer(path: &Path) -> Result<Signer, ClientError> {
    use std::os::unix::fs::PermissionsExt as _;
    let failed = |source| ClientError::Read {
        what: "credentials",
        path: path.to_owned(),
        source,
    };
    let mode = std::fs::metadata(path)
        .map_err(failed)?
        .permissions()
        .mode()
        & 0o7777;
    if mode & 0o077 != 0 {
        return Err(ClientError::Exposed {
            path: path.to_owned(),
            mode,
        });
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let creds = Creds::parse(&text).map_err(|source| ClientError::Creds {
        path: path.to_owned(),
        source,
    })?;
    Ok(Signer::new(creds)?)
}

fn trust(operator: &str, account: &Path) -> Result<Trust, ClientError> {
    let text = std::fs::read_to_string(account).map_err(|source| ClientError::Read {
        what: "the account's token",
        path: account.to_owned(),
        source,
    })?;
    let wrong = |source| ClientError::Trust {
        path: account.to_owned(),
        source,
    };
    let operator = PublicKey::parse(operator).map_err(|error| wrong(error.into()))?;
    Trust::new(operator, text.trim()).map_err(wrong)
}
