//! Forwards the frames of one connection through the proxy in both directions and applies faults, until one side or a
//! command ends it.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::{
    CapturedMessage, Disconnect, ForwardedBytes, Frame, FrameSplitter, LineCommand, NetworkFault,
    Tap,
};

/// Bytes that may be buffered in the proxy before it stops reading, beside those that a slow link has under way.
const MAX_BUFFERED_BYTES: usize = 64 * 1024;
/// A rate is kept over intervals of this length.
const RATE_INTERVAL: Duration = Duration::from_millis(50);

/// Forwards data between a client and its server until the connection ends.
pub(super) async fn forward_frames(
    (mut client, mut server): (TcpStream, TcpStream),
    mut commands: watch::Receiver<LineCommand>,
    tap: Option<Tap>,
    traffic: &ForwardedBytes,
) {
    let _ = client.set_nodelay(true);
    let end = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let up = Direction::new(commands.clone(), tap, &traffic.up)
            .forward_frames(from_client, to_server);
        let down = Direction::new(commands.clone(), None, &traffic.down)
            .forward_frames(from_server, to_client);
        tokio::select! {
            cut = await_disconnect(&mut commands) => cut,
            end = up => end,
            end = down => end,
        }
    };
    if end == Disconnect::Reset {
        let _ = client.set_zero_linger();
        let _ = server.set_zero_linger();
    }
}

/// Returns when the connection must be cut.
async fn await_disconnect(commands: &mut watch::Receiver<LineCommand>) -> Disconnect {
    loop {
        if let LineCommand::Disconnect(how) = *commands.borrow_and_update() {
            return how;
        }
        if commands.changed().await.is_err() {
            return Disconnect::Reset;
        }
    }
}

/// One direction of a connection.
struct Direction<'a> {
    commands: watch::Receiver<LineCommand>,
    fault: NetworkFault,
    splitter: FrameSplitter,
    /// Buffered frames, each with the time when it is due.
    buffered: VecDeque<(Instant, Vec<u8>)>,
    /// Number of buffered bytes.
    size: usize,
    /// Nothing is written before this time.
    not_before: Instant,
    tap: Option<Tap>,
    /// Counts the bytes that were written.
    forwarded: &'a AtomicU64,
}

impl<'a> Direction<'a> {
    fn new(
        mut commands: watch::Receiver<LineCommand>,
        tap: Option<Tap>,
        forwarded: &'a AtomicU64,
    ) -> Self {
        commands.mark_changed();
        Self {
            commands,
            fault: NetworkFault::None,
            splitter: FrameSplitter::default(),
            buffered: VecDeque::new(),
            size: 0,
            not_before: Instant::now(),
            tap,
            forwarded,
        }
    }

    async fn forward_frames(mut self, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> Disconnect {
        match self.run_loop(&mut from, &mut to).await {
            Ok(end) => end,
            Err(_) => self.await_reset().await,
        }
    }

    async fn run_loop(
        &mut self,
        from: &mut ReadHalf<'_>,
        to: &mut WriteHalf<'_>,
    ) -> io::Result<Disconnect> {
        let mut piece = vec![0; 16 * 1024];
        loop {
            let due = self.buffered.front().map(|(due, _)| (*due).max(self.not_before));
            tokio::select! {
                biased;
                changed = self.commands.changed() => {
                    if changed.is_err() || self.apply_command() {
                        return Ok(Disconnect::Reset);
                    }
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => self.write_due(to).await?,
                count = from.read(&mut piece), if self.size < self.max_buffered_bytes() => {
                    let count = count?;
                    if count == 0 {
                        return self.drain_and_close(to).await;
                    }
                    if !self.buffer_frames(piece.get(..count).unwrap_or_default()) {
                        return Ok(Disconnect::Reset);
                    }
                }
            }
        }
    }

    fn max_buffered_bytes(&self) -> usize {
        // A delay without a rate needs no room: its tests send little.
        let rate = u128::from(self.fault.bytes_per_second().unwrap_or(0));
        let on_the_way = rate * self.fault.delay().as_millis() / 1000;
        MAX_BUFFERED_BYTES.saturating_add(usize::try_from(on_the_way).unwrap_or(usize::MAX))
    }

    /// Applies the newest command; returns true if the connection must be reset.
    fn apply_command(&mut self) -> bool {
        let LineCommand::Forward(fault) = *self.commands.borrow_and_update() else {
            return false;
        };
        let was = std::mem::replace(&mut self.fault, fault);
        if fault == NetworkFault::HalfOpen {
            self.buffered.clear();
            self.size = 0;
        }
        was == NetworkFault::HalfOpen && fault != NetworkFault::HalfOpen
    }

    /// Splits and buffers the received bytes; returns false if they are not valid frames.
    fn buffer_frames(&mut self, piece: &[u8]) -> bool {
        self.splitter.push(piece);
        loop {
            let frame = match self.splitter.next_frame() {
                Ok(Some(frame)) => frame,
                Ok(None) => return true,
                Err(_) => return false,
            };
            let twice = self.fault == NetworkFault::Duplicate && matches!(frame, Frame::Message(_));
            let mut bytes = frame.into_bytes();
            if let (Some(tap), Some(published)) = (&self.tap, CapturedMessage::parse(&bytes)) {
                let _ = tap.send(published);
            }
            if twice {
                bytes.extend_from_within(..);
            }
            if self.fault != NetworkFault::HalfOpen {
                let due = Instant::now() + self.fault.delay();
                self.size += bytes.len();
                self.buffered.push_back((due, bytes));
            }
        }
    }

    /// Writes the next frame that is due, or the part that the rate limit permits.
    async fn write_due(&mut self, to: &mut WriteHalf<'_>) -> io::Result<()> {
        let Some((due, mut bytes)) = self.buffered.pop_front() else {
            return Ok(());
        };
        if let Some(rate) = self.fault.bytes_per_second() {
            let share = usize::try_from(rate / 20).unwrap_or(usize::MAX).max(1);
            if bytes.len() > share {
                let rest = bytes.split_off(share);
                self.buffered.push_front((due, rest));
            }
            let now = Instant::now();
            let earliest = now.checked_sub(RATE_INTERVAL).unwrap_or(now);
            let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            let takes = Duration::from_secs(1) * length / rate;
            self.not_before = self.not_before.max(earliest) + takes;
        }
        self.size -= bytes.len();
        to.write_all(&bytes).await?;
        self.forwarded.fetch_add(u64::try_from(bytes.len()).unwrap_or(0), Ordering::Relaxed);
        Ok(())
    }

    /// One side closed its socket: data that was sent before it is still delivered.
    async fn drain_and_close(&mut self, to: &mut WriteHalf<'_>) -> io::Result<Disconnect> {
        if self.fault == NetworkFault::HalfOpen {
            return Ok(self.await_reset().await);
        }
        while let Some((due, bytes)) = self.buffered.pop_front() {
            sleep_until(due).await;
            to.write_all(&bytes).await?;
        }
        Ok(Disconnect::Close)
    }

    /// One side is gone. The other side of a half-open connection learns of it only after the fault ends.
    async fn await_reset(&mut self) -> Disconnect {
        while self.fault == NetworkFault::HalfOpen {
            if self.commands.changed().await.is_err() {
                break;
            }
            self.apply_command();
        }
        Disconnect::Reset
    }
}
