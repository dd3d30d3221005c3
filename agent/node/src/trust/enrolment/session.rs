//! Retries enrolment with jittered backoff until accepted or permanently refused. A refused host name is not permanent: it may change.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use muster_base::error_chain;
use muster_bus::{Bus, BusError, BusMessage, BusOptions, Bytes, ReconnectBackoff};
use muster_filter::state::NodeFacts;
use muster_system::System;
use muster_system::real::RealSystem;
use muster_wire::enrol::{
    EnrolmentAcceptance, EnrolmentNonce, EnrolmentOutcome, EnrolmentRefusal,
    EnrolmentRefusalReason, EnrolmentRequest, open_enrolment_answer, sign_enrolment_request,
};
use muster_wire::identity::Identity;
use muster_wire::sign::{EnvelopeSignError, Signer};
use muster_wire::subject::{self, AnswerAddress};
use muster_wire::token::{AccountTrust, TokenCache};
use serde_json::{Map, Value};
use tokio::sync::Notify;
use uuid::Uuid;

use super::identity_store::{IdentityStore, ProposedIdentity};
use super::{NodeEnrolmentError, configured_name};
use crate::config::Config;
use crate::ground::clock::WallClock;
use crate::ground::signals::notify_status;
use crate::machine::facts::hostname::read_host_name;
use crate::machine::facts::{self, FactMachines};
use crate::trust::credentials;

/// Backoff between failed attempts. The first attempt is immediate; later ones are spread out, because hundreds of machines may start together.
const RETRY_BACKOFF: ReconnectBackoff =
    ReconnectBackoff { first: Duration::from_secs(1), max: Duration::from_mins(1) };
/// Upper bound of the pause that a service may request.
const MAX_RETRY_PAUSE: Duration = Duration::from_mins(10);
/// Interval at which the machine's name is checked after it was refused.
const NAME_POLL_INTERVAL: Duration = Duration::from_secs(10);
/// How long an enroller may take to reply.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection attempt may take before more detail is logged.
const CONNECT_WARN_INTERVAL: Duration = Duration::from_secs(20);
const REPORTED_FACTS: [&str; 7] =
    ["cloud", "is_virtual", "kernel", "kernelrelease", "os", "processors", "virtual"];
/// The parts of the fact `networking` in the request.
const REPORTED_NETWORK_FACTS: [&str; 5] = ["domain", "fqdn", "hostname", "ip", "ip6"];

/// The bootstrap credential of this machine, and the account that it trusts until it has its own credentials.
pub(super) struct BootstrapCredentials {
    signer: Signer,
    enrolment_account: AccountTrust,
}

impl BootstrapCredentials {
    pub(super) fn read_files(config: &Config, path: &Path) -> Result<Self, NodeEnrolmentError> {
        let signer = credentials::read_bootstrap_signer(path)?;
        let account = &config.provisioning.account;
        let enrolment_account =
            credentials::read_trust(config, "the bootstrap account token", account)?;
        Ok(Self { signer, enrolment_account })
    }

    /// The connection is named after the requested identity, because many machines share the bootstrap credentials.
    fn connect_options(&self, config: &Config, name: &Identity) -> Result<BusOptions, BusError> {
        let options = credentials::connect_options(config, &self.signer)?;
        Ok(BusOptions { name: format!("newcomer {name}"), ..options })
    }
}

/// Requests enrolment until the machine is enrolled, and stores the result.
pub(super) async fn enrol_node(
    config: &Config,
    bootstrap: &Path,
    store: &IdentityStore,
    retry: &Notify,
) -> Result<(), NodeEnrolmentError> {
    let bootstrap = BootstrapCredentials::read_files(config, bootstrap)?;
    let mut facts = collect_facts(config).await;
    let detected_name = cloud_name(&facts).unwrap_or_else(|| config.identity.clone());
    let mut proposal = store.load_or_propose(configured_name(config), &detected_name)?;
    let (proposal, acceptance) = loop {
        tracing::info!(
            identity = %proposal.identity, key = %proposal.key.public_key(),
            "this machine has no credentials; requesting enrolment"
        );
        let session = EnrolmentSession {
            bus: bootstrap.connect_options(config, &proposal.identity)?.connect().await?,
            facts: reported_facts(&facts),
            clock: WallClock::system(),
            cache: TokenCache::default(),
            bootstrap: &bootstrap,
            proposal: &proposal,
        };
        let decision = session.retry_until_decided(retry).await?;
        if let Err(error) = session.bus.close().await {
            tracing::debug!(%error, "cannot close the connection to the bootstrap account cleanly");
        }
        match decision {
            EnrolmentDecision::Accepted(acceptance) => break (proposal, acceptance),
            EnrolmentDecision::Refused(refused) => {
                let is_name = refused.reason == EnrolmentRefusalReason::NameNotAllowed;
                if configured_name(config).is_some() || !is_name {
                    return Err(NodeEnrolmentError::Refused {
                        identity: proposal.identity,
                        refused,
                    });
                }
                report_refused_name(&proposal.identity, &refused);
                let name = wait_for_other_name(config, &proposal.identity, retry).await;
                proposal = store.rename_proposal(&proposal, name)?;
                facts = collect_facts(config).await;
            }
        }
    };
    store.store_enrolment(&proposal, &acceptance)?;
    tracing::info!(identity = %proposal.identity, "enrolled");
    Ok(())
}

/// Reports a refused detected name. It is not final: early in the boot the machine may not have its name yet.
fn report_refused_name(name: &Identity, refused: &EnrolmentRefusal) {
    let bare = if name.as_str().contains('.') { "" } else { ", which has no domain" };
    let problem = format!(
        "enrolment as `{name}` was refused: {}; `{name}` is the machine's own host name{bare}; set `identity = \"NAME\"` in rpcd.toml and restart \
         rpcd, or set the host name: rpcd retries when it changes",
        refused.message
    );
    tracing::error!(reason = refused.reason.as_str(), "{problem}");
    notify_status(&problem);
}

/// Waits until the machine has another name. `retry` triggers an immediate check.
async fn wait_for_other_name(config: &Config, refused: &Identity, retry: &Notify) -> Identity {
    loop {
        let name = detect_name(config).await;
        if let Some(name) = name.filter(|name| name != refused) {
            return name;
        }
        tokio::select! {
            () = tokio::time::sleep(NAME_POLL_INTERVAL) => {}
            () = retry.notified() => {}
        }
    }
}

/// The name of the machine: that of its cloud, or else its host name. Collects no other facts.
async fn detect_name(config: &Config) -> Option<Identity> {
    let cloud = config.fact_sources().cloud;
    let detecting = tokio::task::spawn_blocking(move || {
        let facts = cloud.and_then(|cloud| cloud.collect_facts().ok());
        let facts = facts.and_then(|facts| NodeFacts::from_map(facts).ok());
        let host_name = || Identity::parse(&read_host_name().fqdn()).ok();
        facts.as_ref().and_then(cloud_name).or_else(host_name)
    });
    detecting.await.ok().flatten()
}

/// The state that is constant over all attempts.
struct EnrolmentSession<'a> {
    bus: Bus,
    bootstrap: &'a BootstrapCredentials,
    proposal: &'a ProposedIdentity,
    facts: NodeFacts,
    clock: WallClock,
    cache: TokenCache,
}

/// The final answer to a proposed name.
enum EnrolmentDecision {
    Accepted(Box<EnrolmentAcceptance>),
    Refused(EnrolmentRefusal),
}

enum EnrolmentAttempt {
    Decided(EnrolmentDecision),
    /// Retry after at least this pause.
    RetryAfter(Duration),
    /// Retry with the normal backoff.
    Retry,
}

impl EnrolmentSession<'_> {
    async fn retry_until_decided(
        &self,
        retry: &Notify,
    ) -> Result<EnrolmentDecision, NodeEnrolmentError> {
        let mut failures = 0;
        loop {
            self.wait_connected().await;
            let pause = match self.attempt_enrolment().await? {
                EnrolmentAttempt::Decided(decision) => return Ok(decision),
                EnrolmentAttempt::RetryAfter(pause) => {
                    failures = 0;
                    // Add up to 50 % jitter, so that machines that got the same pause do not retry together.
                    pause + ReconnectBackoff::random_within(pause / 2)
                }
                EnrolmentAttempt::Retry => {
                    failures += 1;
                    RETRY_BACKOFF.random_delay(failures)
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = retry.notified() => failures = 0,
            }
        }
    }

    /// The connection logs its own errors; every 20 s this checks and logs whether the bootstrap token is valid.
    async fn wait_connected(&self) {
        while tokio::time::timeout(CONNECT_WARN_INTERVAL, self.bus.wait_connected()).await.is_err()
        {
            let token = self.bootstrap.signer.token();
            let now = self.clock.now();
            match self.bootstrap.enrolment_account.verify_user(&token, now) {
                Ok(_) => tracing::warn!("not connected to the broker yet"),
                Err(error) => {
                    tracing::error!(
                        error = error_chain(&error),
                        "the bootstrap token is not valid"
                    );
                }
            }
        }
    }

    async fn attempt_enrolment(&self) -> Result<EnrolmentAttempt, NodeEnrolmentError> {
        let request = self.build_request()?;
        let sign = |request: &EnrolmentRequest| {
            sign_enrolment_request(request, &self.bootstrap.signer, &self.proposal.key)
        };
        let bytes = match sign(&request) {
            Err(EnvelopeSignError::Oversized { .. }) => {
                sign(&EnrolmentRequest { facts: NodeFacts::default(), ..request.clone() })?
            }
            signed => signed?,
        };
        match self.send_request(bytes.into()).await {
            Ok(message) if message.is_no_responders() => {
                tracing::warn!("no enroller is connected; the enrolment request will be retried");
                Ok(EnrolmentAttempt::Retry)
            }
            Ok(message) => Ok(self.evaluate_answer(&request, &message)),
            Err(error) => {
                tracing::warn!(error = error_chain(&error), "no reply to the enrolment request");
                Ok(EnrolmentAttempt::Retry)
            }
        }
    }

    /// Sends the request, and waits for the reply on its own inbox subject.
    async fn send_request(&self, request: Bytes) -> Result<BusMessage, BusError> {
        let key = self.bootstrap.signer.public_key().to_string();
        let address = AnswerAddress::of_request(&key, &Uuid::now_v7());
        let mut replies = self.bus.subscribe(&address.subscription_pattern()).await?;
        let reply_subject = address.of_broadcast();
        self.bus.publish_with_reply(subject::ENROLMENT_SUBJECT, &reply_subject, request).await?;
        let reply = tokio::time::timeout(ANSWER_TIMEOUT, replies.next()).await;
        reply
            .ok()
            .flatten()
            .ok_or(BusError::Timeout { operation: "answer", timeout: ANSWER_TIMEOUT })
    }

    fn build_request(&self) -> Result<EnrolmentRequest, NodeEnrolmentError> {
        Ok(EnrolmentRequest {
            identity: self.proposal.identity.clone(),
            key: self.proposal.key.public_key(),
            credential: self.bootstrap.signer.public_key(),
            nonce: EnrolmentNonce::from_random()?,
            facts: self.facts.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            time: self.clock.now(),
        })
    }

    fn evaluate_answer(
        &self,
        request: &EnrolmentRequest,
        message: &BusMessage,
    ) -> EnrolmentAttempt {
        let now = self.clock.now();
        let enrolment_account = &self.bootstrap.enrolment_account;
        let outcome = match open_enrolment_answer(
            message.payload(),
            request,
            enrolment_account,
            &self.cache,
            now,
        ) {
            Ok(outcome) => outcome,
            Err(error) => {
                tracing::warn!(error = error_chain(&error), "rejected an enrolment reply");
                return EnrolmentAttempt::Retry;
            }
        };
        match outcome {
            EnrolmentOutcome::Welcome(acceptance) => {
                let operator = enrolment_account.operator_key();
                match acceptance.verify_tokens(operator, request.key, now) {
                    Ok(_) => EnrolmentAttempt::Decided(EnrolmentDecision::Accepted(acceptance)),
                    Err(error) => {
                        tracing::error!(
                            error = error_chain(&error),
                            "rejected the credentials in an enrolment reply"
                        );
                        EnrolmentAttempt::Retry
                    }
                }
            }
            EnrolmentOutcome::Wait(wait) => {
                tracing::info!(reason = wait.message, "not enrolled yet");
                let pause = Duration::from_millis(wait.retry_after_ms);
                EnrolmentAttempt::RetryAfter(pause.clamp(Duration::from_secs(1), MAX_RETRY_PAUSE))
            }
            EnrolmentOutcome::Refused(refused) if refused.reason.is_final() => {
                EnrolmentAttempt::Decided(EnrolmentDecision::Refused(refused))
            }
            EnrolmentOutcome::Refused(refused) => {
                let reason = refused.reason.as_str();
                tracing::error!(reason, "refused: {}", refused.message);
                match refused.reason {
                    EnrolmentRefusalReason::NameTaken => {
                        EnrolmentAttempt::RetryAfter(RETRY_BACKOFF.max)
                    }
                    _ => EnrolmentAttempt::Retry,
                }
            }
        }
    }
}

/// The machine's facts; failures are logged.
async fn collect_facts(config: &Config) -> NodeFacts {
    let sources = config.fact_sources();
    let collecting = tokio::task::spawn_blocking(move || {
        let host: Arc<dyn System> = Arc::new(RealSystem::new("/".into()));
        let machines = FactMachines { node: &*host, host: &*host };
        facts::collect_facts(machines, &sources)
    });
    let (facts, problems) = collecting.await.unwrap_or_default();
    for problem in problems {
        tracing::warn!(%problem, "cannot collect all facts");
    }
    facts
}

/// The host name from the cloud's metadata, if it is a valid identity.
fn cloud_name(facts: &NodeFacts) -> Option<Identity> {
    let name = facts.get("cloud.hostname")?.as_str()?;
    Identity::parse(name).ok()
}

/// The enroller does not need addresses of all interfaces, disks or memory.
fn reported_facts(facts: &NodeFacts) -> NodeFacts {
    let mut reported = Map::new();
    for name in REPORTED_FACTS {
        reported.extend(facts.get(name).map(|fact| (name.to_owned(), fact.clone())));
    }
    if let Some(Value::Object(network)) = facts.get("networking") {
        let network_facts = REPORTED_NETWORK_FACTS
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), network.get(name)?.clone())));
        reported.insert("networking".to_owned(), Value::Object(network_facts.collect()));
    }
    NodeFacts::from_map(reported).unwrap_or_default()
}
