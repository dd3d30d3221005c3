//! One instance: follows what is stored, and leads when no other instance does.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_bus::{Bucket, BucketError, BucketWatch, Bus, leader};
use muster_calls::Client;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::sign::Signer;
use muster_wire::stores::SCHEDULES_BUCKET;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::actions::SchedulerOptions;
use crate::error::SchedulerError;
use crate::handle::SchedulerHandle;
use crate::health::{HealthOptions, PoolLimits, follow_health};
use crate::report::EventReporter;
use crate::store::StoredState;
use crate::term::LeaderTerm;

/// Pause after a broker error.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Interval of the search for a bucket that was created again.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Follows the bucket `SCHEDULES`, and sends requests while this instance is the leader.
#[derive(Debug)]
pub struct SchedulerService {
    host: Identity,
    handle: SchedulerHandle,
    bus: Bus,
    bucket: Bucket,
    clients: Vec<(SubjectName, Client)>,
    reporter: EventReporter,
    lease: Duration,
    health: BTreeMap<SubjectName, HealthOptions>,
    limits: PoolLimits,
}

impl SchedulerService {
    /// A service with the connection of a user with the role service, and a client for each collective. The leader renews its lease several times;
    /// another instance takes over after one lease without a renewal.
    pub fn new(
        host: Identity,
        handle: SchedulerHandle,
        bus: Bus,
        signer: Signer,
        clients: Vec<(SubjectName, Client)>,
        options: &SchedulerOptions,
    ) -> Self {
        let bucket = bus.bucket(SCHEDULES_BUCKET.name);
        handle.connect(bucket.clone());
        let reporter = EventReporter::new(bus.clone(), signer);
        let (lease, health) = (options.lease(), options.health.clone());
        Self {
            host,
            handle,
            bus,
            bucket,
            clients,
            reporter,
            lease,
            health,
            limits: PoolLimits::default(),
        }
    }

    /// Runs until it is stopped. A leader then stores what it knows and gives up its lease, so that another instance continues at once. While the broker is away,
    /// nothing is sent.
    pub async fn run_until_stopped(self, stop: CancellationToken) {
        tokio::select! {
            () = self.follow_always() => {}
            () = self.lead_until(&stop) => {}
        }
        if let Err(error) = self.bus.close().await {
            tracing::debug!(%error, "cannot close the connection of the scheduler cleanly");
        }
    }

    async fn follow_always(&self) {
        loop {
            if let Err(error) = self.follow().await {
                tracing::debug!(%error, "the scheduler cannot follow the bucket of schedules; opening it again");
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }

    /// Reads everything, then applies each change. Ends when the bucket was created again.
    async fn follow(&self) -> Result<(), BucketError> {
        let mut watch = self.bucket.retry_until_dropped().watch(">").await?;
        // A leader must not see a part of what is stored: it would give seats to nodes that have one.
        let mut state = StoredState::default();
        while !watch.is_current() {
            let Some(entry) = watch.next().await? else { return Ok(()) };
            state.apply(&entry);
        }
        self.handle.replace(state, watch.complete_revision());
        let mut check = tokio::time::interval(CHECK_INTERVAL);
        loop {
            tokio::select! {
                entry = watch.next() => match entry? {
                    Some(entry) => self.handle.apply(&entry),
                    None => return Ok(()),
                },
                _ = check.tick() => if was_created_again(&watch) { return Ok(()) },
            }
        }
    }

    async fn lead_until(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            if let Err(error) = self.lead(stop).await {
                let error = muster_api::base::error_chain(&error);
                tracing::warn!(error, "the scheduler is interrupted; it tries again");
            }
            tokio::select! {
                () = tokio::time::sleep(RETRY_DELAY) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// Waits for leadership, and sends requests until it is lost.
    async fn lead(&self, stop: &CancellationToken) -> Result<(), SchedulerError> {
        let electing = async {
            self.handle.wait_ready().await;
            leader::wait_for_leadership(&self.bucket, &self.host, self.lease).await
        };
        let lease = tokio::select! {
            lease = electing => lease?,
            () = stop.cancelled() => return Ok(()),
        };
        tracing::info!(epoch = lease.epoch, "became the leader of the schedules");
        // The last leader's writes may still be on their way to this instance.
        self.handle.wait_applied(lease.epoch).await;
        // Only the leader asks health sources. Dropped with the term, the set ends its tasks.
        let mut health = JoinSet::new();
        for (pool, options) in self.health.clone() {
            let (limits, reporter) = (self.limits.clone(), self.reporter.clone());
            let directory = self.handle.directory().clone();
            health.spawn(follow_health(pool, options, directory, limits, reporter));
        }
        let mut term = LeaderTerm::new(
            &self.handle,
            &self.bucket,
            &self.clients,
            &self.reporter,
            &self.limits,
        );
        let ended = tokio::select! {
            ended = term.run() => ended,
            () = lease.lost.cancelled() => {
                tracing::warn!("lost the leadership of the schedules");
                return Ok(());
            }
            () = stop.cancelled() => Ok(()),
        };
        term.store_all().await;
        lease.resign().await;
        ended
    }
}

fn was_created_again(watch: &BucketWatch) -> bool {
    let stale = watch.has_stale_revisions();
    if stale {
        tracing::warn!("the bucket of schedules was created again; reading all entries");
    }
    stale
}
