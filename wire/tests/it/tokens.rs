//! Verification of tokens: issuers, roles, expiry, revocation, updates, and the cache.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use muster_wire::fresh::CLOCK_SKEW_MILLIS;
use muster_wire::token::claims::{AccountClaims, UserClaims};
use muster_wire::token::decode::decode_token;
use muster_wire::token::encode::{self, TokenValidity};
use muster_wire::token::{AccountTrust, KeyKind, TokenCache, TokenError, UserRole};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{ISSUED, NOW, TestOrganisation, identity, key};

pub(crate) fn alice(world: &TestOrganisation, validity: TokenValidity) -> String {
    world.token(UserRole::Caller, "alice", &key(KeyKind::User, 100), validity)
}

pub(crate) fn refused(world: &TestOrganisation, token: &str) -> &'static str {
    world.trust.verify_user(token, NOW).unwrap_err().reason_code()
}

/// A token with changed claims or header, signed correctly by this key.
pub(crate) fn resigned(
    token: &str,
    by: &muster_wire::token::KeyPair,
    part: usize,
    change: impl FnOnce(&mut Value),
) -> String {
    let mut parts: Vec<String> = token.split('.').map(str::to_owned).collect();
    let mut json = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(&parts[part]).unwrap()).unwrap();
    change(&mut json);
    parts[part] = URL_SAFE_NO_PAD.encode(json.to_string());
    let content = format!("{}.{}", parts[0], parts[1]);
    let signature = URL_SAFE_NO_PAD.encode(by.sign(content.as_bytes()).to_bytes());
    format!("{content}.{signature}")
}

#[test]
fn role_follows_from_the_signing_key() {
    let world = TestOrganisation::new();
    for role in UserRole::ALL {
        let token =
            world.token(role, "x.y", &key(KeyKind::User, 9), TokenValidity::without_end(ISSUED));
        let user_of_token = world.trust.verify_user(&token, NOW).unwrap();
        assert_eq!((user_of_token.role, user_of_token.identity.as_str()), (role, "x.y"));
        assert_eq!(user_of_token.key, key(KeyKind::User, 9).public_key());
        assert_eq!((user_of_token.issued_at, user_of_token.expires), (ISSUED * 1000, None));
        assert_eq!(user_of_token.tags, ["agent:puppetral"]);
    }
}

#[test]
fn only_role_keys_of_the_account_issue_tokens() {
    let world = TestOrganisation::new();
    let other = TestOrganisation::with_seed(11);
    assert_eq!(
        refused(&world, &alice(&other, TokenValidity::without_end(ISSUED))),
        "unknown_issuer"
    );
    // The account's own key, and a role key with another account's name, are refused.
    let nats = UserClaims::new(world.account.public_key(), vec![]);
    let user = key(KeyKind::User, 9).public_key();
    let validity = TokenValidity::without_end(ISSUED);
    let own =
        encode::issue_user_token(&identity("a"), user, nats, validity, &world.account).unwrap();
    assert_eq!(refused(&world, &own), "unknown_issuer");
    let nats = UserClaims::new(other.account.public_key(), vec![]);
    let key = world.role_key(UserRole::Node);
    let foreign = encode::issue_user_token(&identity("a"), user, nats, validity, key).unwrap();
    assert_eq!(refused(&world, &foreign), "foreign_account");
}

#[test]
fn key_of_an_unknown_role_issues_no_tokens() {
    let world = TestOrganisation::new();
    let token = world.account_token(ISSUED + 1, |account| {
        let mut json = serde_json::to_value(&*account).unwrap();
        json["signing_keys"][1]["role"] = json!("ops");
        *account = serde_json::from_value(json).unwrap();
    });
    let trust = world.trust.update(&token).unwrap();
    let error =
        trust.verify_user(&alice(&world, TokenValidity::without_end(ISSUED)), NOW).unwrap_err();
    assert_eq!(error.reason_code(), "unknown_issuer");
}

#[test]
fn token_expires_after_the_tolerated_skew() {
    let world = TestOrganisation::new();
    let expires = NOW / 1000;
    let token = alice(&world, TokenValidity { issued_at: ISSUED, expires: Some(expires) });
    assert!(world.trust.verify_user(&token, NOW + CLOCK_SKEW_MILLIS).is_ok());
    let error = world.trust.verify_user(&token, NOW + CLOCK_SKEW_MILLIS + 1).unwrap_err();
    assert_eq!(error.reason_code(), "token_expired");
    let role_key = world.role_key(UserRole::Caller);
    let later = resigned(&token, role_key, 1, |claims| {
        claims["nbf"] = json!(expires + 31);
    });
    assert_eq!(refused(&world, &later), "token_not_yet");
}

#[test]
fn revocation_applies_to_tokens_issued_before_it() {
    let world = TestOrganisation::new();
    let old = alice(&world, TokenValidity::without_end(ISSUED));
    let new = alice(&world, TokenValidity::without_end(ISSUED + 11));
    let user = key(KeyKind::User, 100).public_key();
    let revoked = world.account_token(ISSUED + 1, |account| {
        account.revoke_user(&user, ISSUED + 10);
    });
    let trust = world.trust.update(&revoked).unwrap();
    assert_eq!(trust.verify_user(&old, NOW).unwrap_err().reason_code(), "revoked");
    assert!(trust.verify_user(&new, NOW).is_ok());
    let all = world.account_token(ISSUED + 2, |account| {
        account.revocations.insert("*".to_owned(), ISSUED + 11);
    });
    assert_eq!(
        trust.update(&all).unwrap().verify_user(&new, NOW).unwrap_err().reason_code(),
        "revoked"
    );
}

#[test]
fn update_must_be_newer_and_of_the_same_operator_and_account() {
    let world = TestOrganisation::new();
    let same = world.account_token(ISSUED, |_| {});
    assert!(matches!(world.trust.update(&same), Err(TokenError::NotNewer { .. })));
    let older = world.account_token(ISSUED - 1, |_| {});
    assert!(matches!(world.trust.update(&older), Err(TokenError::NotNewer { .. })));
    let foreign = TestOrganisation::with_seed(11).account_token(ISSUED + 1, |_| {});
    assert!(matches!(world.trust.update(&foreign), Err(TokenError::Foreign { .. })));
    // Another account of the same operator.
    let validity = TokenValidity::without_end(ISSUED + 1);
    let account = key(KeyKind::Account, 60).public_key();
    let nats = world.trust.claims().nats.clone();
    let other =
        encode::issue_account_token("lab", account, nats, validity, &world.operator).unwrap();
    assert!(matches!(world.trust.update(&other), Err(TokenError::Foreign { .. })));
    let next = TokenValidity::without_end_after(world.trust.issued_at(), 0);
    assert_eq!(next.issued_at, ISSUED + 1);
    assert!(world.trust.update(&world.account_token(next.issued_at, |_| {})).is_ok());
}

#[test]
fn account_token_requires_the_signature_of_the_operator() {
    let world = TestOrganisation::new();
    let forged = resigned(world.trust.account_token(), &key(KeyKind::Operator, 77), 1, |_| {});
    let error = AccountTrust::new(world.operator.public_key(), &forged).unwrap_err();
    assert_eq!(error.reason_code(), "token_signature");
    let error =
        AccountTrust::new(world.account.public_key(), world.trust.account_token()).unwrap_err();
    assert_eq!(error.reason_code(), "token_malformed");
}

#[test]
fn invalid_algorithm_type_version_and_name_are_refused() {
    let world = TestOrganisation::new();
    let token = alice(&world, TokenValidity::without_end(ISSUED));
    let by = world.role_key(UserRole::Caller);
    let with = |part, pointer: &str, value: Value| {
        resigned(&token, by, part, |json| {
            *json.pointer_mut(pointer).unwrap() = value;
        })
    };
    for (token, word) in [
        (with(0, "/alg", json!("none")), "token_algorithm"),
        (with(0, "/alg", json!("ed25519")), "token_algorithm"),
        (with(0, "/typ", json!("JWE")), "token_algorithm"),
        (with(1, "/nats/version", json!(1)), "token_malformed"),
        (with(1, "/nats/type", json!("account")), "token_malformed"),
        (with(1, "/sub", json!(world.account.public_key())), "token_malformed"),
        (with(1, "/iat", json!(-1)), "token_malformed"),
        (with(1, "/name", json!("Alice")), "token_name"),
        (with(1, "/name", json!("a.>")), "token_name"),
        (with(1, "/name", json!("")), "token_name"),
        (resigned(&token, by, 0, |json| json["jku"] = json!("http://x")), "token_malformed"),
        (resigned(&token, &key(KeyKind::Account, 50), 1, |_| {}), "token_signature"),
        (format!("{token}="), "token_malformed"),
        (format!("{token}.x"), "token_malformed"),
        (String::new(), "token_malformed"),
        ("..".to_owned(), "token_malformed"),
        ("x".repeat(17 * 1024), "token_oversized"),
    ] {
        assert_eq!(refused(&world, &token), word, "{token}");
    }
}

#[test]
fn reissued_token_keeps_unknown_fields() {
    let world = TestOrganisation::new();
    let with_more = resigned(world.trust.account_token(), &world.operator, 1, |claims| {
        claims["nats"]["exports"] = json!([{"name": "x", "subject": "x.>", "type": "stream"}]);
        claims["nats"]["limits"]["max_ack_pending"] = json!(7);
    });
    let claims = decode_token::<AccountClaims>(&with_more).unwrap().verify_signature().unwrap();
    let validity = TokenValidity::without_end(ISSUED + 1);
    let again =
        encode::issue_account_token("fleet", claims.sub, claims.nats, validity, &world.operator)
            .unwrap();
    let payload = URL_SAFE_NO_PAD.decode(again.split('.').nth(1).unwrap()).unwrap();
    let json: Value = serde_json::from_slice(&payload).unwrap();
    assert_eq!(json["nats"]["exports"][0]["subject"], "x.>");
    assert_eq!(json["nats"]["limits"]["max_ack_pending"], 7);
    assert_eq!(json["nats"]["limits"]["conn"], -1);
}

#[test]
fn cache_respects_expiry_revocation_and_trust() {
    let world = TestOrganisation::new();
    let cache = TokenCache::new(2);
    let token = alice(&world, TokenValidity { issued_at: ISSUED, expires: Some(NOW / 1000 + 10) });
    let first = cache.verify_user(&world.trust, &token, NOW).unwrap();
    let second = cache.verify_user(&world.trust, &token, NOW).unwrap();
    assert!(std::sync::Arc::ptr_eq(&first, &second) && cache.len() == 1);
    let late =
        cache.verify_user(&world.trust, &token, NOW + 10_001 + CLOCK_SKEW_MILLIS).unwrap_err();
    assert_eq!(late.reason_code(), "token_expired");
    let user = first.key;
    let trust = world
        .trust
        .update(&world.account_token(ISSUED + 1, |a| a.revoke_user(&user, ISSUED)))
        .unwrap();
    assert_eq!(cache.verify_user(&trust, &token, NOW).unwrap_err().reason_code(), "revoked");
    assert!(cache.is_empty());
    for seed in 0..5 {
        let token = world.token(
            UserRole::Node,
            "n",
            &key(KeyKind::User, seed),
            TokenValidity::without_end(ISSUED),
        );
        cache.verify_user(&trust, &token, NOW).unwrap();
        assert!((1..=2).contains(&cache.len()));
    }
}

proptest! {
    #[test]
    fn changed_token_is_refused(place in 0..600_usize, byte in 0x20..0x7f_u8) {
        let world = TestOrganisation::new();
        let token = alice(&world, TokenValidity::without_end(ISSUED));
        let mut bytes = token.clone().into_bytes();
        let place = place % bytes.len();
        bytes[place] = byte;
        let changed = String::from_utf8(bytes).unwrap();
        prop_assert_eq!(world.trust.verify_user(&changed, NOW).is_ok(), changed == token);
    }

    #[test]
    fn arbitrary_text_does_not_panic(text in "\\PC{0,80}|[A-Za-z0-9_-]{0,60}\\.[A-Za-z0-9_-]{0,60}\\.[A-Za-z0-9_-]{86}") {
        prop_assert!(decode_token::<UserClaims>(&text).is_err());
    }
}

/// An exported cache saves the verification of signatures and no other check.
#[test]
fn imported_token_is_still_checked_except_for_its_signature() {
    let world = TestOrganisation::new();
    let keeper = key(KeyKind::User, 99);
    let node = world.signer(UserRole::Node, "db1.acme.net", 50);
    let token = node.token();
    let verified_cache = TokenCache::default();
    verified_cache.verify_user(&world.trust, &token, NOW).unwrap();
    let bytes = verified_cache.export_verified(&world.trust, &keeper, NOW).unwrap();

    let later = TokenCache::default();
    assert_eq!(later.import_verified(&world.trust, keeper.public_key(), &bytes, NOW), 1);
    later.verify_user(&world.trust, &token, NOW).unwrap();
    // Its signature was not verified again; the signatures of other tokens are.
    let other = world.signer(UserRole::Node, "db2.acme.net", 51);
    let other_token = other.token();
    let (content, _) = other_token.rsplit_once('.').unwrap();
    let (_, signature) = token.rsplit_once('.').unwrap();
    let forged = format!("{content}.{signature}");
    let refused = later.verify_user(&world.trust, &forged, NOW);
    assert!(matches!(refused, Err(TokenError::Signature { .. })), "{refused:?}");

    // A revocation changes the trust, and the export does not apply to the changed trust.
    let revoked = world.account_token(ISSUED + 1, |account| {
        let revocations = &mut account.revocations;
        revocations.insert(node.public_key().to_string(), NOW / 1000);
    });
    let changed = world.trust.update(&revoked).unwrap();
    let later = TokenCache::default();
    assert_eq!(later.import_verified(&changed, keeper.public_key(), &bytes, NOW), 0);
    assert_eq!(later.import_verified(&world.trust, other.public_key(), &bytes, NOW), 0);
    let refused = later.verify_user(&changed, &token, NOW);
    assert!(matches!(refused, Err(TokenError::Revoked { .. })), "{refused:?}");
}
