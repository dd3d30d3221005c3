//! Proposals and approvals: a request is authorised only if it equals what two callers signed.

use std::collections::BTreeSet;

use muster_filter::NodeFilter;
use muster_wire::approval::{
    ApprovalError, ApprovedProposal, ProposalApproval, ProposalInputs, RequestProposal,
    open_approval, open_proposal,
};
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::request::{Request, RequestTarget};
use muster_wire::sign::{Envelope, EnvelopeKind, Signer, encode_envelope, sign_envelope};
use muster_wire::token::{TokenCache, UserRole};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::world::{self, NOW, TestOrganisation};

fn secret(name: &str) -> bool {
    name == "password"
}

fn data() -> Map<String, Value> {
    let data = json!({"type": "user", "name": "eve", "password": "geheim"});
    data.as_object().unwrap().clone()
}

fn nodes(names: &[&str]) -> BTreeSet<Identity> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

fn proposal(id: Uuid) -> RequestProposal {
    let request = world::request(&["db1.acme.net"]);
    RequestProposal {
        id,
        caller: request.caller,
        collective: request.collective,
        agent: request.agent,
        action: request.action,
        nodes: nodes(&["db1.acme.net", "db2.acme.net"]),
        inputs: ProposalInputs::new(id, &data(), secret),
        issued_at: NOW - 1000,
        expires_at: NOW + 60_000,
    }
}

fn id() -> Uuid {
    world::request(&["db1.acme.net"]).id
}

fn request() -> Request {
    Request { data: data(), ..world::request(&["db1.acme.net"]) }
}

/// The signed approval of a proposal, encoded as in a request.
fn approved(proposal: &[u8], approver: &Signer) -> String {
    let approval = ProposalApproval {
        proposal: encode_envelope(proposal),
        approver: approver.identity().clone(),
        approved_at: NOW,
    };
    encode_envelope(&sign_envelope(EnvelopeKind::Approval, &approval, approver).unwrap())
}

fn open(world: &TestOrganisation, text: &str) -> Result<ApprovedProposal, ApprovalError> {
    open_approval(text, &world.trust, &TokenCache::default(), NOW)
}

/// The outcome for this proposal and request, both signed by the caller and approved by anna.
fn outcome(
    world: &TestOrganisation,
    proposal: &RequestProposal,
    request: &Request,
) -> Result<(), ApprovalError> {
    let caller = world.caller();
    let anna = world.signer(UserRole::Caller, "anna", 61);
    let sealed = sign_envelope(EnvelopeKind::Proposal, proposal, &caller).unwrap();
    let approved = open(world, &approved(&sealed, &anna))?;
    let token = TokenCache::default();
    let verified = token.verify_user(&world.trust, &caller.token(), NOW).unwrap();
    approved.check_request(request, &verified, NOW, secret)
}

#[test]
fn approved_request_is_accepted() {
    let world = TestOrganisation::new();
    outcome(&world, &proposal(id()), &request()).unwrap();
    let both = Request {
        target: RequestTarget::Nodes(nodes(&["db1.acme.net", "db2.acme.net"])),
        ..request()
    };
    outcome(&world, &proposal(id()), &both).unwrap();
}

#[test]
fn request_that_differs_from_the_proposal_is_refused() {
    let world = TestOrganisation::new();
    let name = |text: &str| SubjectName::parse(text).unwrap();
    let changed = |key: &str, value: Value| {
        let mut data = data();
        data.insert(key.to_owned(), value);
        Request { data, ..request() }
    };
    let mut fewer = request();
    fewer.data.remove("name");
    for (field, request) in [
        ("collective", Request { collective: name("other"), ..request() }),
        ("agent", Request { agent: name("other"), ..request() }),
        ("action", Request { action: name("other"), ..request() }),
        (
            "target",
            Request {
                target: RequestTarget::Nodes(nodes(&["db1.acme.net", "db3.acme.net"])),
                ..request()
            },
        ),
        ("target", Request { target: RequestTarget::Filter(NodeFilter::default()), ..request() }),
        ("data", changed("name", json!("mallory"))),
        ("data", changed("password", json!("other"))),
        ("data", changed("ensure", json!("absent"))),
        ("data", changed("name", json!(["eve"]))),
        ("data", fewer),
    ] {
        match outcome(&world, &proposal(id()), &request) {
            Err(ApprovalError::RequestMismatch(found)) => assert_eq!(found, field),
            other => panic!("{field}: {other:?}"),
        }
    }
}

#[test]
fn proposal_hides_only_secret_inputs() {
    let world = TestOrganisation::new();
    let hiding =
        RequestProposal { inputs: ProposalInputs::new(id(), &data(), |_| true), ..proposal(id()) };
    let refused = outcome(&world, &hiding, &request());
    assert!(matches!(refused, Err(ApprovalError::RequestMismatch("data"))), "{refused:?}");
    let text = serde_json::to_string(&proposal(id())).unwrap();
    assert!(!text.contains("geheim") && text.contains("eve"), "{text}");
}

#[test]
fn expired_future_and_overlong_proposals_are_refused() {
    let world = TestOrganisation::new();
    let over = RequestProposal { issued_at: NOW - 60_000, expires_at: NOW - 1, ..proposal(id()) };
    let early =
        RequestProposal { issued_at: NOW + 40_000, expires_at: NOW + 50_000, ..proposal(id()) };
    let long = RequestProposal { expires_at: NOW + 25 * 60 * 60 * 1000, ..proposal(id()) };
    assert!(matches!(outcome(&world, &over, &request()), Err(ApprovalError::Expired(1))));
    assert!(matches!(outcome(&world, &early, &request()), Err(ApprovalError::Future(40_000))));
    assert!(matches!(outcome(&world, &long, &request()), Err(ApprovalError::Lifetime(_))));
}

#[test]
fn approval_requires_two_callers_of_the_same_organisation() {
    let world = TestOrganisation::new();
    let caller = world.caller();
    let sealed = sign_envelope(EnvelopeKind::Proposal, &proposal(id()), &caller).unwrap();
    let own = open(&world, &approved(&sealed, &caller));
    assert!(matches!(own, Err(ApprovalError::SelfApproval(_))), "{own:?}");
    // The same name with another key is the same person.
    let namesake = world.signer(UserRole::Caller, caller.identity().as_str(), 62);
    let namesake = open(&world, &approved(&sealed, &namesake));
    assert!(matches!(namesake, Err(ApprovalError::SelfApproval(_))), "{namesake:?}");
    for role in [UserRole::Node, UserRole::Service] {
        let other = open(&world, &approved(&sealed, &world.signer(role, "anna", 63)));
        assert!(matches!(other, Err(ApprovalError::Refused(_))), "{role}: {other:?}");
    }
    let foreigner = TestOrganisation::with_seed(151).signer(UserRole::Caller, "anna", 64);
    let foreign = open(&world, &approved(&sealed, &foreigner));
    assert!(matches!(foreign, Err(ApprovalError::Refused(_))), "{foreign:?}");
    // A proposal in the name of another caller.
    let eve = world.signer(UserRole::Caller, "eve", 65);
    let forged = sign_envelope(EnvelopeKind::Proposal, &proposal(id()), &eve).unwrap();
    let forged = open(&world, &approved(&forged, &world.signer(UserRole::Caller, "anna", 66)));
    assert!(matches!(forged, Err(ApprovalError::WrongSender { .. })), "{forged:?}");
}

#[test]
fn message_kinds_are_not_interchangeable() {
    let world = TestOrganisation::new();
    let caller = world.caller();
    let kinds = [
        EnvelopeKind::Request,
        EnvelopeKind::Reply,
        EnvelopeKind::Proposal,
        EnvelopeKind::Approval,
    ];
    for sealed in kinds {
        let bytes = sign_envelope(sealed, &proposal(id()), &caller).unwrap();
        for read in kinds {
            assert_eq!(Envelope::decode(read, &bytes).is_ok(), read == sealed);
        }
        let text = String::from_utf8(bytes).unwrap();
        for read in kinds {
            // The protocol name is signed: changing it outside the signature has no effect.
            let moved = text.replacen(sealed.protocol_name(), read.protocol_name(), 1);
            let envelope = Envelope::decode(read, moved.as_bytes()).unwrap();
            let opened =
                envelope.verify(&world.trust, &TokenCache::default(), NOW, &[UserRole::Caller]);
            assert_eq!(opened.is_ok(), read == sealed);
        }
    }
}

proptest! {
    #[test]
    fn inputs_match_only_equal_inputs(
        first in prop::collection::btree_map("[a-c]|password", "[x-z]{0,2}", 0..4),
        second in prop::collection::btree_map("[a-c]|password", "[x-z]{0,2}", 0..4),
    ) {
        let map = |inputs: &std::collections::BTreeMap<String, String>| -> Map<String, Value> {
            inputs.iter().map(|(name, value)| (name.clone(), json!(value))).collect()
        };
        let inputs = ProposalInputs::new(id(), &map(&first), secret);
        prop_assert_eq!(inputs.matches_request_data(id(), &map(&second), secret), first == second);
        if first.contains_key("password") {
            prop_assert!(!inputs.matches_request_data(Uuid::from_u128(7), &map(&first), secret));
        }
    }

    #[test]
    fn arbitrary_text_does_not_panic(text in "\\PC{0,64}", bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let world = TestOrganisation::new();
        prop_assert!(open(&world, &text).is_err());
        prop_assert!(open(&world, &encode_envelope(&bytes)).is_err());
        prop_assert!(open_proposal(&bytes, &world.trust, &TokenCache::default(), NOW).is_err());
    }

    #[test]
    fn changed_byte_invalidates_a_proposal(at in any::<prop::sample::Index>(), bit in 0_u8..8) {
        let world = TestOrganisation::new();
        let sealed = sign_envelope(EnvelopeKind::Proposal, &proposal(id()), &world.caller()).unwrap();
        let mut changed = sealed.clone();
        *at.get_mut(&mut changed) ^= 1 << bit;
        prop_assert!(open_proposal(&changed, &world.trust, &TokenCache::default(), NOW).is_err());
    }
}
