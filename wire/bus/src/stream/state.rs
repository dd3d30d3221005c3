//! The state of one end of a stream: messages in, messages out, bytes in, bytes out.

use std::time::Duration;

use bytes::Bytes;

use crate::stream::cipher::{FrameRefusal, StreamCipher};
use crate::stream::frame::{MAX_PAYLOAD_BYTES, ResetReason, StreamFrame};
use crate::stream::receiver::ReceivingDirection;
use crate::stream::sender::SendingDirection;
use crate::stream::settings::StreamSettings;

/// Something is sent at least this often, so that the other end knows that this one is there. A third of the silence if that is shorter.
const MAX_PING_INTERVAL: Duration = Duration::from_secs(5);
/// How long a complete stream answers repeated messages, if the other end does not say that it is complete, too.
const LINGER: Duration = Duration::from_secs(3);

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// Both directions are complete.
    Complete,
    /// This end ended it early.
    Reset(ResetReason),
    /// The other end ended it early.
    ResetByPeer(ResetReason),
}

impl StreamEnd {
    /// A word for records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Reset(reason) | Self::ResetByPeer(reason) => reason.as_str(),
        }
    }
}

/// What a stream has carried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamTotals {
    /// Bytes sent to the other end.
    pub sent: u64,
    /// Bytes received from it.
    pub received: u64,
    /// Messages that were refused: forged, repeated or not valid.
    pub refused: u64,
}

/// One end of a stream. All times are durations since the same start.
#[derive(Debug)]
pub struct StreamState {
    cipher: StreamCipher,
    settings: StreamSettings,
    sending: SendingDirection,
    receiving: ReceivingDirection,
    refused: u64,
    started: Duration,
    last_sent: Duration,
    last_received: Duration,
    /// Since when the broker reports that the other end has no subscription.
    absent_since: Option<Duration>,
    last_data: Duration,
    end: Option<StreamEnd>,
    /// The frame that ends the stream was not sent yet.
    must_announce: bool,
    complete_at: Option<Duration>,
    peer_is_complete: bool,
}

impl StreamState {
    /// Starts a stream.
    pub fn new(cipher: StreamCipher, settings: StreamSettings, now: Duration) -> Self {
        let payload = settings.payload.clamp(1, MAX_PAYLOAD_BYTES);
        let settings = StreamSettings { payload, ..settings };
        Self {
            cipher,
            settings,
            sending: SendingDirection::default(),
            receiving: ReceivingDirection::new(settings.window),
            refused: 0,
            started: now,
            last_sent: now,
            last_received: now,
            absent_since: None,
            last_data: now,
            end: None,
            must_announce: false,
            complete_at: None,
            peer_is_complete: false,
        }
    }

    /// How many bytes may be queued now. It is 0 after the end.
    pub fn send_capacity(&self) -> usize {
        if self.end.is_some() { 0 } else { self.sending.capacity() }
    }

    /// Bytes that fit into one message.
    pub fn payload_bytes(&self) -> usize {
        self.settings.payload
    }

    /// Queues bytes for the other end; at most [`Self::send_capacity`].
    pub fn queue_bytes(&mut self, bytes: Bytes, now: Duration) {
        self.last_data = now;
        self.sending.queue_bytes(bytes, self.settings.payload);
    }

    /// Ends the direction to the other end after the queued bytes.
    pub fn end_sending(&mut self) {
        self.sending.end();
    }

    /// Ends the stream in both directions.
    pub fn reset(&mut self, reason: ResetReason) {
        if self.end.is_none() {
            self.end = Some(StreamEnd::Reset(reason));
            self.must_announce = true;
        }
    }

    /// Applies a message. A refused one changes nothing but a counter; a frame that breaks the protocol resets the stream.
    pub fn receive_message(&mut self, message: &[u8], now: Duration) -> Result<(), FrameRefusal> {
        let frame = match self.cipher.open_message(message) {
            Ok(frame) => frame,
            Err(refusal) => {
                self.refused += 1;
                return Err(refusal);
            }
        };
        if self.end.is_some() {
            return Ok(());
        }
        self.last_received = now;
        self.absent_since = None;
        if !self.apply_frame(frame, now) {
            self.reset(ResetReason::Protocol);
        }
        Ok(())
    }

    /// The broker reported that the other end has no subscription: its program or its connection ended. It may come back, as after a restart of
    /// the broker, so only reports over a third of the silence end the stream.
    pub fn peer_is_absent(&mut self, now: Duration) {
        let since = *self.absent_since.get_or_insert(now);
        if self.complete_at.is_none() && since + self.settings.silence / 3 <= now {
            self.reset(ResetReason::Absent);
        }
    }

    /// Returns whether the frame is possible.
    fn apply_frame(&mut self, frame: StreamFrame, now: Duration) -> bool {
        match frame {
            StreamFrame::Data { offset, bytes } => {
                match self.receiving.add_bytes(offset, bytes, now) {
                    Ok(true) => self.last_data = now,
                    Ok(false) => {}
                    Err(_) => return false,
                }
            }
            StreamFrame::End { offset } => return self.receiving.add_end(offset, now).is_ok(),
            StreamFrame::State { received, limit } => {
                return self.sending.confirm(received, limit, now);
            }
            StreamFrame::Reset(reason) => self.end = Some(StreamEnd::ResetByPeer(reason)),
            StreamFrame::Closed => self.peer_is_complete = true,
        }
        true
    }

    /// The next received bytes, in order.
    pub fn take_bytes(&mut self, now: Duration) -> Option<Bytes> {
        self.receiving.take_bytes(now)
    }

    /// Whether everything of the other end was received and taken.
    pub fn is_receiving_complete(&self) -> bool {
        self.receiving.is_complete()
    }

    /// The connection that carries the messages was lost and is there again: everything unconfirmed is sent again at once.
    pub fn connection_restored(&mut self, now: Duration) {
        self.absent_since = None;
        self.sending.send_all_again();
        self.receiving.report_again(now);
    }

    /// The next message to send now. Call it until it returns `None`.
    pub fn next_message(&mut self, now: Duration) -> Option<Vec<u8>> {
        self.pass_time(now);
        let frame = self.next_frame(now)?;
        self.last_sent = now;
        self.cipher.seal_frame(&frame)
    }

    fn next_frame(&mut self, now: Duration) -> Option<StreamFrame> {
        if let Some(end) = self.end {
            let StreamEnd::Reset(reason) = end else { return None };
            return std::mem::take(&mut self.must_announce).then_some(StreamFrame::Reset(reason));
        }
        if self.receiving.next_deadline().is_some_and(|at| at <= now) {
            return Some(self.receiving.state_frame());
        }
        if let Some(frame) = self.sending.next_frame(now) {
            return Some(frame);
        }
        if self.complete_at.is_some() && std::mem::take(&mut self.must_announce) {
            return Some(StreamFrame::Closed);
        }
        (self.last_sent + self.ping_interval() <= now).then(|| self.receiving.state_frame())
    }

    /// Applies the limits in time, and notes when the stream has become complete.
    pub fn pass_time(&mut self, now: Duration) {
        if self.end.is_some() {
            return;
        }
        if self.complete_at.is_none() && self.sending.is_complete() && self.receiving.is_complete()
        {
            self.complete_at = Some(now);
            self.must_announce = true;
        }
        if self.complete_at.is_none() {
            if self.last_received + self.settings.silence <= now {
                self.reset(self.silence_reason());
            } else if self.idle_deadline().is_some_and(|at| at <= now) {
                self.reset(ResetReason::Idle);
            }
        }
    }

    /// An end whose messages were all refused is not silent: it has another version of the protocol.
    fn silence_reason(&self) -> ResetReason {
        let has_only_refused = self.refused > 0 && self.last_received == self.started;
        if has_only_refused { ResetReason::Protocol } else { ResetReason::Silent }
    }

    fn idle_deadline(&self) -> Option<Duration> {
        self.settings.idle.map(|idle| self.last_data + idle)
    }

    fn ping_interval(&self) -> Duration {
        MAX_PING_INTERVAL.min(self.settings.silence / 3)
    }

    /// When [`Self::next_message`] is to be called again, at the latest.
    pub fn next_deadline(&self) -> Duration {
        if let Some(complete_at) = self.complete_at {
            return (complete_at + LINGER).min(self.last_sent + self.ping_interval());
        }
        let ping = self.last_sent + self.ping_interval();
        let transfers = [self.sending.next_deadline(), self.receiving.next_deadline()];
        transfers.into_iter().flatten().fold(ping.min(self.limit_deadline()), Duration::min)
    }

    /// When a limit in time ends the stream, unless something happens before.
    pub fn limit_deadline(&self) -> Duration {
        let silence = self.last_received + self.settings.silence;
        self.idle_deadline().map_or(silence, |idle| idle.min(silence))
    }

    /// The end, if the stream was ended early; it may not be announced yet.
    pub fn early_end(&self) -> Option<StreamEnd> {
        self.end
    }

    /// How the stream ended; `None` while it goes on, or something must still be sent.
    pub fn ended(&self, now: Duration) -> Option<StreamEnd> {
        if self.must_announce {
            return None;
        }
        if self.end.is_some() {
            return self.end;
        }
        let complete_at = self.complete_at?;
        let is_over = (self.peer_is_complete || complete_at + LINGER <= now)
            && !self.sending.has_frame(now)
            && self.receiving.next_deadline().is_none();
        is_over.then_some(StreamEnd::Complete)
    }

    /// What it has carried.
    pub fn totals(&self) -> StreamTotals {
        StreamTotals {
            sent: self.sending.queued_bytes(),
            received: self.receiving.received_bytes(),
            refused: self.refused,
        }
    }
}
