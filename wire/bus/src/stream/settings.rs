//! Limits and times of a stream.

use std::time::Duration;

use crate::stream::frame::MAX_PAYLOAD_BYTES;

/// Streams that get a large window.
const FAST_STREAMS: usize = 8;
const LARGE_WINDOW_BYTES: u64 = 2 * 1024 * 1024;
const SMALL_WINDOW_BYTES: u64 = 256 * 1024;

/// The receive window of a stream in bytes: 2 MiB while fewer than eight others are open, 256 KiB otherwise. The windows of 128 streams add up to
/// 46 MiB; a broker closes a connection when more than 64 MiB wait for it.
pub fn window_for_open_streams(others: usize) -> u64 {
    if others < FAST_STREAMS { LARGE_WINDOW_BYTES } else { SMALL_WINDOW_BYTES }
}

/// Limits and times of one end of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamSettings {
    /// Bytes that the other end may send before they are taken.
    pub window: u64,
    /// Bytes of the stream in one message, at most [`MAX_PAYLOAD_BYTES`].
    pub payload: usize,
    /// Ends the stream if nothing was received from the other end for this time.
    pub silence: Duration,
    /// Ends the stream if it carried no data in either direction for this time.
    pub idle: Option<Duration>,
}

impl Default for StreamSettings {
    fn default() -> Self {
        Self {
            window: LARGE_WINDOW_BYTES,
            payload: MAX_PAYLOAD_BYTES,
            silence: Duration::from_mins(1),
            idle: None,
        }
    }
}
