//! Output for systemd's journal: whether standard error is connected to it, and the priority of a line. Without it the log is written as configured.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use tracing::Level;

/// Set by systemd to device and inode of the socket that it connects to standard output and standard error: `8:4711`.
const STREAM_VARIABLE: &str = "JOURNAL_STREAM";

/// Whether standard error is the journal. A program that inherited the variable may have another standard error.
pub fn is_stderr_connected() -> bool {
    let Ok(stream) = std::env::var(STREAM_VARIABLE) else { return false };
    fs::metadata("/proc/self/fd/2").is_ok_and(|file| is_stream(&stream, file.dev(), file.ino()))
}

fn is_stream(stream: &str, device: u64, inode: u64) -> bool {
    stream == format!("{device}:{inode}")
}

/// The prefix with the priority of a line: `sd-daemon(3)`.
pub fn priority_prefix(level: Level) -> &'static str {
    match level {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        _ => "<7>",
    }
}

#[cfg(test)]
mod tests {
    use super::is_stream;

    #[test]
    fn stream_is_device_and_inode() {
        assert!(is_stream("8:4711", 8, 4711));
        for other in ["8:4712", "9:4711", "8", "", ":", "8:4711:1"] {
            assert!(!is_stream(other, 8, 4711), "{other}");
        }
    }
}
