//! The chain of an audit log: every change is detected and located, and an unchanged log is intact.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use muster_wire::audit::{
    AuditAnchor, AuditFinding, AuditGap, AuditHeader, AuditKeyTrust, AuditNote, ChainPosition,
    ChainVerification, ChainVerifier, LineLocation,
};
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::token::claims::{
    AccountClaims, AccountLimits, ScopedKey, SigningKeyEntry, UserClaims,
};
use muster_wire::token::encode::{self, TokenValidity};
use muster_wire::token::{KeyKind, KeyPair, UserRole};
use proptest::prelude::*;

const NOW: u64 = 1_800_000_000_000;
const TIME: &str = "2027-01-15T08:00:00.000Z";

/// An organisation with one node, with keys from fixed seeds.
struct TestOrganisation {
    operator: KeyPair,
    account: KeyPair,
    node: KeyPair,
    header: AuditHeader,
}

fn key(kind: KeyKind, seed: u8) -> KeyPair {
    KeyPair::from_raw(kind, &[seed; 32])
}

fn identity(name: &str) -> Identity {
    Identity::parse(name).unwrap()
}

impl TestOrganisation {
    fn new() -> Self {
        Self::of(UserRole::Node, "db1.acme.net", 9)
    }

    fn of(role: UserRole, name: &str, seed: u8) -> Self {
        let (operator, account) = (key(KeyKind::Operator, 1), key(KeyKind::Account, 2));
        let (roles, node) = (key(KeyKind::Account, 3), key(KeyKind::User, seed));
        let template = role.permission_template(&[SubjectName::parse("fleet").unwrap()]);
        let scope =
            SigningKeyEntry::Scoped(Box::new(ScopedKey::new(roles.public_key(), role, template)));
        let validity = TokenValidity::without_end(NOW / 1000 - 60);
        let claims = AccountClaims::new(AccountLimits::default(), vec![scope]);
        let vouched =
            encode::issue_account_token("fleet", account.public_key(), claims, validity, &operator)
                .unwrap();
        let user = UserClaims::new(account.public_key(), Vec::new());
        let token =
            encode::issue_user_token(&identity(name), node.public_key(), user, validity, &roles)
                .unwrap();
        let header = AuditHeader::new(
            NOW,
            TIME.to_owned(),
            identity("db1.acme.net"),
            node.public_key(),
            token,
            vouched,
        );
        Self { operator, account, node, header }
    }

    fn key_trust(&self) -> AuditKeyTrust {
        AuditKeyTrust::Operator(self.operator.public_key())
    }

    /// A log with a checkpoint after every fifth record and at the end.
    fn log(&self, records: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let mut position = ChainPosition::START.append_mark(&self.header, &mut out).unwrap();
        for number in 1..=records {
            position = append_record(position, number, &mut out);
            if number % 5 == 0 || number == records {
                position = self.checkpoint(position, &mut out);
            }
        }
        out
    }

    fn checkpoint(&self, position: ChainPosition, out: &mut Vec<u8>) -> ChainPosition {
        position.append_checkpoint(TIME, &self.header.node, &self.node, out)
    }
}

fn append_record(position: ChainPosition, number: u64, out: &mut Vec<u8>) -> ChainPosition {
    let text = format!(r#"{{"time":"{TIME}","verdict":"executed","n":{number}}}"#);
    position.append_record(text.as_bytes(), out).unwrap()
}

fn verify_with(
    key_trust: AuditKeyTrust,
    anchors: Vec<AuditAnchor>,
    files: &[&[u8]],
) -> ChainVerification {
    let mut verifier = ChainVerifier::new(key_trust, anchors);
    for file in files {
        verifier.begin_next_file();
        let mut parts = file.split(|byte| *byte == b'\n');
        let end = parts.next_back().unwrap();
        parts.for_each(|line| verifier.push_line(line));
        verifier.push_torn_end(end);
    }
    verifier.finish()
}

fn verify(files: &[&[u8]]) -> ChainVerification {
    verify_with(TestOrganisation::new().key_trust(), Vec::new(), files)
}

fn lines(log: &[u8]) -> Vec<Vec<u8>> {
    log.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

fn line(line: u64) -> LineLocation {
    LineLocation { file: 0, line }
}

/// The findings for a log with changed lines.
fn findings(records: u64, change: impl FnOnce(&mut Vec<Vec<u8>>)) -> Vec<AuditFinding> {
    let mut lines = lines(&TestOrganisation::new().log(records));
    change(&mut lines);
    verify(&[&lines.concat()]).findings
}

#[test]
fn unchanged_log_is_intact_signed_to_its_end_and_names_its_node() {
    let world = TestOrganisation::new();
    let log = world.log(12);
    let verdict = verify(&[&log]);
    assert!(verdict.is_intact(), "{:?}", verdict.findings);
    assert_eq!(verdict.notes, []);
    assert_eq!((verdict.lines, verdict.unsigned), (16, 0));
    assert_eq!(verdict.signed.unwrap().seq, 15);
    assert_eq!(verdict.node, Some(identity("db1.acme.net")));
    assert_eq!(verdict.keys, [world.node.public_key()]);
    assert_eq!(verdict.last.unwrap().seq, 15);
}

#[test]
fn records_have_the_documented_bytes() {
    let mut out = Vec::new();
    let first = ChainPosition::START.append_record(br#"{"a":1}"#, &mut out).unwrap();
    first.append_record(br#"{"b":2}"#, &mut out).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "{\"seq\":0,\"prev\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\",\"a\":1}\n\
         {\"seq\":1,\"prev\":\"gTgfHwQOMbRs3zAcPmnsmikQX7ZZhMx3QaNSkdwnvsc\",\"b\":2}\n"
    );
    assert!(ChainPosition::START.append_record(b"{}", &mut Vec::new()).is_err());
    assert!(ChainPosition::START.append_record(b"[]", &mut Vec::new()).is_err());
}

#[test]
fn altered_line_is_located() {
    let alter = |lines: &mut Vec<Vec<u8>>| {
        let text = String::from_utf8(lines[3].clone()).unwrap();
        lines[3] = text.replace("executed", "denied").into_bytes();
    };
    assert_eq!(findings(12, alter), [AuditFinding::Altered { at: line(4) }]);
    // The line before the last is covered only by the signature.
    let last = |lines: &mut Vec<Vec<u8>>| {
        let text = String::from_utf8(lines[4].clone()).unwrap();
        lines[4] = text.replace("executed", "denied").into_bytes();
    };
    assert_eq!(findings(4, last), [AuditFinding::Altered { at: line(5) }]);
    // The hash of the previous line is part of the line.
    let prev = |lines: &mut Vec<Vec<u8>>| lines[3][20] ^= 1;
    assert_eq!(findings(12, prev), [AuditFinding::Altered { at: line(4) }]);
}

#[test]
fn missing_inserted_and_repeated_lines_are_located() {
    let cut = |lines: &mut Vec<Vec<u8>>| drop(lines.drain(2..4));
    let missing = AuditFinding::Missing { before: line(3), from: 2, to: 3 };
    assert_eq!(findings(12, cut), [missing]);
    let insert = |lines: &mut Vec<Vec<u8>>| lines.insert(3, b"{\"x\":1}\n".to_vec());
    assert_eq!(findings(12, insert), [AuditFinding::Inserted { at: line(4) }]);
    let repeat = |lines: &mut Vec<Vec<u8>>| {
        let copy = lines[2].clone();
        lines.insert(5, copy);
    };
    assert_eq!(findings(12, repeat), [AuditFinding::Inserted { at: line(6) }]);
    let remove_header = |lines: &mut Vec<Vec<u8>>| drop(lines.remove(0));
    let found = findings(12, remove_header);
    assert_eq!(found[0], AuditFinding::NoHeader { at: line(1) });
}

#[test]
fn recomputed_hashes_fail_the_signature() {
    let world = TestOrganisation::new();
    let mut forged = Vec::new();
    let mut position = ChainPosition::START.append_mark(&world.header, &mut forged).unwrap();
    for number in [1, 2, 99, 4, 5] {
        position = append_record(position, number, &mut forged);
    }
    // The signature of the real checkpoint after the forger's own hashes.
    let real = lines(&world.log(5)).pop().unwrap();
    let real = String::from_utf8(real).unwrap();
    let own = String::from_utf8({
        let mut own = Vec::new();
        let after =
            position.append_checkpoint(TIME, &world.header.node, &key(KeyKind::User, 77), &mut own);
        assert_eq!(after.next, 7);
        own
    })
    .unwrap();
    let tail = real.find(",\"signature\"").unwrap();
    let spliced = format!("{}{}", &own[..own.find(",\"signature\"").unwrap()], &real[tail..]);
    for last in [own, spliced] {
        let log = [forged.clone(), last.into_bytes()].concat();
        let verdict = verify(&[&log]);
        assert_eq!(verdict.findings, [AuditFinding::Forged { at: line(7) }]);
        assert_eq!(verdict.signed, None);
    }
}

#[test]
fn truncation_is_reported_as_unsigned_and_found_by_an_anchor() {
    let world = TestOrganisation::new();
    let log = world.log(12);
    let whole = verify(&[&log]);
    let all = lines(&log);
    let short = all[..9].concat();
    let verdict = verify(&[&short]);
    assert!(verdict.is_intact());
    assert_eq!((verdict.unsigned, verdict.signed.unwrap().seq), (2, 6));
    let anchored =
        |files: &[&[u8]], anchor| verify_with(world.key_trust(), vec![anchor], files).findings;
    let anchor = whole.last.unwrap();
    assert_eq!(anchored(&[&log], anchor), []);
    assert_eq!(anchored(&[&short], anchor), [AuditFinding::AnchorMissing { seq: 15 }]);
    let other = AuditAnchor { seq: 3, hash: anchor.hash };
    assert!(matches!(anchored(&[&log], other)[..], [AuditFinding::AnchorDiffers { seq: 3, .. }]));
    assert_eq!(anchor.to_string().parse(), Ok(anchor));
}

#[test]
fn completed_torn_line_is_a_note_and_its_bytes_are_covered() {
    let world = TestOrganisation::new();
    let mut log = Vec::new();
    let mut position = ChainPosition::START.append_mark(&world.header, &mut log).unwrap();
    position = append_record(position, 1, &mut log);
    let fragment = br#"{"seq":2,"prev":"AAAA"#;
    log.extend_from_slice(fragment);
    let open = verify(&[&log]);
    assert!(open.is_intact());
    let after = Some(TIME.to_owned());
    let end = AuditNote::TornEnd { at: line(3), bytes: 21, zeros: 0, after: after.clone() };
    assert_eq!(open.notes, [end]);
    log.push(b'\n');
    position =
        position.append_mark(&AuditGap::torn_line(TIME.to_owned(), fragment), &mut log).unwrap();
    position = append_record(position, 2, &mut log);
    world.checkpoint(position, &mut log);
    let verdict = verify(&[&log]);
    assert!(verdict.is_intact(), "{:?}", verdict.findings);
    let before = TIME.to_owned();
    let torn = AuditNote::Torn { at: line(3), bytes: 21, zeros: 0, after, before };
    assert_eq!(verdict.notes, [torn]);
    let mut altered = lines(&log);
    altered[2][5] ^= 1;
    assert_eq!(verify(&[&altered.concat()]).findings, [AuditFinding::Inserted { at: line(3) }]);
    altered.remove(2);
    assert_eq!(
        verify(&[&altered.concat()]).findings,
        [AuditFinding::FragmentMissing { at: line(3) }]
    );
}

#[test]
fn line_without_its_end_is_torn() {
    let world = TestOrganisation::new();
    let mut log = Vec::new();
    let position = ChainPosition::START.append_mark(&world.header, &mut log).unwrap();
    let start = log.len();
    append_record(position, 1, &mut log);
    let fragment = log[start..log.len() - 1].to_vec();
    let gap = AuditGap::torn_line(TIME.to_owned(), &fragment);
    let position = position.append_mark(&gap, &mut log).unwrap();
    world.checkpoint(position, &mut log);
    let verdict = verify(&[&log]);
    assert!(verdict.is_intact(), "{:?}", verdict.findings);
    assert!(matches!(verdict.notes[..], [AuditNote::Torn { .. }]));
    let mut altered = lines(&log);
    altered[1][90] ^= 1;
    assert!(!verify(&[&altered.concat()]).is_intact());
}

#[test]
fn changed_line_ends_are_detected() {
    let world = TestOrganisation::new();
    let log = world.log(7);
    let ends: Vec<usize> =
        log.iter().enumerate().filter_map(|(at, byte)| (*byte == b'\n').then_some(at)).collect();
    let [within @ .., before_last, _] = &ends[..] else { unreachable!() };
    let changed = |at: usize, bit: u32| {
        let mut changed = log.clone();
        changed[at] ^= 1 << bit;
        verify(&[&changed])
    };
    for bit in 0..8 {
        for at in within {
            assert!(!changed(*at, bit).is_intact(), "{at} {bit}");
        }
        // The last record and its checkpoint are one line now, which parses as a record; it does not count as signed.
        let verdict = changed(*before_last, bit);
        assert_eq!((verdict.unsigned, verdict.signed.unwrap().seq), (2, 6));
    }
}

#[test]
fn chain_continues_across_files_and_a_missing_file_is_a_finding() {
    let world = TestOrganisation::new();
    let (mut files, mut position) = (Vec::new(), ChainPosition::START);
    for number in 0..3 {
        let mut file = Vec::new();
        position = position.append_mark(&world.header, &mut file).unwrap();
        position = append_record(position, number, &mut file);
        position = world.checkpoint(position, &mut file);
        files.push(file);
    }
    let [first, second, third] = &files[..] else { unreachable!() };
    assert!(verify(&[first, second, third]).is_intact());
    let late = verify(&[second, third]);
    assert!(late.is_intact());
    assert_eq!(late.notes, [AuditNote::BeginsLate { seq: 3 }]);
    let hole = AuditFinding::Missing { before: LineLocation { file: 1, line: 1 }, from: 3, to: 5 };
    assert_eq!(verify(&[first, third]).findings, [hole]);
    let anew = world.log(2);
    let begins = AuditFinding::NewChain { at: LineLocation { file: 1, line: 1 } };
    assert_eq!(verify(&[first, &anew]).findings, [begins]);
}

#[test]
fn node_key_requires_a_token_of_the_operator() {
    let world = TestOrganisation::new();
    let log = world.log(3);
    let untrusted = |key_trust| match &verify_with(key_trust, Vec::new(), &[&log]).findings[..] {
        [AuditFinding::Untrusted { why, .. }, AuditFinding::Forged { .. }] => why.clone(),
        other => panic!("{other:?}"),
    };
    let other = AuditKeyTrust::Operator(key(KeyKind::Operator, 50).public_key());
    assert!(!untrusted(other).is_empty());
    let keys = AuditKeyTrust::Keys(vec![key(KeyKind::User, 51).public_key()]);
    assert!(untrusted(keys).contains("not one of the given keys"));
    let own = AuditKeyTrust::Keys(vec![world.node.public_key()]);
    assert!(verify_with(own, Vec::new(), &[&log]).is_intact());
    assert_ne!(world.account.public_key(), world.node.public_key());
    // A token of a caller, or in another name, proves nothing about a node.
    for (role, name) in [(UserRole::Caller, "db1.acme.net"), (UserRole::Node, "web1.acme.net")] {
        let other = TestOrganisation::of(role, name, 9);
        let verdict = verify(&[&other.log(3)]);
        assert!(
            matches!(verdict.findings[0], AuditFinding::Untrusted { .. }),
            "{:?}",
            verdict.findings
        );
    }
}

#[test]
fn gap_recorded_by_the_daemon_is_a_finding() {
    let world = TestOrganisation::new();
    let mut log = Vec::new();
    let position = ChainPosition::START.append_mark(&world.header, &mut log).unwrap();
    let position =
        position.append_mark(&AuditGap::missing_lines(TIME.to_owned(), 40), &mut log).unwrap();
    world.checkpoint(position, &mut log);
    let lost = AuditFinding::Lost { at: line(2), written: 40 };
    assert_eq!(verify(&[&log]).findings, [lost]);
    assert_eq!(verify(&[b""]).findings, [AuditFinding::Empty]);
}

/// Whether a changed log verifies as well as the original: no findings, and signed to the same end.
fn verifies_like_original(log: &[u8], changed: &[u8]) -> bool {
    let (before, after) = (verify(&[log]), verify(&[changed]));
    after.is_intact()
        && after.signed == before.signed
        && after.notes.is_empty()
        && after.unsigned == 0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn changed_byte_is_detected(records in 1_u64..12, at in any::<prop::sample::Index>(), bit in 0_u32..8) {
        let log = TestOrganisation::new().log(records);
        let mut changed = log.clone();
        let at = at.index(log.len());
        changed[at] ^= 1 << bit;
        prop_assert!(!verifies_like_original(&log, &changed));
        // The change is a finding, with these exceptions: a torn end of the log, and the last checkpoint or the line end before it. A
        // damaged checkpoint parses as one more unsigned record.
        let verdict = verify(&[&changed]);
        let last = lines(&log).last().map_or(0, Vec::len);
        if at + 1 < log.len() && verdict.is_intact() {
            prop_assert!(at + 1 >= log.len() - last);
            prop_assert!(verdict.unsigned > 0);
        }
    }

    #[test]
    fn inserted_or_removed_byte_is_detected(records in 1_u64..12, at in any::<prop::sample::Index>(), byte in any::<u8>(), put in any::<bool>()) {
        let log = TestOrganisation::new().log(records);
        let mut changed = log.clone();
        let at = at.index(log.len());
        if put {
            changed.insert(at, byte);
        } else {
            changed.remove(at);
        }
        prop_assert!(changed == log || !verifies_like_original(&log, &changed));
    }

    #[test]
    fn removed_repeated_or_moved_line_is_detected(records in 2_u64..12, from in any::<prop::sample::Index>(), to in any::<prop::sample::Index>(), how in 0..3) {
        let log = TestOrganisation::new().log(records);
        let mut lines = lines(&log);
        let (from, to) = (from.index(lines.len()), to.index(lines.len()));
        match how {
            0 => drop(lines.remove(from)),
            1 => lines.insert(to, lines[from].clone()),
            _ => lines.swap(from, to),
        }
        let changed = lines.concat();
        prop_assert!(changed == log || !verifies_like_original(&log, &changed));
    }

    #[test]
    fn truncated_log_has_a_shorter_signed_part(records in 1_u64..12, at in any::<prop::sample::Index>()) {
        let log = TestOrganisation::new().log(records);
        prop_assert!(!verifies_like_original(&log, &log[..at.index(log.len())]));
    }

    #[test]
    fn arbitrary_bytes_are_verified_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(!verify(&[&bytes]).is_intact() || bytes.iter().all(|byte| *byte != b'\n'));
    }
}
