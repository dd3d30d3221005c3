//! Asks to be enrolled, again and again, until it is or may not be.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use muster_bus::{Backoff, Bus, BusError, Bytes, Message, Options, Secret, Server};
use muster_secret::Keeper;
use muster_system::System;
use muster_system::error::chain;
use muster_system::real::RealSystem;
use muster_wire::enrol::{Hello, Nonce, Outcome, Reason, Welcome, open_answer, seal_hello};
use muster_wire::identity::Identity;
use muster_wire::sign::{SealError, Signer};
use muster_wire::state::Facts;
use muster_wire::subject::{self, AnswerAddress};
use muster_wire::token::{Creds, PublicKey, TokenCache, Trust};
use serde_json::{Map, Value};
use tokio::sync::Notify;
use uuid::Uuid;

use super::home::{self, Home, Wish};
use super::{NewcomerError, configured_name};
use crate::assemble;
use crate::clock::Clock;
use crate::config::Config;
use crate::facts::{self, Machines};

/// Between two attempts that came to nothing. The first is at once; what comes after is spread, as hundreds start together.
const PAUSES: Backoff = Backoff {
    first: Duration::from_secs(1),
    max: Duration::from_mins(1),
};
/// No pause that a service asks for is longer.
const LONGEST: Duration = Duration::from_mins(10);
/// How long an enroller may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may take before the log says more about it.
const CONNECTING: Duration = Duration::from_secs(20);
/// What of the machine's facts travels with the wish.
const TOLD: [&str; 7] = [
    "cloud",
    "is_virtual",
    "kernel",
    "kernelrelease",
    "os",
    "processors",
    "virtual",
];
/// What of the fact `networking`.
const TOLD_OF_NETWORK: [&str; 5] = ["domain", "fqdn", "hostname", "ip", "ip6"];

/// The credential that this machine was started with, and whom it believes until it has its own.
pub(super) struct Bootstrap {
    signer: Signer,
    newcomers: Trust,
    operator: PublicKey,
}

impl Bootstrap {
    /// Reads the files that the configuration names.
    pub(super) fn read(config: &Config, path: &Path) -> Result<Self, NewcomerError> {
        let text = muster_secret::read(path, Keeper::Daemon, Creds::FILE_BYTES)?;
        let creds = Creds::parse(&text).map_err(|source| NewcomerError::Creds {
            path: path.to_owned(),
            source,
        })?;
        let signer = Signer::new(creds).map_err(|source| NewcomerError::Name {
            path: path.to_owned(),
            source,
        })?;
        let account = &config.provisioning.account;
        let untrusted = |source| NewcomerError::Trust {
            path: account.clone(),
            source,
        };
        let operator =
            PublicKey::parse(&config.trust.operator).map_err(|error| untrusted(error.into()))?;
        let text = home::read("the newcomers' account token", account)?;
        let newcomers = Trust::new(operator, text.trim()).map_err(untrusted)?;
        Ok(Self {
            signer,
            newcomers,
            operator,
        })
    }

    fn options(&self, config: &Config, name: &Identity) -> Result<Options, NewcomerError> {
        let parse = |url: &String| Server::parse(url, config.broker.plaintext_on_loopback);
        let servers = config.broker.urls.iter().map(parse);
        let mut options = Options::daemon(
            format!("newcomer {name}"),
            servers.collect::<Result<_, _>>()?,
        );
        options.authority.clone_from(&config.broker.ca);
        options.secret = Some(Secret::of_signer(&self.signer));
        options.inbox_prefix = Some(subject::inbox_prefix(&self.signer.public().to_string()));
        Ok(options)
    }
}

/// Asks until the machine is enrolled, and keeps what it is told.
pub(super) async fn enrol(
    config: &Config,
    bootstrap: &Path,
    home: &Home,
    again: &Notify,
) -> Result<(), NewcomerError> {
    let bootstrap = Bootstrap::read(config, bootstrap)?;
    let known = collect(config).await;
    let found = cloud_name(&known).unwrap_or_else(|| config.identity.clone());
    let wish = home.wish(configured_name(config), &found)?;
    tracing::info!(
        identity = %wish.identity, key = %wish.key.public(),
        "this machine has no credentials; it asks to be enrolled"
    );
    let asking = Asking {
        bus: bootstrap.options(config, &wish.identity)?.connect().await?,
        facts: told(&known),
        clock: Clock::system(),
        cache: TokenCache::default(),
        bootstrap,
        wish,
    };
    let welcome = asking.until_welcome(again).await?;
    home.settle(&asking.wish, &welcome)?;
    tracing::info!(identity = %asking.wish.identity, "enrolled");
    if let Err(error) = asking.bus.close().await {
        tracing::debug!(%error, "left the newcomers' account in a hurry");
    }
    Ok(())
}

/// Everything that stays the same from one attempt to the next.
struct Asking {
    bus: Bus,
    bootstrap: Bootstrap,
    wish: Wish,
    facts: Facts,
    clock: Clock,
    cache: TokenCache,
}

/// What an attempt came to.
enum Attempt {
    Welcome(Box<Welcome>),
    /// Ask again after so long at least.
    Later(Duration),
    /// Ask again when it seems right.
    Nothing,
}

impl Asking {
    async fn until_welcome(&self, again: &Notify) -> Result<Welcome, NewcomerError> {
        let mut fruitless = 0;
        loop {
            self.connected().await;
            let pause = match self.attempt().await? {
                Attempt::Welcome(welcome) => return Ok(*welcome),
                Attempt::Later(pause) => {
                    fruitless = 0;
                    // Up to half as long again, so that those who were put off together do not come back together.
                    let more = pause.mul_f64(0.5);
                    let spread = Backoff {
                        first: more,
                        max: more,
                    };
                    pause + spread.delay(1)
                }
                Attempt::Nothing => {
                    fruitless += 1;
                    PAUSES.delay(fruitless)
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = again.notified() => fruitless = 0,
            }
        }
    }

    /// Waits for the broker. Why it does not come is in the log already; here it is said what could be wrong on this side.
    async fn connected(&self) {
        while tokio::time::timeout(CONNECTING, self.bus.connected())
            .await
            .is_err()
        {
            let token = self.bootstrap.signer.token();
            let now = self.clock.now();
            match self.bootstrap.newcomers.verify_user(&token, now) {
                Ok(_) => tracing::warn!("there is no connection to the broker yet"),
                Err(error) => {
                    tracing::error!(error = chain(&error), "the bootstrap token is of no use");
                }
            }
        }
    }

    async fn attempt(&self) -> Result<Attempt, NewcomerError> {
        let hello = self.hello()?;
        let bytes = match seal_hello(&hello, &self.bootstrap.signer, &self.wish.key) {
            Err(SealError::Oversized { .. }) => {
                let bare = Hello {
                    facts: Facts::default(),
                    ..hello.clone()
                };
                seal_hello(&bare, &self.bootstrap.signer, &self.wish.key)?
            }
            sealed => sealed?,
        };
        match self.ask(bytes.into()).await {
            Ok(message) if message.is_no_responders() => {
                tracing::warn!("no enroller is connected; this machine asks again");
                Ok(Attempt::Nothing)
            }
            Ok(message) => self.judge(&hello, &message),
            Err(error) => {
                tracing::warn!(
                    error = chain(&error),
                    "the wish to be enrolled is not answered"
                );
                Ok(Attempt::Nothing)
            }
        }
    }

    /// Sends the request, and waits for the answer at an address of its own.
    async fn ask(&self, request: Bytes) -> Result<Message, BusError> {
        let key = self.bootstrap.signer.public().to_string();
        let address = AnswerAddress::of_request(&key, &Uuid::now_v7());
        let mut answers = self.bus.subscribe(&address.pattern()).await?;
        let reply_subject = address.of_broadcast();
        self.bus
            .ask(subject::ENROL, &reply_subject, request)
            .await?;
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, answers.next()).await;
        answer.ok().flatten().ok_or(BusError::Slow {
            what: "answer",
            within: ANSWER_TIMEOUT,
        })
    }

    fn hello(&self) -> Result<Hello, NewcomerError> {
        Ok(Hello {
            identity: self.wish.identity.clone(),
            key: self.wish.key.public(),
            credential: self.bootstrap.signer.public(),
            nonce: Nonce::generate()?,
            facts: self.facts.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            time: self.clock.now(),
        })
    }

    fn judge(&self, hello: &Hello, message: &Message) -> Result<Attempt, NewcomerError> {
        let now = self.clock.now();
        let newcomers = &self.bootstrap.newcomers;
        let outcome = match open_answer(message.payload(), hello, newcomers, &self.cache, now) {
            Ok(outcome) => outcome,
            Err(error) => {
                tracing::warn!(error = chain(&error), "an answer is not believed");
                return Ok(Attempt::Nothing);
            }
        };
        match outcome {
            Outcome::Welcome(welcome) => {
                match welcome.check(self.bootstrap.operator, hello.key, now) {
                    Ok(_) => Ok(Attempt::Welcome(welcome)),
                    Err(error) => {
                        tracing::error!(error = chain(&error), "a welcome is not believed");
                        Ok(Attempt::Nothing)
                    }
                }
            }
            Outcome::Wait(wait) => {
                tracing::info!(reason = wait.message, "not enrolled yet");
                let pause = Duration::from_millis(wait.retry_after_ms);
                Ok(Attempt::Later(pause.clamp(Duration::from_secs(1), LONGEST)))
            }
            Outcome::Refused(refused) if refused.reason.is_final() => {
                let identity = hello.identity.clone();
                Err(NewcomerError::Refused { identity, refused })
            }
            Outcome::Refused(refused) => {
                let word = refused.reason.word();
                tracing::error!(reason = word, "refused: {}", refused.message);
                Ok(match refused.reason {
                    Reason::NameTaken => Attempt::Later(PAUSES.max),
                    _ => Attempt::Nothing,
                })
            }
        }
    }
}

/// The machine's facts; what cannot be had is told.
async fn collect(config: &Config) -> Facts {
    let sources = assemble::fact_sources(config);
    let collecting = tokio::task::spawn_blocking(move || {
        let host: Arc<dyn System> = Arc::new(RealSystem::new("/".into()));
        let machines = Machines {
            node: &*host,
            host: &*host,
        };
        facts::collect(machines, &sources)
    });
    let (facts, problems) = collecting.await.unwrap_or_default();
    for problem in problems {
        tracing::warn!(%problem, "facts are incomplete");
    }
    facts
}

/// The name that the cloud gives the machine, if it is one.
fn cloud_name(facts: &Facts) -> Option<Identity> {
    let name = facts.get("cloud.hostname")?.as_str()?;
    Identity::parse(name).ok()
}

/// What the others are told. Addresses of all interfaces, disks and memory are of no use to them.
fn told(facts: &Facts) -> Facts {
    let mut told = Map::new();
    for name in TOLD {
        told.extend(facts.get(name).map(|fact| (name.to_owned(), fact.clone())));
    }
    if let Some(Value::Object(network)) = facts.get("networking") {
        let known = TOLD_OF_NETWORK
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), network.get(name)?.clone())));
        told.insert("networking".to_owned(), Value::Object(known.collect()));
    }
    Facts::from_map(told).unwrap_or_default()
}
