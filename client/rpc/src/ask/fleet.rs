//! The fleet, as somebody asks it: connects, finds nodes, and asks them. Shows progress; draws no results.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_client::{Aim, Answer, Call, Client, ClientError, Server, Window};
use muster_wire::filter::Filter;
use muster_wire::identity::Identity;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::error::AskError;
use super::gather::{Gathering, Step};
use super::plan::Plan;
use super::progress::Progress;
use super::target::Target;
use crate::clock;
use crate::error::Error;
use crate::printer::OutputError;
use crate::report::{Gap, Reply, Report, RequestStats};
use crate::settings::Settings;

/// A connection to the fleet.
#[derive(Debug)]
pub struct Fleet {
    client: Client,
    /// The longest time that is listened for nodes.
    listen: Duration,
}

/// A request, and how long it may take.
#[derive(Debug)]
pub struct Question<'a> {
    /// What is asked.
    pub plan: &'a Plan<'a>,
    /// How long the action may take on a node; as long as its schema says when absent.
    pub timeout: Option<Duration>,
    /// How long a node may take until it begins.
    pub ttl: Duration,
}

/// The nodes that were found, and how.
#[derive(Debug, Default)]
pub struct Found {
    /// The nodes.
    pub nodes: BTreeSet<Identity>,
    /// How they were found.
    pub stats: RequestStats,
}

impl Fleet {
    /// Connects as the settings say; a collective and a time to listen that the target names win.
    pub async fn connect(settings: &Settings, target: &Target) -> Result<Self, AskError> {
        let servers = settings
            .urls
            .iter()
            .map(|url| Server::parse(url, settings.plaintext_on_loopback));
        let servers = servers
            .collect::<Result<_, _>>()
            .map_err(ClientError::from)?;
        let window = window(settings, target.listen);
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
        Ok(Self {
            client: client.await?,
            listen: window.most,
        })
    }

    /// Pings whoever matches, and shows each answer as it comes. Answers whether nothing was lost.
    pub async fn ping(&self, filter: &Filter, show: impl FnMut(&Answer)) -> Result<bool, AskError> {
        let mut interrupt = Interrupt::listen();
        tokio::select! {
            complete = self.client.ping(filter.clone(), self.listen, show) => Ok(complete?),
            () = interrupt.came() => Err(AskError::Interrupted),
        }
    }

    /// Finds the nodes that match. Nodes that the filter names are taken at their names.
    pub async fn discover(
        &self,
        filter: &Filter,
        progress: &Progress<'_>,
    ) -> Result<Found, AskError> {
        let started = clock::now();
        if filter.identities_exact().is_some() {
            let nodes = self.client.discover(filter).await?.nodes;
            return Ok(Found {
                nodes,
                stats: RequestStats {
                    started,
                    ..RequestStats::default()
                },
            });
        }
        let waiting = progress.discovering();
        let mut interrupt = Interrupt::listen();
        let mut count = 0;
        let discovered = tokio::select! {
            discovered = self.client.discover_watching(filter, |_| { count += 1; waiting.count(count); }) => discovered?,
            () = interrupt.came() => return Err(AskError::Interrupted),
        };
        progress.discovered(waiting, discovered.nodes.len());
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

    /// Asks the nodes, and shows each answer as it comes. Nothing is sent if there is no node. An interruption ends the
    /// waiting, not what the nodes do.
    pub async fn ask(
        &self,
        question: Question<'_>,
        found: Found,
        progress: &Progress<'_>,
        mut show: impl FnMut(&Reply) -> Result<(), OutputError>,
    ) -> Result<Report, Error> {
        let Found { nodes, stats } = found;
        let (agent, action) = (question.plan.ddl.name(), question.plan.action);
        let mut gathering = Gathering::new(agent, action, nodes.clone(), stats);
        if nodes.is_empty() {
            return Ok(gathering.report());
        }
        let waiting = progress.calling(nodes.len());
        let mut interrupt = Interrupt::listen();
        let mut events = self.client.call(self.call(&question, nodes)?);
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = interrupt.came() => {
                    gathering.interrupt();
                    break;
                }
            };
            let Some(event) = event else { break };
            match gathering.take(event).map_err(AskError::from)? {
                Step::Reply(reply) => waiting.aside(|| show(reply))?,
                Step::Over => break,
                Step::Quiet => {}
            }
            waiting.count(gathering.heard());
        }
        waiting.over();
        Ok(gathering.report())
    }

    fn call(&self, question: &Question<'_>, nodes: BTreeSet<Identity>) -> Result<Call, AskError> {
        let Plan { ddl, action, data } = question.plan;
        let call =
            Call::new(ddl.name(), action.name(), Aim::Nodes(nodes)).map_err(ClientError::from)?;
        let wait = question.timeout.unwrap_or(ddl.timeout()) + self.listen;
        Ok(Call {
            data: data.clone(),
            timeout: question.timeout,
            ttl: question.ttl,
            wait,
            ..call
        })
    }
}

/// Whoever says how long to listen is taken at their word; otherwise silence ends it.
fn window(settings: &Settings, listen: Option<Duration>) -> Window {
    match listen {
        Some(listen) => Window {
            most: listen,
            quiet: listen,
        },
        None => Window {
            most: settings.discovery_timeout,
            quiet: settings.discovery_window.unwrap_or(Window::default().quiet),
        },
    }
}

/// Ctrl-C, from now on. Where signals cannot be had it ends the process, as ever.
struct Interrupt(Option<Signal>);

impl Interrupt {
    fn listen() -> Self {
        Self(signal(SignalKind::interrupt()).ok())
    }

    async fn came(&mut self) {
        match &mut self.0 {
            Some(signal) => drop(signal.recv().await),
            None => std::future::pending().await,
        }
    }
}
