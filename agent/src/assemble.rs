//! Builds the parts of a daemon from its configuration: reads the files that it names. `agents.rs` builds the agents.
//!
//! All configuration errors of a node are found here, before any connection is made.

use muster_base::unix_millis;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_api::FindingLevel;
use muster_api::base::error_chain;
use muster_api::system::System;
use muster_api::system::real::RealSystem;
use muster_bus::{BrokerAddress, BrokerCredentials, BusError, BusOptions};
use muster_policy::PolicySet;
use muster_puppet::PuppetRunMonitor;
use muster_secret::{SecretFileError, SecretOwner};
use muster_wire::Millis;
use muster_wire::identity::{Identity, NameError};
use muster_wire::limits;
use muster_wire::sign::Signer;
use muster_wire::subject;
use muster_wire::token::{
    AccountTrust, KeyPair, PublicKey, TokenError, UserCredentials, UserCredentialsError,
};

use crate::agents::{self, BrokerHandles, PluginSetupError};
use crate::audit::{self, AuditLog, AuditLogError};
use crate::classes::ClassStore;
use crate::clock::WallClock;
use crate::config::Config;
use crate::core::{CoreParts, DaemonCore, PolicyOptions};
use crate::enrolment::{self, NodeEnrolmentError};
use crate::facts::{CloudCollector, FactMachines, FactSources, FactStore};
use crate::policy;
use crate::renewal;
use crate::seen::{SeenError, SeenRequests};
use crate::services;

/// Maximum size of a seed file, in bytes.
const MAX_SEED_BYTES: u64 = 1024;

/// The node's renewed token, in the state directory.
pub(crate) const RENEWED_TOKEN_FILE: &str = "token.jwt";

/// The record of the audit log's last checkpoint, in the state directory.
const AUDIT_HEAD_FILE: &str = "audit.head";

/// Why a daemon cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    /// A file that the configuration names cannot be read.
    #[error("cannot read {content} from {}", path.display())]
    Read {
        /// The content of the file.
        content: &'static str,
        /// The file.
        path: PathBuf,
        /// The system error.
        #[source]
        source: io::Error,
    },
    /// The state directory cannot be created.
    #[error("cannot create the directory {}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The system error.
        #[source]
        source: io::Error,
    },
    /// The lock of the state directory cannot be taken.
    #[error("cannot lock {}", path.display())]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// The system error.
        #[source]
        source: io::Error,
    },
    /// Another daemon holds the lock of the state directory.
    #[error("another rpcd is running with the state directory {}", path.display())]
    Occupied {
        /// The directory.
        path: PathBuf,
    },
    /// A secret file that other users can read.
    #[error(transparent)]
    Exposed(#[from] SecretFileError),
    /// The credentials are invalid.
    #[error("the credentials in {} cannot be used", path.display())]
    Creds {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: UserCredentialsError,
    },
    /// The name in the credentials is not an identity.
    #[error("the name in the credentials in {} is not a valid identity", path.display())]
    Name {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: NameError,
    },
    /// The configured identity differs from the one in the credentials.
    #[error("the configured identity is `{configured}`, but the credentials in {} are for `{found}`", path.display())]
    Identity {
        /// The configured identity.
        configured: Identity,
        /// The identity in the token.
        found: Identity,
        /// The credentials' file.
        path: PathBuf,
    },
    /// The operator's key or the account token is invalid.
    #[error("the account token in {} cannot be used", path.display())]
    Trust {
        /// The account token's file.
        path: PathBuf,
        /// Why.
        #[source]
        source: TokenError,
    },
    /// A broker address is invalid.
    #[error("the broker address is not valid")]
    Broker(#[from] BusError),
    /// A built-in plugin cannot be set up.
    #[error(transparent)]
    Plugin(#[from] PluginSetupError),
    /// A service cannot be started.
    #[error("cannot start a service")]
    Service(#[from] muster_provisioner::ProvisionerServiceError),
    /// The enrolment service cannot be set up.
    #[error("cannot start the enrolment service")]
    Enrol(#[source] muster_enrol::NodeEnrollerError),
    /// The journal of seen requests cannot be used.
    #[error(transparent)]
    Seen(#[from] SeenError),
    /// The audit log cannot be used.
    #[error(transparent)]
    Audit(#[from] AuditLogError),
    /// The enrolment state cannot be used.
    #[error(transparent)]
    NodeEnrolment(#[from] NodeEnrolmentError),
}

/// A daemon's state and its connection options.
#[derive(Debug)]
pub struct AssembledDaemon {
    /// The state.
    pub core: Arc<DaemonCore>,
    /// The connection options.
    pub options: BusOptions,
    /// The agents' broker handles; they must be connected too.
    pub broker_handles: BrokerHandles,
    /// Resumes the Puppet runs of an earlier daemon, and counts runs that others start.
    pub puppet: PuppetRunMonitor,
    /// The machine that the daemon itself runs on; a source of facts too.
    pub host: Arc<dyn System>,
}

/// Loads everything that is read-only, to check that a daemon can be built. Does not touch files that a running daemon uses.
pub fn check_config(config: &Config) -> Result<(), AssembleError> {
    if let Some(bootstrap) = enrolment::bootstrap_path(config) {
        enrolment::check_bootstrap(config, bootstrap)?;
        agents::check_plugins(config)?;
        load_policies(config);
        return Ok(());
    }
    let config = &enrolment::effective_config(config)?;
    let signer = load_signer(config)?;
    connect_options(config, &signer)?;
    load_trust(config)?;
    agents::check_plugins(config)?;
    services::check_services(config)?;
    load_policies(config);
    Ok(())
}

/// The sources of facts.
pub fn fact_sources(config: &Config) -> FactSources {
    let facts = &config.facts;
    FactSources {
        identity: config.identity.clone(),
        facts_d: config.paths.facts_d.clone(),
        facter: facts.facter.clone(),
        cloud: CloudCollector::new(&facts.cloud, facts.cloud_url.as_deref(), facts.cloud_imds_v1),
        given: config.given_facts().clone(),
    }
}

/// Reads and builds everything, in a state directory that this process has locked. Blocks.
pub fn assemble_daemon(
    config: &Config,
    config_file: &Path,
) -> Result<AssembledDaemon, AssembleError> {
    let clock = WallClock::system();
    let signer = load_signer(config)?;
    let options = connect_options(config, &signer)?;
    let state = &config.paths.state;
    let host: Arc<dyn System> = Arc::new(RealSystem::new("/".into()));
    let system: Arc<dyn System> = Arc::new(RealSystem::new(config.paths.root.clone()));
    let facts = FactStore::new(fact_sources(config));
    let trust = load_trust(config)?;
    use_renewed_token(config, &signer, &trust, clock.now());
    let (policy, problems) = load_policies(config);
    let broker_handles = BrokerHandles::new(config.identity.clone());
    let plugins = agents::configured_plugins(config, &broker_handles)?;
    // Check before the log is opened, because opening creates the file. Other state files can already exist on a newly enrolled machine.
    let ran_before = state.join(AUDIT_HEAD_FILE).exists();
    let core = DaemonCore::new(CoreParts {
        audit: Arc::new(AuditLog::open(audit_options(config, &signer, &trust))?),
        trust: Arc::new(trust),
        collectives: config.collectives.clone(),
        classes: ClassStore::new(config.paths.classes.clone()),
        policy: Arc::new(policy),
        authority: PolicyOptions {
            tell_rules: config.policy.tell_rules,
            approve_dangerous: config.policy.approve_dangerous,
        },
        registry: Arc::new(agents::build_registry(config, plugins.agents)?),
        data_sources: plugins.data_sources.into(),
        seen: SeenRequests::open(&state.join("seen"), clock.now(), ran_before)?,
        skew: u64::try_from(config.requests.skew.as_millis()).unwrap_or(u64::MAX),
        plain_secrets: config.requests.plain_secrets,
        config: Some(config.clone()),
        config_file: config_file.to_owned(),
        signer,
        facts,
        system,
        clock,
    });
    core.health().set_findings("policies", FindingLevel::Error, &problems);
    let max_age = config.trust.max_age;
    if !max_age.is_zero() {
        core.trust_freshness().set_max_age(Some(max_age));
        if let Some(at) = modified_at(&confirmation_path(config)) {
            core.trust_freshness().set_confirmed_before(at);
        }
    }
    reload_facts(&core, &*host);
    let puppet = plugins.puppet.build_monitor(Arc::clone(&core.system));
    Ok(AssembledDaemon { core: Arc::new(core), options, broker_handles, puppet, host })
}

/// Collects facts and reads classes again. A source that fails keeps its last good value, and the failure is reported. Blocks.
pub fn reload_facts(core: &DaemonCore, host: &dyn System) {
    let mut problems = Vec::new();
    for problem in core.facts.reload(FactMachines { node: &*core.system, host }) {
        tracing::warn!(%problem, "cannot collect all facts");
        problems.push(error_chain(&problem));
    }
    core.health().set_findings("facts", FindingLevel::Warning, &problems);
    let result = core.classes.reload();
    if let Err(error) = &result {
        tracing::warn!(%error, "cannot read the classes");
    }
    let problems: Vec<String> = result.err().iter().map(|error| error_chain(error)).collect();
    core.health().set_findings("classes", FindingLevel::Warning, &problems);
}

/// Reads the policies again. Errors are reported, and the affected policies deny.
pub fn reload_policies(core: &DaemonCore, config: &Config) {
    let (policy, problems) = load_policies(config);
    core.set_policy(policy);
    core.health().set_findings("policies", FindingLevel::Error, &problems);
}

fn load_policies(config: &Config) -> (PolicySet, Vec<String>) {
    let (policy, problems) = policy::load_policies(&config.paths.policies, config.policy.default);
    for problem in &problems {
        tracing::error!(%problem, "the whole policy is rejected");
    }
    (policy, problems.iter().map(|problem| error_chain(problem)).collect())
}

fn audit_options(config: &Config, signer: &Signer, trust: &AccountTrust) -> audit::AuditOptions {
    let settings = &config.audit;
    audit::AuditOptions {
        path: config.paths.audit.clone(),
        fail_closed: settings.fail_closed,
        max_bytes: settings.max_bytes,
        keep: settings.keep,
        mode: settings.mode,
        group: settings.group.clone(),
        checkpoint_lines: settings.checkpoint_lines,
        checkpoint_every: settings.checkpoint_every,
        head: Some(config.paths.state.join(AUDIT_HEAD_FILE)),
        signer: signer.clone(),
        account: trust.account_token().to_owned(),
    }
}

/// The path of a changed account token.
pub fn account_token_path(config: &Config) -> PathBuf {
    config.paths.state.join("account.jwt")
}

/// An empty file, written when the account token was last confirmed to be the newest. Its time survives a restart, which does not confirm the
/// token.
pub(crate) fn confirmation_path(config: &Config) -> PathBuf {
    config.paths.state.join("account.confirmed")
}

/// When a file was last modified, if it exists.
fn modified_at(path: &Path) -> Option<Millis> {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified()).ok()?;
    Some(unix_millis(modified))
}

/// The path of the node's renewed token. Its key stays in the credentials file.
pub fn renewed_token_path(config: &Config) -> PathBuf {
    config.paths.state.join(RENEWED_TOKEN_FILE)
}

/// Uses the renewed token that an earlier daemon stored, if it belongs to this node and expires later than the one in the credentials.
fn use_renewed_token(config: &Config, signer: &Signer, trust: &AccountTrust, now: Millis) {
    let path = renewed_token_path(config);
    let Ok(token) = read_token_file("the node's renewed token", &path) else {
        return;
    };
    if let Err(error) = renewal::renew_token(signer, trust, token.trim(), now) {
        tracing::debug!(error = error_chain(&error), path = %path.display(), "the stored token is not used");
    }
}

fn load_signer(config: &Config) -> Result<Signer, AssembleError> {
    let path = &config.broker.credentials;
    let signer = read_signer(path)?;
    if *signer.identity() != config.identity {
        return Err(AssembleError::Identity {
            configured: config.identity.clone(),
            found: signer.identity().clone(),
            path: path.clone(),
        });
    }
    Ok(signer)
}

/// Reads a credentials file. Rejects a file that other users can read.
pub(crate) fn read_signer(path: &Path) -> Result<Signer, AssembleError> {
    let text =
        muster_secret::read_secret(path, SecretOwner::Daemon, UserCredentials::MAX_FILE_BYTES)?;
    let creds = UserCredentials::parse(&text)
        .map_err(|source| AssembleError::Creds { path: path.to_owned(), source })?;
    Signer::new(creds).map_err(|source| AssembleError::Name { path: path.to_owned(), source })
}

/// The configured account token or the stored later one, whichever is newer.
fn load_trust(config: &Config) -> Result<AccountTrust, AssembleError> {
    let configured = read_trust(config, &config.trust.account)?;
    let Ok(stored) = read_token_file("the account's token", &account_token_path(config)) else {
        return Ok(configured);
    };
    Ok(configured.update(stored.trim()).unwrap_or(configured))
}

/// An account, verified against the pinned operator key, from the token in this file.
pub(crate) fn read_trust(config: &Config, account: &Path) -> Result<AccountTrust, AssembleError> {
    let trust_error = |source| AssembleError::Trust { path: account.to_owned(), source };
    let operator =
        PublicKey::parse(&config.trust.operator).map_err(|error| trust_error(error.into()))?;
    AccountTrust::new(operator, read_token_file("the account's token", account)?.trim())
        .map_err(trust_error)
}

/// The connection options for the configured broker.
pub(crate) fn connect_options(
    config: &Config,
    signer: &Signer,
) -> Result<BusOptions, AssembleError> {
    let parse = |url: &String| BrokerAddress::parse(url, config.broker.plaintext_on_loopback);
    let servers = config.broker.urls.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    let mut options = BusOptions::for_daemon(signer.identity().as_str(), servers);
    options.authority.clone_from(&config.broker.ca);
    Ok(with_signer(options, signer))
}

/// The same connection options with another signer.
pub(crate) fn with_signer(options: BusOptions, signer: &Signer) -> BusOptions {
    BusOptions {
        name: signer.identity().to_string(),
        credentials: Some(BrokerCredentials::from_signer(signer)),
        inbox_prefix: Some(subject::inbox_prefix(&signer.public_key().to_string())),
        ..options
    }
}

/// Reads the key from a seed file.
pub(crate) fn read_key(path: &Path) -> Result<KeyPair, AssembleError> {
    let seed = muster_secret::read_secret(path, SecretOwner::Daemon, MAX_SEED_BYTES)?;
    KeyPair::from_seed(seed.trim())
        .map_err(|source| AssembleError::Trust { path: path.to_owned(), source: source.into() })
}

/// Reads a non-secret file of at most the size of a token.
fn read_token_file(content: &'static str, path: &Path) -> Result<String, AssembleError> {
    let read = || {
        let mut text = String::new();
        let limit = limits::MAX_TOKEN_BYTES as u64;
        let length = File::open(path)?.take(limit + 1).read_to_string(&mut text)?;
        if length as u64 > limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(text)
    };
    read().map_err(|source| AssembleError::Read { content, path: path.to_owned(), source })
}
