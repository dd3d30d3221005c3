//! The sinks of one host: opens them, and runs each until the daemon stops.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_api::system::System;
use muster_base::error_chain;
use muster_directory::DirectoryHandle;
use muster_files::files::{FileAccessError, create_private_directory};
use muster_filter::FilterError;
use muster_history::index::HistoryIndex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::counts::{EventSinkCounts, SinkStatus};
use crate::dead_letters::DeadLetters;
use crate::delivery::EventDelivery;
use crate::delivery_error::SinkDeliveryError;
use crate::event_filter::EventFilter;
use crate::follower::SinkFollower;
use crate::options::{SinkOptions, SinkTargetOptions, SinksOptions};
use crate::position::{PositionError, PositionFile};
use crate::provision_queue::ProvisionQueue;
use crate::target::SinkTarget;

const POSITION_FILE: &str = "position.json";
const DEAD_LETTERS: &str = "dead";
const QUEUE: &str = "queue";

/// Why there are no sinks.
#[derive(Debug, thiserror::Error)]
pub enum EventSinksError {
    #[error(
        "`{0}` is no name of a sink; use 1 to 40 of the characters a-z, 0-9, - and _, and each name once"
    )]
    Name(String),
    #[error("the sink {sink} has a filter that is not valid")]
    Filter { sink: String, source: FilterError },
    #[error("the sink {sink} cannot use its target")]
    Target { sink: String, source: SinkDeliveryError },
    #[error("the sink {sink} cannot use its directory")]
    Directory { sink: String, source: FileAccessError },
    #[error("the sink {sink} has no position in the history")]
    Position { sink: String, source: PositionError },
    #[error(
        "the sink {0} has a filter, which the history of this host evaluates: enable history here, too, or use identities"
    )]
    FilterWithoutHistory(String),
    #[error("this host has no events: enable history or provisioner here, too")]
    NoSource,
}

/// The index of the history on this host, and the directory that evaluates filters.
#[derive(Debug, Clone)]
pub struct HistorySource {
    pub index: Arc<HistoryIndex>,
    pub directory: DirectoryHandle,
}

/// What this host has.
#[derive(Debug)]
pub struct SinkEventSources {
    pub history: Option<HistorySource>,
    pub has_provisioner: bool,
    /// Starts programs.
    pub system: Arc<dyn System>,
}

/// Sinks that are ready to run.
#[derive(Debug)]
pub struct EventSinks {
    sinks: Vec<Arc<SinkFollower>>,
}

impl SinksOptions {
    /// Reads the files that sinks need. Writes nothing and connects to nothing.
    pub fn check(&self) -> Result<(), EventSinksError> {
        let mut names = BTreeSet::new();
        for options in &self.targets {
            let sink = || options.name.clone();
            if !options.has_valid_name() || !names.insert(&options.name) {
                return Err(EventSinksError::Name(sink()));
            }
            EventFilter::parse(options)
                .map_err(|source| EventSinksError::Filter { sink: sink(), source })?;
            if let Some(webhook) = options.webhook() {
                webhook
                    .check()
                    .map_err(|source| EventSinksError::Target { sink: sink(), source })?;
            }
        }
        Ok(())
    }
}

impl EventSinks {
    /// Reads and creates files. Connects when there is something to deliver.
    pub fn open(
        options: &SinksOptions,
        sources: &SinkEventSources,
    ) -> Result<Self, EventSinksError> {
        options.check()?;
        if sources.history.is_none() && !sources.has_provisioner {
            return Err(EventSinksError::NoSource);
        }
        let open = |target| Ok(Arc::new(open_sink(options, target, sources)?));
        Ok(Self { sinks: options.targets.iter().map(open).collect::<Result<_, _>>()? })
    }

    /// What each sink has delivered, for the metrics.
    pub fn statuses(&self) -> Vec<SinkStatus> {
        let status = |sink: &Arc<SinkFollower>| SinkStatus {
            name: sink.name.clone(),
            counts: Arc::clone(&sink.counts),
        };
        self.sinks.iter().map(status).collect()
    }

    /// Where the provisioner leaves events for these sinks, with their names.
    pub fn provision_queues(&self) -> Vec<(String, ProvisionQueue)> {
        let wanted =
            self.sinks.iter().filter(|sink| !sink.has_spans && sink.filter.admits_provisioning());
        wanted.map(|sink| (sink.name.clone(), sink.queue.clone())).collect()
    }

    pub async fn run_until_stopped(self, stop: CancellationToken) {
        let mut tasks = JoinSet::new();
        for sink in &self.sinks {
            let (following, counting) = (Arc::clone(sink), Arc::clone(sink));
            tasks.spawn(async move { following.follow().await });
            tasks.spawn(async move { counting.keep_counts().await });
        }
        stop.cancelled().await;
        tasks.shutdown().await;
        for (_, position) in self.sinks.iter().filter_map(|sink| sink.history.as_ref()) {
            if let Err(error) = position.store() {
                let problem = error_chain(&error);
                tracing::warn!(problem, "cannot store the position of a sink");
            }
        }
    }
}

fn open_sink(
    options: &SinksOptions,
    target: &SinkOptions,
    sources: &SinkEventSources,
) -> Result<SinkFollower, EventSinksError> {
    let sink = || target.name.clone();
    let failed = |source| EventSinksError::Directory { sink: sink(), source };
    let directory = options.directory().join(&target.name);
    create_private_directory(&directory).map_err(failed)?;
    let filter = EventFilter::parse(target)
        .map_err(|source| EventSinksError::Filter { sink: sink(), source })?;
    if filter.needs_directory() && sources.history.is_none() {
        return Err(EventSinksError::FilterWithoutHistory(sink()));
    }
    let letters = DeadLetters::open(directory.join(DEAD_LETTERS), target.dead_letters());
    let letters = letters.map_err(failed)?;
    let queue = ProvisionQueue::open(directory.join(QUEUE)).map_err(failed)?;
    let open_position = |source: &HistorySource| {
        let position = PositionFile::open(&directory.join(POSITION_FILE), &source.index);
        let position =
            position.map_err(|source| EventSinksError::Position { sink: sink(), source })?;
        Ok((source.clone(), Arc::new(position)))
    };
    let history = sources.history.as_ref().map(open_position).transpose()?;
    let counts: Arc<EventSinkCounts> = Arc::default();
    let opened = SinkTarget::open(&target.target, &sources.system)
        .map_err(|source| EventSinksError::Target { sink: sink(), source })?;
    let delivery = EventDelivery::new(sink(), opened, letters, Arc::clone(&counts));
    let (name, batch) = (sink(), target.batch());
    let has_spans = matches!(target.target, SinkTargetOptions::Otlp(_));
    Ok(SinkFollower { name, filter, delivery, queue, history, has_spans, counts, batch })
}
