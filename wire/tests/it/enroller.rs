//! What an enroller makes of wishes, one after the other: who gets in, who comes back, and who does not.

use std::collections::BTreeMap;

use muster_wire::enrol::{
    AnswerError, EnrolError, Enroller, Entry, Handled, Hello, HelloError, MemoryRoll, Nonce,
    Outcome, Parts, Reason, Welcome, open_answer, seal_hello,
};
use muster_wire::sign::Signer;
use muster_wire::token::encode::{self, Validity};
use muster_wire::token::{Creds, KeyPair, Role, TokenCache};

use crate::enrolment::{Place, WEB, hello, machine};
use crate::world::{ISSUED, NOW, identity};

/// Seals a wish, handles it, and opens the answer as the machine does.
async fn enrol(
    place: &Place,
    enroller: &Enroller<MemoryRoll>,
    bootstrap: &Signer,
    called: &str,
    node: &KeyPair,
) -> Outcome {
    let wish = hello(called, node, bootstrap);
    let bytes = seal_hello(&wish, bootstrap, node).unwrap();
    let Handled::Answered { bytes, .. } = enroller.handle(&bytes, NOW).await.unwrap() else {
        panic!("it was not answered");
    };
    let cache = TokenCache::default();
    open_answer(&bytes, &wish, &place.newcomers, &cache, NOW).unwrap()
}

fn reason(outcome: &Outcome) -> Reason {
    match outcome {
        Outcome::Refused(refused) => refused.reason,
        other => panic!("it is not refused: {other:?}"),
    }
}

fn welcome(outcome: Outcome) -> Welcome {
    match outcome {
        Outcome::Welcome(welcome) => *welcome,
        other => panic!("it is not welcome: {other:?}"),
    }
}

#[tokio::test]
async fn a_machine_becomes_a_node_and_comes_back_as_the_same() {
    let place = Place::new();
    let enroller = place.enroller();
    let node = machine(80);
    let bootstrap = place.bootstrap(&["name:web-*.example.com", "uses:1", "fact:role=web"]);
    for _ in 0..3 {
        let outcome = enrol(&place, &enroller, &bootstrap, "web-1.example.com", &node).await;
        let welcome = welcome(outcome);
        let operator = place.fleet.operator.public();
        let fleet = welcome.check(operator, node.public(), NOW).unwrap();
        assert_eq!(fleet.account(), place.fleet.trust.account());
        assert_eq!(
            welcome.facts,
            BTreeMap::from([("role".to_owned(), "web".to_owned())])
        );
        assert!(welcome.provisioning);
    }
    assert_eq!(enroller.roll().entries().len(), 1);
    assert_eq!(enroller.roll().uses(&bootstrap.public()), 1);
}

#[tokio::test]
async fn a_stolen_bootstrap_token_enrols_allowed_free_names_and_nothing_else() {
    let place = Place::new();
    let enroller = place.enroller();
    let stolen = place.bootstrap(&WEB);
    let first = machine(80);
    welcome(enrol(&place, &enroller, &stolen, "web-1.example.com", &first).await);
    let thief = machine(81);
    for (called, expected) in [
        ("web-1.example.com", Reason::NameTaken),
        ("db-1.example.com", Reason::NameNotAllowed),
        ("web-1.dmz.example.com", Reason::NameNotAllowed),
    ] {
        let outcome = enrol(&place, &enroller, &stolen, called, &thief).await;
        assert_eq!(reason(&outcome), expected, "{called}");
    }
    enroller.roll().release(&identity("web-1.example.com"));
    welcome(enrol(&place, &enroller, &stolen, "web-1.example.com", &thief).await);
    // The name went over: the first has it no more.
    let outcome = enrol(&place, &enroller, &stolen, "web-1.example.com", &first).await;
    assert_eq!(reason(&outcome), Reason::NameTaken);
}

#[tokio::test]
async fn a_token_lets_in_as_many_as_it_says() {
    let place = Place::new();
    let enroller = place.enroller();
    let bootstrap = place.bootstrap(&["name:web-*.example.com", "uses:2"]);
    for seed in [80, 81] {
        let called = format!("web-{seed}.example.com");
        welcome(enrol(&place, &enroller, &bootstrap, &called, &machine(seed)).await);
    }
    let third = enrol(
        &place,
        &enroller,
        &bootstrap,
        "web-3.example.com",
        &machine(82),
    )
    .await;
    assert_eq!(reason(&third), Reason::UsedUp);
    // One key cannot collect names with one use either.
    let again = enrol(
        &place,
        &enroller,
        &bootstrap,
        "web-9.example.com",
        &machine(80),
    )
    .await;
    assert_eq!(reason(&again), Reason::UsedUp);
    welcome(
        enrol(
            &place,
            &enroller,
            &bootstrap,
            "web-80.example.com",
            &machine(80),
        )
        .await,
    );
}

/// Everybody who shares a token can read the answers of all: they hold nothing that helps.
#[tokio::test]
async fn somebody_elses_answer_is_of_no_use() {
    let place = Place::new();
    let enroller = place.enroller();
    let (bootstrap, node, thief) = (place.bootstrap(&WEB), machine(80), machine(81));
    let wish = hello("web-1.example.com", &node, &bootstrap);
    let bytes = seal_hello(&wish, &bootstrap, &node).unwrap();
    let Handled::Answered { bytes, outcome, .. } = enroller.handle(&bytes, NOW).await.unwrap()
    else {
        panic!("it was not answered");
    };
    let text = String::from_utf8(bytes.clone()).unwrap();
    assert!(!text.contains(node.seed().as_str()));

    // The thief takes it for an answer to its own wish.
    let own = hello("web-1.example.com", &thief, &bootstrap);
    let cache = TokenCache::default();
    let opened = open_answer(&bytes, &own, &place.newcomers, &cache, NOW);
    assert!(matches!(opened, Err(AnswerError::Other)));
    let welcome = welcome(outcome);
    let operator = place.fleet.operator.public();
    let checked = welcome.check(operator, thief.public(), NOW);
    assert!(matches!(checked, Err(AnswerError::Foreign)));
    assert!(Creds::new(&welcome.token, thief).is_err());

    // An earlier answer is not taken for one to a later wish.
    let later = Hello {
        nonce: Nonce::from_bytes([10; 16]),
        ..wish
    };
    let opened = open_answer(&bytes, &later, &place.newcomers, &cache, NOW);
    assert!(matches!(opened, Err(AnswerError::Other)));
}

#[test]
fn an_enroller_needs_the_key_that_signs_nodes() {
    let place = Place::new();
    let wrong = Parts {
        node_role: place.fleet.role_key(Role::Caller).clone(),
        ..place.parts()
    };
    assert!(matches!(
        Enroller::new(wrong),
        Err(EnrolError::NotTheNodeKey(_))
    ));
}

#[tokio::test]
async fn a_revocation_reaches_an_enroller_that_runs() {
    let place = Place::new();
    let enroller = place.enroller();
    let (bootstrap, node) = (place.bootstrap(&WEB), machine(80));
    welcome(enrol(&place, &enroller, &bootstrap, "web-1.example.com", &node).await);
    let newer = place.trust(ISSUED + 1, |account| {
        account.revoke(&bootstrap.public(), ISSUED);
    });
    enroller.update_newcomers(newer.token()).unwrap();
    assert!(enroller.update_newcomers(place.newcomers.token()).is_err());
    let bytes = seal_hello(
        &hello("web-2.example.com", &node, &bootstrap),
        &bootstrap,
        &node,
    )
    .unwrap();
    let handled = enroller.handle(&bytes, NOW).await.unwrap();
    assert!(matches!(handled, Handled::Ignored(HelloError::Refused(_))));
}

/// The entry of a name that the organisation itself issued.
fn issued(called: &str, node: &KeyPair) -> Entry {
    Entry {
        identity: identity(called),
        key: node.public(),
        credential: None,
        at: NOW,
        life: None,
        released: false,
        revoked: false,
        former: Vec::new(),
    }
}

#[tokio::test]
async fn a_name_that_the_organisation_issued_is_refused_to_every_key() {
    let place = Place::new();
    let enroller = place.enroller();
    let (bootstrap, owner, thief) = (place.bootstrap(&WEB), machine(80), machine(81));
    enroller.roll().insert(issued("web-1.example.com", &owner));
    for node in [&thief, &owner] {
        let outcome = enrol(&place, &enroller, &bootstrap, "web-1.example.com", node).await;
        assert_eq!(reason(&outcome), Reason::NameTaken);
    }
    assert_eq!(enroller.roll().uses(&bootstrap.public()), 0);
    enroller.roll().release(&identity("web-1.example.com"));
    welcome(enrol(&place, &enroller, &bootstrap, "web-1.example.com", &thief).await);
    let entries = enroller.roll().entries();
    assert_eq!(
        entries[0].former,
        [owner.public()],
        "its keys are remembered"
    );
}

#[tokio::test]
async fn a_revoked_key_is_never_enrolled_again_and_its_name_only_after_a_release() {
    let place = Place::new();
    let enroller = place.enroller();
    let (bootstrap, node, other) = (place.bootstrap(&WEB), machine(80), machine(81));
    let name = identity("web-1.example.com");
    welcome(enrol(&place, &enroller, &bootstrap, name.as_str(), &node).await);
    enroller.roll().revoke(&name);
    let outcome = enrol(&place, &enroller, &bootstrap, name.as_str(), &node).await;
    assert_eq!(reason(&outcome), Reason::Revoked);
    let outcome = enrol(&place, &enroller, &bootstrap, name.as_str(), &other).await;
    assert_eq!(reason(&outcome), Reason::NameTaken);
    enroller.roll().release(&name);
    let outcome = enrol(&place, &enroller, &bootstrap, name.as_str(), &node).await;
    assert_eq!(
        reason(&outcome),
        Reason::Revoked,
        "a release frees the name, not the key"
    );
    welcome(enrol(&place, &enroller, &bootstrap, name.as_str(), &other).await);
}

/// The list in the fleet's account token counts for itself: a key that was never enrolled may be on it.
#[tokio::test]
async fn a_key_that_the_fleets_account_revoked_is_refused_under_every_name() {
    let place = Place::new();
    let enroller = place.enroller();
    let (bootstrap, node) = (place.bootstrap(&WEB), machine(80));
    welcome(enrol(&place, &enroller, &bootstrap, "web-1.example.com", &node).await);
    let mut account = place.fleet.trust.claims().nats.clone();
    account.revoke(&node.public(), ISSUED);
    let newer = encode::account(
        "fleet",
        place.fleet.trust.account(),
        account,
        Validity::from(place.fleet.trust.issued_at() + 1),
        &place.fleet.operator,
    );
    enroller.update_fleet(&newer.unwrap()).unwrap();
    for called in ["web-1.example.com", "web-2.example.com"] {
        let outcome = enrol(&place, &enroller, &bootstrap, called, &node).await;
        assert_eq!(reason(&outcome), Reason::Revoked, "{called}");
    }
}

#[test]
fn the_organisation_takes_free_and_revoked_names_and_leaves_those_of_enrolled_nodes() {
    let (ours, enrolled) = (machine(80), machine(81));
    let wanted = issued("web-1.example.com", &ours);
    let held = Entry {
        credential: Some(machine(90).public()),
        ..issued("web-1.example.com", &enrolled)
    };
    assert_eq!(Entry::reserve(None, &wanted), Ok(wanted.clone()));
    assert_eq!(Entry::reserve(Some(&held), &wanted), Err(enrolled.public()));
    for free in [
        Entry {
            released: true,
            ..held.clone()
        },
        Entry {
            revoked: true,
            ..held
        },
    ] {
        let entry = Entry::reserve(Some(&free), &wanted).unwrap();
        assert!(!entry.is_enrolled() && !entry.released && !entry.revoked);
        let keys: Vec<_> = entry.keys().collect();
        assert_eq!(keys, [ours.public(), enrolled.public()]);
    }
}
