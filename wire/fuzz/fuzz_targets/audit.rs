//! Audit logs: whatever is read gives a verdict, and a log without a header of a node is never called intact.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_wire::audit::{FORMAT, Link, Mark, Trusting, Verifier};

fuzz_target!(|bytes: &[u8]| {
    let mut verifier = Verifier::new(Trusting::Keys(Vec::new()), Vec::new());
    for line in bytes.split(|byte| *byte == b'\n') {
        if line == b"--" {
            verifier.next_file();
        } else if line.starts_with(b"~") {
            verifier.torn_end(line);
        } else {
            verifier.line(line);
        }
        if let Some((link, _)) = Mark::read(line) {
            assert_eq!(Link::read(line).map(|link| link.seq), Some(link.seq));
        }
    }
    let verdict = verifier.finish();
    let said = bytes
        .windows(FORMAT.len())
        .any(|part| part == FORMAT.as_bytes());
    assert!(said || !verdict.is_intact());
});
