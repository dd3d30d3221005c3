//! `rpcd virtual`: runs many nodes of the fleet that a configuration names, until a signal ends it.
//!
//! It makes their keys itself, with the key that signs nodes, and keeps none of them. It is for trying things on one machine, and
//! `rpc demo up --virtual` is how it is usually started.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use futures_util::{TryStreamExt as _, stream};
use muster_bus::Options;
use muster_wire::sign::Signer;
use muster_wire::token::claims::User;
use muster_wire::token::encode::{self, Validity};
use muster_wire::token::{Creds, KeyKind, KeyPair, PublicKey};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use sd_notify::NotifyState;
use tokio::signal::unix::{SignalKind, signal};

use super::crowd::{Crowd, CrowdError};
use super::member::Member;
use super::mould::Mould;
use crate::clock::Clock;
use crate::config::Config;
use crate::{assemble, state_lock};

/// Nodes that connect at the same time.
const CONNECTING: usize = 64;
/// Open files of the process besides one for each node.
const OTHER_FILES: u64 = 200;
/// How long all nodes together may take to leave.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long their tokens are valid, in seconds.
const LIFETIME: u64 = 30 * 24 * 60 * 60;
/// How often it is told how far it is.
const REPORTS: usize = 10;

/// `rpcd virtual`.
#[derive(Debug, Args)]
pub struct Virtual {
    /// How many nodes
    #[arg(long, default_value_t = 1000)]
    nodes: usize,
    /// The file with the key that signs nodes
    #[arg(long, value_name = "FILE")]
    node_key: PathBuf,
}

/// Runs them until a signal ends it.
pub fn run(wanted: &Virtual, config: &Config) -> anyhow::Result<ExitCode> {
    let room = open_files().context("cannot tell how many files may be open")?;
    let needed = u64::try_from(wanted.nodes).unwrap_or(u64::MAX);
    if needed.saturating_add(OTHER_FILES) > room {
        bail!(
            "{} nodes have a connection each, and this process may have {room} files open; ask for at most {} nodes, \
             or raise the limit (`ulimit -Hn`)",
            wanted.nodes,
            room.saturating_sub(OTHER_FILES)
        );
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(live(wanted, config))?;
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

/// Raises how many files may be open as far as it may be, and says how far that is.
fn open_files() -> nix::Result<u64> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    Ok(most)
}

async fn live(wanted: &Virtual, config: &Config) -> anyhow::Result<()> {
    let hear = |kind| signal(kind).context("cannot receive signals");
    let mut terminate = hear(SignalKind::terminate())?;
    let mut interrupt = hear(SignalKind::interrupt())?;
    let _until_the_end = state_lock::possess(&config.paths.state).await?;
    let maker = Maker::new(wanted, config)?;
    tokio::select! {
        started = maker.start(wanted.nodes) => started?,
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    }
    tracing::info!(nodes = maker.crowd.len(), "ready");
    notify(&[NotifyState::Ready]);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    notify(&[NotifyState::Stopping]);
    maker.crowd.stop_all(PATIENCE).await;
    Ok(())
}

/// What every node is made with.
struct Maker {
    mould: Mould,
    crowd: Crowd,
    role: KeyPair,
    account: PublicKey,
    options: Options,
    valid: Validity,
}

impl Maker {
    fn new(wanted: &Virtual, config: &Config) -> anyhow::Result<Self> {
        let state = &config.paths.state;
        let trust = assemble::trust_in(config, &config.trust.account)?;
        let (policy, problems) = crate::policy::load(&config.paths.policies, config.policy.default);
        if let Some(problem) = problems.into_iter().next() {
            return Err(problem).context("a policy of the virtual nodes cannot be used");
        }
        let role = assemble::key_of(&wanted.node_key)?;
        let signer = assemble::signer_of(&config.broker.credentials)?;
        let now = Clock::system().now() / 1000;
        Ok(Self {
            account: trust.account(),
            crowd: Crowd::new(wanted.nodes, state, &signer, trust.token())?,
            options: assemble::options(config, &signer)?,
            mould: Mould::new(trust, config.collectives.clone(), policy, state)?,
            role,
            valid: Validity {
                issued_at: now,
                expires: Some(now + LIFETIME),
            },
        })
    }

    /// Makes and connects all of them, and tells the service manager how far that is.
    async fn start(&self, nodes: usize) -> anyhow::Result<()> {
        let (done, stride) = (&AtomicUsize::new(0), nodes.div_ceil(REPORTS));
        stream::iter((0..nodes).map(Ok))
            .try_for_each_concurrent(CONNECTING, |number| async move {
                self.start_one(number).await?;
                let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                if done.is_multiple_of(stride) {
                    let status = format!("{done} of {nodes} nodes are connected");
                    notify(&[NotifyState::Status(&status)]);
                }
                Ok(())
            })
            .await
    }

    async fn start_one(&self, number: usize) -> anyhow::Result<()> {
        let member = Member::of(number)?;
        let signer = self.sign(&member)?;
        let log = self.crowd.log_of(number).context("it has no audit log")?;
        let core = self.mould.node(member, signer, log)?;
        let connection = assemble::as_party(self.options.clone(), core.signer());
        let bus = connection.connect().await;
        let bus = bus.map_err(|source| CrowdError::Connect {
            node: core.identity().clone(),
            source,
        })?;
        bus.connected().await;
        Ok(self.crowd.start(core, bus).await?)
    }

    /// A key and a token that only this process has.
    fn sign(&self, member: &Member) -> anyhow::Result<Signer> {
        let key = KeyPair::generate(KeyKind::User)?;
        let user = User::new(self.account, Vec::new());
        let token = encode::user(&member.name, key.public(), user, self.valid, &self.role)?;
        Ok(Signer::new(Creds::new(&token, key)?)?)
    }
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "no service manager was told");
    }
}
