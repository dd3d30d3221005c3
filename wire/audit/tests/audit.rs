//! The chain of an audit log through its public door: every change is found and named, and an untouched log is intact.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use muster_audit::{
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

/// An organisation with one node, from fixed seeds.
struct World {
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

impl World {
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
            (NOW, TIME.to_owned()),
            identity("db1.acme.net"),
            node.public_key(),
            token,
            vouched,
        );
        Self { operator, account, node, header }
    }

    fn trusting(&self) -> AuditKeyTrust {
        AuditKeyTrust::Operator(self.operator.public_key())
    }

    /// A log of records with a checkpoint after every fifth, and at its end.
    fn log(&self, records: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let mut position = ChainPosition::START.append_mark(&self.header, &mut out).unwrap();
        for number in 1..=records {
            position = record(position, number, &mut out);
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

fn record(position: ChainPosition, number: u64, out: &mut Vec<u8>) -> ChainPosition {
    let record = format!(r#"{{"time":"{TIME}","verdict":"executed","n":{number}}}"#);
    position.append_record(record.as_bytes(), out).unwrap()
}

fn verify_with(
    trusting: AuditKeyTrust,
    anchors: Vec<AuditAnchor>,
    files: &[&[u8]],
) -> ChainVerification {
    let mut verifier = ChainVerifier::new(trusting, anchors);
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
    verify_with(World::new().trusting(), Vec::new(), files)
}

fn lines(log: &[u8]) -> Vec<Vec<u8>> {
    log.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

fn line(line: u64) -> LineLocation {
    LineLocation { file: 0, line }
}

/// The findings of a log whose lines were changed like this.
fn findings(records: u64, change: impl FnOnce(&mut Vec<Vec<u8>>)) -> Vec<AuditFinding> {
    let mut lines = lines(&World::new().log(records));
    change(&mut lines);
    verify(&[&lines.concat()]).findings
}

#[test]
fn an_untouched_log_is_intact_signed_to_its_end_and_names_its_node() {
    let world = World::new();
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
fn the_bytes_are_those_that_are_documented() {
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
fn an_altered_line_is_named() {
    let alter = |lines: &mut Vec<Vec<u8>>| {
        let text = String::from_utf8(lines[3].clone()).unwrap();
        lines[3] = text.replace("executed", "denied").into_bytes();
    };
    assert_eq!(findings(12, alter), [AuditFinding::Altered { at: line(4) }]);
    // In the line before the last, which only a signature can speak for.
    let last = |lines: &mut Vec<Vec<u8>>| {
        let text = String::from_utf8(lines[4].clone()).unwrap();
        lines[4] = text.replace("executed", "denied").into_bytes();
    };
    assert_eq!(findings(4, last), [AuditFinding::Altered { at: line(5) }]);
    // The hash of the line before is a part of the line.
    let prev = |lines: &mut Vec<Vec<u8>>| lines[3][20] ^= 1;
    assert_eq!(findings(12, prev), [AuditFinding::Altered { at: line(4) }]);
}

#[test]
fn missing_inserted_and_repeated_lines_are_named() {
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
    let behead = |lines: &mut Vec<Vec<u8>>| drop(lines.remove(0));
    let found = findings(12, behead);
    assert_eq!(found[0], AuditFinding::NoHeader { at: line(1) });
}

#[test]
fn hashes_that_were_made_to_fit_do_not_get_past_the_signature() {
    let world = World::new();
    let mut forged = Vec::new();
    let mut position = ChainPosition::START.append_mark(&world.header, &mut forged).unwrap();
    for number in [1, 2, 99, 4, 5] {
        position = record(position, number, &mut forged);
    }
    // The real checkpoint's signature behind hashes of the forger's own.
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
fn what_a_cut_off_end_leaves_is_told_and_an_anchor_finds_it() {
    let world = World::new();
    let log = world.log(12);
    let whole = verify(&[&log]);
    let all = lines(&log);
    let short = all[..9].concat();
    let verdict = verify(&[&short]);
    assert!(verdict.is_intact());
    assert_eq!((verdict.unsigned, verdict.signed.unwrap().seq), (2, 6));
    let anchored =
        |files: &[&[u8]], anchor| verify_with(world.trusting(), vec![anchor], files).findings;
    let anchor = whole.last.unwrap();
    assert_eq!(anchored(&[&log], anchor), []);
    assert_eq!(anchored(&[&short], anchor), [AuditFinding::AnchorMissing { seq: 15 }]);
    let other = AuditAnchor { seq: 3, hash: anchor.hash };
    assert!(matches!(anchored(&[&log], other)[..], [AuditFinding::AnchorDiffers { seq: 3, .. }]));
    assert_eq!(anchor.to_string().parse(), Ok(anchor));
}

#[test]
fn a_torn_line_that_was_closed_off_is_a_note_and_what_is_left_of_it_is_covered() {
    let world = World::new();
    let mut log = Vec::new();
    let mut position = ChainPosition::START.append_mark(&world.header, &mut log).unwrap();
    position = record(position, 1, &mut log);
    let fragment = br#"{"seq":2,"prev":"AAAA"#;
    log.extend_from_slice(fragment);
    let open = verify(&[&log]);
    assert!(open.is_intact());
    assert_eq!(open.notes, [AuditNote::TornEnd { at: line(3) }]);
    log.push(b'\n');
    position =
        position.append_mark(&AuditGap::torn_line(TIME.to_owned(), fragment), &mut log).unwrap();
    position = record(position, 2, &mut log);
    world.checkpoint(position, &mut log);
    let verdict = verify(&[&log]);
    assert!(verdict.is_intact(), "{:?}", verdict.findings);
    let torn = AuditNote::Torn { at: line(3), bytes: 21 };
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
fn a_line_that_lacks_only_its_end_is_torn_too() {
    let world = World::new();
    let mut log = Vec::new();
    let position = ChainPosition::START.append_mark(&world.header, &mut log).unwrap();
    let start = log.len();
    record(position, 1, &mut log);
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
fn line_ends_are_covered_and_the_one_before_the_last_signature_is_missed() {
    let world = World::new();
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
        // The last record and its signature are one line now, which reads as a record. What it says is not believed to be signed.
        let verdict = changed(*before_last, bit);
        assert_eq!((verdict.unsigned, verdict.signed.unwrap().seq), (2, 6));
    }
}

#[test]
fn a_chain_goes_on_over_files_and_a_missing_file_is_a_hole() {
    let world = World::new();
    let (mut files, mut position) = (Vec::new(), ChainPosition::START);
    for number in 0..3 {
        let mut file = Vec::new();
        position = position.append_mark(&world.header, &mut file).unwrap();
        position = record(position, number, &mut file);
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
fn a_key_counts_only_if_the_operator_vouches_for_it() {
    let world = World::new();
    let log = world.log(3);
    let untrusted = |trusting| match &verify_with(trusting, Vec::new(), &[&log]).findings[..] {
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
    // A caller's token, or one in another name, says nothing about a node.
    for (role, name) in [(UserRole::Caller, "db1.acme.net"), (UserRole::Node, "web1.acme.net")] {
        let other = World::of(role, name, 9);
        let verdict = verify(&[&other.log(3)]);
        assert!(
            matches!(verdict.findings[0], AuditFinding::Untrusted { .. }),
            "{:?}",
            verdict.findings
        );
    }
}

#[test]
fn what_the_daemon_itself_missed_is_a_finding() {
    let world = World::new();
    let mut log = Vec::new();
    let position = ChainPosition::START.append_mark(&world.header, &mut log).unwrap();
    let position =
        position.append_mark(&AuditGap::missing_lines(TIME.to_owned(), 40), &mut log).unwrap();
    world.checkpoint(position, &mut log);
    let lost = AuditFinding::Lost { at: line(2), written: 40 };
    assert_eq!(verify(&[&log]).findings, [lost]);
    assert_eq!(verify(&[b""]).findings, [AuditFinding::Empty]);
}

/// Whether a changed log looks no worse than the original: nothing found, and signed to the same end.
fn passes(log: &[u8], changed: &[u8]) -> bool {
    let (before, after) = (verify(&[log]), verify(&[changed]));
    after.is_intact()
        && after.signed == before.signed
        && after.notes.is_empty()
        && after.unsigned == 0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_single_byte_can_be_changed(records in 1_u64..12, at in any::<prop::sample::Index>(), bit in 0_u32..8) {
        let log = World::new().log(records);
        let mut changed = log.clone();
        let at = at.index(log.len());
        changed[at] ^= 1 << bit;
        prop_assert!(!passes(&log, &changed));
        // And it is a finding, except where the log's end itself was torn, and in the last checkpoint or the line end before it: if its
        // mark is hurt, or does not begin a line, it reads as one more record that nobody has signed yet.
        let verdict = verify(&[&changed]);
        let last = lines(&log).last().map_or(0, Vec::len);
        if at + 1 < log.len() && verdict.is_intact() {
            prop_assert!(at + 1 >= log.len() - last);
            prop_assert!(verdict.unsigned > 0);
        }
    }

    #[test]
    fn no_byte_can_be_put_in_or_taken_out(records in 1_u64..12, at in any::<prop::sample::Index>(), byte in any::<u8>(), put in any::<bool>()) {
        let log = World::new().log(records);
        let mut changed = log.clone();
        let at = at.index(log.len());
        if put {
            changed.insert(at, byte);
        } else {
            changed.remove(at);
        }
        prop_assert!(changed == log || !passes(&log, &changed));
    }

    #[test]
    fn no_line_can_be_taken_out_repeated_or_moved(records in 2_u64..12, from in any::<prop::sample::Index>(), to in any::<prop::sample::Index>(), how in 0..3) {
        let log = World::new().log(records);
        let mut lines = lines(&log);
        let (from, to) = (from.index(lines.len()), to.index(lines.len()));
        match how {
            0 => drop(lines.remove(from)),
            1 => lines.insert(to, lines[from].clone()),
            _ => lines.swap(from, to),
        }
        let changed = lines.concat();
        prop_assert!(changed == log || !passes(&log, &changed));
    }

    #[test]
    fn a_truncated_log_is_signed_less_far(records in 1_u64..12, at in any::<prop::sample::Index>()) {
        let log = World::new().log(records);
        prop_assert!(!passes(&log, &log[..at.index(log.len())]));
    }

    #[test]
    fn any_bytes_are_read_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(!verify(&[&bytes]).is_intact() || bytes.iter().all(|byte| *byte != b'\n'));
    }
}
