//! One connection through the proxy: carries frames both ways as it is told, until one side or an order ends it.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::{Cut, Fault, Frame, Order, Published, Splitter, Tap};

/// Bytes that wait in the proxy before it reads no more.
const WAITING: usize = 64 * 1024;
/// How often a throttled direction lets some through.
const BEAT: Duration = Duration::from_millis(50);

/// Carries between a client and its server until it ends.
pub(super) async fn carry(
    (mut client, mut server): (TcpStream, TcpStream),
    mut orders: watch::Receiver<Order>,
    tap: Option<Tap>,
) {
    let _ = client.set_nodelay(true);
    let end = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let up = Direction::new(orders.clone(), tap).carry(from_client, to_server);
        let down = Direction::new(orders.clone(), None).carry(from_server, to_client);
        tokio::select! {
            cut = ordered(&mut orders) => cut,
            end = up => end,
            end = down => end,
        }
    };
    if end == Cut::Reset {
        let _ = client.set_zero_linger();
        let _ = server.set_zero_linger();
    }
}

/// Returns when the connection is to be cut.
async fn ordered(orders: &mut watch::Receiver<Order>) -> Cut {
    loop {
        if let Order::Cut(how) = *orders.borrow_and_update() {
            return how;
        }
        if orders.changed().await.is_err() {
            return Cut::Reset;
        }
    }
}

/// One direction of a connection.
struct Direction {
    orders: watch::Receiver<Order>,
    fault: Fault,
    splitter: Splitter,
    /// Bytes, and when they are due.
    waiting: VecDeque<(Instant, Vec<u8>)>,
    /// How many bytes those are.
    size: usize,
    /// Nothing is written before.
    pause: Instant,
    tap: Option<Tap>,
}

impl Direction {
    fn new(mut orders: watch::Receiver<Order>, tap: Option<Tap>) -> Self {
        orders.mark_changed();
        Self {
            orders,
            fault: Fault::None,
            splitter: Splitter::default(),
            waiting: VecDeque::new(),
            size: 0,
            pause: Instant::now(),
            tap,
        }
    }

    async fn carry(mut self, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> Cut {
        match self.work(&mut from, &mut to).await {
            Ok(end) => end,
            Err(_) => self.broken().await,
        }
    }

    async fn work(&mut self, from: &mut ReadHalf<'_>, to: &mut WriteHalf<'_>) -> io::Result<Cut> {
        let mut piece = vec![0; 16 * 1024];
        loop {
            let due = self.waiting.front().map(|(due, _)| (*due).max(self.pause));
            tokio::select! {
                biased;
                changed = self.orders.changed() => {
                    if changed.is_err() || self.obey() {
                        return Ok(Cut::Reset);
                    }
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => self.let_through(to).await?,
                count = from.read(&mut piece), if self.size < WAITING => {
                    let count = count?;
                    if count == 0 {
                        return self.ended(to).await;
                    }
                    if !self.take(piece.get(..count).unwrap_or_default()) {
                        return Ok(Cut::Reset);
                    }
                }
            }
        }
    }

    /// Takes the newest order; whether the connection has become worthless by it.
    fn obey(&mut self) -> bool {
        let Order::Carry(fault) = *self.orders.borrow_and_update() else {
            return false;
        };
        let was = std::mem::replace(&mut self.fault, fault);
        if fault == Fault::HalfOpen {
            self.waiting.clear();
            self.size = 0;
        }
        was == Fault::HalfOpen && fault != Fault::HalfOpen
    }

    /// Takes what came; whether it could be understood.
    fn take(&mut self, piece: &[u8]) -> bool {
        self.splitter.push(piece);
        loop {
            let frame = match self.splitter.next_frame() {
                Ok(Some(frame)) => frame,
                Ok(None) => return true,
                Err(_) => return false,
            };
            let twice = self.fault == Fault::Duplicate && matches!(frame, Frame::Message(_));
            let mut bytes = frame.into_bytes();
            if let (Some(tap), Some(published)) = (&self.tap, Published::of(&bytes)) {
                let _ = tap.send(published);
            }
            if twice {
                bytes.extend_from_within(..);
            }
            if self.fault != Fault::HalfOpen {
                let mut due = Instant::now();
                if let Fault::Delay(delay) = self.fault {
                    due += delay;
                }
                self.size += bytes.len();
                self.waiting.push_back((due, bytes));
            }
        }
    }

    /// Writes what is due, or as much of it as may pass now.
    async fn let_through(&mut self, to: &mut WriteHalf<'_>) -> io::Result<()> {
        let Some((due, mut bytes)) = self.waiting.pop_front() else {
            return Ok(());
        };
        if let Fault::Throttle(rate) = self.fault {
            let share = usize::try_from(rate).unwrap_or(usize::MAX) / 20;
            if bytes.len() > share.max(1) {
                let rest = bytes.split_off(share.max(1));
                self.waiting.push_front((due, rest));
            }
            self.pause = Instant::now() + BEAT;
        }
        self.size -= bytes.len();
        to.write_all(&bytes).await
    }

    /// One side said goodbye: what came before it still arrives.
    async fn ended(&mut self, to: &mut WriteHalf<'_>) -> io::Result<Cut> {
        if self.fault == Fault::HalfOpen {
            return Ok(self.broken().await);
        }
        while let Some((due, bytes)) = self.waiting.pop_front() {
            sleep_until(due).await;
            to.write_all(&bytes).await?;
        }
        Ok(Cut::Close)
    }

    /// One side is gone. Of a half-open connection the other does not hear before it is healed.
    async fn broken(&mut self) -> Cut {
        while self.fault == Fault::HalfOpen {
            if self.orders.changed().await.is_err() {
                break;
            }
            self.obey();
        }
        Cut::Reset
    }
}
