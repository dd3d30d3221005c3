//! The receiving direction: puts bytes into order within the window, and decides when to confirm them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;

use crate::stream::frame::StreamFrame;

/// Most pieces that wait for earlier bytes.
const MAX_WAITING_PIECES: usize = 1024;
/// A confirmation is sent this time after a byte, or at once when an eighth of the window has arrived.
const CONFIRM_DELAY: Duration = Duration::from_millis(20);
const CONFIRMS_PER_WINDOW: u64 = 8;

/// The other end broke the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProtocolViolation;

/// The state of the direction from the other end.
#[derive(Debug)]
pub(crate) struct ReceivingDirection {
    window: u64,
    /// Everything before was received; one more than the length when the end was received, too.
    received: u64,
    /// Bytes that were taken.
    taken: u64,
    /// Received in order, and not taken yet.
    ready: VecDeque<Bytes>,
    /// Pieces that wait for earlier bytes.
    waiting: BTreeMap<u64, Bytes>,
    waiting_bytes: u64,
    /// The length of the direction.
    length: Option<u64>,
    /// The last state that was sent.
    reported: (u64, u64),
    confirm_at: Option<Duration>,
}

impl ReceivingDirection {
    pub(crate) fn new(window: u64) -> Self {
        Self {
            window,
            received: 0,
            taken: 0,
            ready: VecDeque::new(),
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            length: None,
            reported: (0, 0),
            // The first state tells the other end the limit.
            confirm_at: Some(Duration::ZERO),
        }
    }

    /// Bytes of the stream that were received in order.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.length.map_or(self.received, |length| length.min(self.received))
    }

    fn limit(&self) -> u64 {
        self.taken + self.window
    }

    /// Adds bytes. Repeated ones, and those beyond the window, change nothing but are confirmed again.
    pub(crate) fn add_bytes(
        &mut self,
        offset: u64,
        bytes: Bytes,
        now: Duration,
    ) -> Result<bool, ProtocolViolation> {
        let end = offset + bytes.len() as u64;
        if self.length.is_some_and(|length| end > length) {
            return Err(ProtocolViolation);
        }
        if end <= self.received || end > self.limit() {
            self.confirm_at = Some(now);
            return Ok(false);
        }
        if offset > self.received {
            self.keep_piece(offset, bytes);
            self.confirm_at = Some(now);
            return Ok(true);
        }
        self.append(offset, bytes);
        self.append_waiting();
        self.schedule_confirmation(now);
        Ok(true)
    }

    fn append(&mut self, offset: u64, mut bytes: Bytes) {
        let known = usize::try_from(self.received - offset).unwrap_or(usize::MAX);
        let new = bytes.split_off(known.min(bytes.len()));
        self.received += new.len() as u64;
        self.ready.push_back(new);
    }

    /// Keeps bytes that wait for earlier ones. What does not fit is sent again by the other end.
    fn keep_piece(&mut self, offset: u64, bytes: Bytes) {
        let length = bytes.len() as u64;
        let fits = self.waiting.len() < MAX_WAITING_PIECES
            && self.waiting_bytes + length <= self.window
            && !self.waiting.contains_key(&offset);
        if fits {
            self.waiting_bytes += length;
            self.waiting.insert(offset, bytes);
        }
    }

    fn append_waiting(&mut self) {
        while let Some(entry) = self.waiting.first_entry()
            && *entry.key() <= self.received
        {
            let (offset, bytes) = entry.remove_entry();
            self.waiting_bytes -= bytes.len() as u64;
            if offset + bytes.len() as u64 > self.received {
                self.append(offset, bytes);
            }
        }
        self.pass_end();
    }

    /// The end counts as one byte when everything before it was received.
    fn pass_end(&mut self) {
        if self.length == Some(self.received) {
            self.received += 1;
        }
    }

    /// Notes the end of the direction.
    pub(crate) fn add_end(&mut self, offset: u64, now: Duration) -> Result<(), ProtocolViolation> {
        let highest = self.waiting.iter().next_back();
        let highest = highest.map_or(0, |(offset, bytes)| offset + bytes.len() as u64);
        let is_possible = match self.length {
            Some(length) => length == offset,
            None => offset >= self.received.max(highest),
        };
        if !is_possible {
            return Err(ProtocolViolation);
        }
        if self.length.is_none() {
            self.length = Some(offset);
            self.pass_end();
        }
        self.confirm_at = Some(now);
        Ok(())
    }

    /// The next bytes in order.
    pub(crate) fn take_bytes(&mut self, now: Duration) -> Option<Bytes> {
        let bytes = self.ready.pop_front()?;
        self.taken += bytes.len() as u64;
        self.schedule_confirmation(now);
        Some(bytes)
    }

    /// Whether everything up to the end was received and taken.
    pub(crate) fn is_complete(&self) -> bool {
        self.length.is_some_and(|length| self.received > length) && self.ready.is_empty()
    }

    fn schedule_confirmation(&mut self, now: Duration) {
        let step = self.window / CONFIRMS_PER_WINDOW;
        let (received, limit) = self.reported;
        let is_much = self.received - received >= step || self.limit() - limit >= step;
        if is_much {
            self.confirm_at = Some(now);
        } else if self.received > received {
            self.confirm_at = Some(self.confirm_at.unwrap_or(now + CONFIRM_DELAY));
        }
    }

    /// When the next state is due.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.confirm_at
    }

    /// The state to send now.
    pub(crate) fn state_frame(&mut self) -> StreamFrame {
        self.confirm_at = None;
        self.reported = (self.received, self.limit());
        StreamFrame::State { received: self.received, limit: self.limit() }
    }

    /// Sends the state again: the connection was lost.
    pub(crate) fn report_again(&mut self, now: Duration) {
        self.confirm_at = Some(now);
    }
}
