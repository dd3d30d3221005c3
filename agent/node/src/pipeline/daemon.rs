//! A running daemon: subscribes, receives requests, replies, and shuts down in an order that loses no reply.
//!
//! `assemble` builds its parts, and `lifecycle` handles signals.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use muster_api::base::error_chain;
use muster_bus::{Bus, BusError, BusMessage, BusSubscription};
use muster_wire::identity::SubjectName;
use muster_wire::stored_request::RequestReference;
use muster_wire::subject;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::core::DaemonCore;
use crate::ground::watchdog::{LoopMonitor, LoopPulse};
use crate::pipeline::stored_requests::StoredRequestReader;
use crate::pipeline::{self, IncomingMessage, OutgoingReply, RequestAdmission};
use crate::trust::trust_sync::{TokenChange, TrustSync};

/// How long work that goes on after replies may take to end.
const BACKGROUND_TIMEOUT: Duration = Duration::from_secs(5);

/// A daemon whose subscriptions the broker has confirmed.
#[derive(Debug)]
pub struct Daemon {
    core: Arc<DaemonCore>,
    bus: Bus,
    requests: Vec<BusSubscription>,
    trust_sync: TrustSync,
    /// Accepted tokens, for the task that stores them on disk.
    changes: Option<mpsc::Receiver<TokenChange>>,
    monitor: Arc<LoopMonitor>,
    /// Work that goes on after replies, and ends by itself when the daemon leaves.
    background: TaskTracker,
}

impl Daemon {
    /// Subscribes to all subjects of this node, and returns when the broker has confirmed the subscriptions.
    pub async fn start(core: Arc<DaemonCore>, bus: Bus) -> Result<Self, BusError> {
        let mut subjects = Vec::new();
        for collective in &core.node.collectives {
            subjects.extend(subject::node_subscriptions(collective, core.identity()));
        }
        let (token_changed, changes) = mpsc::channel(4);
        // Sync trust before the first request is received, so that callers revoked while this node was offline are rejected.
        let trust_sync = Box::pin(start_trust_sync(&core, &bus, token_changed)).await;
        let requests = bus.subscribe_all(&subjects).await?;
        Ok(Self::with_subscriptions(core, bus, requests, trust_sync, changes))
    }

    fn with_subscriptions(
        core: Arc<DaemonCore>,
        bus: Bus,
        requests: Vec<BusSubscription>,
        trust_sync: TrustSync,
        changes: mpsc::Receiver<TokenChange>,
    ) -> Self {
        Self {
            core,
            bus,
            requests,
            trust_sync,
            changes: Some(changes),
            monitor: LoopMonitor::without_watchdog(),
            background: TaskTracker::new(),
        }
    }

    /// Subscribes as one instance of a service's agent: to its share of the requests to any instance, and to requests to this one by name. It does not answer
    /// broadcasts, because it is no node.
    pub async fn start_service(
        core: Arc<DaemonCore>,
        bus: Bus,
        agent: &SubjectName,
    ) -> Result<Self, BusError> {
        let (token_changed, changes) = mpsc::channel(4);
        let trust_sync = Box::pin(start_trust_sync(&core, &bus, token_changed)).await;
        let mut requests = Vec::new();
        for collective in &core.node.collectives {
            let shared = subject::service_subscription(collective, agent);
            requests.push(bus.subscribe_in_group(&shared, subject::SERVICE_QUEUE_GROUP).await?);
            let own = subject::instance_subscription(collective, agent, core.identity());
            requests.push(bus.subscribe(&own).await?);
        }
        bus.confirm_delivery().await?;
        Ok(Self::with_subscriptions(core, bus, requests, trust_sync, changes))
    }

    /// Lets a watchdog watch the loops that receive requests, and keeps the connection open until this work has ended, too, at most 5 s.
    pub fn watch_with(&mut self, monitor: Arc<LoopMonitor>, background: TaskTracker) {
        self.monitor = monitor;
        self.background = background;
    }

    /// The tokens that this daemon accepts while it runs. There is one receiver.
    pub fn token_changes(&mut self) -> Option<mpsc::Receiver<TokenChange>> {
        self.changes.take()
    }

    /// Runs until `stop` is cancelled; then accepts no more requests, gives running actions at most `drain_timeout` to reply, and closes the
    /// connection.
    pub async fn run(self, stop: CancellationToken, drain_timeout: Duration) {
        let Self { core, bus, requests, trust_sync, monitor, background, .. } = self;
        let work = TaskTracker::new();
        let cancel_actions = CancellationToken::new();
        // Tasks in the set are aborted when this future is dropped, so an aborted daemon accepts nothing more.
        let mut receivers = JoinSet::new();
        let reader = StoredRequestReader::new(bus.clone(), core.identity().clone());
        for requests in requests {
            let worker = RequestWorker {
                core: Arc::clone(&core),
                bus: bus.clone(),
                work: work.clone(),
                cancel_actions: cancel_actions.clone(),
                reader: reader.clone(),
            };
            receivers.spawn(worker.receive_requests(requests, monitor.watch_loop(), stop.clone()));
        }
        receivers.spawn(trust_sync.follow_changes(stop.clone()));
        // Receivers end when `stop` is cancelled and their subscriptions are drained.
        while receivers.join_next().await.is_some() {}
        work.close();
        if tokio::time::timeout(drain_timeout, work.wait()).await.is_err() {
            tracing::warn!(running = work.len(), "cancelling actions that are still running");
            cancel_actions.cancel();
            // A cancelled action still sends its reply; only an action that ignores cancellation is abandoned after 6 s.
            let _ = tokio::time::timeout(Duration::from_secs(6), work.wait()).await;
        }
        background.close();
        if tokio::time::timeout(BACKGROUND_TIMEOUT, background.wait()).await.is_err() {
            tracing::warn!(running = background.len(), "leaving work behind that does not end");
        }
        if let Err(error) = bus.close().await {
            tracing::warn!(%error, "cannot close the broker connection cleanly");
        }
    }
}

/// Keeps the tokens of the daemon current, and puts newer account tokens in force.
async fn start_trust_sync(
    core: &Arc<DaemonCore>,
    bus: &Bus,
    changed: mpsc::Sender<TokenChange>,
) -> TrustSync {
    let (trust, updated) = (Arc::clone(&core.trust), Arc::clone(core));
    let update = Box::new(move |token: &str| updated.update_trust(token));
    TrustSync::start(trust, update, bus.clone(), changed).await
}

/// Receives requests from one subscription.
#[derive(Clone)]
struct RequestWorker {
    core: Arc<DaemonCore>,
    bus: Bus,
    work: TaskTracker,
    cancel_actions: CancellationToken,
    reader: StoredRequestReader,
}

impl RequestWorker {
    async fn receive_requests(
        self,
        mut requests: BusSubscription,
        mut pulse: LoopPulse,
        stop: CancellationToken,
    ) {
        loop {
            tokio::select! {
                biased;
                // First: requests that arrive without a pause must not look like a loop that hangs.
                () = pulse.tick() => {}
                message = requests.next() => match message {
                    Some(message) => self.accept_message(&message),
                    None => return,
                },
                () = stop.cancelled() => break,
            }
        }
        drop(pulse);
        self.drain_remaining(requests).await;
    }

    /// Unsubscribes, then replies to the requests that the broker has already sent.
    async fn drain_remaining(&self, mut requests: BusSubscription) {
        let drained = self.bus.drain_subscription(&mut requests).await;
        while let Some(message) = requests.try_next() {
            self.accept_message(&message);
        }
        if let Err(error) = drained {
            return tracing::debug!(
                error = error_chain(&error),
                "a subscription ended without a drain"
            );
        }
        loop {
            tokio::select! {
                biased;
                message = requests.next() => match message {
                    Some(message) => self.accept_message(&message),
                    None => return,
                },
                () = self.bus.wait_disconnected() => return,
            }
        }
    }

    fn accept_message(&self, message: &BusMessage) {
        let incoming = IncomingMessage {
            subject: message.subject().to_owned(),
            reply_to: message.reply_to().map(str::to_owned),
            payload: message.payload().clone(),
        };
        let Some(subject) = subject::referenced_request(&incoming.subject) else {
            return self.accept_request(&incoming);
        };
        let incoming = IncomingMessage { subject, ..incoming };
        match RequestReference::parse(&incoming.payload) {
            Some(reference) => {
                self.work.spawn(self.clone().accept_reference(incoming, reference));
            }
            // It is refused and counted as a malformed request.
            None => self.accept_request(&incoming),
        }
    }

    /// Reads a stored request, and handles it like one that was received.
    async fn accept_reference(self, mut message: IncomingMessage, reference: RequestReference) {
        match self.reader.read_request(&reference).await {
            Ok(request) => {
                message.payload = request;
                self.accept_request(&message);
            }
            Err(error) => {
                tracing::debug!(%error, "cannot read a stored request");
                self.reader.request_whole(message.reply_to.as_deref()).await;
            }
        }
    }

    fn accept_request(&self, incoming: &IncomingMessage) {
        let admission = match pipeline::accept_message(&self.core, incoming) {
            Err(None) => return,
            Ok(RequestAdmission::Accepted(accepted)) => {
                match pipeline::execute_immediately(&self.core, accepted, &self.bus) {
                    Ok(reply) => return self.send_immediately(reply),
                    Err(accepted) => Ok(RequestAdmission::Accepted(accepted)),
                }
            }
            admission => admission,
        };
        let (core, bus) = (Arc::clone(&self.core), self.bus.clone());
        let cancel = self.cancel_actions.clone();
        self.work.spawn(async move {
            if let Some(reply) = answer_request(&core, admission, &cancel, &bus).await {
                send_begun_reply(&core, &bus, reply).await;
            }
        });
    }
}

impl RequestWorker {
    /// Passes a reply to the connection; if that would block, a separate task sends it, so that later requests do not wait.
    fn send_immediately(&self, reply: Option<OutgoingReply>) {
        let Some(reply) = reply else { return };
        let bus = self.bus.clone();
        let mut sending = Box::pin(async move { send_reply(&bus, reply).await });
        if (&mut sending).now_or_never().is_none() {
            self.work.spawn(sending);
        }
    }
}

async fn answer_request(
    core: &Arc<DaemonCore>,
    admission: Result<RequestAdmission, Option<OutgoingReply>>,
    cancel: &CancellationToken,
    bus: &Bus,
) -> Option<OutgoingReply> {
    let accepted = match admission {
        Err(refusal) => return refusal,
        Ok(RequestAdmission::Accepted(accepted)) => *accepted,
        Ok(RequestAdmission::Undecided(undecided)) => {
            match pipeline::decide_admission(core, *undecided, cancel).await {
                Ok(accepted) => accepted,
                Err(refusal) => return refusal,
            }
        }
    };
    pipeline::execute_request(core, accepted, cancel, bus).await
}

/// Sends the reply to a request that is in the journal of begun requests, and then removes it there: a daemon that is killed in between leaves a
/// request that the next one reports as lost, and the caller ignores the second reply.
pub async fn send_begun_reply(core: &DaemonCore, bus: &Bus, reply: OutgoingReply) {
    let begun = reply.begun;
    send_reply(bus, reply).await;
    let Some(request) = begun else { return };
    if let Err(error) = bus.flush().await {
        tracing::debug!(%error, "cannot flush a reply");
    }
    core.journals.begun.end(request);
}

async fn send_reply(bus: &Bus, reply: OutgoingReply) {
    if let Err(error) = bus.publish(&reply.subject, reply.payload).await {
        tracing::error!(%error, "cannot send a reply");
    }
}
