//! Audit logs: arbitrary bytes verify without panic, and a log without a header is never intact.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_wire::audit::{AUDIT_FORMAT, AuditKeyTrust, AuditLineKind, ChainLink, ChainVerifier};

fuzz_target!(|bytes: &[u8]| {
    let mut verifier = ChainVerifier::new(AuditKeyTrust::Keys(Vec::new()), Vec::new());
    for line in bytes.split(|byte| *byte == b'\n') {
        if line == b"--" {
            verifier.begin_next_file();
        } else if line.starts_with(b"~") {
            verifier.push_torn_end(line);
        } else {
            verifier.push_line(line);
        }
        if let Some((link, _)) = AuditLineKind::parse_line(line) {
            assert_eq!(ChainLink::parse_line(line).map(|link| link.seq), Some(link.seq));
        }
    }
    let verdict = verifier.finish();
    let has_header = bytes.windows(AUDIT_FORMAT.len()).any(|part| part == AUDIT_FORMAT.as_bytes());
    assert!(has_header || !verdict.is_intact());
});
