//! Credential files.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_wire::token::UserCredentials;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(creds) = UserCredentials::parse(text) {
        let again = UserCredentials::parse(&creds.to_text()).expect("what is written reads back");
        assert_eq!(again.jwt(), creds.jwt());
    }
});
