//! The text of credentials.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_wire::token::Creds;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(creds) = Creds::parse(text) {
        let again = Creds::parse(&creds.format()).expect("what is written reads back");
        assert_eq!(again.jwt(), creds.jwt());
    }
});
