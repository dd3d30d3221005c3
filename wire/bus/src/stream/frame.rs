//! Frames, before encryption: encoding and decoding. Every length is checked before it is used.

use bytes::Bytes;

/// Largest number of bytes of the stream in one frame. With encryption it is well below the broker's usual limit of 1 MiB for a message.
pub const MAX_PAYLOAD_BYTES: usize = 60 * 1024;

/// Bytes before the content of a data frame: its kind and offset.
const DATA_HEADER_BYTES: usize = 9;
/// Counter and authentication tag.
pub(crate) const SEAL_BYTES: usize = 24;
/// Largest message. A larger one is refused before it is decrypted.
pub const MAX_MESSAGE_BYTES: usize = MAX_PAYLOAD_BYTES + DATA_HEADER_BYTES + SEAL_BYTES;

const DATA_KIND: u8 = 1;
const END_KIND: u8 = 2;
const STATE_KIND: u8 = 3;
const RESET_KIND: u8 = 4;
const CLOSED_KIND: u8 = 5;

/// A decrypted frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamFrame {
    /// Bytes of the sender's direction.
    Data {
        /// Offset of the first byte.
        offset: u64,
        /// 1 to [`MAX_PAYLOAD_BYTES`] bytes.
        bytes: Bytes,
    },
    /// The sender's direction ends.
    End {
        /// Its length.
        offset: u64,
    },
    /// What the sender of the frame has received, and permits.
    State {
        /// Everything before this offset was received.
        received: u64,
        /// Bytes before this offset may be sent.
        limit: u64,
    },
    /// The stream ends in both directions.
    Reset(ResetReason),
    /// Both directions are complete for the sender, and everything it sent was confirmed.
    Closed,
}

/// Why a stream was ended before it was complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ResetReason {
    /// A reason that this version does not know.
    Other,
    /// The local connection failed.
    Connection,
    /// No data for too long.
    Idle,
    /// The program that carries the stream stops.
    Stopped,
    /// The other end was silent for too long.
    Silent,
    /// The other end broke the protocol.
    Protocol,
    /// The connection to the broker was closed.
    Broker,
    /// The broker does not permit the subjects of the stream.
    Refused,
    /// The other end has no subscription at the broker: its program or its connection ended.
    Absent,
}

impl ResetReason {
    const ALL: [Self; 9] = [
        Self::Other,
        Self::Connection,
        Self::Idle,
        Self::Stopped,
        Self::Silent,
        Self::Protocol,
        Self::Broker,
        Self::Refused,
        Self::Absent,
    ];

    fn code(self) -> u8 {
        match self {
            Self::Other => 0,
            Self::Connection => 1,
            Self::Idle => 2,
            Self::Stopped => 3,
            Self::Silent => 4,
            Self::Protocol => 5,
            Self::Broker => 6,
            Self::Refused => 7,
            Self::Absent => 8,
        }
    }

    fn from_code(code: u8) -> Self {
        Self::ALL.into_iter().find(|reason| reason.code() == code).unwrap_or(Self::Other)
    }

    /// A word for records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::Connection => "connection_failed",
            Self::Idle => "idle",
            Self::Stopped => "stopped",
            Self::Silent => "silent",
            Self::Protocol => "protocol_error",
            Self::Broker => "broker_failed",
            Self::Refused => "broker_refused",
            Self::Absent => "absent",
        }
    }
}

impl StreamFrame {
    /// Appends the frame to a message.
    pub fn encode_into(&self, message: &mut Vec<u8>) {
        match self {
            Self::Data { offset, bytes } => {
                message.push(DATA_KIND);
                message.extend_from_slice(&offset.to_be_bytes());
                message.extend_from_slice(bytes);
            }
            Self::End { offset } => {
                message.push(END_KIND);
                message.extend_from_slice(&offset.to_be_bytes());
            }
            Self::State { received, limit } => {
                message.push(STATE_KIND);
                message.extend_from_slice(&received.to_be_bytes());
                message.extend_from_slice(&limit.to_be_bytes());
            }
            Self::Reset(reason) => message.extend_from_slice(&[RESET_KIND, reason.code()]),
            Self::Closed => message.push(CLOSED_KIND),
        }
    }

    /// Parses a frame; `None` for anything else. The content is not copied.
    pub fn decode(mut frame: Bytes) -> Option<Self> {
        let kind = *frame.first()?;
        let mut rest = frame.split_off(1);
        match kind {
            DATA_KIND => {
                let offset = take_number(&mut rest)?;
                let is_valid = (1..=MAX_PAYLOAD_BYTES).contains(&rest.len());
                is_valid.then_some(Self::Data { offset, bytes: rest })
            }
            END_KIND => {
                let offset = take_number(&mut rest)?;
                rest.is_empty().then_some(Self::End { offset })
            }
            STATE_KIND => {
                let (received, limit) = (take_number(&mut rest)?, take_number(&mut rest)?);
                rest.is_empty().then_some(Self::State { received, limit })
            }
            RESET_KIND => {
                let code = *rest.first()?;
                (rest.len() == 1).then(|| Self::Reset(ResetReason::from_code(code)))
            }
            CLOSED_KIND => rest.is_empty().then_some(Self::Closed),
            _ => None,
        }
    }
}

/// A number at the start. Offsets are below 2^63, so sums of an offset and a length do not overflow.
fn take_number(rest: &mut Bytes) -> Option<u64> {
    let number = u64::from_be_bytes(*rest.first_chunk()?);
    drop(rest.split_to(8));
    (number <= u64::MAX >> 1).then_some(number)
}
