//! Waits until a node reports on a datagram socket, by the protocol of systemd (`sd_notify(3)`), that it is connected to the broker. `READY=1` only
//! means that it runs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_files::files::{FileAccessError, file_error};
use tokio::net::UnixDatagram;
use tokio::time::{Instant, interval, timeout_at};

/// Environment variable with the path of the socket.
pub const NOTIFY_SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";
const MAX_REPORT_BYTES: usize = 4096;
/// Poll interval for the exit of a waiting node.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Socket on which one node reports.
#[derive(Debug)]
pub struct ReadinessListener {
    socket: UnixDatagram,
    path: PathBuf,
}

impl ReadinessListener {
    pub fn new(path: PathBuf) -> Result<Self, FileAccessError> {
        let socket = UnixDatagram::bind(&path).map_err(file_error("listen on", &path))?;
        Ok(Self { socket, path })
    }

    /// Path of the socket, for the node's environment.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until the node is connected, and calls `report_status` with each of its status messages. Returns false when `has_exited` returns true,
    /// or at the deadline.
    pub async fn await_ready(
        &self,
        deadline: Instant,
        mut has_exited: impl FnMut() -> bool,
        mut report_status: impl FnMut(&str),
    ) -> bool {
        let mut ticks = interval(POLL_INTERVAL);
        let mut buffer = vec![0; MAX_REPORT_BYTES];
        let wait = async {
            loop {
                tokio::select! {
                    biased;
                    received = self.socket.recv(&mut buffer) => {
                        let message = received.ok().and_then(|length| buffer.get(..length));
                        if message.is_some_and(is_connected) {
                            return true;
                        }
                        if let Some(status) = message.and_then(status_text) {
                            report_status(status);
                        }
                    }
                    _ = ticks.tick() => if has_exited() {
                        return false;
                    },
                }
            }
        };
        timeout_at(deadline, wait).await.unwrap_or(false)
    }
}

/// Start of the status text of a node that answers requests.
const CONNECTED_STATUS: &str = "connected";

/// Whether the message reports a connected node. A message has one assignment per line.
fn is_connected(message: &[u8]) -> bool {
    status_text(message).is_some_and(|status| status.starts_with(CONNECTED_STATUS))
}

fn status_text(message: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(message).ok()?;
    text.lines().find_map(|line| line.strip_prefix("STATUS="))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{ReadinessListener, is_connected};

    #[test]
    fn only_the_status_line_tells_that_a_node_is_connected() {
        assert!(is_connected(b"READY=1\nSTATUS=connected to the broker\nMAINPID=3"));
        assert!(!is_connected(b"READY=1"));
        assert!(!is_connected(b"READY=1\nSTATUS=not connected to the broker"));
        assert!(!is_connected(b"MAINPID=connected"));
    }

    #[tokio::test]
    async fn other_notifications_do_not_mean_ready() {
        let scratch = tempfile::tempdir().unwrap();
        let listener = ReadinessListener::new(scratch.path().join("s")).unwrap();
        let node = UnixDatagram::unbound().unwrap();
        let deadline = || Instant::now() + Duration::from_mins(1);
        node.send_to(b"READY=1\nSTATUS=connecting", listener.path()).unwrap();
        let mut looks = 0;
        let over = || {
            looks += 1;
            looks > 2
        };
        let mut told = Vec::new();
        let tell = |status: &str| told.push(status.to_owned());
        assert!(!listener.await_ready(deadline(), over, tell).await);
        assert_eq!(told, ["connecting"]);
        node.send_to(b"STATUS=connected to the broker\n", listener.path()).unwrap();
        assert!(listener.await_ready(deadline(), || false, |_| {}).await);
        assert!(!listener.await_ready(Instant::now(), || false, |_| {}).await);
    }
}
