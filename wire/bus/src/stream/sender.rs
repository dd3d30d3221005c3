//! The sending direction: bytes that are not confirmed yet, and when they are sent again.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use crate::stream::frame::StreamFrame;

/// Most unconfirmed bytes that are kept, whatever the other end permits.
const MAX_KEPT_BYTES: u64 = 4 * 1024 * 1024;
/// Most unconfirmed segments: many are small in an interactive session.
const MAX_SEGMENTS: usize = 1024;
/// Repeated confirmations of the same offset after which its segment counts as lost.
const LOSS_REPEATS: u32 = 3;

/// Times until an unconfirmed segment is sent again.
const FIRST_TIMEOUT: Duration = Duration::from_secs(1);
const MIN_TIMEOUT: Duration = Duration::from_millis(250);
const MAX_TIMEOUT: Duration = Duration::from_secs(8);

/// Bytes, or the end of the direction, that are not confirmed.
#[derive(Debug)]
struct Segment {
    offset: u64,
    /// Empty for the end.
    bytes: Bytes,
    sent: Duration,
    /// How often it was sent.
    tries: u32,
}

impl Segment {
    /// The offset after it; the end counts as one byte.
    fn next_offset(&self) -> u64 {
        self.offset + (self.bytes.len() as u64).max(1)
    }
}

/// The state of the direction to the other end.
#[derive(Debug, Default)]
pub(crate) struct SendingDirection {
    /// Unconfirmed segments in order.
    segments: VecDeque<Segment>,
    /// The number of segments that were sent at least once; the others follow them.
    sent: usize,
    /// The segments that are to be sent again.
    again: std::ops::Range<usize>,
    /// Everything before was confirmed.
    confirmed: u64,
    /// The other end permits bytes before this offset.
    limit: u64,
    /// The offset after the last queued byte.
    queued: u64,
    is_ended: bool,
    repeats: u32,
    /// A loss is being repaired until this offset is confirmed; each confirmation sends twice as many segments again.
    repair: Option<(u64, usize)>,
    timing: RoundTrip,
}

/// The estimated time of a round trip.
#[derive(Debug)]
struct RoundTrip {
    smoothed: Option<Duration>,
    variation: Duration,
    timeout: Duration,
}

impl Default for RoundTrip {
    fn default() -> Self {
        Self { smoothed: None, variation: Duration::ZERO, timeout: FIRST_TIMEOUT }
    }
}

impl RoundTrip {
    fn add_sample(&mut self, sample: Duration) {
        let smoothed = match self.smoothed {
            None => {
                self.variation = sample / 2;
                sample
            }
            Some(smoothed) => {
                self.variation = (self.variation * 3 + smoothed.abs_diff(sample)) / 4;
                (smoothed * 7 + sample) / 8
            }
        };
        self.smoothed = Some(smoothed);
        self.timeout = (smoothed + self.variation * 4).clamp(MIN_TIMEOUT, MAX_TIMEOUT);
    }

    fn back_off(&mut self) {
        self.timeout = (self.timeout * 2).min(MAX_TIMEOUT);
    }
}

impl SendingDirection {
    /// How many bytes may be queued now.
    pub(crate) fn capacity(&self) -> usize {
        if self.is_ended || self.segments.len() >= MAX_SEGMENTS {
            return 0;
        }
        let end = self.limit.min(self.confirmed + MAX_KEPT_BYTES);
        usize::try_from(end.saturating_sub(self.queued)).unwrap_or(usize::MAX)
    }

    /// Queues bytes, in segments of at most this size.
    pub(crate) fn queue_bytes(&mut self, mut bytes: Bytes, payload: usize) {
        while !bytes.is_empty() && !self.is_ended {
            let segment = bytes.split_to(payload.max(1).min(bytes.len()));
            let offset = self.queued;
            self.queued += segment.len() as u64;
            self.push_segment(offset, segment);
        }
    }

    /// Ends the direction after the queued bytes.
    pub(crate) fn end(&mut self) {
        if !self.is_ended {
            self.is_ended = true;
            self.push_segment(self.queued, Bytes::new());
        }
    }

    fn push_segment(&mut self, offset: u64, bytes: Bytes) {
        self.segments.push_back(Segment { offset, bytes, sent: Duration::ZERO, tries: 0 });
    }

    /// Whether the end was sent and everything was confirmed.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_ended && self.segments.is_empty()
    }

    /// Bytes of the stream that were queued so far.
    pub(crate) fn queued_bytes(&self) -> u64 {
        self.queued
    }

    /// Applies a confirmation. Returns whether it is possible: nothing is confirmed that was not sent.
    pub(crate) fn confirm(&mut self, received: u64, limit: u64, now: Duration) -> bool {
        let sent_end = self.sent.checked_sub(1).and_then(|last| self.segments.get(last));
        if received > sent_end.map_or(self.confirmed, Segment::next_offset) {
            return false;
        }
        let is_repeat = received == self.confirmed && limit <= self.limit;
        self.limit = self.limit.max(limit);
        if received > self.confirmed {
            self.confirmed = received;
            self.repeats = 0;
            self.remove_confirmed(now);
            self.continue_repair();
        } else if is_repeat && self.sent > 0 {
            self.repeats += 1;
            if self.repeats == LOSS_REPEATS && self.repair.is_none() {
                self.start_repair();
            }
        }
        true
    }

    fn remove_confirmed(&mut self, now: Duration) {
        while let Some(first) = self.segments.front()
            && self.sent > 0
            && first.next_offset() <= self.confirmed
        {
            // A segment that was sent twice has no known round trip.
            if first.tries == 1 {
                self.timing.add_sample(now.saturating_sub(first.sent));
            }
            self.segments.pop_front();
            self.sent -= 1;
            self.again = self.again.start.saturating_sub(1)..self.again.end.saturating_sub(1);
        }
    }

    /// Sends the first segment again, and more with each confirmation.
    fn start_repair(&mut self) {
        let last = self.sent.checked_sub(1).and_then(|last| self.segments.get(last));
        self.repair = last.map(|last| (last.next_offset(), 1));
        self.again = 0..1.min(self.sent);
    }

    fn continue_repair(&mut self) {
        let Some((until, count)) = self.repair else { return };
        if self.confirmed >= until {
            self.repair = None;
            return;
        }
        let count = (count * 2).min(MAX_SEGMENTS);
        self.repair = Some((until, count));
        self.again = self.again.start..count.min(self.sent).max(self.again.end);
    }

    /// Sends everything unconfirmed again: the connection was lost.
    pub(crate) fn send_all_again(&mut self) {
        self.repair = None;
        self.repeats = 0;
        self.again = 0..self.sent;
    }

    /// When the oldest unconfirmed segment counts as lost.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        let oldest = self.segments.front().filter(|_| self.sent > 0)?;
        Some(oldest.sent + self.timing.timeout)
    }

    /// The next frame to send.
    pub(crate) fn next_frame(&mut self, now: Duration) -> Option<StreamFrame> {
        if self.again.is_empty() && self.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.timing.back_off();
            self.start_repair();
        }
        let index = if self.again.is_empty() { self.sent } else { self.again.start };
        let segment = self.segments.get_mut(index)?;
        segment.sent = now;
        segment.tries = segment.tries.saturating_add(1);
        if self.again.is_empty() {
            self.sent += 1;
        } else {
            self.again.start += 1;
        }
        let (offset, bytes) = (segment.offset, segment.bytes.clone());
        Some(if bytes.is_empty() {
            StreamFrame::End { offset }
        } else {
            StreamFrame::Data { offset, bytes }
        })
    }

    /// Whether something waits to be sent now.
    pub(crate) fn has_frame(&self, now: Duration) -> bool {
        !self.again.is_empty()
            || self.sent < self.segments.len()
            || self.next_deadline().is_some_and(|deadline| deadline <= now)
    }
}
