//! Splits a stream of the NATS client protocol into frames. Pure; does not interpret frames.
//!
//! A frame is a line that ends in CR LF. Four verbs announce a payload, which belongs to the frame and has its own CR
//! LF:
//!
//! ```text
//! PUB  <subject> [reply] <bytes>                 HPUB <subject> [reply] <bytes of headers> <bytes in all>      of clients
//! MSG  <subject> <id> [reply] <bytes>            HMSG <subject> <id> [reply] <bytes of headers> <bytes in all>  of servers
//! ```

/// Maximum length of a line in bytes; the first line of each side contains tokens.
const MAX_LINE_BYTES: usize = 1024 * 1024;
/// Maximum payload size in bytes; larger than any broker accepts.
const MAX_PAYLOAD_BYTES: usize = 64 * 1024 * 1024;

const FRAME_END: &[u8] = b"\r\n";

/// One complete frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A message, as a client publishes it or as the server delivers it.
    Message(Vec<u8>),
    /// Any other frame: greetings, subscriptions, pings.
    Control(Vec<u8>),
}

impl Frame {
    /// The bytes of the frame, unchanged.
    pub fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Message(bytes) | Self::Control(bytes) => bytes,
        }
    }
}

/// A message that a client published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedMessage {
    /// The subject.
    pub subject: String,
    /// The reply subject.
    pub reply_to: Option<String>,
    /// The payload, without headers.
    pub payload: Vec<u8>,
}

impl CapturedMessage {
    /// Parses a client's frame; `None` if it does not publish a message.
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let line = find_end(frame)?;
        let text = std::str::from_utf8(frame.get(..line)?).ok()?;
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let (subject, reply_to, headers) = match words.as_slice() {
            ["PUB", subject, _] => (subject, None, 0),
            ["PUB", subject, reply_to, _] => (subject, Some(reply_to), 0),
            ["HPUB", subject, headers, _] => (subject, None, headers.parse().ok()?),
            ["HPUB", subject, reply_to, headers, _] => {
                (subject, Some(reply_to), headers.parse().ok()?)
            }
            _ => return None,
        };
        let start = line + FRAME_END.len() + headers;
        let payload = frame.get(start..frame.len().checked_sub(FRAME_END.len())?)?;
        Some(Self {
            subject: (*subject).to_owned(),
            reply_to: reply_to.map(|reply_to| (*reply_to).to_owned()),
            payload: payload.to_vec(),
        })
    }
}

/// Bytes that are not a valid frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidFrame(pub String);

/// Collects pieces of a stream and returns complete frames.
#[derive(Debug, Default)]
pub struct FrameSplitter {
    bytes: Vec<u8>,
    /// Number of bytes that were already returned.
    consumed: usize,
}

impl FrameSplitter {
    /// Appends the next piece of the stream.
    pub fn push(&mut self, piece: &[u8]) {
        self.bytes.drain(..self.consumed);
        self.consumed = 0;
        self.bytes.extend_from_slice(piece);
    }

    /// Returns the next frame when it is complete.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, InvalidFrame> {
        let waiting = self.bytes.get(self.consumed..).unwrap_or_default();
        let Some(line) = find_end(waiting) else {
            if waiting.len() > MAX_LINE_BYTES {
                return Err(InvalidFrame(format!("a line of more than {MAX_LINE_BYTES} bytes")));
            }
            return Ok(None);
        };
        let after_line = line + FRAME_END.len();
        let announced = parse_payload_size(waiting.get(..line).unwrap_or_default())?;
        let length = announced.map_or(after_line, |payload| after_line + payload + FRAME_END.len());
        let Some(frame) = waiting.get(..length) else {
            return Ok(None);
        };
        if !frame.ends_with(FRAME_END) {
            return Err(InvalidFrame("a payload without its end".to_owned()));
        }
        let frame = frame.to_vec();
        self.consumed += length;
        Ok(Some(match announced {
            Some(_) => Frame::Message(frame),
            None => Frame::Control(frame),
        }))
    }
}

fn find_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(FRAME_END.len()).position(|pair| pair == FRAME_END)
}

/// Number of payload bytes that follow this line; `None` if it announces no payload.
fn parse_payload_size(line: &[u8]) -> Result<Option<usize>, InvalidFrame> {
    let mut words = line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    let verb = words.next().unwrap_or_default().to_ascii_uppercase();
    if !matches!(verb.as_slice(), b"PUB" | b"HPUB" | b"MSG" | b"HMSG") {
        return Ok(None);
    }
    let size = words.next_back().and_then(|word| {
        let text = std::str::from_utf8(word).ok()?;
        text.parse().ok().filter(|size| *size <= MAX_PAYLOAD_BYTES)
    });
    let invalid_line = || InvalidFrame(String::from_utf8_lossy(line).into_owned());
    size.map(Some).ok_or_else(invalid_line)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: &[u8] =
        b"CONNECT {\"verbose\":false}\r\nPING\r\nSUB a.> 1\r\nPUB a.b 5\r\nhello\r\n\
        PUB a.b _INBOX.1 0\r\n\r\nHPUB a.b r 12 17\r\nNATS/1.0\r\n\r\nhello\r\nUNSUB 1 10\r\n";
    const SERVER: &[u8] = b"INFO {\"port\":4222}\r\nPONG\r\nMSG a.b 1 7\r\nPUB x\r\n\r\nmsg a.b 1 _INBOX.1 4\r\n\r\n\r\n\r\n\
        HMSG _INBOX.1 2 16 16\r\nNATS/1.0 503\r\n\r\n\r\n-ERR 'Slow Consumer'\r\n";

    fn split(stream: &[u8], step: usize) -> Vec<Frame> {
        let mut splitter = FrameSplitter::default();
        let mut frames = Vec::new();
        for piece in stream.chunks(step) {
            splitter.push(piece);
            while let Some(frame) = splitter.next_frame().unwrap() {
                frames.push(frame);
            }
        }
        frames
    }

    #[test]
    fn splits_frames_for_every_piece_size() {
        for (stream, frames, messages) in [(CLIENT, 7, 3), (SERVER, 6, 3)] {
            let whole = split(stream, stream.len());
            let is_message = |frame: &&Frame| matches!(frame, Frame::Message(_));
            assert_eq!(whole.len(), frames, "{whole:?}");
            assert_eq!(whole.iter().filter(is_message).count(), messages, "{whole:?}");
            for step in 1..stream.len() {
                assert_eq!(split(stream, step), whole, "in pieces of {step}");
            }
            let again: Vec<u8> = whole.into_iter().flat_map(Frame::into_bytes).collect();
            assert_eq!(again, stream);
        }
    }

    #[test]
    fn keeps_a_payload_that_looks_like_frames_whole() {
        let frames = split(SERVER, 3);
        assert!(frames.contains(&Frame::Message(b"MSG a.b 1 7\r\nPUB x\r\n\r\n".to_vec())));
        assert!(frames.contains(&Frame::Message(b"msg a.b 1 _INBOX.1 4\r\n\r\n\r\n\r\n".to_vec())));
    }

    #[test]
    fn parses_messages_that_clients_publish() {
        let read: Vec<CapturedMessage> = split(CLIENT, CLIENT.len())
            .into_iter()
            .filter_map(|frame| CapturedMessage::parse(&frame.into_bytes()))
            .collect();
        let published = |reply_to: Option<&str>, payload: &[u8]| CapturedMessage {
            subject: "a.b".to_owned(),
            reply_to: reply_to.map(str::to_owned),
            payload: payload.to_vec(),
        };
        assert_eq!(
            read,
            [
                published(None, b"hello"),
                published(Some("_INBOX.1"), b""),
                published(Some("r"), b"hello")
            ]
        );
    }

    #[test]
    fn reports_invalid_frames() {
        for stream in [
            b"PUB a.b\r\n".as_slice(),
            b"PUB a.b -1\r\n",
            b"MSG a 1 99999999999\r\n",
            b"PUB a.b 2\r\nhello\r\n",
        ] {
            let mut splitter = FrameSplitter::default();
            splitter.push(stream);
            assert!(splitter.next_frame().is_err(), "{stream:?}");
        }
        let mut splitter = FrameSplitter::default();
        splitter.push(&vec![b'x'; MAX_LINE_BYTES + 1]);
        assert!(splitter.next_frame().is_err());
    }
}
