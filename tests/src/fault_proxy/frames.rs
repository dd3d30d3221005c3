//! The frames of NATS' client protocol: splits a stream of bytes at their ends. Pure; what a frame means is nobody's business here.
//!
//! A frame is a line that ends in CR LF. Four of them announce a payload, which belongs to the frame with a CR LF of its own:
//!
//! ```text
//! PUB  <subject> [reply] <bytes>                 HPUB <subject> [reply] <bytes of headers> <bytes in all>      of clients
//! MSG  <subject> <id> [reply] <bytes>            HMSG <subject> <id> [reply] <bytes of headers> <bytes in all>  of servers
//! ```

/// Longest line that is waited for: the first line of each side carries tokens.
const LINE: usize = 1024 * 1024;
/// Largest payload that is waited for: more than any broker takes.
const PAYLOAD: usize = 64 * 1024 * 1024;

const END: &[u8] = b"\r\n";

/// One whole frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A message, as a client publishes it or the server delivers it.
    Message(Vec<u8>),
    /// Everything else: greetings, subscriptions, signs of life.
    Control(Vec<u8>),
}

impl Frame {
    /// As it was sent.
    pub fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Message(bytes) | Self::Control(bytes) => bytes,
        }
    }
}

/// A message as a client publishes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// Where.
    pub subject: String,
    /// Where answers are wanted.
    pub reply_to: Option<String>,
    /// The bytes, headers left out.
    pub payload: Vec<u8>,
}

impl Published {
    /// What a client's frame publishes, if it does.
    pub fn of(frame: &[u8]) -> Option<Self> {
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
        let start = line + END.len() + headers;
        let payload = frame.get(start..frame.len().checked_sub(END.len())?)?;
        Some(Self {
            subject: (*subject).to_owned(),
            reply_to: reply_to.map(|reply_to| (*reply_to).to_owned()),
            payload: payload.to_vec(),
        })
    }
}

/// What is no frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoFrame(pub String);

/// Puts pieces of a stream together, and gives frames.
#[derive(Debug, Default)]
pub struct Splitter {
    bytes: Vec<u8>,
    /// How much of them was given away.
    taken: usize,
}

impl Splitter {
    /// Takes the next piece of the stream.
    pub fn push(&mut self, piece: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(piece);
    }

    /// The next frame, once it is whole.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, NoFrame> {
        let waiting = self.bytes.get(self.taken..).unwrap_or_default();
        let Some(line) = find_end(waiting) else {
            if waiting.len() > LINE {
                return Err(NoFrame(format!("a line of more than {LINE} bytes")));
            }
            return Ok(None);
        };
        let after_line = line + END.len();
        let announced = payload(waiting.get(..line).unwrap_or_default())?;
        let length = announced.map_or(after_line, |payload| after_line + payload + END.len());
        let Some(frame) = waiting.get(..length) else {
            return Ok(None);
        };
        if !frame.ends_with(END) {
            return Err(NoFrame("a payload without its end".to_owned()));
        }
        let frame = frame.to_vec();
        self.taken += length;
        Ok(Some(match announced {
            Some(_) => Frame::Message(frame),
            None => Frame::Control(frame),
        }))
    }
}

fn find_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(END.len()).position(|pair| pair == END)
}

/// How many bytes of payload follow this line; nothing if it announces none.
fn payload(line: &[u8]) -> Result<Option<usize>, NoFrame> {
    let mut words = line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    let verb = words.next().unwrap_or_default().to_ascii_uppercase();
    if !matches!(verb.as_slice(), b"PUB" | b"HPUB" | b"MSG" | b"HMSG") {
        return Ok(None);
    }
    let size = words.next_back().and_then(|word| {
        let text = std::str::from_utf8(word).ok()?;
        text.parse().ok().filter(|size| *size <= PAYLOAD)
    });
    let said = || NoFrame(String::from_utf8_lossy(line).into_owned());
    size.map(Some).ok_or_else(said)
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
        let mut splitter = Splitter::default();
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
    fn frames_end_where_they_end_however_they_arrive() {
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
    fn a_payload_that_looks_like_frames_is_one_payload() {
        let frames = split(SERVER, 3);
        assert!(frames.contains(&Frame::Message(b"MSG a.b 1 7\r\nPUB x\r\n\r\n".to_vec())));
        assert!(frames.contains(&Frame::Message(b"msg a.b 1 _INBOX.1 4\r\n\r\n\r\n\r\n".to_vec())));
    }

    #[test]
    fn what_a_client_publishes_is_read() {
        let read: Vec<Published> = split(CLIENT, CLIENT.len())
            .into_iter()
            .filter_map(|frame| Published::of(&frame.into_bytes()))
            .collect();
        let published = |reply_to: Option<&str>, payload: &[u8]| Published {
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
    fn what_is_no_frame_is_said() {
        for stream in [
            b"PUB a.b\r\n".as_slice(),
            b"PUB a.b -1\r\n",
            b"MSG a 1 99999999999\r\n",
            b"PUB a.b 2\r\nhello\r\n",
        ] {
            let mut splitter = Splitter::default();
            splitter.push(stream);
            assert!(splitter.next_frame().is_err(), "{stream:?}");
        }
        let mut splitter = Splitter::default();
        splitter.push(&vec![b'x'; LINE + 1]);
        assert!(splitter.next_frame().is_err());
    }
}
