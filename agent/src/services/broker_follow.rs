//! Follows the organisation's brokers while the daemon runs: tries the addresses and authorities of each new account token, and gives them to the connections.

use std::sync::Arc;
use std::time::Duration;

use muster_api::FindingLevel;
use muster_api::base::error_chain;
use muster_bus::{BrokerAddress, BrokerFollower, FollowError};
use muster_node::config::Config;
use muster_node::core::DaemonCore;
use tokio::sync::watch;
use tokio::time::sleep;

/// How often the account token and the configured authorities are looked at: some small files.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Pause after addresses at which no server answered.
const RETRY_PAUSE: Duration = Duration::from_mins(1);

/// The broker that a running daemon follows, if its configuration permits it.
#[derive(Debug)]
pub(crate) struct FollowedBroker(Option<FollowedAddresses>);

#[derive(Debug)]
struct FollowedAddresses {
    follower: BrokerFollower,
    addresses: watch::Sender<Vec<BrokerAddress>>,
}

impl FollowedBroker {
    /// Prepares the configuration of a daemon that starts. A place that cannot be followed is used as it is configured.
    pub(crate) fn prepare(config: &Config) -> Result<(Self, Config), FollowError> {
        let Some(follower) = config.broker_follower() else {
            return Ok((Self(None), config.clone()));
        };
        let place = follower.prepare().unwrap_or_else(|error| {
            tracing::warn!(error = error_chain(&error), "cannot follow the broker");
            follower.place()
        });
        let (addresses, received) = watch::channel(follower.addresses(&place)?);
        let mut config = config.with_broker(place);
        config.follow_addresses(received);
        Ok((Self(Some(FollowedAddresses { follower, addresses })), config))
    }

    /// Follows the account token and the configured authorities for the lifetime of the daemon.
    pub(crate) async fn run(self, core: Arc<DaemonCore>) {
        let Self(Some(addresses)) = self else { return };
        loop {
            let problem = addresses.follow(&core).await.err().map(|error| error_chain(&error));
            let pause = if problem.is_some() { RETRY_PAUSE } else { CHECK_INTERVAL };
            report(&core, problem);
            sleep(pause).await;
        }
    }
}

impl FollowedAddresses {
    async fn follow(&self, core: &DaemonCore) -> Result<(), FollowError> {
        // An administrator may have replaced the configured authorities.
        let mut place = self.follower.prepare()?;
        if let Some(record) = core.trust.account.get().broker_record()
            && let Some(next) = self.follower.follow(record).await?
        {
            place = next;
        }
        let addresses = self.follower.addresses(&place)?;
        if *self.addresses.borrow() != addresses {
            tracing::info!(urls = place.urls.join(", "), "following the broker");
            self.addresses.send_replace(addresses);
        }
        Ok(())
    }
}

/// States a problem in the findings, and logs it once.
fn report(core: &DaemonCore, problem: Option<String>) {
    let changed =
        core.health.set_findings("broker addresses", FindingLevel::Warning, problem.as_slice());
    if let Some(problem) = problem.filter(|_| changed) {
        tracing::warn!(problem, "keeping the present addresses of the broker");
    }
}
