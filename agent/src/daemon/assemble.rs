//! Builds the parts of a daemon from its configuration. `credentials.rs` reads keys and tokens, `agents.rs` builds the agents.
//!
//! All configuration errors of a node are found here, before any connection is made.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_agents::motd::MotdRenderer;
use muster_agents::nrpe::CheckMonitor;
use muster_agents::package::PackageWorkers;
use muster_agents::release::ReleaseFollower;
use muster_agents::ssh::LoginOptions;
use muster_api::base::duration_millis;
use muster_api::system::System;
use muster_api::system::real::RealSystem;
use muster_api::{FindingLevel, HistoryRecorder};
use muster_bus::{BusError, BusOptions};
use muster_node::config::Config;
use muster_node::core::audit::{AuditLog, AuditLogError, AuditOptions, HistoryTap};
use muster_node::core::begun::BegunRequests;
use muster_node::core::history::HistoryJournal;
use muster_node::core::journals::NodeJournals;
use muster_node::core::seen::{SeenError, SeenRequests};
use muster_node::core::sent_replies::SentReplies;
use muster_node::core::{CoreParts, DaemonCore, NodeOffer, reload};
use muster_node::ground::clock::WallClock;
use muster_node::ground::shared::SharedValue;
use muster_node::machine::classes::ClassStore;
use muster_node::machine::facts::FactStore;
use muster_node::machine::node_description::NodeDescription;
use muster_node::machine::node_state::NodeStateStore;
use muster_node::trust::credentials::{self, CredentialsError};
use muster_node::trust::enrolment::NodeEnrolmentError;
use muster_node::trust::node_trust::NodeTrust;
use muster_node::trust::{own_tokens, policy};
use muster_puppet::PuppetRunMonitor;
use muster_puppet::again::AgainMonitor;

use crate::services::agents::{self, BackgroundPlugins, BrokerHandles, PluginSetupError};
use crate::services::central::ServiceError;
use crate::services::history_tasks;

/// The record of the audit log's last checkpoint, in the state directory.
const AUDIT_HEAD_FILE: &str = "audit.head";
/// The journal for the fleet's history, in the state directory.
const HISTORY_DIRECTORY: &str = "history";

#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    #[error("cannot create or read the directory {}", path.display())]
    Directory { path: PathBuf, source: io::Error },
    /// Another user can change the state directory, or a file in it.
    #[error(transparent)]
    Unprotected(#[from] muster_files::ProtectedFileError),
    #[error("cannot lock {}", path.display())]
    Lock { path: PathBuf, source: io::Error },
    #[error("another rpcd is running with the state directory {}", path.display())]
    Occupied { path: PathBuf },
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    #[error("the broker address is not valid")]
    Broker(#[from] BusError),
    /// The addresses of the broker, or the file of its authority, cannot be used.
    #[error("cannot set up the connection to the broker")]
    Connection(#[source] BusError),
    #[error(transparent)]
    Plugin(#[from] PluginSetupError),
    #[error(transparent)]
    Service(#[from] ServiceError),
    #[error(transparent)]
    Seen(#[from] SeenError),
    #[error(transparent)]
    Audit(#[from] AuditLogError),
    #[error(transparent)]
    NodeEnrolment(#[from] NodeEnrolmentError),
}

#[derive(Debug)]
pub struct AssembledDaemon {
    pub core: Arc<DaemonCore>,
    pub options: BusOptions,
    /// The agents' broker handles; they must be connected too.
    pub broker_handles: BrokerHandles,
    /// Resumes the Puppet runs of an earlier daemon, and counts runs that others start.
    pub puppet: PuppetRunMonitor,
    /// The runs that are asked for; `None` without the agent `again`.
    pub again: Option<AgainMonitor>,
    /// The scheduled checks; `None` without the agent `nrpe`.
    pub checks: Option<CheckMonitor>,
    /// The promotions of the node; `None` without the agent `release`.
    pub releases: Option<ReleaseFollower>,
    /// Directory of the refresh ledger.
    pub engine_dir: PathBuf,
    /// The machine that the daemon itself runs on; a source of facts too.
    pub host: Arc<dyn System>,
    pub packages: Arc<PackageWorkers>,
    pub motd: Arc<MotdRenderer>,
    /// How logins with certificates are decided; `None` if the node does not accept them.
    pub logins: Option<LoginOptions>,
}

/// Reads and builds everything, in a state directory that this process has locked. Blocks.
pub fn assemble_daemon(
    config: &Config,
    config_file: &Path,
    broker_handles: BrokerHandles,
) -> Result<AssembledDaemon, AssembleError> {
    let signer = own_tokens::load_signer(config)?;
    let options = credentials::connect_options(config, &signer)?;
    let state = &config.paths.state;
    let host: Arc<dyn System> = Arc::new(RealSystem::new("/".into()));
    let account = SharedValue::new(own_tokens::load_trust(config)?);
    let trust = Arc::new(NodeTrust::new(signer, account, WallClock::system()));
    own_tokens::use_renewed_token(config, &trust);
    own_tokens::restore_confirmation(config, &trust);
    let now = trust.clock.now();
    let (policy, problems) = policy::load_configured_policies(config);
    for problem in &problems {
        tracing::error!(problem, "the policy denies what depends on this file");
    }
    let path = state.join(HISTORY_DIRECTORY);
    let history = HistoryJournal::open(&path);
    let history = history.map_err(|source| AssembleError::Directory { path, source })?;
    history.set_wanted(history_tasks::has_history(&trust));
    let history = Arc::new(history);
    let recorder = HistoryRecorder::new(history.clone());
    let plugins = agents::configured_plugins(config, &broker_handles, recorder)?;
    // Check before the log is opened, because opening creates the file. Other state files can already exist on a newly enrolled machine.
    let ran_before = state.join(AUDIT_HEAD_FILE).exists();
    let audit = Arc::new(AuditLog::open(audit_options(config, &trust, &history))?);
    let core = DaemonCore::new(CoreParts {
        node: NodeDescription {
            collectives: config.collectives.clone(),
            facts: FactStore::new(config.fact_sources()),
            classes: ClassStore::new(config.paths.classes.clone()),
            state: NodeStateStore::new(plugins.state_sources, plugins.state_changes),
            system: Arc::new(RealSystem::new(config.paths.root.clone())),
        },
        offer: NodeOffer {
            registry: SharedValue::new(agents::build_registry(config, plugins.agents)?),
            data_sources: plugins.data_sources.into(),
            policy: SharedValue::new(policy),
            authority: config.policy.options,
        },
        journals: NodeJournals {
            audit,
            seen: SeenRequests::open(&state.join("seen"), now, ran_before)?,
            begun: BegunRequests::open(&state.join("begun"), now),
            sent_replies: SentReplies::default(),
            history,
        },
        trust,
        skew: duration_millis(config.requests.skew),
        plain_secrets: config.requests.plain_secrets,
        config: Some(config.clone()),
        config_file: config_file.to_owned(),
    });
    core.health.set_findings("policies", FindingLevel::Error, &problems);
    reload::reload_facts(&core, &*host);
    core.node.state.refresh(&*core.node.system);
    let BackgroundPlugins { puppet, again, checks, releases, engine_dir, packages, motd, logins } =
        plugins.background;
    let puppet = puppet.build_monitor(Arc::clone(&core.node.system));
    let core = Arc::new(core);
    Ok(AssembledDaemon {
        core,
        options,
        broker_handles,
        puppet,
        again,
        checks,
        releases,
        engine_dir,
        host,
        packages,
        motd,
        logins,
    })
}

fn audit_options(
    config: &Config,
    trust: &NodeTrust,
    history: &Arc<HistoryJournal>,
) -> AuditOptions {
    AuditOptions {
        history: Some(HistoryTap::new(Arc::clone(history))),
        settings: config.audit.clone(),
        head: Some(config.paths.state.join(AUDIT_HEAD_FILE)),
        ..AuditOptions::new(
            config.paths.audit.clone(),
            trust.signer.clone(),
            trust.account.get().account_token().to_owned(),
        )
    }
}
