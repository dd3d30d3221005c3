//! Tokens, and their claims without base64 and signature, so that the fuzzer reaches the claims.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_wire::token::claims::{AccountClaims, OperatorClaims, TokenClaims, UserClaims};
use muster_wire::token::decode::decode_token;
use muster_wire::token::{KeyPair, PublicKey};

fuzz_target!(|bytes: &[u8]| {
    let _ = serde_json::from_slice::<TokenClaims<UserClaims>>(bytes);
    let _ = serde_json::from_slice::<TokenClaims<OperatorClaims>>(bytes);
    if let Ok(claims) = serde_json::from_slice::<TokenClaims<AccountClaims>>(bytes) {
        let again = serde_json::to_vec(&claims).expect("claims are written");
        let read: TokenClaims<AccountClaims> =
            serde_json::from_slice(&again).expect("and read back");
        assert_eq!(read, claims);
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let _ = decode_token::<UserClaims>(text);
    let _ = decode_token::<AccountClaims>(text);
    let _ = KeyPair::from_seed(text);
    if let Ok(key) = PublicKey::parse(text) {
        assert_eq!(key.to_string(), text);
    }
});
