//! Tokens, and their claims apart from base64 and signature, so that the fuzzer reaches them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_wire::token::claims::{Account, Claims, Operator, User};
use muster_wire::token::decode::decode;
use muster_wire::token::{KeyPair, PublicKey};

fuzz_target!(|bytes: &[u8]| {
    let _ = serde_json::from_slice::<Claims<User>>(bytes);
    let _ = serde_json::from_slice::<Claims<Operator>>(bytes);
    if let Ok(claims) = serde_json::from_slice::<Claims<Account>>(bytes) {
        let again = serde_json::to_vec(&claims).expect("claims are written");
        let read: Claims<Account> = serde_json::from_slice(&again).expect("and read back");
        assert_eq!(read, claims);
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = decode::<User>(text);
    let _ = decode::<Account>(text);
    let _ = KeyPair::from_seed(text);
    if let Ok(key) = PublicKey::parse(text) {
        assert_eq!(key.to_string(), text);
    }
});
