//! Reads a log line by line, and tells what is wrong with it and where. Its memory does not grow with the log.
//!
//! A line that does not follow from the one before is held until the next one is seen: only then is it known whether it
//! was altered, was put there, or stands behind a hole.

use ed25519_dalek::VerifyingKey;

use super::chain::{Hash, Link, Position};
use super::marks::{Checkpoint, Gap, GapKind, Header, Mark};
use super::verdict::{Anchor, Finding, Note, Place, Signed, Verdict};
use crate::token::{PublicKey, Role, Trust};

/// Findings that are listed; a log that was mangled as a whole has one for every line.
const LISTED: usize = 1000;

/// How a header's key is known to be the node's.
#[derive(Debug, Clone)]
pub enum Trusting {
    /// By the tokens in the header, if this operator signed the account's.
    Operator(PublicKey),
    /// It must be one of these.
    Keys(Vec<PublicKey>),
}

impl Trusting {
    pub(super) fn believe(&self, header: &Header) -> Result<(), String> {
        let operator = match self {
            Self::Keys(keys) if keys.contains(&header.key) => return Ok(()),
            Self::Keys(_) => return Err(format!("{} is not among those given", header.key)),
            Self::Operator(operator) => operator,
        };
        let trust = Trust::new(*operator, &header.account).map_err(|error| told(&error))?;
        let party = trust
            .verify_user(&header.token, header.unix_ms)
            .map_err(|error| told(&error))?;
        if party.key != header.key {
            Err("the token in the header is for another key".to_owned())
        } else if party.identity != header.node {
            Err(format!("the token in the header is {}'s", party.identity))
        } else if !matches!(party.role, Role::Node | Role::Service) {
            Err(format!("its token is for the role {}", party.role))
        } else {
            Ok(())
        }
    }
}

fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// Reads lines in the order of the chain.
#[derive(Debug)]
pub struct Verifier {
    trusting: Trusting,
    anchors: Vec<Anchor>,
    /// Where the chain stands, and the line it stands behind; nothing before the first line.
    chain: Option<(Position, Place)>,
    /// Where the chain stood before that line.
    before: Option<Position>,
    /// A line that does not follow from the one before; the next one will tell why.
    suspect: Option<Line>,
    key: Option<(PublicKey, VerifyingKey)>,
    here: Place,
    verdict: Verdict,
}

/// A line as it was read.
#[derive(Debug)]
struct Line {
    at: Place,
    hash: Hash,
    bytes: u64,
    link: Option<Link>,
    mark: Mark,
}

impl Verifier {
    /// Nothing was read yet. Lines that are known from elsewhere must be there.
    pub fn new(trusting: Trusting, anchors: Vec<Anchor>) -> Self {
        Self {
            trusting,
            anchors,
            chain: None,
            before: None,
            suspect: None,
            key: None,
            here: Place { file: 0, line: 0 },
            verdict: Verdict::default(),
        }
    }

    /// The next file of the same chain begins.
    pub fn next_file(&mut self) {
        if self.here.line > 0 {
            self.here.file += 1;
            self.here.line = 0;
        }
    }

    /// Takes one line, without its end.
    pub fn line(&mut self, bytes: &[u8]) {
        self.here.line += 1;
        self.verdict.lines += 1;
        let (claim, mark) = match Mark::read(bytes) {
            Some((claim, mark)) => (Some(claim), mark),
            None => (None, Mark::Broken),
        };
        let line = Line {
            at: self.here,
            hash: Hash::of(bytes),
            bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            link: claim,
            mark,
        };
        if line.at.line == 1 && !matches!(line.mark, Mark::Header(_)) {
            self.find(Finding::NoHeader { at: line.at });
        }
        self.take(line);
    }

    /// Takes what stands at the end of the last file without a line end: a line that was cut off.
    pub fn torn_end(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.settle_last();
        self.verdict.notes.push(Note::TornEnd {
            at: Place {
                line: self.here.line + 1,
                ..self.here
            },
        });
    }

    /// Everything was read.
    pub fn finish(mut self) -> Verdict {
        self.settle_last();
        if self.verdict.lines == 0 {
            self.find(Finding::Empty);
        }
        for anchor in std::mem::take(&mut self.anchors) {
            self.find(Finding::AnchorMissing { seq: anchor.seq });
        }
        self.verdict
    }

    fn find(&mut self, finding: Finding) {
        // Two neighbours may blame the same line.
        if self.verdict.findings.last() == Some(&finding) {
            return;
        }
        if self.verdict.findings.len() < LISTED {
            self.verdict.findings.push(finding);
        } else {
            self.verdict.unlisted += 1;
        }
    }

    fn take(&mut self, line: Line) {
        let Some((position, _)) = self.chain else {
            return self.first(line);
        };
        let follows = line.link.is_some_and(|link| link.follows(&position));
        match (self.suspect.take(), follows) {
            (None, true) => {
                if matches!(&line.mark, Mark::Gap(gap) if gap.is_torn()) {
                    self.find(Finding::FragmentMissing { at: line.at });
                }
                self.accept(line);
            }
            (None, false) if self.closes_off_last(&line) => {
                self.chain = self.before.zip(self.chain.map(|(_, at)| at));
                self.accept(line);
            }
            (None, false) => self.suspect = Some(line),
            (Some(suspect), true) => {
                self.explain(&suspect, &line.mark);
                self.accept(line);
            }
            (Some(suspect), false) => {
                self.settle(suspect, line.link);
                self.take(line);
            }
        }
    }

    /// Whether this is the daemon's note that the last line was torn: one that was cut off where a line could end, or that
    /// lacks nothing but its end, looks whole until then.
    fn closes_off_last(&mut self, line: &Line) -> bool {
        let (Some((position, at)), Some(before)) = (self.chain, self.before) else {
            return false;
        };
        match &line.mark {
            Mark::Gap(Gap {
                what: GapKind::Torn { bytes, fragment },
                ..
            }) if line.link.is_some_and(|link| link.follows(&before))
                && *fragment == position.prev.to_string() =>
            {
                let bytes = *bytes;
                self.verdict.notes.push(Note::Torn { at, bytes });
                true
            }
            _ => false,
        }
    }

    /// The first line of all is taken at its word: there is nothing that it should follow from.
    fn first(&mut self, line: Line) {
        let Some(place) = line.link else {
            return self.find(Finding::Altered { at: line.at });
        };
        if place.seq > 0 {
            self.verdict.notes.push(Note::BeginsLate { seq: place.seq });
        }
        self.accept(line);
    }

    /// A line that follows from the one before, or is taken as the next one for want of a better.
    fn accept(&mut self, line: Line) {
        let Some(place) = line.link else { return };
        self.before = self.chain.map(|(position, _)| position);
        self.chain = Some((
            Position {
                next: place.seq.saturating_add(1),
                prev: line.hash,
            },
            line.at,
        ));
        self.verdict.last = Some(Anchor {
            seq: place.seq,
            hash: line.hash,
        });
        self.verdict.unsigned += 1;
        self.compare_anchor(place.seq, line.hash, line.at);
        match line.mark {
            Mark::Header(header) => self.header(&header, line.at),
            Mark::Checkpoint(checkpoint) => self.checkpoint(checkpoint, place.seq, line.at),
            Mark::Gap(Gap {
                what: GapKind::Missing { written },
                ..
            }) => self.find(Finding::Lost {
                at: line.at,
                written,
            }),
            Mark::Gap(_) | Mark::Record => {}
            Mark::Broken => self.find(Finding::Altered { at: line.at }),
        }
    }

    fn compare_anchor(&mut self, seq: u64, hash: Hash, at: Place) {
        let Some(index) = self.anchors.iter().position(|anchor| anchor.seq == seq) else {
            return;
        };
        if self.anchors.swap_remove(index).hash != hash {
            self.find(Finding::AnchorDiffers { at, seq });
        }
    }

    fn header(&mut self, header: &Header, at: Place) {
        match &self.verdict.node {
            Some(node) if *node != header.node => self.find(Finding::OtherNode {
                at,
                found: header.node.clone(),
            }),
            Some(_) => {}
            None => self.verdict.node = Some(header.node.clone()),
        }
        if !self.verdict.keys.contains(&header.key) {
            self.verdict.keys.push(header.key);
        }
        match header.judge(&self.trusting) {
            Ok(key) => self.key = Some((header.key, key)),
            Err(why) => {
                self.key = None;
                self.find(Finding::Untrusted { at, why });
            }
        }
    }

    fn checkpoint(&mut self, checkpoint: Checkpoint, seq: u64, at: Place) {
        if self
            .verdict
            .node
            .as_ref()
            .is_some_and(|node| *node != checkpoint.node)
        {
            self.find(Finding::OtherNode {
                at,
                found: checkpoint.node.clone(),
            });
        }
        let good = self
            .key
            .as_ref()
            .is_some_and(|(key, point)| *key == checkpoint.key && checkpoint.holds(point));
        if good {
            self.verdict.unsigned = 0;
            self.verdict.signed = Some(Signed {
                seq,
                time: checkpoint.time,
            });
        } else {
            self.find(Finding::Forged { at });
        }
    }

    /// A suspect before a line that follows from what was before it: the suspect was never part of the chain.
    fn explain(&mut self, suspect: &Line, next: &Mark) {
        let torn = match next {
            Mark::Gap(Gap {
                what: GapKind::Torn { bytes, fragment },
                ..
            }) => *bytes == suspect.bytes && *fragment == suspect.hash.to_string(),
            _ => false,
        };
        if torn {
            let (at, bytes) = (suspect.at, suspect.bytes);
            self.verdict.notes.push(Note::Torn { at, bytes });
        } else {
            self.find(Finding::Inserted { at: suspect.at });
        }
    }

    /// A suspect before another line that does not follow either: it is taken as the next one, and something is wrong.
    fn settle(&mut self, suspect: Line, next: Option<Link>) {
        let Some((position, behind)) = self.chain else {
            return;
        };
        let at = suspect.at;
        // Whether the next line, or a signature, vouches for the suspect's bytes.
        let intact = match next {
            Some(next) => next.prev == suspect.hash,
            None => self.is_signed(&suspect.mark),
        };
        // Whether the next line has the number that would follow if the suspect were only altered.
        let in_place = next.is_some_and(|next| next.seq == position.next.saturating_add(1));
        let seq = match suspect.link {
            None => {
                self.find(Finding::Altered { at });
                position.next
            }
            Some(_) if !intact && in_place => {
                self.find(Finding::Altered { at });
                position.next
            }
            Some(link) if link.seq == position.next => {
                // Its bytes are vouched for, so what it says of the line before counts.
                let at = if intact { behind } else { at };
                self.find(Finding::Altered { at });
                link.seq
            }
            Some(link) if link.seq > position.next => {
                self.find(Finding::Missing {
                    before: at,
                    from: position.next,
                    to: link.seq - 1,
                });
                link.seq
            }
            Some(link) if link.seq == 0 && matches!(suspect.mark, Mark::Header(_)) => {
                self.find(Finding::NewChain { at });
                0
            }
            Some(link) => {
                self.find(Finding::OutOfOrder { at, seq: link.seq });
                link.seq
            }
        };
        let prev = position.prev;
        self.accept(Line {
            link: Some(Link { seq, prev }),
            ..suspect
        });
    }

    fn is_signed(&self, mark: &Mark) -> bool {
        match (mark, &self.key) {
            (Mark::Checkpoint(checkpoint), Some((_, key))) => checkpoint.holds(key),
            _ => false,
        }
    }

    /// The last line does not follow, and there is none behind it that could tell why.
    fn settle_last(&mut self) {
        if let Some(suspect) = self.suspect.take() {
            self.settle(suspect, None);
        }
    }
}
