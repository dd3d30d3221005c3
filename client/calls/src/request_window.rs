//! Flow control of a call to known nodes: how many requests may be outstanding, so that the caller's connection can take their replies.
//!
//! The broker closes a connection that has more than 64 MiB of output pending, or that takes less than all of it in 10 s, and every
//! pending reply is lost. The window is therefore a number of bytes, divided by the size of a reply. It starts with an assumed size, and learns
//! the real one from replies. Probes measure how long a message waits at the broker behind the pending replies: the window shrinks if that is long,
//! and grows if it is short, up to what the connection has shown that it carries: replies of long actions may come all at once. Pure: it keeps no time of its own.

use std::time::Duration;

/// Bytes of replies that may be outstanding at the start of a call: 2.4 s at 7 Mbit/s.
const INITIAL_BYTES: u64 = 2 * 1024 * 1024;
/// The window grows up to the bytes that the connection carries in this time, at the highest rate so far.
const CARRY_TIME: Duration = Duration::from_secs(3);
/// Bytes of replies that are admitted in addition when nothing arrives; on a slow connection, as many as 8 Mbit/s carry in half a second.
const SILENCE_BYTES: u64 = 8 * 1024 * 1024;
const SLOW_SILENCE_BYTES: u64 = 512 * 1024;
/// Limits of the adapted number of bytes: the larger is half of what a broker keeps by default.
const MIN_BYTES: u64 = 256 * 1024;
const MAX_BYTES: u64 = 32 * 1024 * 1024;
/// Maximum requests at the start of a call, whatever their size.
const MAX_INITIAL_REQUESTS: u64 = 2000;
/// Maximum requests before the first reply, if the call does not state its size: as many of the largest replies as a broker keeps.
const MAX_UNKNOWN_REQUESTS: u64 = 64;
/// Assumed size of replies that take long, if the call does not state it.
const ASSUMED_REPLY_BYTES: u64 = 32 * 1024;
/// Bytes that each reply takes in addition: the broker's frame and its bookkeeping.
const REPLY_OVERHEAD_BYTES: u64 = 256;
/// The window shrinks if a message waits this long at the broker, and grows if it waits less than [`SHORT_DELAY`].
const LONG_DELAY: Duration = Duration::from_secs(1);
const SHORT_DELAY: Duration = Duration::from_millis(100);

/// The number of requests that may be outstanding.
#[derive(Debug, Clone)]
pub(crate) struct RequestWindow {
    /// Bytes of replies that may be outstanding.
    bytes: u64,
    /// Replies received so far, and their bytes.
    replies: u64,
    received_bytes: u64,
    /// Bytes received before the last probe was answered, and the highest rate between two probes in bytes per second.
    probed_bytes: u64,
    highest_rate: u64,
    /// The size that the call states.
    expected_bytes: Option<u64>,
    /// Requests beyond the window, because nothing was received for some time.
    extra_requests: u64,
    /// The shortest delay so far: that of the connection without pending replies.
    shortest_delay: Duration,
}

impl RequestWindow {
    /// The window at the start of a call whose replies are about this large, if that is known.
    pub(crate) fn new(expected_reply_bytes: Option<usize>) -> Self {
        let expected = expected_reply_bytes.and_then(|bytes| u64::try_from(bytes).ok());
        Self {
            bytes: INITIAL_BYTES,
            replies: 0,
            received_bytes: 0,
            probed_bytes: 0,
            highest_rate: 0,
            expected_bytes: expected,
            extra_requests: 0,
            shortest_delay: Duration::MAX,
        }
    }

    /// How many requests may be outstanding; at least one.
    pub(crate) fn capacity(&self) -> usize {
        let fitting = self.bytes / self.reply_bytes();
        let requests = match self.expected_bytes {
            _ if self.replies > 0 => fitting,
            Some(_) => fitting.min(MAX_INITIAL_REQUESTS),
            None => MAX_UNKNOWN_REQUESTS,
        };
        let requests = requests.max(1) + self.extra_requests;
        usize::try_from(requests).unwrap_or(usize::MAX)
    }

    /// The size of a reply: the mean of those received, or the assumption.
    fn reply_bytes(&self) -> u64 {
        let assumed = self.expected_bytes.unwrap_or(ASSUMED_REPLY_BYTES);
        self.received_bytes.checked_div(self.replies).unwrap_or(assumed) + REPLY_OVERHEAD_BYTES
    }

    /// Learns the size of a reply. What was assumed without replies is void.
    pub(crate) fn record_reply(&mut self, bytes: usize) {
        self.extra_requests = 0;
        self.replies += 1;
        self.received_bytes += u64::try_from(bytes).unwrap_or(u64::MAX / 2);
    }

    /// Nothing was received for some time although requests are outstanding: the actions take long. More requests may be sent, at the pace of this
    /// function's calls, so that replies of actions of the same duration come at that pace too.
    pub(crate) fn record_silence(&mut self, is_slow: bool) {
        let bytes = if is_slow { SLOW_SILENCE_BYTES } else { SILENCE_BYTES };
        self.extra_requests += (bytes / self.reply_bytes()).clamp(1, MAX_INITIAL_REQUESTS);
    }

    /// Adapts the window to the delay of a message to the broker and back; `since_last` is the time since the answer to the message before, or the start.
    pub(crate) fn record_delay(&mut self, delay: Duration, since_last: Duration) {
        self.record_rate(since_last);
        self.shortest_delay = self.shortest_delay.min(delay);
        let queueing = delay.saturating_sub(self.shortest_delay);
        if queueing >= LONG_DELAY {
            self.bytes = (self.bytes / 2).max(MIN_BYTES);
        } else if queueing <= SHORT_DELAY {
            let carried = self.highest_rate.saturating_mul(CARRY_TIME.as_secs());
            let limit = carried.clamp(INITIAL_BYTES, MAX_BYTES).max(self.bytes);
            self.bytes = (self.bytes * 2).min(limit);
        }
    }

    fn record_rate(&mut self, since_last: Duration) {
        let received = self.received_bytes - self.probed_bytes;
        self.probed_bytes = self.received_bytes;
        let millis = u64::try_from(since_last.as_millis()).unwrap_or(u64::MAX).max(1);
        self.highest_rate = self.highest_rate.max(received.saturating_mul(1000) / millis);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(20);
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn window_starts_with_2_mib_and_at_most_2000_requests() {
        assert_eq!(RequestWindow::new(None).capacity(), 64);
        assert_eq!(RequestWindow::new(Some(100)).capacity(), 2000);
        assert_eq!(RequestWindow::new(Some(20_000)).capacity(), 103);
        assert_eq!(RequestWindow::new(Some(1024 * 1024)).capacity(), 1);
        assert_eq!(RequestWindow::new(Some(usize::MAX / 4)).capacity(), 1);
    }

    #[test]
    fn size_of_replies_is_learned() {
        let mut window = RequestWindow::new(None);
        window.record_reply(1000);
        assert_eq!(window.capacity(), 1669);
        window.record_reply(40_000);
        assert_eq!(window.capacity(), 101);
    }

    #[test]
    fn window_grows_up_to_three_seconds_of_the_highest_rate() {
        let mut window = RequestWindow::new(None);
        for _ in 0..1_000 {
            window.record_reply(1_000);
        }
        for _ in 0..20 {
            window.record_delay(SHORT, SECOND);
        }
        assert_eq!(window.bytes, 3_000_000, "1 MB in a second");
        for _ in 0..1_000 {
            window.record_reply(1_000);
        }
        window.record_delay(SHORT, Duration::from_millis(50));
        for _ in 0..20 {
            window.record_delay(SHORT, SECOND);
        }
        assert_eq!(window.bytes, MAX_BYTES, "1 MB in 50 ms, and never above 32 MiB");
    }

    #[test]
    fn window_does_not_grow_before_replies_come() {
        let mut window = RequestWindow::new(None);
        for _ in 0..20 {
            window.record_delay(SHORT, SECOND);
        }
        assert_eq!(window.bytes, INITIAL_BYTES);
    }

    #[test]
    fn long_delays_shrink_the_window() {
        let mut window = RequestWindow::new(None);
        window.record_reply(1000);
        window.record_delay(SHORT, SECOND);
        let full = window.bytes;
        window.record_delay(3 * SECOND, SECOND);
        assert_eq!(window.bytes, full / 2);
        // The connection is busy, and nothing waits long.
        window.record_delay(Duration::from_millis(500), SECOND);
        assert_eq!(window.bytes, full / 2);
        for _ in 0..20 {
            window.record_delay(3 * SECOND, SECOND);
        }
        assert_eq!(window.bytes, MIN_BYTES);
        for _ in 0..20 {
            window.record_delay(SHORT, SECOND);
        }
        assert_eq!(window.bytes, full, "the size at the start is always permitted again");
    }

    #[test]
    fn silence_admits_more_until_the_first_reply() {
        let mut window = RequestWindow::new(None);
        window.record_silence(false);
        window.record_silence(true);
        assert_eq!(window.capacity(), 64 + 254 + 15);
        window.record_reply(20_000);
        assert_eq!(window.capacity(), 103);
    }
}
