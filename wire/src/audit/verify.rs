//! Verifies a log line by line and reports each finding with its location. Memory use does not grow with the log.
//!
//! A line that does not follow the previous one is held until the next line is read. Only then is it known whether the line
//! was altered, inserted, or follows missing lines.

use ed25519_dalek::VerifyingKey;
use muster_base::error_chain;

use super::chain::{ChainLink, ChainPosition, LineHash};
use super::findings::{
    AuditAnchor, AuditFinding, AuditNote, ChainVerification, LineLocation, VerifiedCheckpoint,
};
use super::key_trust::AuditKeyTrust;
use super::line_kinds::{
    AuditCheckpoint, AuditGap, AuditHeader, AuditLineKind, GapKind, TornLine, line_time,
};
use crate::token::PublicKey;

/// Limit of listed findings, because a corrupted log can have one per line.
const MAX_FINDINGS: usize = 1000;

/// Verifies lines in chain order.
#[derive(Debug)]
pub struct ChainVerifier {
    trust: AuditKeyTrust,
    anchors: Vec<AuditAnchor>,
    /// The current position and the location of the line before it; `None` before the first line.
    chain: Option<(ChainPosition, LineLocation)>,
    /// The position before that line.
    previous_position: Option<ChainPosition>,
    /// A line that does not follow the previous one, held until the next line is read.
    suspect: Option<ChainLine>,
    key: Option<(PublicKey, VerifyingKey)>,
    location: LineLocation,
    /// The time of the last accepted line.
    last_time: Option<String>,
    verification: ChainVerification,
}

/// A line as read.
#[derive(Debug)]
struct ChainLine {
    at: LineLocation,
    hash: LineHash,
    bytes: u64,
    /// NUL bytes at the end.
    zeros: u64,
    time: Option<String>,
    link: Option<ChainLink>,
    kind: AuditLineKind,
}

impl ChainVerifier {
    /// Creates a verifier. The log must contain all anchors.
    pub fn new(trust: AuditKeyTrust, anchors: Vec<AuditAnchor>) -> Self {
        Self {
            trust,
            anchors,
            chain: None,
            previous_position: None,
            suspect: None,
            key: None,
            location: LineLocation { file: 0, line: 0 },
            last_time: None,
            verification: ChainVerification::default(),
        }
    }

    /// Starts the next file of the same chain.
    pub fn begin_next_file(&mut self) {
        if self.location.line > 0 {
            self.location.file += 1;
            self.location.line = 0;
        }
    }

    /// Processes one line, without its line end.
    pub fn push_line(&mut self, bytes: &[u8]) {
        self.location.line += 1;
        self.verification.lines += 1;
        let (link, kind) = match AuditLineKind::parse_line(bytes) {
            Some((link, kind)) => (Some(link), kind),
            None => (None, AuditLineKind::Broken),
        };
        let chain_line = ChainLine {
            at: self.location,
            hash: LineHash::of_bytes(bytes),
            bytes: to_u64(bytes.len()),
            zeros: count_zeros(bytes),
            time: link.and_then(|_| line_time(bytes)).map(str::to_owned),
            link,
            kind,
        };
        if chain_line.at.line == 1 && !matches!(chain_line.kind, AuditLineKind::Header(_)) {
            self.add_finding(AuditFinding::NoHeader { at: chain_line.at });
        }
        self.check_line(chain_line);
    }

    /// Processes the bytes after the last line end of the last file: a torn line.
    pub fn push_torn_end(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.resolve_last_suspect();
        self.verification.notes.push(AuditNote::TornEnd {
            at: LineLocation { line: self.location.line + 1, ..self.location },
            bytes: to_u64(bytes.len()),
            zeros: count_zeros(bytes),
            after: self.last_time.clone(),
        });
    }

    /// Ends the verification after the last line.
    pub fn finish(mut self) -> ChainVerification {
        self.resolve_last_suspect();
        if self.verification.lines == 0 {
            self.add_finding(AuditFinding::Empty);
        }
        for anchor in std::mem::take(&mut self.anchors) {
            self.add_finding(AuditFinding::AnchorMissing { seq: anchor.seq });
        }
        self.verification
    }

    fn add_finding(&mut self, finding: AuditFinding) {
        // Two adjacent lines may cause the same finding.
        if self.verification.findings.last() == Some(&finding) {
            return;
        }
        if self.verification.findings.len() < MAX_FINDINGS {
            self.verification.findings.push(finding);
        } else {
            self.verification.unlisted += 1;
        }
    }

    fn check_line(&mut self, line: ChainLine) {
        let Some((position, _)) = self.chain else { return self.accept_first_line(line) };
        let is_next = line.link.is_some_and(|link| link.follows_position(&position));
        match (self.suspect.take(), is_next) {
            (None, true) => {
                if line.kind.torn_line().is_some() {
                    self.add_finding(AuditFinding::FragmentMissing { at: line.at });
                }
                self.accept_line(line);
            }
            (None, false) if self.closes_torn_line(&line) => {
                self.chain = self.previous_position.zip(self.chain.map(|(_, at)| at));
                self.accept_line(line);
            }
            (None, false) => self.suspect = Some(line),
            (Some(suspect), true) => {
                self.explain_suspect(&suspect, &line.kind);
                self.accept_line(line);
            }
            (Some(suspect), false) => {
                self.resolve_suspect(suspect, line.link);
                self.check_line(line);
            }
        }
    }

    /// Whether this line is the daemon's gap for a torn previous line. A line torn at a position where a line could end, or that
    /// lacks only its line end, is recognized only here.
    fn closes_torn_line(&mut self, line: &ChainLine) -> bool {
        let (Some((position, at)), Some(previous)) = (self.chain, self.previous_position) else {
            return false;
        };
        let Some(torn) = line.kind.torn_line() else { return false };
        let is_closed = line.link.is_some_and(|link| link.follows_position(&previous))
            && torn.fragment == position.prev.to_string();
        if is_closed {
            // It has the form of a line, so it does not end with zeros.
            self.add_torn_note(at, 0, torn);
        }
        is_closed
    }

    /// Accepts the first line of the log without a predecessor check.
    fn accept_first_line(&mut self, line: ChainLine) {
        let Some(chain_link) = line.link else {
            return self.add_finding(AuditFinding::Altered { at: line.at });
        };
        if chain_link.seq > 0 {
            self.verification.notes.push(AuditNote::BeginsLate { seq: chain_link.seq });
        }
        self.accept_line(line);
    }

    /// Accepts a line that follows the previous one, or that is the best available successor.
    fn accept_line(&mut self, line: ChainLine) {
        let Some(chain_link) = line.link else { return };
        self.previous_position = self.chain.map(|(position, _)| position);
        self.chain = Some((
            ChainPosition { next: chain_link.seq.saturating_add(1), prev: line.hash },
            line.at,
        ));
        self.verification.last = Some(AuditAnchor { seq: chain_link.seq, hash: line.hash });
        self.verification.unsigned += 1;
        self.last_time = line.time.or(self.last_time.take());
        self.compare_anchor(chain_link.seq, line.hash, line.at);
        match line.kind {
            AuditLineKind::Header(header) => self.check_header(&header, line.at),
            AuditLineKind::Checkpoint(checkpoint) => {
                self.check_checkpoint(checkpoint, chain_link.seq, line.at);
            }
            AuditLineKind::Gap(AuditGap { kind: GapKind::Missing { written }, .. }) => {
                self.add_finding(AuditFinding::Lost { at: line.at, written });
            }
            AuditLineKind::Unrecorded(count) => {
                self.add_finding(AuditFinding::Unrecorded { at: line.at, count });
            }
            AuditLineKind::Gap(_) | AuditLineKind::Record => {}
            AuditLineKind::Broken => self.add_finding(AuditFinding::Altered { at: line.at }),
        }
    }

    fn compare_anchor(&mut self, seq: u64, hash: LineHash, at: LineLocation) {
        let Some(index) = self.anchors.iter().position(|anchor| anchor.seq == seq) else { return };
        if self.anchors.swap_remove(index).hash != hash {
            self.add_finding(AuditFinding::AnchorDiffers { at, seq });
        }
    }

    fn check_header(&mut self, header: &AuditHeader, at: LineLocation) {
        match &self.verification.node {
            Some(node) if *node != header.node => {
                self.add_finding(AuditFinding::OtherNode { at, found: header.node.clone() });
            }
            Some(_) => {}
            None => self.verification.node = Some(header.node.clone()),
        }
        if !self.verification.keys.contains(&header.key) {
            self.verification.keys.push(header.key);
        }
        match self.trust.verify_header(header) {
            Ok(key) => self.key = Some((header.key, key)),
            Err(reason) => {
                self.key = None;
                self.add_finding(AuditFinding::Untrusted { at, why: error_chain(&reason) });
            }
        }
    }

    fn check_checkpoint(&mut self, checkpoint: AuditCheckpoint, seq: u64, at: LineLocation) {
        if self.verification.node.as_ref().is_some_and(|node| *node != checkpoint.node) {
            self.add_finding(AuditFinding::OtherNode { at, found: checkpoint.node.clone() });
        }
        let is_valid = self.key.as_ref().is_some_and(|(key, verifying_key)| {
            *key == checkpoint.key && checkpoint.verify_signature(verifying_key)
        });
        if is_valid {
            self.verification.unsigned = 0;
            self.verification.signed = Some(VerifiedCheckpoint { seq, time: checkpoint.time });
        } else {
            self.add_finding(AuditFinding::Forged { at });
        }
    }

    /// Handles a suspect before a line that follows the position before the suspect: the suspect was inserted.
    fn explain_suspect(&mut self, suspect: &ChainLine, next: &AuditLineKind) {
        let &ChainLine { at, bytes, hash, zeros, .. } = suspect;
        let is_torn =
            |torn: &TornLine<'_>| torn.bytes == bytes && torn.fragment == hash.to_string();
        match next.torn_line().filter(is_torn) {
            Some(torn) => self.add_torn_note(at, zeros, torn),
            None => self.add_finding(AuditFinding::Inserted { at }),
        }
    }

    fn add_torn_note(&mut self, at: LineLocation, zeros: u64, torn: TornLine<'_>) {
        let (after, before) = (self.last_time.clone(), torn.time.to_owned());
        self.verification.notes.push(AuditNote::Torn {
            at,
            bytes: torn.bytes,
            zeros,
            after,
            before,
        });
    }

    /// Handles a suspect before another line that does not follow either: the suspect is accepted, with a finding.
    fn resolve_suspect(&mut self, suspect: ChainLine, next: Option<ChainLink>) {
        let Some((position, previous_location)) = self.chain else { return };
        let at = suspect.at;
        // Whether the next line's hash, or a signature, confirms the suspect's bytes.
        let is_intact = match next {
            Some(next) => next.prev == suspect.hash,
            None => self.is_signed(&suspect.kind),
        };
        // Whether the next line has the number expected if the suspect was only altered.
        let is_in_sequence = next.is_some_and(|next| next.seq == position.next.saturating_add(1));
        let seq = match suspect.link {
            None => {
                self.add_finding(AuditFinding::Altered { at });
                position.next
            }
            Some(_) if !is_intact && is_in_sequence => {
                self.add_finding(AuditFinding::Altered { at });
                position.next
            }
            Some(link) if link.seq == position.next => {
                // The suspect's bytes are confirmed, so its previous hash is too; the fault is in the line before.
                let at = if is_intact { previous_location } else { at };
                self.add_finding(AuditFinding::Altered { at });
                link.seq
            }
            Some(link) if link.seq > position.next => {
                self.add_finding(AuditFinding::Missing {
                    before: at,
                    from: position.next,
                    to: link.seq - 1,
                });
                link.seq
            }
            Some(link) if link.seq == 0 && matches!(suspect.kind, AuditLineKind::Header(_)) => {
                self.add_finding(AuditFinding::NewChain { at });
                0
            }
            Some(link) => {
                self.add_finding(AuditFinding::OutOfOrder { at, seq: link.seq });
                link.seq
            }
        };
        let prev = position.prev;
        self.accept_line(ChainLine { link: Some(ChainLink { seq, prev }), ..suspect });
    }

    fn is_signed(&self, kind: &AuditLineKind) -> bool {
        matches!(
            (kind, &self.key),
            (AuditLineKind::Checkpoint(checkpoint), Some((_, key))) if checkpoint.verify_signature(key)
        )
    }

    /// Handles a suspect at the end of the log, which has no successor to explain it.
    fn resolve_last_suspect(&mut self) {
        if let Some(suspect) = self.suspect.take() {
            self.resolve_suspect(suspect, None);
        }
    }
}

/// NUL bytes at the end of a line. JSON has none.
fn count_zeros(line: &[u8]) -> u64 {
    to_u64(line.iter().rev().take_while(|byte| **byte == 0).count())
}

fn to_u64(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
