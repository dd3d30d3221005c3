//! The fleet, as somebody asks it: connects, and finds nodes. Shows progress; draws no results.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use muster_client::{
    Aim, Answer, Call, Client, ClientError, Method, Server, Source, Stats, Window,
};
use muster_wire::identity::{Identity, Name};
use muster_wire::trace::Traceparent;

use super::error::AskError;
use super::interrupt::Interrupt;
use super::locate::locate;
use super::progress::Progress;
use super::target::Target;
use super::vouched::Vouched;
use crate::clock;
use crate::report::{Gap, RequestStats};
use crate::settings::Settings;

/// A connection to the fleet.
#[derive(Debug)]
pub struct Fleet {
    pub(super) client: Client,
    /// Remembers for the next command what this one has verified.
    _vouched: Vouched,
    /// How long is listened for the first node.
    pub(super) listen: Duration,
    /// Where nodes are looked for.
    source: Source,
    /// Whether sensitive inputs travel in clear.
    pub(super) plain_secrets: bool,
}

/// The nodes that were found, and how.
#[derive(Debug, Default)]
pub struct Found {
    /// The nodes.
    pub nodes: BTreeSet<Identity>,
    /// How they were found.
    pub stats: RequestStats,
}

/// Who is pinged, and what is wanted of it.
#[derive(Debug, Clone, Copy)]
pub struct Ping<'a> {
    /// Whoever is meant.
    pub target: &'a Target,
    /// So many answers are enough.
    pub expect: Option<usize>,
    /// The trace that it is part of; then nodes tell how long each of their stages took.
    pub traceparent: Option<Traceparent>,
}

impl Found {
    /// Nodes that somebody has named: nothing is looked for.
    pub fn named(nodes: BTreeSet<Identity>) -> Self {
        let stats = RequestStats {
            started: clock::now(),
            ..RequestStats::default()
        };
        Self { nodes, stats }
    }
}

impl Fleet {
    /// Connects as the settings say; what the target names itself wins: a collective, a time to listen, where nodes are looked for.
    pub async fn connect(settings: &Settings, target: &Target) -> Result<Self, AskError> {
        let source = target.source(Some(settings))?;
        let servers = settings
            .urls
            .iter()
            .map(|url| Server::parse(url, settings.plaintext_on_loopback));
        let servers = servers
            .collect::<Result<_, _>>()
            .map_err(ClientError::from)?;
        let window = window(settings, target);
        let client = Client::connect(muster_client::Settings {
            servers,
            authority: settings.ca.clone(),
            credentials: settings.credentials.clone(),
            operator: settings.operator.to_string(),
            account: settings.account.clone(),
            collective: target
                .collective
                .clone()
                .unwrap_or_else(|| settings.collective.clone()),
            window,
        });
        let client = client.await?;
        Ok(Self {
            _vouched: Vouched::recall(client.clone(), settings),
            client,
            listen: window.first,
            source,
            plain_secrets: settings.plain_secrets,
        })
    }

    /// The collective that is asked.
    pub fn collective(&self) -> &Name {
        self.client.collective()
    }

    /// How nodes are looked for.
    pub fn method(&self) -> Method {
        self.source.method()
    }

    /// Pings whoever is meant, and shows each answer as it comes. Answers whether nothing was lost.
    pub async fn ping(
        &self,
        target: &Target,
        progress: &Progress<'_>,
        show: impl FnMut(&Answer),
    ) -> Result<bool, AskError> {
        let ping = Ping {
            target,
            expect: None,
            traceparent: None,
        };
        let stats = self.watch(ping, progress, show).await?;
        Ok(stats.is_none_or(|stats| stats.incomplete.is_none()))
    }

    /// Pings as is wanted, and shows each answer as it comes. The balance, unless there was nobody to ask.
    pub async fn watch(
        &self,
        ping: Ping<'_>,
        progress: &Progress<'_>,
        mut show: impl FnMut(&Answer),
    ) -> Result<Option<Stats>, AskError> {
        let aim = match self.located(ping.target, progress).await? {
            Some(nodes) if nodes.is_empty() => return Ok(None),
            Some(nodes) => Aim::Nodes(nodes),
            None => Aim::Filter(ping.target.filter.clone()),
        };
        let mut call = Call::new("rpcutil", "ping", aim).map_err(ClientError::from)?;
        call.wait = self.listen;
        call.expect = ping.expect;
        call.trace = ping.traceparent.is_some();
        call.traceparent = ping.traceparent;
        let mut interrupt = Interrupt::listen();
        let good = |answer: &Answer| {
            if answer.is_ok() {
                show(answer);
            }
        };
        tokio::select! {
            stats = self.client.watch(call, good) => Ok(Some(stats?)),
            () = interrupt.came() => Err(AskError::Interrupted),
        }
    }

    /// Finds the nodes that are meant. Nodes that are named are taken at their names.
    pub async fn discover(
        &self,
        target: &Target,
        progress: &Progress<'_>,
    ) -> Result<Found, AskError> {
        let started = clock::now();
        let begun = Instant::now();
        if let Some(nodes) = self.located(target, progress).await? {
            let stats = RequestStats {
                started,
                discovering: begun.elapsed(),
                ..RequestStats::default()
            };
            return Ok(Found { nodes, stats });
        }
        let filter = &target.filter;
        if filter.identities_exact().is_some() {
            let nodes = self.client.discover(filter).await?.nodes;
            return Ok(Found::named(nodes));
        }
        let waiting = progress.discovering(Method::Broadcast);
        let mut interrupt = Interrupt::listen();
        let mut count = 0;
        let discovered = tokio::select! {
            discovered = self.client.discover_watching(filter, |_| { count += 1; waiting.count(count); }) => discovered?,
            () = interrupt.came() => return Err(AskError::Interrupted),
        };
        progress.discovered(waiting, Method::Broadcast, discovered.nodes.len());
        let gaps = discovered
            .incomplete
            .then_some(Gap::Discovery)
            .into_iter()
            .collect();
        let stats = RequestStats {
            started,
            gaps,
            discovering: discovered.took,
            ..RequestStats::default()
        };
        Ok(Found {
            nodes: discovered.nodes,
            stats,
        })
    }

    /// The nodes that are meant, if they can be known without asking the fleet.
    async fn located(
        &self,
        target: &Target,
        progress: &Progress<'_>,
    ) -> Result<Option<BTreeSet<Identity>>, AskError> {
        let wanted = target.wanted(&self.source, Some(self.client.collective()));
        if self.method() == Method::Broadcast {
            return Ok(None);
        }
        let waiting = progress.discovering(self.method());
        let nodes = locate(&self.source, &wanted, progress.printer()).await?;
        let count = nodes.as_ref().map_or(0, BTreeSet::len);
        progress.discovered(waiting, self.method(), count);
        Ok(nodes)
    }
}

/// Silence ends it this long after the last answer, at least, when nodes must ask data sources first.
const ASKING_QUIET: Duration = Duration::from_secs(2);

/// So many times as long as for the first is listened while nodes keep answering.
const STRETCH: u32 = 5;

/// Whoever says how long to listen is taken at their word; otherwise silence ends it.
fn window(settings: &Settings, target: &Target) -> Window {
    let quiet = settings.discovery_window.unwrap_or(Window::default().quiet);
    match target.listen {
        Some(listen) => Window {
            first: listen,
            quiet: listen,
            most: listen,
        },
        None if target.patience > Duration::ZERO => Window {
            first: settings.discovery_timeout + target.patience,
            quiet: quiet.max(ASKING_QUIET),
            most: settings.discovery_timeout * STRETCH + target.patience,
        },
        None => Window {
            first: settings.discovery_timeout,
            quiet,
            most: settings.discovery_timeout * STRETCH,
        },
    }
}
