//! How requests reach known nodes: each node is sent the request itself, or a reference to a copy that is stored at the broker once for a group of nodes.
//!
//! The request takes 2 to 3 kB per node, a reference 250 bytes, but a reference costs the broker and the node one read. So references are used only
//! if the caller's connection is slow. Its rate is that of the first requests: one probe before them and one after them, both answered by the broker.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use muster_bus::Bytes;
use muster_wire::identity::Identity;
use muster_wire::stored_request::RequestReference;
use muster_wire::stores::REQUESTS_BUCKET;
use tokio::time::Instant;

use crate::client_inner::ClientInner;

/// A call to fewer nodes sends each the request.
const MIN_NODES: usize = 256;
/// Nodes that are sent the request before the rate is known.
const SAMPLE_NODES: usize = 64;
/// From this rate on, references are not used: 100 Mbit/s.
const SUFFICIENT_BYTES_PER_SECOND: f64 = 12_500_000.0;
/// References are not used if the remaining requests take less than this.
const TOLERABLE_SECONDS: f64 = 0.1;

/// What is known of the connection, and the nodes with references.
#[derive(Debug)]
pub(crate) struct RequestDelivery {
    mode: DeliveryMode,
    /// Whether the rate was measured and is below that of a fast connection.
    is_slow_link: bool,
    /// Bytes and nodes of the requests that were sent whole.
    sent_bytes: usize,
    sent_nodes: usize,
    /// Nodes that were sent a reference, and have not replied.
    referenced: BTreeSet<Identity>,
    /// Nodes that did not get the stored request, and are now sent it whole.
    unserved: VecDeque<Identity>,
}

#[derive(Debug)]
enum DeliveryMode {
    /// The rate is being measured, if these probes have been sent.
    Measuring(Option<RateMeasurement>),
    Whole,
    /// Whether the broker has confirmed that it stores requests.
    Reference {
        is_confirmed: bool,
    },
}

/// The reply subjects of two probes, and the time at which the first one was answered.
#[derive(Debug)]
struct RateMeasurement {
    before: String,
    after: String,
    began_at: Instant,
    before_at: Option<Instant>,
}

impl RateMeasurement {
    /// How long the requests between the probes took: the time between the answers. A busy client reads both answers late, at the same time; then a
    /// part of the whole time counts, which includes a round trip.
    fn duration(&self, after_at: Instant) -> Option<Duration> {
        let between = after_at.saturating_duration_since(self.before_at?);
        Some(between.max(after_at.saturating_duration_since(self.began_at) / 4))
    }
}

impl RequestDelivery {
    /// For a call to this number of known nodes.
    pub(crate) fn new(nodes: usize) -> Self {
        let mode =
            if nodes < MIN_NODES { DeliveryMode::Whole } else { DeliveryMode::Measuring(None) };
        Self {
            mode,
            is_slow_link: false,
            sent_bytes: 0,
            sent_nodes: 0,
            referenced: BTreeSet::new(),
            unserved: VecDeque::new(),
        }
    }

    /// Whether the rate has to be measured with the next requests.
    pub(crate) fn needs_measurement(&self) -> bool {
        matches!(self.mode, DeliveryMode::Measuring(None))
    }

    /// How many nodes may be sent a request now.
    pub(crate) fn capacity(&self) -> usize {
        match self.mode {
            DeliveryMode::Measuring(_) => SAMPLE_NODES.saturating_sub(self.sent_nodes),
            DeliveryMode::Whole | DeliveryMode::Reference { .. } => usize::MAX,
        }
    }

    /// Records requests that were sent whole.
    pub(crate) fn record_sent(&mut self, bytes: usize, nodes: usize) {
        self.sent_bytes += bytes;
        self.sent_nodes += nodes;
    }

    /// Records the reply subjects of the probes before and after the first requests.
    pub(crate) fn begin_measurement(&mut self, before: String, after: String, began_at: Instant) {
        let measurement = RateMeasurement { before, after, began_at, before_at: None };
        self.mode = DeliveryMode::Measuring(Some(measurement));
    }

    /// Records the answer to a probe. Decides when both have been answered; `unsent` is the number of nodes that are left.
    pub(crate) fn record_confirmation(
        &mut self,
        reply_subject: &str,
        arrived_at: Instant,
        unsent: usize,
    ) {
        let DeliveryMode::Measuring(Some(measurement)) = &mut self.mode else { return };
        if measurement.before == reply_subject {
            measurement.before_at = Some(arrived_at);
        } else if measurement.after == reply_subject {
            let took = measurement.duration(arrived_at);
            self.is_slow_link = took.is_none_or(|took| self.has_low_rate(took));
            self.mode = match took {
                Some(took) if !self.is_slow(took, unsent) => DeliveryMode::Whole,
                // Without the first answer, the connection was interrupted.
                _ => DeliveryMode::Reference { is_confirmed: false },
            };
        }
    }

    /// Whether the requests that are left would take long at the rate of the first ones.
    fn is_slow(&self, took: Duration, unsent: usize) -> bool {
        let [nodes, unsent] = [self.sent_nodes.max(1), unsent].map(to_f64);
        self.has_low_rate(took) && took.as_secs_f64() * unsent / nodes > TOLERABLE_SECONDS
    }

    fn has_low_rate(&self, took: Duration) -> bool {
        to_f64(self.sent_bytes) < SUFFICIENT_BYTES_PER_SECOND * took.as_secs_f64()
    }

    /// Whether the caller's connection is known to be slow.
    pub(crate) fn is_slow_link(&self) -> bool {
        self.is_slow_link
    }

    /// Ends a measurement whose probes were not answered: the connection is slow, or was interrupted.
    pub(crate) fn end_measurement(&mut self) {
        if let DeliveryMode::Measuring(_) = self.mode {
            self.mode = DeliveryMode::Reference { is_confirmed: false };
        }
    }

    /// Stores a signed request and returns its reference; `None` if the nodes must be sent the request itself.
    pub(crate) async fn store_request(
        &mut self,
        client: &ClientInner,
        request: &[u8],
    ) -> Option<RequestReference> {
        let DeliveryMode::Reference { is_confirmed } = self.mode else { return None };
        let reference = RequestReference::generate().ok()?;
        let value = Bytes::from(reference.encrypt_request(request).ok()?);
        let (bucket, key) = (client.bus.bucket(REQUESTS_BUCKET.name), reference.bucket_key());
        // A write that the broker refuses later, because the bucket is full, is noticed by the nodes.
        let is_stored = if is_confirmed {
            bucket.put_unconfirmed(&key, value).await.is_ok()
        } else {
            bucket.put_once(&key, value).await.is_ok()
        };
        self.mode = if is_stored {
            DeliveryMode::Reference { is_confirmed: true }
        } else {
            DeliveryMode::Whole
        };
        is_stored.then_some(reference)
    }

    /// Records that a node was sent a reference.
    pub(crate) fn record_reference(&mut self, node: Identity) {
        self.referenced.insert(node);
    }

    /// Records a reply of a node.
    pub(crate) fn record_reply(&mut self, node: &Identity) {
        self.referenced.remove(node);
    }

    /// Records that a node did not get the stored request: it is not connected, is of an earlier version, or cannot read it. Returns whether it will be
    /// sent the request itself.
    pub(crate) fn record_unserved(&mut self, node: &Identity) -> bool {
        let is_referenced = self.referenced.remove(node);
        if is_referenced {
            self.unserved.push_back(node.clone());
        }
        is_referenced
    }

    /// Whether nodes are to be sent the request itself after all.
    pub(crate) fn has_unserved(&self) -> bool {
        !self.unserved.is_empty()
    }

    /// Some of the nodes that are to be sent the request itself after all.
    pub(crate) fn take_unserved(&mut self, limit: usize) -> Vec<Identity> {
        let count = self.unserved.len().min(limit);
        self.unserved.drain(..count).collect()
    }
}

fn to_f64(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether references are used after a sample of 64 requests that took this time, with this number of nodes left.
    fn uses_references(took: Duration, unsent: usize) -> bool {
        let mut delivery = RequestDelivery::new(1000);
        assert_eq!(delivery.capacity(), 64);
        let start = Instant::now();
        delivery.begin_measurement("before".to_owned(), "after".to_owned(), start);
        delivery.record_sent(64 * 2400, 64);
        assert_eq!(delivery.capacity(), 0);
        delivery.record_confirmation("other", start, unsent);
        delivery.record_confirmation("before", start, unsent);
        assert_eq!(delivery.capacity(), 0);
        delivery.record_confirmation("after", start + took, unsent);
        assert_eq!(delivery.capacity(), usize::MAX);
        matches!(delivery.mode, DeliveryMode::Reference { is_confirmed: false })
    }

    #[test]
    fn references_are_used_on_slow_links_only() {
        // 154 kB in 2 ms are 77 MB/s.
        assert!(!uses_references(Duration::from_millis(2), 100_000));
        // In 20 ms: 7.7 MB/s.
        assert!(uses_references(Duration::from_millis(20), 5000));
        // The rest takes 0.06 s.
        assert!(!uses_references(Duration::from_millis(20), 200));
        assert!(uses_references(Duration::from_secs(3), 200));
        assert!(!uses_references(Duration::ZERO, 100_000));
    }

    /// The broker's answers wait in the client for a busy program.
    #[test]
    fn answers_that_are_read_at_once_count_a_quarter_of_the_whole_time() {
        for (millis, is_slow) in [(40, false), (80, true)] {
            let mut delivery = RequestDelivery::new(1000);
            let start = Instant::now();
            delivery.begin_measurement("before".to_owned(), "after".to_owned(), start);
            delivery.record_sent(64 * 2400, 64);
            let read_at = start + Duration::from_millis(millis);
            delivery.record_confirmation("before", read_at, 5000);
            delivery.record_confirmation("after", read_at, 5000);
            let uses_references = matches!(delivery.mode, DeliveryMode::Reference { .. });
            assert_eq!(uses_references, is_slow, "{millis} ms");
        }
    }

    #[test]
    fn small_calls_send_the_request_itself() {
        let mut delivery = RequestDelivery::new(255);
        assert!(!delivery.needs_measurement());
        assert_eq!(delivery.capacity(), usize::MAX);
        delivery.end_measurement();
        assert!(matches!(delivery.mode, DeliveryMode::Whole));
    }

    #[test]
    fn unanswered_probes_mean_a_slow_link() {
        let mut delivery = RequestDelivery::new(256);
        assert!(delivery.needs_measurement());
        delivery.begin_measurement("before".to_owned(), "after".to_owned(), Instant::now());
        delivery.end_measurement();
        assert!(matches!(delivery.mode, DeliveryMode::Reference { .. }));
    }

    #[test]
    fn node_that_cannot_read_is_sent_the_request_once() {
        let node = Identity::parse("web1.acme.net").unwrap();
        let mut delivery = RequestDelivery::new(1000);
        assert!(!delivery.record_unserved(&node), "it was sent no reference");
        delivery.record_reference(node.clone());
        assert!(delivery.record_unserved(&node));
        assert!(!delivery.record_unserved(&node));
        assert_eq!(delivery.take_unserved(64), [node]);
        assert!(delivery.take_unserved(64).is_empty());
    }
}
