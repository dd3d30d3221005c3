//! Enrolment: name patterns, token grants, requests, answers, and the enroller's decision.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_filter::state::NodeFacts;
use muster_wire::enrol::{
    EnrolmentAcceptance, EnrolmentAnswer, EnrolmentAnswerError, EnrolmentNonce, EnrolmentOutcome,
    EnrolmentRequest, EnrolmentRequestError, OpenEnrolmentRequest, TokenGrant, TokenGrantError,
    open_enrolment_answer, open_enrolment_request, sign_enrolment_answer, sign_enrolment_request,
};
use muster_wire::enrolment::{
    EnrolmentApproval, EnrolmentDecision, EnrolmentSettings, KnownName, NameEntry, NodeEnroller,
    NodeEnrollerParts, decide_enrolment,
};
use muster_wire::sign::{EnvelopeKind, MessageRefusal, Signer, sign_envelope};
use muster_wire::token::claims::{
    AccountClaims, AccountLimits, ScopedKey, SigningKeyEntry, UserClaims,
};
use muster_wire::token::encode::{self, TokenValidity};
use muster_wire::token::{
    AccountTrust, KeyKind, KeyPair, TokenCache, TokenError, UserCredentials, UserRole,
};

use crate::memory_enrolment_store::MemoryEnrolmentStore;
use proptest::prelude::*;
use serde_json::json;

use crate::world::{ISSUED, NOW, TestOrganisation, identity, key, name};

/// An organisation with a fleet account and a newcomers account.
pub(crate) struct EnrolmentFixture {
    pub(crate) fleet: TestOrganisation,
    account: KeyPair,
    newcomer: KeyPair,
    service: KeyPair,
    pub(crate) newcomers: AccountTrust,
}

impl EnrolmentFixture {
    pub(crate) fn new() -> Self {
        let fleet = TestOrganisation::new();
        let [account, newcomer, service] = [60, 61, 62].map(|seed| key(KeyKind::Account, seed));
        let mut place = Self { newcomers: fleet.trust.clone(), fleet, account, newcomer, service };
        place.newcomers = place.trust(ISSUED, |_| {});
        place
    }

    pub(crate) fn trust(
        &self,
        issued_at: u64,
        change: impl FnOnce(&mut AccountClaims),
    ) -> AccountTrust {
        let entry = |key: &KeyPair, role: UserRole| {
            let template = role.newcomers_account_template().unwrap();
            SigningKeyEntry::Scoped(Box::new(ScopedKey::new(key.public_key(), role, template)))
        };
        let keys = vec![
            entry(&self.newcomer, UserRole::Newcomer),
            entry(&self.service, UserRole::Service),
        ];
        let mut claims = AccountClaims::new(AccountLimits::default(), keys);
        change(&mut claims);
        let validity = TokenValidity::without_end(issued_at);
        let token = encode::issue_account_token(
            "newcomers",
            self.account.public_key(),
            claims,
            validity,
            &self.fleet.operator,
        );
        AccountTrust::new(self.fleet.operator.public_key(), &token.unwrap()).unwrap()
    }

    fn user_signer(
        &self,
        role: &KeyPair,
        called: &str,
        seed: u8,
        tags: &[&str],
        until: Option<u64>,
    ) -> Signer {
        let pair = key(KeyKind::User, seed);
        let tags = tags.iter().map(ToString::to_string).collect();
        let nats = UserClaims::new(self.account.public_key(), tags);
        let validity = TokenValidity { issued_at: ISSUED, expires: until };
        let token =
            encode::issue_user_token(&identity(called), pair.public_key(), nats, validity, role)
                .unwrap();
        Signer::new(UserCredentials::new(&token, pair).unwrap()).unwrap()
    }

    pub(crate) fn bootstrap(&self, tags: &[&str]) -> Signer {
        self.user_signer(&self.newcomer, "bootstrap", 70, tags, None)
    }

    pub(crate) fn enrolment_service(&self) -> Signer {
        self.user_signer(&self.service, "provisioner", 71, &[], None)
    }

    fn open(&self, bytes: &[u8]) -> Result<OpenEnrolmentRequest, EnrolmentRequestError> {
        open_enrolment_request(bytes, &self.newcomers, &TokenCache::default(), NOW)
    }

    pub(crate) fn enroller(&self) -> NodeEnroller<MemoryEnrolmentStore> {
        NodeEnroller::new(self.parts()).unwrap()
    }

    pub(crate) fn parts(&self) -> NodeEnrollerParts<MemoryEnrolmentStore> {
        NodeEnrollerParts {
            newcomers: self.newcomers.clone(),
            fleet: self.fleet.trust.clone(),
            service: self.enrolment_service(),
            node_role: self.fleet.role_key(UserRole::Node).clone(),
            settings: EnrolmentSettings {
                collectives: vec![name("fleet")],
                urls: Vec::new(),
                lifetime: None,
                provisioning: true,
            },
            store: MemoryEnrolmentStore::default(),
        }
    }
}

/// The grant of most bootstrap tokens in these tests.
pub(crate) const WEB: [&str; 1] = ["name:web-*.example.com"];

/// The key of a bootstrapping node.
pub(crate) fn machine(seed: u8) -> KeyPair {
    key(KeyKind::User, seed)
}

/// The enrolment request of a node.
pub(crate) fn enrolment_request(
    called: &str,
    node: &KeyPair,
    bootstrap: &Signer,
) -> EnrolmentRequest {
    let facts = json!({"cloud": {"provider": "ec2", "region": "eu-west-1"}});
    EnrolmentRequest {
        identity: identity(called),
        key: node.public_key(),
        credential: bootstrap.public_key(),
        nonce: EnrolmentNonce::from_bytes([9; 16]),
        facts: NodeFacts::from_value(facts).unwrap(),
        version: "0.1.0".to_owned(),
        time: NOW,
    }
}

#[test]
fn bootstrap_token_with_invalid_tags_is_refused() {
    let of = |tags: &[&str]| {
        TokenGrant::from_tags(&tags.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    assert_eq!(of(&[]), Err(TokenGrantError::NoNames));
    assert!(matches!(of(&["name:*", "region:eu"]), Err(TokenGrantError::Unknown(_))));
    assert!(matches!(of(&["name:*", "uses:1", "uses:9"]), Err(TokenGrantError::Unknown(_))));
    assert!(matches!(of(&["name:*", "uses:0"]), Err(TokenGrantError::Uses(_))));
    assert!(matches!(of(&["name:*", "uses:many"]), Err(TokenGrantError::Uses(_))));
    assert!(matches!(of(&["name:a b"]), Err(TokenGrantError::Name(_))));
    assert!(matches!(of(&["name:*", "fact:=x"]), Err(TokenGrantError::Fact(_))));
    assert!(matches!(of(&["name:*", "fact:a=b\nc"]), Err(TokenGrantError::Fact(_))));
    assert!(matches!(of(&["agent:*"]), Err(TokenGrantError::Unknown(_))));
    let many: Vec<String> = (0..65).map(|n| format!("name:web{n}")).collect();
    assert!(matches!(TokenGrant::from_tags(&many), Err(TokenGrantError::TooMany { .. })));
}

#[test]
fn enrolment_request_with_both_signatures_is_accepted() {
    let place = EnrolmentFixture::new();
    let (bootstrap, node) = (place.bootstrap(&WEB), machine(80));
    let enrolment = enrolment_request("web-1.example.com", &node, &bootstrap);
    let opened =
        place.open(&sign_enrolment_request(&enrolment, &bootstrap, &node).unwrap()).unwrap();
    assert_eq!(opened.request, enrolment);
    assert_eq!(opened.sender.role, UserRole::Newcomer);
    assert!(opened.grant.allows_name(&enrolment.identity));
}

/// A token and a captured request are useless without the node's private key.
#[test]
fn forged_moved_and_renamed_enrolment_requests_are_refused() {
    let place = EnrolmentFixture::new();
    let (bootstrap, node, thief) = (place.bootstrap(&WEB), machine(80), machine(81));
    let enrolment = enrolment_request("web-1.example.com", &node, &bootstrap);

    // The key in the request is not the thief's, so the thief's signature is no proof.
    let forged = sign_enrolment_request(&enrolment, &bootstrap, &thief).unwrap();
    assert!(matches!(place.open(&forged), Err(EnrolmentRequestError::Proof { .. })));

    // A captured inner request under another credential.
    let other = place.user_signer(&place.newcomer, "other", 72, &WEB, None);
    let captured = sign_enrolment_request(&enrolment, &bootstrap, &node).unwrap();
    let captured: serde_json::Value = serde_json::from_slice(&captured).unwrap();
    let moved = sign_envelope(EnvelopeKind::Hello, &captured["body"], &other).unwrap();
    assert!(matches!(
        place.open(&moved),
        Err(EnrolmentRequestError::Shape(_) | EnrolmentRequestError::Proof { .. })
    ));

    // The name in a captured request is changed and the envelope is signed again with the shared credential.
    let text = captured["body"]["hello"].to_string();
    let renamed = text.replace("web-1.example.com", "web-2.example.com");
    let body = json!({
        "hello": serde_json::from_str::<serde_json::Value>(&renamed).unwrap(),
        "proof": captured["body"]["proof"],
    });
    let renamed = sign_envelope(EnvelopeKind::Hello, &body, &bootstrap).unwrap();
    assert!(matches!(place.open(&renamed), Err(EnrolmentRequestError::Proof { .. })));

    // The key of the bootstrap credential is refused as a node key: several machines share it.
    let own = EnrolmentRequest { key: bootstrap.public_key(), ..enrolment.clone() };
    let own = sign_enrolment_request(&own, &bootstrap, bootstrap.key_pair()).unwrap();
    assert!(matches!(place.open(&own), Err(EnrolmentRequestError::Shape(_))));

    // Users of other roles and accounts.
    for sender in [place.enrolment_service(), place.fleet.caller(), place.fleet.node()] {
        let enrolment = enrolment_request("web-1.example.com", &node, &sender);
        let bytes = sign_enrolment_request(&enrolment, &sender, &node).unwrap();
        assert!(matches!(
            place.open(&bytes),
            Err(EnrolmentRequestError::Refused(
                MessageRefusal::WrongRole { .. }
                    | MessageRefusal::Token(TokenError::UnknownIssuer { .. })
            ))
        ));
    }
}

#[test]
fn expired_or_revoked_bootstrap_token_is_refused() {
    let place = EnrolmentFixture::new();
    let node = machine(80);
    let late = place.user_signer(&place.newcomer, "late", 73, &WEB, Some(NOW / 1000 - 3600));
    let bytes =
        sign_enrolment_request(&enrolment_request("web-1.example.com", &node, &late), &late, &node)
            .unwrap();
    assert!(matches!(
        place.open(&bytes),
        Err(EnrolmentRequestError::Refused(MessageRefusal::Token(TokenError::Expired { .. })))
    ));

    let bootstrap = place.bootstrap(&WEB);
    let revoked = place.trust(ISSUED + 1, |account| {
        account.revoke_user(&bootstrap.public_key(), ISSUED);
    });
    let bytes = sign_enrolment_request(
        &enrolment_request("web-1.example.com", &node, &bootstrap),
        &bootstrap,
        &node,
    )
    .unwrap();
    assert!(matches!(
        open_enrolment_request(&bytes, &revoked, &TokenCache::default(), NOW),
        Err(EnrolmentRequestError::Refused(MessageRefusal::Token(TokenError::Revoked { .. })))
    ));
}

#[test]
fn enrolment_decision_is_a_pure_function() {
    let place = EnrolmentFixture::new();
    let (bootstrap, node) = (place.bootstrap(&WEB), machine(80));
    let enrolment = |called: &str, time| OpenEnrolmentRequest {
        request: EnrolmentRequest { time, ..enrolment_request(called, &node, &bootstrap) },
        sender: Arc::new(place.newcomers.verify_user(&bootstrap.token(), NOW).unwrap()),
        grant: TokenGrant::from_tags(&WEB.map(str::to_owned)).unwrap(),
    };
    let good = enrolment("web-1.example.com", NOW);
    let entry = |node: &KeyPair, released| NameEntry {
        identity: identity("web-1.example.com"),
        key: node.public_key(),
        credential: Some(bootstrap.public_key()),
        at: NOW,
        released,
        revoked: false,
        former: Vec::new(),
    };
    let decided = |enrolment: &OpenEnrolmentRequest, holder: Option<NameEntry>, approval| {
        let known = KnownName { entry: holder.as_ref(), is_key_revoked: false };
        match decide_enrolment(enrolment, known, &approval, NOW) {
            EnrolmentDecision::Issue => "issue".to_owned(),
            EnrolmentDecision::Wait(what) => format!("wait: {what}"),
            EnrolmentDecision::Refuse(reason, _) => reason.as_str().to_owned(),
        }
    };
    let free = EnrolmentApproval::NotNeeded;
    let other = machine(81);
    assert_eq!(decided(&good, None, free.clone()), "issue");
    assert_eq!(decided(&good, Some(entry(&node, false)), free.clone()), "issue");
    assert_eq!(decided(&good, Some(entry(&other, false)), free.clone()), "name_taken");
    assert_eq!(decided(&good, Some(entry(&other, true)), free.clone()), "issue");
    assert_eq!(decided(&good, None, EnrolmentApproval::Given), "issue");
    assert_eq!(decided(&good, None, EnrolmentApproval::Awaited("Anna".to_owned())), "wait: Anna");
    assert_eq!(decided(&good, None, EnrolmentApproval::Denied("no".to_owned())), "denied");
    let elsewhere = enrolment("db-1.example.com", NOW);
    assert_eq!(decided(&elsewhere, None, EnrolmentApproval::Given), "name_not_allowed");
    for time in [NOW - 600_000, NOW + 600_000] {
        assert_eq!(decided(&enrolment("web-1.example.com", time), None, free.clone()), "stale");
    }
    assert_eq!(decided(&enrolment("web-1.example.com", NOW - 80_000), None, free), "issue");
}

#[test]
fn acceptance_requires_the_enrolment_service_and_tokens_of_the_operator() {
    let place = EnrolmentFixture::new();
    let (bootstrap, node) = (place.bootstrap(&WEB), machine(80));
    let enrolment = enrolment_request("web-1.example.com", &node, &bootstrap);
    let foreign = TestOrganisation::with_seed(21);
    let token_by = |world: &TestOrganisation, role, called: &str| {
        world.token(role, called, &node, TokenValidity::without_end(ISSUED))
    };
    let answer = |welcome: EnrolmentAcceptance| EnrolmentAnswer {
        nonce: enrolment.nonce,
        key: enrolment.key,
        time: NOW,
        outcome: EnrolmentOutcome::Welcome(Box::new(welcome)),
    };
    let good = EnrolmentAcceptance {
        identity: enrolment.identity.clone(),
        token: token_by(&place.fleet, UserRole::Node, "web-1.example.com"),
        account: place.fleet.trust.account_token().to_owned(),
        collectives: vec![name("fleet")],
        urls: Vec::new(),
        facts: BTreeMap::new(),
        provisioning: false,
    };
    let cache = TokenCache::default();
    let open =
        |bytes: &[u8]| open_enrolment_answer(bytes, &enrolment, &place.newcomers, &cache, NOW);

    // Another newcomer with the same credential signs an answer.
    let forged = sign_enrolment_answer(&answer(good.clone()), &bootstrap).unwrap();
    assert!(matches!(
        open(&forged),
        Err(EnrolmentAnswerError::Refused(MessageRefusal::WrongRole { .. }))
    ));
    let of_fleet = place.fleet.signer(UserRole::Service, "provisioner", 90);
    let forged = sign_enrolment_answer(&answer(good.clone()), &of_fleet).unwrap();
    assert!(matches!(open(&forged), Err(EnrolmentAnswerError::Refused(MessageRefusal::Token(_)))));

    let named = EnrolmentAcceptance { identity: identity("web-2.example.com"), ..good.clone() };
    let renamed = sign_enrolment_answer(&answer(named), &place.enrolment_service()).unwrap();
    assert!(matches!(open(&renamed), Err(EnrolmentAnswerError::Name { .. })));

    let operator = place.fleet.operator.public_key();
    assert!(good.verify_tokens(operator, enrolment.key, NOW).is_ok());
    for (changed, what) in [
        (
            EnrolmentAcceptance {
                account: foreign.trust.account_token().to_owned(),
                ..good.clone()
            },
            "account token",
        ),
        (
            EnrolmentAcceptance {
                token: token_by(&foreign, UserRole::Node, "web-1.example.com"),
                ..good.clone()
            },
            "node's token",
        ),
        (
            EnrolmentAcceptance {
                token: token_by(&place.fleet, UserRole::Caller, "web-1.example.com"),
                ..good.clone()
            },
            "not a node token",
        ),
        (
            EnrolmentAcceptance {
                token: token_by(&place.fleet, UserRole::Node, "web-2.example.com"),
                ..good
            },
            "not a node token",
        ),
    ] {
        let refused = changed.verify_tokens(operator, enrolment.key, NOW).unwrap_err().to_string();
        assert!(refused.contains(what), "{refused}");
    }
}

proptest! {
    #[test]
    fn changed_enrolment_request_is_refused(at in 0..2000_usize, byte in any::<u8>()) {
        let place = EnrolmentFixture::new();
        let (bootstrap, node) = (place.bootstrap(&WEB), machine(80));
        let good = sign_enrolment_request(&enrolment_request("web-1.example.com", &node, &bootstrap), &bootstrap, &node).unwrap();
        let mut bytes = good.clone();
        let at = at % bytes.len();
        bytes[at] = byte;
        prop_assume!(bytes != good);
        prop_assert!(place.open(&bytes).is_err());
    }
}
