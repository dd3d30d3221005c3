//! Messages that must be refused, each with its reason code, as counters and the audit log show it.

use muster_wire::sign::{EnvelopeKind, Signer, open_progress, open_reply, open_request};
use muster_wire::status::ReplyStatus;
use muster_wire::subject::RequestAddress;
use muster_wire::token::encode::TokenValidity;
use muster_wire::token::{TokenCache, UserRole};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{
    ISSUED, NOW, TestOrganisation, broadcast, expected, identity, name, reply, request, sealed,
};

fn reason_code_of(world: &TestOrganisation, bytes: &[u8], subject: &str) -> &'static str {
    let subject = RequestAddress::parse(subject).unwrap();
    let cache = TokenCache::default();
    open_request(bytes, &subject, &world.trust, &cache, NOW).unwrap_err().reason_code()
}

fn body() -> Value {
    serde_json::to_value(request(&["db1.acme.net"])).unwrap()
}

/// A valid request with a changed body, correctly signed by alice.
fn signed_with(world: &TestOrganisation, change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut body = body();
    change(&mut body);
    sealed(EnvelopeKind::Request, &body, &world.caller())
}

const ALL: &str = "fleet.puppetral.do.all";

#[test]
fn body_must_be_a_valid_request() {
    let world = TestOrganisation::new();
    for (pointer, value) in [
        ("/surprise", json!(1)),
        ("/ttl", json!(0)),
        ("/ttl", json!(86_400_001)),
        ("/ttl", json!(-1)),
        ("/ttl", json!(1.5)),
        ("/target", json!({})),
        ("/target", json!({"nodes": []})),
        ("/target", json!({"nodes": ["a"], "filter": {}})),
        ("/target", json!({"nodes": (0..20_001).map(|n| format!("n{n}")).collect::<Vec<_>>()})),
        ("/target", json!({"everything": true})),
        ("/id", json!("00000000-0000-4000-8000-000000000000")),
        ("/caller", json!("a b")),
        ("/agent", json!("a.b")),
        ("/data", json!([])),
    ] {
        let bytes = signed_with(&world, |body| body[&pointer[1..]] = value.clone());
        assert_eq!(reason_code_of(&world, &bytes, ALL), "invalid_request", "{pointer} {value}");
    }
    for field in ["id", "caller", "collective", "agent", "action", "target", "issued_at", "ttl"] {
        let bytes = signed_with(&world, |body| {
            drop(body.as_object_mut().unwrap().remove(field));
        });
        assert_eq!(reason_code_of(&world, &bytes, ALL), "invalid_request", "without {field}");
    }
}

#[test]
fn duplicate_fields_and_deep_nesting_in_the_body_are_refused() {
    let world = TestOrganisation::new();
    let raw = |text: String| {
        let raw = serde_json::value::RawValue::from_string(text).unwrap();
        sealed(EnvelopeKind::Request, &raw, &world.caller())
    };
    let twice = body().to_string().replacen('{', r#"{"agent":"puppetral","#, 1);
    assert_eq!(reason_code_of(&world, &raw(twice), ALL), "invalid_request");
    // Duplicate fields in the caller's own values are refused at every depth.
    for twice in [
        r#"{"name":"rip","name":"eve"}"#,
        r#"{"name":"rip","properties":{"uid":1,"uid":0}}"#,
        r#"{"name":"rip","list":[[{"a":1,"\u0061":2}]]}"#,
    ] {
        let good = r#"{"name":"rip","type":"user"}"#;
        let text = body().to_string();
        assert!(text.contains(good), "{text}");
        assert_eq!(
            reason_code_of(&world, &raw(text.replace(good, twice)), ALL),
            "invalid_request",
            "{twice}"
        );
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(reason_code_of(&world, &raw(deep.clone()), ALL), "invalid_request");
    let inside = body().to_string().replace("\"rip\"", &deep);
    assert_eq!(reason_code_of(&world, &raw(inside), ALL), "invalid_request");
}

#[test]
fn subject_and_body_must_agree() {
    let world = TestOrganisation::new();
    let bytes = sealed(EnvelopeKind::Request, &request(&["db1.acme.net"]), &world.caller());
    for subject in [
        "lab.puppetral.do.all",
        "fleet.service.do.all",
        "fleet.puppetral.undo.all",
        "fleet.puppetral.do.node.db2.acme.net",
    ] {
        assert_eq!(reason_code_of(&world, &bytes, subject), "subject_mismatch", "{subject}");
    }
    let bytes = signed_with(&world, |body| body["caller"] = json!("bob"));
    assert_eq!(reason_code_of(&world, &bytes, ALL), "wrong_sender");
}

#[test]
fn requests_and_replies_require_the_matching_role() {
    let world = TestOrganisation::new();
    let cache = TokenCache::default();
    for role in [UserRole::Node, UserRole::Newcomer] {
        let signer = world.signer(role, "alice", 9);
        let bytes = sealed(EnvelopeKind::Request, &request(&["db1.acme.net"]), &signer);
        assert_eq!(reason_code_of(&world, &bytes, ALL), "wrong_role");
    }
    let asked = request(&["db1.acme.net"]);
    for role in [UserRole::Caller, UserRole::Newcomer] {
        let signer = world.signer(role, "db1.acme.net", 9);
        let bytes = sealed(EnvelopeKind::Reply, &reply(), &signer);
        let refusal = open_reply(&bytes, &expected(&asked), &world.trust, &cache, NOW).unwrap_err();
        assert_eq!(refusal.reason_code(), "wrong_role");
        assert_eq!(refusal.sender(), Some(&identity("db1.acme.net")));
    }
}

#[test]
fn message_with_an_invalid_token_is_refused() {
    let world = TestOrganisation::new();
    let asked = request(&["db1.acme.net"]);
    let code_for_signer = |signer: &Signer| {
        reason_code_of(&world, &sealed(EnvelopeKind::Request, &asked, signer), ALL)
    };
    assert_eq!(code_for_signer(&TestOrganisation::with_seed(11).caller()), "unknown_issuer");
    let expired = TokenValidity { issued_at: ISSUED, expires: Some(ISSUED + 60) };
    assert_eq!(
        code_for_signer(&world.signer_for(UserRole::Caller, "alice", 100, expired)),
        "token_expired"
    );
    let caller = world.caller();
    let token = world.account_token(ISSUED + 1, |account| {
        account.revoke_user(&caller.public_key(), ISSUED);
    });
    let trust = world.trust.update(&token).unwrap();
    let bytes = sealed(EnvelopeKind::Request, &asked, &caller);
    let refusal = open_request(&bytes, &broadcast(), &trust, &TokenCache::default(), NOW);
    assert_eq!(refusal.unwrap_err().reason_code(), "revoked");
}

#[test]
fn tampering_is_detected() {
    let world = TestOrganisation::new();
    let bytes = sealed(EnvelopeKind::Request, &request(&["db1.acme.net"]), &world.caller());
    let text = String::from_utf8(bytes).unwrap();
    let other = world.signer(UserRole::Caller, "bob", 103);
    let stronger = world.signer(UserRole::Service, "alice", 100);
    for (changed, expected_code) in [
        (text.replace("\"rip\"", "\"rap\""), "bad_signature"),
        (text.replace("\"type\":", "\"type\": "), "bad_signature"),
        (text.replace(&*world.caller().token(), &other.token()), "bad_signature"),
        (text.replace("\"signature\":\"", "\"signature\":\"A"), "bad_signature"),
        (text.replace("\"token\":\"ey", "\"token\":\"fy"), "token_malformed"),
        (text.replace("request.v1", "request.v2"), "unknown_protocol"),
        (text.replace("request.v1", "reply.v1"), "unknown_protocol"),
    ] {
        assert_ne!(changed, text);
        assert_eq!(reason_code_of(&world, changed.as_bytes(), ALL), expected_code, "{changed}");
    }
    // The same key under a token of another role: the message is still signed by alice, so it is accepted.
    let again = text.replace(&*world.caller().token(), &stronger.token());
    let cache = TokenCache::default();
    assert!(open_request(again.as_bytes(), &broadcast(), &world.trust, &cache, NOW).is_ok());
}

#[test]
fn reply_is_refused_as_a_request() {
    let world = TestOrganisation::new();
    let service = world.signer(UserRole::Service, "alice", 104);
    let bytes = sealed(EnvelopeKind::Reply, &request(&["db1.acme.net"]), &service);
    assert_eq!(reason_code_of(&world, &bytes, ALL), "unknown_protocol");
    let renamed = String::from_utf8(bytes).unwrap().replace("muster.reply", "muster.request");
    assert_eq!(reason_code_of(&world, renamed.as_bytes(), ALL), "bad_signature");
}

#[test]
fn invalid_envelopes_are_malformed() {
    let world = TestOrganisation::new();
    let good = String::from_utf8(signed_with(&world, |_| {})).unwrap();
    let deep = "[".repeat(200_000);
    for text in [
        "",
        "null",
        "{}",
        "[]",
        "\u{0}",
        &deep,
        &good[..good.len() - 1],
        &format!("{good}x"),
        &good.replacen('{', "{\"extra\":1,", 1),
        &good.replacen('{', "{\"body\":{},", 1),
        &good.replacen("muster", "\\u006duster", 1),
    ] {
        assert_eq!(reason_code_of(&world, text.as_bytes(), ALL), "malformed");
    }
    assert_eq!(reason_code_of(&world, b"\xff\xfe{}", ALL), "malformed");
    assert_eq!(
        reason_code_of(&world, &vec![b' '; EnvelopeKind::Request.max_bytes() + 1], ALL),
        "oversized"
    );
}

#[test]
fn reply_must_match_the_request() {
    let world = TestOrganisation::new();
    let asked = request(&["db1.acme.net"]);
    let cache = TokenCache::default();
    let reply_result = |answer: &muster_wire::reply::Reply| {
        let bytes = sealed(EnvelopeKind::Reply, answer, &world.node());
        let opened = open_reply(&bytes, &expected(&asked), &world.trust, &cache, NOW);
        opened.map_or_else(|refusal| refusal.reason_code(), |_| "accepted")
    };
    let mut answer = reply();
    assert_eq!(reply_result(&answer), "accepted");
    answer.agent = name("service");
    assert_eq!(reply_result(&answer), "other_request");
    answer = reply();
    answer.action = name("undo");
    assert_eq!(reply_result(&answer), "other_request");
    answer = reply();
    answer.request = uuid::Uuid::nil();
    assert_eq!(reply_result(&answer), "other_request");
    answer = reply();
    answer.sender = identity("db2.acme.net");
    assert_eq!(reply_result(&answer), "wrong_sender");
    answer = reply();
    answer.statuscode = ReplyStatus::Other;
    assert_eq!(reply_result(&answer), "accepted");
}

/// A service has a valid token, but cannot reply, report progress or send requests in the name of another user.
#[test]
fn service_acts_under_its_own_name_only() {
    let world = TestOrganisation::new();
    let cache = TokenCache::default();
    let service = world.signer(UserRole::Service, "directory", 102);
    let asked = request(&["db1.acme.net"]);
    let bytes = sealed(EnvelopeKind::Reply, &reply(), &service);
    let refusal = open_reply(&bytes, &expected(&asked), &world.trust, &cache, NOW).unwrap_err();
    assert_eq!(refusal.reason_code(), "wrong_sender");
    let mut progress = serde_json::to_value(reply()).unwrap();
    let fields = progress.as_object_mut().unwrap();
    fields.retain(|field, _| {
        ["request", "sender", "agent", "action", "time"].contains(&field.as_str())
    });
    fields.insert("seq".to_owned(), json!(1));
    fields.insert("events".to_owned(), json!([]));
    let bytes = sealed(EnvelopeKind::Progress, &progress, &service);
    let opened = open_progress(&[bytes], &expected(&asked), &world.trust, &cache, NOW);
    assert_eq!(opened[0].as_ref().unwrap_err().reason_code(), "wrong_sender");
    let bytes = sealed(EnvelopeKind::Request, &asked, &service);
    assert_eq!(reason_code_of(&world, &bytes, ALL), "wrong_sender");
}

proptest! {
    /// Small alphabets make matches frequent. A request opens on the subjects that it names and on no other.
    #[test]
    fn request_opens_only_on_the_subjects_that_it_names(
        signed_names in ["fleet|lab", "puppetral|shell", "do|run"],
        nodes in prop::collection::btree_set("db[1-3]", 1..3),
        asked in ["fleet|lab", "puppetral|shell", "do|run"],
        node in prop::option::of("db[1-4]"),
    ) {
        let world = TestOrganisation::new();
        let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
        let mut body = request(&nodes);
        body.collective = name(&signed_names[0]);
        body.agent = name(&signed_names[1]);
        body.action = name(&signed_names[2]);
        let bytes = sealed(EnvelopeKind::Request, &body, &world.caller());
        let target = node.as_ref().map_or_else(|| "all".to_owned(), |node| format!("node.{node}"));
        let subject = RequestAddress::parse(&format!("{}.{target}", asked.join("."))).unwrap();
        let opened = open_request(&bytes, &subject, &world.trust, &TokenCache::default(), NOW);
        let named = node.is_none_or(|node| nodes.contains(&node.as_str()));
        prop_assert_eq!(opened.is_ok(), signed_names == asked && named);
    }
}
