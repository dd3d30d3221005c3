//! Keys of a stream, and encryption of its frames. A message that was forged, altered, sent back or received before is refused.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use rand::TryRngCore as _;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use sha2::{Digest as _, Sha256};
use x25519_dalek::{PublicKey as ExchangePoint, StaticSecret};
use zeroize::Zeroizing;

use crate::stream::frame::{MAX_MESSAGE_BYTES, SEAL_BYTES, StreamFrame};

const KEY_DOMAIN: &[u8] = b"muster.stream.v1\0";
const COUNTER_BYTES: usize = 8;
/// Words of the window of received counters. A message that is older than the window is refused; its bytes are sent again.
const WINDOW_WORDS: usize = 64;
const WINDOW_BITS: u64 = 64 * 64;

/// An end of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamSide {
    /// It asked for the stream.
    Caller,
    /// It accepted the stream.
    Node,
}

/// Why no keys can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StreamKeyError {
    /// The operating system's random source failed.
    #[error("the operating system's random source failed")]
    Random,
    /// The other end's key is no usable key.
    #[error("the one-time key of the other end is not valid; it is 32 bytes in base64url")]
    Key,
}

/// Why a message was refused. It changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameRefusal {
    /// It is too short or too long.
    #[error("the message has {0} bytes")]
    Size(usize),
    /// Its counter was received before, or is too old.
    #[error("the message was received before, or is too old")]
    Replayed,
    /// It was not encrypted with the key of this direction, or was altered.
    #[error("the message cannot be decrypted")]
    Forged,
    /// The other end sent a frame that is none.
    #[error("the message holds no valid frame")]
    Frame,
}

/// The one-time key of one end.
pub struct EphemeralKey {
    secret: StaticSecret,
    public: ExchangePoint,
}

impl std::fmt::Debug for EphemeralKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EphemeralKey").finish_non_exhaustive()
    }
}

impl EphemeralKey {
    /// Makes a key.
    pub fn generate() -> Result<Self, StreamKeyError> {
        let mut secret = Zeroizing::new([0_u8; 32]);
        rand::rngs::OsRng.try_fill_bytes(&mut *secret).map_err(|_| StreamKeyError::Random)?;
        Ok(Self::from_secret(*secret))
    }

    /// The key with this secret, for tests.
    pub fn from_secret(secret: [u8; 32]) -> Self {
        let secret = StaticSecret::from(secret);
        Self { public: ExchangePoint::from(&secret), secret }
    }

    /// The public part, 32 bytes in base64url.
    pub fn public_text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.public.as_bytes())
    }

    /// The cipher of this end. `context` names the stream, and is the same for both ends.
    pub fn agree(
        &self,
        side: StreamSide,
        other_key: &str,
        context: &[u8],
    ) -> Result<StreamCipher, StreamKeyError> {
        let other = URL_SAFE_NO_PAD.decode(other_key).map_err(|_| StreamKeyError::Key)?;
        let other: [u8; 32] = other.try_into().map_err(|_| StreamKeyError::Key)?;
        let other = ExchangePoint::from(other);
        let shared = self.secret.diffie_hellman(&other);
        if !shared.was_contributory() {
            return Err(StreamKeyError::Key);
        }
        let (caller, node) = match side {
            StreamSide::Caller => (&self.public, &other),
            StreamSide::Node => (&other, &self.public),
        };
        let key_of = |direction: u8| {
            let mut hash = Sha256::new();
            hash.update(KEY_DOMAIN);
            hash.update((context.len() as u64).to_be_bytes());
            hash.update(context);
            hash.update(shared.as_bytes());
            hash.update(caller.as_bytes());
            hash.update(node.as_bytes());
            hash.update([direction]);
            let key: Zeroizing<[u8; 32]> = Zeroizing::new(hash.finalize().into());
            UnboundKey::new(&AES_256_GCM, &*key).map(LessSafeKey::new)
        };
        let (Ok(from_caller), Ok(from_node)) = (key_of(0), key_of(1)) else {
            return Err(StreamKeyError::Key);
        };
        let (sending, receiving) = match side {
            StreamSide::Caller => (from_caller, from_node),
            StreamSide::Node => (from_node, from_caller),
        };
        Ok(StreamCipher { sending, receiving, counter: 0, window: CounterWindow::default() })
    }
}

/// Encrypts the frames of one end and decrypts those of the other, with AES-256-GCM: with AES instructions it is five times as fast as
/// ChaCha20-Poly1305, and a tunnel is bounded by encryption.
pub struct StreamCipher {
    sending: LessSafeKey,
    receiving: LessSafeKey,
    counter: u64,
    window: CounterWindow,
}

impl std::fmt::Debug for StreamCipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamCipher").field("counter", &self.counter).finish_non_exhaustive()
    }
}

impl StreamCipher {
    /// The message with this frame; `None` if the frame is too large or the counters are used up. Each call uses a new counter.
    pub fn seal_frame(&mut self, frame: &StreamFrame) -> Option<Vec<u8>> {
        let counter = self.counter;
        self.counter = counter.checked_add(1)?;
        let content = match frame {
            StreamFrame::Data { bytes, .. } => bytes.len(),
            _ => 0,
        };
        let mut message = Vec::with_capacity(content + 64);
        message.extend_from_slice(&counter.to_be_bytes());
        frame.encode_into(&mut message);
        let (_, plain) = message.split_at_mut_checked(COUNTER_BYTES)?;
        let aad = Aad::empty();
        let tag = self.sending.seal_in_place_separate_tag(nonce(counter), aad, plain).ok()?;
        message.extend_from_slice(tag.as_ref());
        (message.len() <= MAX_MESSAGE_BYTES).then_some(message)
    }

    /// The frame in a message of the other end.
    pub fn open_message(&mut self, message: &[u8]) -> Result<StreamFrame, FrameRefusal> {
        let size = FrameRefusal::Size(message.len());
        if !(SEAL_BYTES + 1..=MAX_MESSAGE_BYTES).contains(&message.len()) {
            return Err(size);
        }
        let (counter, sealed) = message.split_first_chunk().ok_or(size)?;
        let counter = u64::from_be_bytes(*counter);
        if !self.window.is_new(counter) {
            return Err(FrameRefusal::Replayed);
        }
        let mut plain = sealed.to_vec();
        let opened = self.receiving.open_in_place(nonce(counter), Aad::empty(), &mut plain);
        let length = opened.map_err(|_| FrameRefusal::Forged)?.len();
        plain.truncate(length);
        // Only authentic messages move the window.
        self.window.insert(counter);
        StreamFrame::decode(Bytes::from(plain)).ok_or(FrameRefusal::Frame)
    }
}

/// Each counter is used once for each key.
fn nonce(counter: u64) -> Nonce {
    let mut bytes = [0; 12];
    for (to, from) in bytes.iter_mut().skip(4).zip(counter.to_be_bytes()) {
        *to = from;
    }
    Nonce::assume_unique_for_key(bytes)
}

/// Which of the newest counters were received. The words are a ring of [`WINDOW_BITS`] bits.
struct CounterWindow {
    words: [u64; WINDOW_WORDS],
    /// The counter after the highest one that was received.
    next: u64,
}

impl Default for CounterWindow {
    fn default() -> Self {
        Self { words: [0; WINDOW_WORDS], next: 0 }
    }
}

impl CounterWindow {
    fn is_new(&self, counter: u64) -> bool {
        if counter >= self.next {
            return counter < u64::MAX;
        }
        let is_recent = self.next - counter <= WINDOW_BITS;
        is_recent && self.word(counter).is_some_and(|word| word & bit_of(counter) == 0)
    }

    fn insert(&mut self, counter: u64) {
        if counter >= self.next {
            // Bits between the former highest counter and this one belong to counters of an earlier round of the ring.
            let first = self.next.max((counter + 1).saturating_sub(WINDOW_BITS));
            for skipped in first..=counter {
                self.set(skipped, false);
            }
            self.next = counter + 1;
        }
        self.set(counter, true);
    }

    fn word(&self, counter: u64) -> Option<&u64> {
        self.words.get(word_of(counter))
    }

    fn set(&mut self, counter: u64, is_received: bool) {
        let Some(word) = self.words.get_mut(word_of(counter)) else { return };
        if is_received {
            *word |= bit_of(counter);
        } else {
            *word &= !bit_of(counter);
        }
    }
}

fn word_of(counter: u64) -> usize {
    usize::try_from(counter / 64 % WINDOW_WORDS as u64).unwrap_or_default()
}

fn bit_of(counter: u64) -> u64 {
    1 << (counter % 64)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The window agrees with a set of all received counters.
        #[test]
        fn window_accepts_each_recent_counter_once(jumps in prop::collection::vec((0_u64..9000, any::<bool>()), 1..200)) {
            let mut window = CounterWindow::default();
            let mut received = HashSet::new();
            let mut highest = 0_u64;
            for (jump, forward) in jumps {
                let counter = if forward { highest + jump } else { highest.saturating_sub(jump) };
                let expected = !received.contains(&counter)
                    && (counter >= window.next || window.next - counter <= WINDOW_BITS);
                prop_assert_eq!(window.is_new(counter), expected, "{}", counter);
                if expected {
                    window.insert(counter);
                    received.insert(counter);
                    highest = highest.max(counter);
                }
            }
        }
    }
}
