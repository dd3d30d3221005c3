//! Sends the requests of one call: a broadcast at once, requests to known nodes as their replies come, as far as [`RequestWindow`] permits, and in
//! the form that [`RequestDelivery`] selects.
//! Receives nothing: `reply_collector` calls it for each message that arrived.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use muster_base::unix_millis_now;
use muster_bus::Bytes;
use muster_filter::NodeFilter;
use muster_wire::identity::Identity;
use muster_wire::request::RequestTarget;
use muster_wire::stored_request::RequestReference;
use muster_wire::subject::{self, AnswerAddress};
use tokio::time::Instant;
use uuid::Uuid;

use crate::call::{CallTarget, RpcCall};
use crate::client_inner::ClientInner;
use crate::error::Result;
use crate::outgoing_request::{
    OutgoingRequest, RequestBuilder, RequestPublication, nodes_per_request,
};
use crate::request_delivery::RequestDelivery;
use crate::request_repetition::RequestRepetition;
use crate::request_window::RequestWindow;
use crate::stats::CallStats;

/// Interval of the probes that measure how long a message waits at the broker.
const PROBE_INTERVAL: Duration = Duration::from_millis(100);
/// A probe without an answer for this long counts as a long delay: the connection was interrupted, or is much too slow.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// If nothing arrives for this long although requests are outstanding, more are sent.
const SILENCE_LIMIT: Duration = Duration::from_millis(500);
/// A signature is made for at least this part of the window, so that few replies do not cause a signature each.
const SIGNATURES_PER_WINDOW: usize = 4;

/// What is left to send of one call.
#[derive(Debug)]
pub(crate) struct RequestSender<'a> {
    client: &'a ClientInner,
    builder: RequestBuilder<'a>,
    call: &'a RpcCall,
    reply_address: AnswerAddress,
    /// Nodes that were sent nothing yet, in order.
    unsent: VecDeque<Identity>,
    window: RequestWindow,
    delivery: RequestDelivery,
    /// The reply subject of the probe that is under way, and its time.
    probe: Option<(String, Instant)>,
    probe_due: Instant,
    /// When the window was adapted last.
    measured_at: Instant,
    /// The last time at which a probe was answered.
    confirmed_at: Option<Instant>,
    /// The last time at which something arrived, or was sent because nothing did.
    active_at: Instant,
    last_sent_at: Instant,
    /// Groups of nodes by the time of their request, oldest first.
    sent: VecDeque<(Instant, Vec<Identity>)>,
    /// Nodes that did not reply within the wait. They do not count as outstanding; a late reply is still accepted.
    overdue: BTreeSet<Identity>,
    /// The node for each reply subject.
    nodes_by_reply_subject: HashMap<String, Identity>,
    repetition: RequestRepetition,
}

impl<'a> RequestSender<'a> {
    pub(crate) fn new(
        client: &'a Arc<ClientInner>,
        call: &'a RpcCall,
        id: Uuid,
        reply_address: AnswerAddress,
    ) -> Self {
        let unsent: VecDeque<Identity> = match &call.target {
            CallTarget::Nodes(nodes) => nodes.iter().cloned().collect(),
            CallTarget::Filter(_) | CallTarget::AnyInstance => VecDeque::new(),
        };
        let delivery = RequestDelivery::new(unsent.len());
        let now = Instant::now();
        Self {
            client,
            builder: RequestBuilder::new(&client.signer, &client.collective, call, id),
            call,
            reply_address,
            unsent,
            window: RequestWindow::new(call.expected_reply_bytes),
            delivery,
            probe: None,
            probe_due: now,
            measured_at: now,
            confirmed_at: None,
            active_at: now,
            last_sent_at: now,
            sent: VecDeque::new(),
            overdue: BTreeSet::new(),
            nodes_by_reply_subject: HashMap::new(),
            repetition: RequestRepetition::new(call, now),
        }
    }

    /// When silent nodes are sent the request again.
    pub(crate) fn repeats_at(&self) -> Option<Instant> {
        self.repetition.due_at()
    }

    /// Sends these nodes the request again, as it was, if that is due. A node that has executed it only repeats its reply.
    pub(crate) async fn repeat(&mut self, silent: &BTreeSet<Identity>) -> Result<()> {
        let RpcCall { agent, action, .. } = self.call;
        for (sealed, nodes) in self.repetition.take_due(silent, Instant::now()) {
            for node in nodes {
                let subject = subject::node_request(&self.client.collective, agent, action, &node);
                let reply_to = self.reply_address.of_node(&node);
                self.client.bus.publish_with_reply(&subject, &reply_to, sealed.clone()).await?;
            }
        }
        Ok(self.client.bus.flush().await?)
    }

    /// Whether the node was sent the request more than once: it may be executing it, also if it is not connected now.
    pub(crate) fn was_repeated(&self, node: &Identity) -> bool {
        self.repetition.includes(node)
    }

    /// Sends the broadcast, or the first requests to known nodes.
    pub(crate) async fn send_first(&mut self, stats: &mut CallStats) -> Result<()> {
        let filter = match &self.call.target {
            CallTarget::Nodes(_) => return self.send_first_nodes(stats).await,
            CallTarget::Filter(filter) => filter.clone(),
            CallTarget::AnyInstance => NodeFilter::default(),
        };
        let started_at = Instant::now();
        let request = self.sign_request(RequestTarget::Filter(filter), stats)?;
        publish(self.client, request).await?;
        self.flush(started_at, stats).await
    }

    /// Sends the first requests to known nodes, between two probes if the rate of the connection matters.
    async fn send_first_nodes(&mut self, stats: &mut CallStats) -> Result<()> {
        if !self.delivery.needs_measurement() {
            return self.send_more(0, stats).await;
        }
        let began_at = Instant::now();
        let before = self.probe_broker().await?;
        self.send_more(0, stats).await?;
        let after = self.probe_broker().await?;
        self.delivery.begin_measurement(before, after, began_at);
        Ok(())
    }

    /// Sends as many requests as the window permits beside `outstanding` ones.
    pub(crate) async fn send_more(
        &mut self,
        mut outstanding: usize,
        stats: &mut CallStats,
    ) -> Result<()> {
        let started_at = Instant::now();
        let capacity = self.window.capacity();
        let per_request =
            nodes_per_request(self.call).min(capacity.div_ceil(SIGNATURES_PER_WINDOW));
        let mut has_sent = self.send_unserved(per_request, stats).await?;
        while let count = per_request.min(self.unsent.len()).min(self.delivery.capacity())
            && count > 0
            && outstanding + count <= capacity
        {
            let nodes: Vec<Identity> = self.unsent.drain(..count).collect();
            let target = RequestTarget::Nodes(nodes.iter().cloned().collect());
            // After an error it is unknown which of these nodes got it, so they do not count as unsent.
            let request = self.sign_request(target, stats)?;
            self.repetition.keep(&request.sealed, &nodes);
            match self.delivery.store_request(self.client, &request.sealed).await {
                Some(reference) => self.send_references(request, &reference, stats).await?,
                None => self.send_whole(request).await?,
            }
            self.sent.push_back((Instant::now(), nodes));
            outstanding += count;
            has_sent = true;
        }
        if has_sent { self.flush(started_at, stats).await } else { Ok(()) }
    }

    /// Sends the request itself to nodes that were sent a reference in vain. They hold their places in the window. Returns whether there were any.
    async fn send_unserved(&mut self, per_request: usize, stats: &mut CallStats) -> Result<bool> {
        let mut has_sent = false;
        while let nodes = self.delivery.take_unserved(per_request)
            && !nodes.is_empty()
        {
            let target = RequestTarget::Nodes(nodes.into_iter().collect());
            let request = self.sign_request(target, stats)?;
            self.send_whole(request).await?;
            has_sent = true;
        }
        Ok(has_sent)
    }

    fn sign_request(
        &self,
        target: RequestTarget,
        stats: &mut CallStats,
    ) -> Result<OutgoingRequest> {
        let started_at = Instant::now();
        let request = self.builder.sign_request(target, unix_millis_now())?;
        stats.signing += started_at.elapsed();
        Ok(request)
    }

    async fn send_whole(&mut self, request: OutgoingRequest) -> Result<()> {
        let bytes = request.sealed.len();
        for publication in publish(self.client, request).await? {
            let RequestPublication { subject, reply_to, node } = publication;
            if let (Some(reply_to), Some(node)) = (reply_to, node) {
                self.delivery.record_sent(bytes + subject.len() + reply_to.len(), 1);
                self.nodes_by_reply_subject.insert(reply_to, node);
            }
        }
        Ok(())
    }

    /// Sends each node of a request the reference to it.
    async fn send_references(
        &mut self,
        request: OutgoingRequest,
        reference: &RequestReference,
        stats: &mut CallStats,
    ) -> Result<()> {
        let RpcCall { agent, action, .. } = self.call;
        let payload = Bytes::copy_from_slice(reference.as_bytes());
        for RequestPublication { reply_to, node, .. } in request.to {
            let (Some(reply_to), Some(node)) = (reply_to, node) else { continue };
            let subject = subject::node_reference(&self.client.collective, agent, action, &node);
            self.client.bus.publish_with_reply(&subject, &reply_to, payload.clone()).await?;
            stats.references += 1;
            self.delivery.record_reference(node.clone());
            self.nodes_by_reply_subject.insert(reply_to, node);
        }
        Ok(())
    }

    /// Waits until what was published since `started_at` is on its way.
    async fn flush(&mut self, started_at: Instant, stats: &mut CallStats) -> Result<()> {
        self.client.bus.flush().await?;
        self.last_sent_at = Instant::now();
        self.active_at = self.last_sent_at;
        stats.publishing += self.last_sent_at - started_at;
        Ok(())
    }

    /// The node whose reply has this subject.
    pub(crate) fn node_of(&self, reply_subject: &str) -> Option<&Identity> {
        self.nodes_by_reply_subject.get(reply_subject)
    }

    /// The time of the last request.
    pub(crate) fn last_sent_at(&self) -> Instant {
        self.last_sent_at
    }

    /// The nodes to which nothing was sent.
    pub(crate) fn unsent(&self) -> &VecDeque<Identity> {
        &self.unsent
    }

    /// Whether anything is left to send.
    pub(crate) fn has_more(&self) -> bool {
        !self.unsent.is_empty() || self.delivery.has_unserved()
    }

    /// The number of nodes of `awaited` that hold a place in the window.
    pub(crate) fn outstanding_count(&self, awaited: &BTreeSet<Identity>) -> usize {
        awaited.len().saturating_sub(self.unsent.len() + self.overdue.len())
    }

    /// Drops what is left to send, and returns the nodes that got no request.
    pub(crate) fn stop(&mut self) -> Vec<Identity> {
        let mut dropped = self.delivery.take_unserved(usize::MAX);
        dropped.extend(self.unsent.drain(..));
        dropped
    }

    /// Records a verified reply, or the report that a node is absent.
    pub(crate) fn record_answer(&mut self, node: &Identity) {
        self.overdue.remove(node);
        self.delivery.record_reply(node);
    }

    /// Records that the reference did not lead this node to the request. Returns whether the node will be sent the request itself.
    pub(crate) fn record_unserved(&mut self, node: &Identity) -> bool {
        self.delivery.record_unserved(node)
    }

    /// Records that a reply, or progress before it, has arrived.
    pub(crate) fn record_arrival(&mut self, reply_bytes: Option<usize>, arrived_at: Instant) {
        if let Some(bytes) = reply_bytes {
            self.window.record_reply(bytes);
        }
        self.active_at = self.active_at.max(arrived_at);
    }

    /// Records the answer to a probe.
    pub(crate) fn record_confirmation(&mut self, reply_subject: &str, arrived_at: Instant) {
        self.delivery.record_confirmation(reply_subject, arrived_at, self.unsent.len());
        if let Some((_, sent_at)) = self.probe.take_if(|(subject, _)| subject == reply_subject) {
            let since_last = arrived_at.saturating_duration_since(self.measured_at);
            self.window.record_delay(arrived_at.saturating_duration_since(sent_at), since_last);
            self.measured_at = arrived_at;
            self.probe_due = arrived_at + PROBE_INTERVAL;
            self.confirmed_at = Some(arrived_at);
        }
    }

    /// When [`Self::adapt_window`] has something to do. `None` if everything was sent.
    pub(crate) fn wakes_at(&self) -> Option<Instant> {
        if self.unsent.is_empty() {
            return None;
        }
        let overdue_at = self.sent.front().map(|(sent_at, _)| *sent_at + self.call.wait);
        let probe_due = self.probe.is_none().then_some(self.probe_due);
        let silence_limit = self.active_at + SILENCE_LIMIT;
        [overdue_at, probe_due].into_iter().flatten().chain([silence_limit]).min()
    }

    /// Probes the broker, frees the places of nodes that did not reply in time, and admits more requests after silence, each when it is due.
    pub(crate) async fn adapt_window(&mut self, awaited: &BTreeSet<Identity>) -> Result<()> {
        let now = Instant::now();
        while let Some((_, nodes)) =
            self.sent.pop_front_if(|(sent_at, _)| *sent_at + self.call.wait <= now)
        {
            self.overdue.extend(nodes.into_iter().filter(|node| awaited.contains(node)));
        }
        if self.active_at + SILENCE_LIMIT <= now {
            // Without the answer to a probe, the connection may be the reason for the silence.
            if self.confirmed_at.is_none_or(|confirmed_at| confirmed_at > self.active_at) {
                self.window.record_silence(self.delivery.is_slow_link());
            }
            self.active_at = now;
        }
        if self.probe.take_if(|(_, sent_at)| *sent_at + PROBE_TIMEOUT <= now).is_some() {
            self.window
                .record_delay(PROBE_TIMEOUT, now.saturating_duration_since(self.measured_at));
            self.measured_at = now;
            self.delivery.end_measurement();
        }
        if self.probe.is_none() && self.probe_due <= now {
            let reply_subject = self.probe_broker().await?;
            self.probe = Some((reply_subject, Instant::now()));
        }
        Ok(())
    }

    /// Sends a message that the broker answers itself, after everything that it has sent before. Returns the subject of the answer.
    pub(crate) async fn probe_broker(&self) -> Result<String> {
        let token = Uuid::now_v7().simple().to_string();
        let reply_subject = self.reply_address.of_confirmation(&token);
        let bus = &self.client.bus;
        bus.publish_with_reply(subject::CONFIRM_SUBJECT, &reply_subject, Bytes::new()).await?;
        Ok(reply_subject)
    }
}

/// Publishes a message to each of its subjects, and returns the publications.
pub(crate) async fn publish(
    client: &ClientInner,
    request: OutgoingRequest,
) -> Result<Vec<RequestPublication>> {
    let sealed = Bytes::from(request.sealed);
    for RequestPublication { subject, reply_to, .. } in &request.to {
        match reply_to {
            Some(reply_to) => {
                client.bus.publish_with_reply(subject, reply_to, sealed.clone()).await?;
            }
            None => client.bus.publish(subject, sealed.clone()).await?,
        }
    }
    Ok(request.to)
}
