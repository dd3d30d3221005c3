//! The enroller's decisions over several enrolment requests: acceptance, repetition, refusal, revocation.

use std::collections::BTreeMap;

use muster_wire::enrol::{
    EnrolmentAcceptance, EnrolmentAnswerError, EnrolmentNonce, EnrolmentOutcome,
    EnrolmentRefusalReason, EnrolmentRequest, EnrolmentRequestError, open_enrolment_answer,
    sign_enrolment_request,
};
use muster_wire::enrolment::{
    HandledEnrolment, NameEntry, NodeEnroller, NodeEnrollerError, NodeEnrollerParts,
};
use muster_wire::sign::Signer;
use muster_wire::token::encode::{self, TokenValidity};
use muster_wire::token::{KeyPair, TokenCache, UserCredentials, UserRole};

use crate::memory_enrolment_store::MemoryEnrolmentStore;

use crate::enrolment::{EnrolmentFixture, WEB, enrolment_request, machine};
use crate::world::{ISSUED, NOW, identity};

/// Signs an enrolment request, lets the enroller handle it, and opens the answer as the node does.
async fn enrol(
    place: &EnrolmentFixture,
    enroller: &NodeEnroller<MemoryEnrolmentStore>,
    bootstrap: &Signer,
    called: &str,
    node: &KeyPair,
) -> EnrolmentOutcome {
    let enrolment = enrolment_request(called, node, bootstrap);
    let bytes = sign_enrolment_request(&enrolment, bootstrap, node).unwrap();
    let HandledEnrolment::Answered { bytes, .. } =
        enroller.handle_message(&bytes, NOW).await.unwrap()
    else {
        panic!("the enroller did not answer");
    };
    let cache = TokenCache::default();
    open_enrolment_answer(&bytes, &enrolment, &place.newcomers, &cache, NOW).unwrap()
}

fn reason(outcome: &EnrolmentOutcome) -> EnrolmentRefusalReason {
    match outcome {
        EnrolmentOutcome::Refused(refused) => refused.reason,
        other => panic!("expected a refusal: {other:?}"),
    }
}

fn accepted(outcome: EnrolmentOutcome) -> EnrolmentAcceptance {
    match outcome {
        EnrolmentOutcome::Welcome(welcome) => *welcome,
        other => panic!("expected an acceptance: {other:?}"),
    }
}

#[tokio::test]
async fn repeated_enrolment_yields_the_same_node() {
    let place = EnrolmentFixture::new();
    let enroller = place.enroller();
    let node = machine(80);
    let bootstrap = place.bootstrap(&["name:web-*.example.com", "uses:1", "fact:role=web"]);
    for _ in 0..3 {
        let outcome = enrol(&place, &enroller, &bootstrap, "web-1.example.com", &node).await;
        let welcome = accepted(outcome);
        let operator = place.fleet.operator.public_key();
        let fleet = welcome.verify_tokens(operator, node.public_key(), NOW).unwrap();
        assert_eq!(fleet.account_key(), place.fleet.trust.account_key());
        assert_eq!(welcome.facts, BTreeMap::from([("role".to_owned(), "web".to_owned())]));
        assert!(welcome.provisioning);
    }
    assert_eq!(enroller.enrolment_store().all_entries().len(), 1);
    assert_eq!(enroller.enrolment_store().use_count(&bootstrap.public_key()), 1);
}

#[tokio::test]
async fn stolen_bootstrap_token_enrols_only_free_allowed_names() {
    let place = EnrolmentFixture::new();
    let enroller = place.enroller();
    let stolen = place.bootstrap(&WEB);
    let first = machine(80);
    accepted(enrol(&place, &enroller, &stolen, "web-1.example.com", &first).await);
    let thief = machine(81);
    for (called, expected) in [
        ("web-1.example.com", EnrolmentRefusalReason::NameTaken),
        ("db-1.example.com", EnrolmentRefusalReason::NameNotAllowed),
        ("web-1.dmz.example.com", EnrolmentRefusalReason::NameNotAllowed),
    ] {
        let outcome = enrol(&place, &enroller, &stolen, called, &thief).await;
        assert_eq!(reason(&outcome), expected, "{called}");
    }
    enroller.enrolment_store().release_name(&identity("web-1.example.com"));
    accepted(enrol(&place, &enroller, &stolen, "web-1.example.com", &thief).await);
    // The name belongs to the second key now; the first key is refused.
    let outcome = enrol(&place, &enroller, &stolen, "web-1.example.com", &first).await;
    assert_eq!(reason(&outcome), EnrolmentRefusalReason::NameTaken);
}

#[tokio::test]
async fn bootstrap_token_is_limited_to_its_uses() {
    let place = EnrolmentFixture::new();
    let enroller = place.enroller();
    let bootstrap = place.bootstrap(&["name:web-*.example.com", "uses:2"]);
    for seed in [80, 81] {
        let called = format!("web-{seed}.example.com");
        accepted(enrol(&place, &enroller, &bootstrap, &called, &machine(seed)).await);
    }
    let third = enrol(&place, &enroller, &bootstrap, "web-3.example.com", &machine(82)).await;
    assert_eq!(reason(&third), EnrolmentRefusalReason::UsedUp);
    // One key cannot obtain several names with one use.
    let again = enrol(&place, &enroller, &bootstrap, "web-9.example.com", &machine(80)).await;
    assert_eq!(reason(&again), EnrolmentRefusalReason::UsedUp);
    accepted(enrol(&place, &enroller, &bootstrap, "web-80.example.com", &machine(80)).await);
}

/// All holders of a bootstrap token can read the answers; the answers contain nothing that another holder can use.
#[tokio::test]
async fn answer_for_another_node_is_unusable() {
    let place = EnrolmentFixture::new();
    let enroller = place.enroller();
    let (bootstrap, node, thief) = (place.bootstrap(&WEB), machine(80), machine(81));
    let enrolment = enrolment_request("web-1.example.com", &node, &bootstrap);
    let bytes = sign_enrolment_request(&enrolment, &bootstrap, &node).unwrap();
    let HandledEnrolment::Answered { bytes, outcome, .. } =
        enroller.handle_message(&bytes, NOW).await.unwrap()
    else {
        panic!("the enroller did not answer");
    };
    let text = String::from_utf8(bytes.clone()).unwrap();
    assert!(!text.contains(node.seed_text().as_str()));

    // The thief opens it as the answer to its own request.
    let own = enrolment_request("web-1.example.com", &thief, &bootstrap);
    let cache = TokenCache::default();
    let opened = open_enrolment_answer(&bytes, &own, &place.newcomers, &cache, NOW);
    assert!(matches!(opened, Err(EnrolmentAnswerError::OtherRequest)));
    let welcome = accepted(outcome);
    let operator = place.fleet.operator.public_key();
    let checked = welcome.verify_tokens(operator, thief.public_key(), NOW);
    assert!(matches!(checked, Err(EnrolmentAnswerError::Foreign)));
    assert!(UserCredentials::new(&welcome.token, thief).is_err());

    // An earlier answer is refused for a later request.
    let later = EnrolmentRequest { nonce: EnrolmentNonce::from_bytes([10; 16]), ..enrolment };
    let opened = open_enrolment_answer(&bytes, &later, &place.newcomers, &cache, NOW);
    assert!(matches!(opened, Err(EnrolmentAnswerError::OtherRequest)));
}

#[test]
fn enroller_requires_the_node_signing_key() {
    let place = EnrolmentFixture::new();
    let wrong = NodeEnrollerParts {
        node_role: place.fleet.role_key(UserRole::Caller).clone(),
        ..place.parts()
    };
    assert!(matches!(NodeEnroller::new(wrong), Err(NodeEnrollerError::WrongNodeKey(_))));
}

#[tokio::test]
async fn running_enroller_applies_a_revocation() {
    let place = EnrolmentFixture::new();
    let enroller = place.enroller();
    let (bootstrap, node) = (place.bootstrap(&WEB), machine(80));
    accepted(enrol(&place, &enroller, &bootstrap, "web-1.example.com", &node).await);
    let newer = place.trust(ISSUED + 1, |account| {
        account.revoke_user(&bootstrap.public_key(), ISSUED);
    });
    enroller.update_newcomers(newer.account_token()).unwrap();
    assert!(enroller.update_newcomers(place.newcomers.account_token()).is_err());
    let bytes = sign_enrolment_request(
        &enrolment_request("web-2.example.com", &node, &bootstrap),
        &bootstrap,
        &node,
    )
    .unwrap();
    let handled = enroller.handle_message(&bytes, NOW).await.unwrap();
    assert!(matches!(handled, HandledEnrolment::Ignored(EnrolmentRequestError::Refused(_))));
}

/// The register entry of a name that the organisation issued itself.
fn issued(called: &str, node: &KeyPair) -> NameEntry {
    NameEntry {
        identity: identity(called),
        key: node.public_key(),
        credential: None,
        at: NOW,
        released: false,
        revoked: false,
        former: Vec::new(),
    }
}

#[tokio::test]
async fn name_issued_by_the_organisation_is_refused_for_every_key() {
    let place = EnrolmentFixture::new();
    let enroller = place.enroller();
    let (bootstrap, owner, thief) = (place.bootstrap(&WEB), machine(80), machine(81));
    enroller.enrolment_store().insert_entry(issued("web-1.example.com", &owner));
    for node in [&thief, &owner] {
        let outcome = enrol(&place, &enroller, &bootstrap, "web-1.example.com", node).await;
        assert_eq!(reason(&outcome), EnrolmentRefusalReason::NameTaken);
    }
    assert_eq!(enroller.enrolment_store().use_count(&bootstrap.public_key()), 0);
    enroller.enrolment_store().release_name(&identity("web-1.example.com"));
    accepted(enrol(&place, &enroller, &bootstrap, "web-1.example.com", &thief).await);
    let entries = enroller.enrolment_store().all_entries();
    assert_eq!(entries[0].former, [owner.public_key()], "former keys are kept");
}

#[tokio::test]
async fn revoked_key_stays_refused_and_its_name_needs_a_release() {
    let place = EnrolmentFixture::new();
    let enroller = place.enroller();
    let (bootstrap, node, other) = (place.bootstrap(&WEB), machine(80), machine(81));
    let name = identity("web-1.example.com");
    accepted(enrol(&place, &enroller, &bootstrap, name.as_str(), &node).await);
    enroller.enrolment_store().revoke_name(&name);
    let outcome = enrol(&place, &enroller, &bootstrap, name.as_str(), &node).await;
    assert_eq!(reason(&outcome), EnrolmentRefusalReason::Revoked);
    let outcome = enrol(&place, &enroller, &bootstrap, name.as_str(), &other).await;
    assert_eq!(reason(&outcome), EnrolmentRefusalReason::NameTaken);
    enroller.enrolment_store().release_name(&name);
    let outcome = enrol(&place, &enroller, &bootstrap, name.as_str(), &node).await;
    assert_eq!(
        reason(&outcome),
        EnrolmentRefusalReason::Revoked,
        "a release frees the name, not the key"
    );
    accepted(enrol(&place, &enroller, &bootstrap, name.as_str(), &other).await);
}

/// The revocation list of the fleet's account token applies also to keys that were never enrolled.
#[tokio::test]
async fn key_revoked_by_the_account_is_refused_for_every_name() {
    let place = EnrolmentFixture::new();
    let enroller = place.enroller();
    let (bootstrap, node) = (place.bootstrap(&WEB), machine(80));
    accepted(enrol(&place, &enroller, &bootstrap, "web-1.example.com", &node).await);
    let mut account = place.fleet.trust.claims().nats.clone();
    account.revoke_user(&node.public_key(), ISSUED);
    let newer = encode::issue_account_token(
        "fleet",
        place.fleet.trust.account_key(),
        account,
        TokenValidity::without_end(place.fleet.trust.issued_at() + 1),
        &place.fleet.operator,
    );
    enroller.update_fleet(&newer.unwrap()).unwrap();
    for called in ["web-1.example.com", "web-2.example.com"] {
        let outcome = enrol(&place, &enroller, &bootstrap, called, &node).await;
        assert_eq!(reason(&outcome), EnrolmentRefusalReason::Revoked, "{called}");
    }
}

#[test]
fn organisation_reserves_free_and_revoked_names_only() {
    let (ours, enrolled) = (machine(80), machine(81));
    let wanted = issued("web-1.example.com", &ours);
    let held = NameEntry {
        credential: Some(machine(90).public_key()),
        ..issued("web-1.example.com", &enrolled)
    };
    assert_eq!(NameEntry::apply_reservation(None, &wanted), Ok(wanted.clone()));
    assert_eq!(NameEntry::apply_reservation(Some(&held), &wanted), Err(enrolled.public_key()));
    for free in [NameEntry { released: true, ..held.clone() }, NameEntry { revoked: true, ..held }]
    {
        let entry = NameEntry::apply_reservation(Some(&free), &wanted).unwrap();
        assert!(!entry.is_enrolled() && !entry.released && !entry.revoked);
        let keys: Vec<_> = entry.all_keys().collect();
        assert_eq!(keys, [ours.public_key(), enrolled.public_key()]);
    }
}
