//! Flow control of a call to known nodes: how many requests may be outstanding, so that the caller's connection can take their replies.
//!
//! The broker closes a connection that has more than 64 MiB of output pending, or that takes less than all of it in 10 s, and every
//! pending reply is lost. The window is therefore a number of bytes, divided by the size of a reply. It starts with an assumed size, and learns
//! the real one from replies. Probes measure how long a message waits at the broker behind the pending replies: the window shrinks if that is long,
//! and grows if it is short. Pure: it keeps no time of its own.

use std::time::Duration;

/// Bytes of replies that may be outstanding at the start of a call.
const INITIAL_BYTES: u64 = 8 * 1024 * 1024;
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
            expected_bytes: expected,
            extra_requests: 0,
            shortest_delay: Duration::MAX,
        }
    }

    /// How many requests may be outstanding; at least one.
    pub(crate) fn capacity(&self) -> usize {
        let limit = match self.expected_bytes {
            _ if self.replies > 0 => u64::MAX,
            Some(_) => MAX_INITIAL_REQUESTS,
            None => MAX_UNKNOWN_REQUESTS,
        };
        let requests = (self.bytes / self.reply_bytes()).clamp(1, limit) + self.extra_requests;
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
    pub(crate) fn record_silence(&mut self) {
        self.extra_requests += (INITIAL_BYTES / self.reply_bytes()).clamp(1, MAX_INITIAL_REQUESTS);
    }

    /// Adapts the window to the delay of a message to the broker and back.
    pub(crate) fn record_delay(&mut self, delay: Duration) {
        self.shortest_delay = self.shortest_delay.min(delay);
        let queueing = delay.saturating_sub(self.shortest_delay);
        if queueing >= LONG_DELAY {
            self.bytes = (self.bytes / 2).max(MIN_BYTES);
        } else if queueing <= SHORT_DELAY {
            self.bytes = (self.bytes * 2).min(MAX_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_starts_with_8_mib_and_at_most_2000_requests() {
        assert_eq!(RequestWindow::new(None).capacity(), 64);
        assert_eq!(RequestWindow::new(Some(1000)).capacity(), 2000);
        assert_eq!(RequestWindow::new(Some(20_000)).capacity(), 414);
        assert_eq!(RequestWindow::new(Some(1024 * 1024)).capacity(), 7);
        assert_eq!(RequestWindow::new(Some(usize::MAX / 4)).capacity(), 1);
    }

    #[test]
    fn size_of_replies_is_learned() {
        let mut window = RequestWindow::new(None);
        window.record_reply(1000);
        assert_eq!(window.capacity(), 6678);
        window.record_reply(40_000);
        assert_eq!(window.capacity(), 404);
    }

    #[test]
    fn long_delays_shrink_the_window_and_short_ones_let_it_grow() {
        let mut window = RequestWindow::new(None);
        window.record_reply(1000);
        window.record_delay(Duration::from_millis(20));
        let full = window.capacity();
        for _ in 0..3 {
            window.record_delay(Duration::from_secs(3));
        }
        assert_eq!(window.capacity(), full / 8);
        // The connection is busy, and nothing waits long.
        window.record_delay(Duration::from_millis(500));
        assert_eq!(window.capacity(), full / 8);
        for _ in 0..20 {
            window.record_delay(Duration::from_secs(3));
        }
        assert_eq!(window.capacity(), 208, "never below 256 KiB");
        for _ in 0..20 {
            window.record_delay(Duration::from_millis(30));
        }
        assert_eq!(window.capacity(), 26_715, "never above 32 MiB");
    }

    #[test]
    fn silence_admits_more_until_the_first_reply() {
        let mut window = RequestWindow::new(None);
        window.record_silence();
        window.record_silence();
        assert_eq!(window.capacity(), 64 + 2 * 254);
        window.record_reply(20_000);
        assert_eq!(window.capacity(), 414);
    }
}
