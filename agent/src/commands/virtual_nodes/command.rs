//! `rpcd virtual`: runs many nodes of the configured fleet until a signal ends it.
//!
//! It creates their keys, signs their tokens with the node key, and stores none of them. Intended for tests on one machine; usually
//! started by `rpc demo up --virtual`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use futures_util::{TryStreamExt as _, stream};
use muster_bus::BusOptions;
use muster_node::config::Config;
use muster_node::ground::clock::WallClock;
use muster_node::ground::signals::{CONNECTED_STATUS, notify_status, notify_systemd};
use muster_node::trust::{credentials, own_tokens};
use muster_wire::sign::Signer;
use muster_wire::token::claims::UserClaims;
use muster_wire::token::encode::{self, TokenValidity};
use muster_wire::token::{KeyKind, KeyPair, PublicKey, UserCredentials};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use sd_notify::NotifyState;
use tokio::signal::unix::{SignalKind, signal};

use super::fleet::{NodeFleet, NodeFleetError};
use super::node::VirtualNode;
use super::template::NodeTemplate;
use crate::daemon::state_lock;
use crate::services::agents;

/// Maximum number of nodes that connect at the same time.
const MAX_CONCURRENT_CONNECTS: usize = 64;
/// Open files of the process in addition to one per node.
const RESERVED_FILES: u64 = 200;
/// Timeout for stopping all nodes together.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
const TOKEN_LIFETIME_SECONDS: u64 = 30 * 24 * 60 * 60;
/// Number of progress reports during the start.
const PROGRESS_REPORTS: usize = 10;

/// `rpcd virtual`.
#[derive(Debug, Args)]
pub struct VirtualNodesArgs {
    /// Number of nodes
    #[arg(long, default_value_t = 1000)]
    nodes: usize,
    /// The file with the key that signs the tokens of nodes
    #[arg(long, value_name = "FILE")]
    node_key: PathBuf,
}

pub fn run_virtual_nodes(args: &VirtualNodesArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let file_limit = raise_file_limit().context("cannot read the limit of open files")?;
    let needed = u64::try_from(args.nodes).unwrap_or(u64::MAX);
    if needed.saturating_add(RESERVED_FILES) > file_limit {
        bail!(
            "{} nodes need one connection each, but this process may open only {file_limit} files; use at most {} nodes, \
             or raise the limit (`ulimit -Hn`)",
            args.nodes,
            file_limit.saturating_sub(RESERVED_FILES)
        );
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(run_until_signal(args, config))?;
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

/// Raises the limit of open files to its maximum, and returns it.
fn raise_file_limit() -> nix::Result<u64> {
    let (_, max) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, max, max)?;
    Ok(max)
}

async fn run_until_signal(args: &VirtualNodesArgs, config: &Config) -> anyhow::Result<()> {
    let listen = |kind| signal(kind).context("cannot install signal handlers");
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    let _state_lock = state_lock::acquire_state_lock(&config.paths.state).await?;
    let factory = NodeFactory::new(args, config)?;
    tokio::select! {
        started = factory.start_all(args.nodes) => started?,
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    }
    tracing::info!(nodes = factory.fleet.len(), "ready");
    notify_systemd(&[NotifyState::Ready, NotifyState::Status(CONNECTED_STATUS)]);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    notify_systemd(&[NotifyState::Stopping]);
    factory.fleet.stop_all(SHUTDOWN_TIMEOUT).await;
    Ok(())
}

/// The common inputs of all nodes.
struct NodeFactory {
    template: NodeTemplate,
    fleet: NodeFleet,
    role: KeyPair,
    account: PublicKey,
    options: BusOptions,
    validity: TokenValidity,
}

impl NodeFactory {
    fn new(args: &VirtualNodesArgs, config: &Config) -> anyhow::Result<Self> {
        let state = &config.paths.state;
        let trust = own_tokens::read_trust(config, &config.trust.account)?;
        let (policy, problems) = muster_node::trust::policy::load_policies(
            &config.paths.policies,
            config.policy.default,
        );
        if let Some(problem) = problems.into_iter().next() {
            return Err(problem).context("a policy of the virtual nodes is not valid");
        }
        let role = credentials::read_key(&args.node_key)?;
        let signer = credentials::read_signer(&config.broker.credentials)?;
        let now = WallClock::system().now() / 1000;
        Ok(Self {
            account: trust.account_key(),
            fleet: NodeFleet::new(args.nodes, state, &signer, trust.account_token())?
                .with_registration(config.registration.clone(), config.broker.reconnect_spread),
            options: credentials::connect_options(config, &signer)?,
            template: NodeTemplate::new(
                trust,
                config.collectives.clone(),
                policy,
                agents::default_data_sources(config.identity.clone(), state)?,
            )?,
            role,
            validity: TokenValidity { issued_at: now, expires: Some(now + TOKEN_LIFETIME_SECONDS) },
        })
    }

    /// Creates and connects all nodes, and reports the progress to the service manager.
    async fn start_all(&self, nodes: usize) -> anyhow::Result<()> {
        let (connected, stride) = (&AtomicUsize::new(0), nodes.div_ceil(PROGRESS_REPORTS));
        stream::iter((0..nodes).map(Ok))
            .try_for_each_concurrent(MAX_CONCURRENT_CONNECTS, |number| async move {
                self.start_one(number).await?;
                let connected = connected.fetch_add(1, Ordering::Relaxed) + 1;
                if connected.is_multiple_of(stride) {
                    let status = format!("{connected} of {nodes} nodes are connected");
                    notify_status(&status);
                }
                Ok(())
            })
            .await
    }

    async fn start_one(&self, number: usize) -> anyhow::Result<()> {
        let node = VirtualNode::from_number(number)?;
        let signer = self.issue_signer(&node)?;
        let log = self.fleet.log_for(number).context("the virtual node has no audit log")?;
        let core = self.template.build_core(node, signer, log)?;
        let connection = credentials::with_signer(self.options.clone(), &core.trust.signer);
        let bus = connection.connect().await;
        let bus = bus
            .map_err(|source| NodeFleetError::Connect { node: core.identity().clone(), source })?;
        bus.wait_connected().await;
        Ok(self.fleet.start_node(core, bus).await?)
    }

    /// A key and a token that exist only in this process.
    fn issue_signer(&self, node: &VirtualNode) -> anyhow::Result<Signer> {
        let key = KeyPair::generate(KeyKind::User)?;
        let user = UserClaims::new(self.account, Vec::new());
        let token = encode::issue_user_token(
            &node.name,
            key.public_key(),
            user,
            self.validity,
            &self.role,
        )?;
        Ok(Signer::new(UserCredentials::new(&token, key)?)?)
    }
}
