//! One reliable, encrypted byte stream in both directions over messages that may be lost, repeated or reordered. Pure: time is a parameter.
//!
//! ```text
//! message = counter (8 bytes) || AES-256-GCM(key of the direction, nonce = counter, frame)
//! frame   = 1 data offset bytes | 2 end offset | 3 state received limit | 4 reset reason | 5 closed
//! key     = sha256("muster.stream.v1" NUL length context shared caller-key node-key direction)
//! shared  = X25519(one-time key of the caller, one-time key of the node)
//! ```
//!
//! Integers are big-endian. Bytes have offsets in their direction; the end of a direction counts as one byte. A receiver permits bytes up to `limit`, and confirms
//! those before `received`. A sender keeps bytes until they are confirmed, and sends them again after a timeout, or when the host reports a new connection. A message
//! that is sent again is encrypted again with a new counter; a counter that was received before is refused.
//!
//! The crate neither sends nor waits: [`StreamState::next_message`] returns what to send, and [`StreamState::next_deadline`] when to ask again.

mod cipher;
mod frame;
mod receiver;
mod sender;
mod settings;
mod state;
#[cfg(test)]
mod tests;

pub use cipher::{EphemeralKey, FrameRefusal, StreamCipher, StreamKeyError, StreamSide};
pub use frame::{MAX_MESSAGE_BYTES, MAX_PAYLOAD_BYTES, ResetReason, StreamFrame};
pub use settings::{StreamSettings, window_for_open_streams};
pub use state::{StreamEnd, StreamState, StreamTotals};
