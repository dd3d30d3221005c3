//! Signing and opening messages, individually and in batches.

use muster_filter::NodeFilter;
use muster_wire::event::FleetEvent;
use muster_wire::limits::MAX_EVENT_TEXT_BYTES;
use muster_wire::progress::{MAX_PROGRESS_MESSAGES, ProgressMessage};
use muster_wire::request::RequestTarget;
use muster_wire::sign::{
    Envelope, EnvelopeKind, EnvelopeSignError, open_event, open_progress, open_replies, open_reply,
    open_request, sign_envelope,
};
use muster_wire::subject::{EventAddress, RequestAddress};
use muster_wire::token::{KeyKind, TokenCache, UserRole};
use proptest::prelude::*;
use serde_json::{Map, Value};

use crate::world::{
    NOW, TestOrganisation, broadcast, data, expected, identity, key, reply, request, sealed,
};

#[test]
fn signed_request_opens_unchanged() {
    let world = TestOrganisation::new();
    let cache = TokenCache::default();
    let asked = request(&["db1.acme.net", "db2.acme.net"]);
    let bytes = sealed(EnvelopeKind::Request, &asked, &world.caller());
    for subject in ["fleet.puppetral.do.all", "fleet.puppetral.do.node.db2.acme.net"] {
        let subject = RequestAddress::parse(subject).unwrap();
        let opened = open_request(&bytes, &subject, &world.trust, &cache, NOW).unwrap();
        assert_eq!(opened.request, asked);
        assert_eq!(
            (opened.caller.role, opened.caller.identity.as_str()),
            (UserRole::Caller, "alice")
        );
    }
    assert_eq!(cache.len(), 1);
}

#[test]
fn request_with_a_filter_is_accepted_only_on_the_broadcast_subject() {
    let world = TestOrganisation::new();
    let cache = TokenCache::default();
    let filter = NodeFilter::default().with_fact("environment=development").unwrap();
    let mut asked = request(&[]);
    asked.target = RequestTarget::Filter(filter);
    let bytes = sealed(EnvelopeKind::Request, &asked, &world.caller());
    let opened = open_request(&bytes, &broadcast(), &world.trust, &cache, NOW).unwrap();
    assert_eq!(opened.request, asked);
    let one = RequestAddress::parse("fleet.puppetral.do.node.db1.acme.net").unwrap();
    let refusal = open_request(&bytes, &one, &world.trust, &cache, NOW).unwrap_err();
    assert_eq!(refusal.reason_code(), "subject_mismatch");
}

#[test]
fn service_can_send_requests_and_replies() {
    let world = TestOrganisation::new();
    let cache = TokenCache::default();
    let service = world.signer(UserRole::Service, "directory", 102);
    let mut asked = request(&["db1.acme.net"]);
    asked.caller = identity("directory");
    let bytes = sealed(EnvelopeKind::Request, &asked, &service);
    assert!(open_request(&bytes, &broadcast(), &world.trust, &cache, NOW).is_ok());
    let mut answer = reply();
    answer.sender = identity("directory");
    let bytes = sealed(EnvelopeKind::Reply, &answer, &service);
    let opened = open_reply(&bytes, &expected(&asked), &world.trust, &cache, NOW).unwrap();
    assert_eq!(opened.reply, answer);
}

#[test]
fn oversized_message_is_not_signed() {
    let world = TestOrganisation::new();
    let mut answer = reply();
    answer.data = data(serde_json::json!({"log": "x".repeat(EnvelopeKind::Reply.max_bytes())}));
    let error = sign_envelope(EnvelopeKind::Reply, &answer, &world.node()).unwrap_err();
    assert!(
        matches!(error, EnvelopeSignError::Oversized { bytes, .. } if bytes > EnvelopeKind::Reply.max_bytes())
    );
}

#[test]
fn debug_output_of_a_signer_hides_its_seed() {
    let signer = TestOrganisation::new().caller();
    let shown = format!("{signer:?}");
    assert!(shown.contains("alice") && !shown.contains(signer.key_pair().seed_text().as_str()));
}

/// Replies of `count` nodes; the listed ones are forged in one of three ways.
fn replies(world: &TestOrganisation, count: u8, forged: &[(u8, u8)]) -> Vec<Vec<u8>> {
    let other = TestOrganisation::with_seed(11);
    (0..count)
        .map(|n| {
            let name = format!("n{n}.acme.net");
            let mut answer = reply();
            answer.sender = identity(&name);
            let how = forged.iter().find(|(place, _)| *place == n).map(|(_, how)| how % 3);
            let signer =
                if how == Some(0) { &other } else { world }.signer(UserRole::Node, &name, n);
            let mut bytes = sealed(EnvelopeKind::Reply, &answer, &signer);
            let text = String::from_utf8(bytes.clone()).unwrap();
            if how == Some(1) {
                bytes = text.replace("1001", "1002").into_bytes();
            } else if how == Some(2) {
                // A token with the signature of another token.
                let other = world.signer(UserRole::Node, "other", n);
                let swap = |token: &str| token.rsplit_once('.').unwrap().1.to_owned();
                bytes = text.replace(&swap(&signer.token()), &swap(&other.token())).into_bytes();
            }
            bytes
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn batch_verification_equals_single_verification(
        count in 0..40_u8,
        forged in prop::collection::vec((0..40_u8, 0..3_u8), 0..6),
        warm: bool,
    ) {
        let world = TestOrganisation::new();
        let asked = request(&["db1.acme.net"]);
        let messages = replies(&world, count, &forged);
        let cache = TokenCache::default();
        if warm {
            for bytes in messages.iter().step_by(2) {
                let _ = open_reply(bytes, &expected(&asked), &world.trust, &cache, NOW);
            }
        }
        let together = open_replies(&messages, &expected(&asked), &world.trust, &cache, NOW);
        prop_assert_eq!(together.len(), messages.len());
        for (n, (message, result)) in messages.iter().zip(&together).enumerate() {
            let alone = open_reply(message, &expected(&asked), &world.trust, &TokenCache::default(), NOW);
            match (&alone, result) {
                (Ok(alone), Ok(result)) => prop_assert_eq!(&alone.reply, &result.reply),
                (Err(alone), Err(result)) => prop_assert_eq!(alone.reason_code(), result.reason_code()),
                _ => prop_assert!(false, "the results for reply {} differ", n),
            }
            let is_forged = forged.iter().any(|(place, _)| usize::from(*place) == n);
            prop_assert_eq!(result.is_err(), is_forged);
        }
        // A filled cache never turns a refusal into an acceptance.
        let again = open_replies(&messages, &expected(&asked), &world.trust, &cache, NOW);
        for (first, second) in together.iter().zip(&again) {
            prop_assert_eq!(first.is_ok(), second.is_ok());
        }
        // The exported cache does not either.
        let keeper = key(KeyKind::User, 99);
        if let Some(bytes) = cache.export_verified(&world.trust, &keeper, NOW) {
            let later = TokenCache::default();
            prop_assert!(later.import_verified(&world.trust, keeper.public_key(), &bytes, NOW) > 0);
            let again = open_replies(&messages, &expected(&asked), &world.trust, &later, NOW);
            for (first, second) in together.iter().zip(&again) {
                prop_assert_eq!(first.is_ok(), second.is_ok());
            }
            prop_assert_eq!(later.export_verified(&world.trust, &keeper, NOW), None);
        }
    }

    #[test]
    fn body_is_preserved_byte_for_byte(text in "\\PC{0,200}", number: i64, list: Vec<bool>) {
        let world = TestOrganisation::new();
        let body = serde_json::json!({"text": text, "number": number, "list": list, "body": {"body": null}});
        let bytes = sealed(EnvelopeKind::Request, &body, &world.caller());
        let envelope = Envelope::decode(EnvelopeKind::Request, &bytes).unwrap();
        let cache = TokenCache::default();
        let opened = envelope.verify(&world.trust, &cache, NOW, &[UserRole::Caller]).unwrap();
        prop_assert_eq!(std::str::from_utf8(opened.body).unwrap(), body.to_string());
        let read: Map<String, Value> = serde_json::from_slice(opened.body).unwrap();
        prop_assert_eq!(Value::Object(read), body);
    }

    #[test]
    fn changed_request_is_refused(place: usize, byte: u8) {
        let world = TestOrganisation::new();
        let bytes = sealed(EnvelopeKind::Request, &request(&["db1.acme.net"]), &world.caller());
        let mut changed = bytes.clone();
        let place = place % changed.len();
        changed[place] = byte;
        let cache = TokenCache::default();
        let opened = open_request(&changed, &broadcast(), &world.trust, &cache, NOW);
        prop_assert_eq!(opened.is_ok(), changed == bytes);
    }
}

fn progress(seq: u64) -> ProgressMessage {
    let answer = reply();
    ProgressMessage {
        request: answer.request,
        sender: answer.sender,
        agent: answer.agent,
        action: answer.action,
        seq,
        events: vec![Value::from("a")],
        dropped: 0,
        time: NOW,
    }
}

#[test]
fn events_are_accepted_on_the_subject_of_their_sender_and_kind_only() {
    let world = TestOrganisation::new();
    let cache = TokenCache::default();
    let event = |sender: &str| FleetEvent {
        id: reply().request,
        sender: identity(sender),
        kind: crate::world::name("restart_ok"),
        text: "httpd: restarted".into(),
        data: Map::new(),
        time: NOW,
    };
    let own = world.node().identity().to_string();
    let open = |bytes: &[u8], subject: &str| {
        open_event(bytes, &EventAddress::parse(subject).unwrap(), &world.trust, &cache, NOW)
    };
    let good = sealed(EnvelopeKind::Event, &event(&own), &world.node());
    let subject = format!("_E.restart_ok.{own}");
    assert_eq!(open(&good, &subject).unwrap(), event(&own));
    assert_eq!(EventAddress::parse(&subject).unwrap().subject(), subject);
    for (bytes, subject, code) in [
        (&good, "_E.restart_ok.db2.acme.net".to_owned(), "subject_mismatch"),
        (&good, format!("_E.restart_failed.{own}"), "subject_mismatch"),
        (
            &sealed(EnvelopeKind::Event, &event("db2.acme.net"), &world.node()),
            subject.clone(),
            "wrong_sender",
        ),
        (
            &sealed(EnvelopeKind::Event, &event(&own), &world.caller()),
            subject.clone(),
            "wrong_role",
        ),
        (
            &sealed(EnvelopeKind::Reply, &reply(), &world.node()),
            subject.clone(),
            "unknown_protocol",
        ),
    ] {
        assert_eq!(open(bytes, &subject).unwrap_err().reason_code(), code, "{subject}");
    }
    let mut long = event(&own);
    long.text = "x".repeat(MAX_EVENT_TEXT_BYTES + 1).into();
    let long = sealed(EnvelopeKind::Event, &long, &world.node());
    assert_eq!(open(&long, &subject).unwrap_err().reason_code(), "invalid_event");
    for wrong in ["_E.restart_ok", "_E.Restart.db1", "_E..db1", "_R.restart_ok.db1", "_E.x.DB1"] {
        assert_eq!(EventAddress::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn progress_is_distinct_from_replies_and_accepted_from_the_called_node_only() {
    let world = TestOrganisation::new();
    let cache = TokenCache::default();
    let asked = request(&["db1.acme.net"]);
    let good = sealed(EnvelopeKind::Progress, &progress(1), &world.node());
    let answer = sealed(EnvelopeKind::Reply, &reply(), &world.node());
    assert_eq!(EnvelopeKind::of_inbox_message(&good), EnvelopeKind::Progress);
    assert_eq!(EnvelopeKind::of_inbox_message(&answer), EnvelopeKind::Reply);
    assert_eq!(EnvelopeKind::of_inbox_message(b""), EnvelopeKind::Reply);
    let open = |bytes: &[u8]| {
        let expected = expected(&asked);
        let mut opened = open_progress(&[bytes], &expected, &world.trust, &cache, NOW);
        opened.pop().unwrap()
    };
    assert_eq!(open(&good).unwrap(), progress(1));
    // A reply does not open as progress, also with a changed protocol name; progress does not open as a reply.
    assert_eq!(open(&answer).unwrap_err().reason_code(), "unknown_protocol");
    let renamed = String::from_utf8(answer.clone()).unwrap();
    let renamed = renamed.replace("muster.reply.v1", "muster.progress.v1");
    assert_eq!(open(renamed.as_bytes()).unwrap_err().reason_code(), "bad_signature");
    let as_reply = open_reply(&good, &expected(&asked), &world.trust, &cache, NOW);
    assert_eq!(as_reply.unwrap_err().reason_code(), "unknown_protocol");

    let other = world.signer(UserRole::Node, "db2.acme.net", 120);
    let forged = sealed(EnvelopeKind::Progress, &progress(1), &other);
    assert_eq!(open(&forged).unwrap_err().reason_code(), "wrong_sender");
    let caller = sealed(EnvelopeKind::Progress, &progress(1), &world.caller());
    assert_eq!(open(&caller).unwrap_err().reason_code(), "wrong_role");
    let mut elsewhere = progress(1);
    elsewhere.action = crate::world::name("find");
    let elsewhere = sealed(EnvelopeKind::Progress, &elsewhere, &world.node());
    assert_eq!(open(&elsewhere).unwrap_err().reason_code(), "other_request");
    for seq in [0, MAX_PROGRESS_MESSAGES + 1] {
        let wrong = sealed(EnvelopeKind::Progress, &progress(seq), &world.node());
        assert_eq!(open(&wrong).unwrap_err().reason_code(), "invalid_progress");
    }
    assert!(
        open(&sealed(EnvelopeKind::Progress, &progress(MAX_PROGRESS_MESSAGES), &world.node()))
            .is_ok()
    );
}
