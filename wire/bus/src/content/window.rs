//! How many chunks are on their way at once. A fast link needs many. On a slow one, many would wait for each other until they time out, and the broker
//! closes a connection that takes no bytes for ten seconds.

use std::time::Duration;

use muster_wire::catalog::content::CHUNK_BYTES;

/// Most bytes on their way.
const MAX_WINDOW_BYTES: usize = 16 * 1024 * 1024;
const MAX_CHUNKS: usize = MAX_WINDOW_BYTES / CHUNK_BYTES;
/// An answer within this time permits one chunk more.
const FAST_ANSWER: Duration = Duration::from_millis(500);
/// A later answer halves the number.
const SLOW_ANSWER: Duration = Duration::from_secs(1);

/// The number of chunks that may be on their way: it begins with one, and follows the time of the answers.
#[derive(Debug)]
pub(super) struct ChunkWindow {
    chunks: usize,
}

impl ChunkWindow {
    pub(super) fn new() -> Self {
        Self { chunks: 1 }
    }

    /// Whether one more chunk may be requested while this many are on their way.
    pub(super) fn has_room(&self, pending: usize) -> bool {
        pending < self.chunks
    }

    /// Adapts to an answer that took this long.
    pub(super) fn record_answer(&mut self, took: Duration) {
        if took < FAST_ANSWER {
            self.chunks = (self.chunks + 1).min(MAX_CHUNKS);
        } else if took > SLOW_ANSWER {
            self.chunks = (self.chunks / 2).max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_is_at_most_16_mib_and_at_least_one_chunk() {
        let mut window = ChunkWindow::new();
        assert!(window.has_room(0) && !window.has_room(1));
        for _ in 0..100 {
            window.record_answer(Duration::from_millis(1));
        }
        assert!(window.has_room(31) && !window.has_room(32));
        window.record_answer(Duration::from_millis(700));
        assert!(window.has_room(31), "neither fast nor slow");
        for _ in 0..100 {
            window.record_answer(Duration::from_secs(2));
        }
        assert!(window.has_room(0) && !window.has_room(1));
    }

    /// Each chunk takes its part of the link, after all that were requested before.
    #[test]
    fn answers_of_a_slow_link_stay_far_below_their_timeout() {
        let chunk_bytes = f64::from(u32::try_from(CHUNK_BYTES).unwrap());
        for bytes_per_second in [150_000, 1_000_000, 10_000_000] {
            let chunk_time = Duration::from_secs_f64(chunk_bytes / f64::from(bytes_per_second));
            let mut window = ChunkWindow::new();
            for _ in 0..200 {
                let pending = (0..MAX_CHUNKS).take_while(|pending| window.has_room(*pending));
                let took = chunk_time * u32::try_from(pending.count()).unwrap();
                assert!(took < Duration::from_secs(5), "{took:?} at {bytes_per_second} bytes/s");
                window.record_answer(took);
            }
        }
    }
}
