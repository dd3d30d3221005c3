//! One authentic message of every kind, and the function with which its receiver opens it.

use std::iter::successors;

use muster_wire::approval::{Approval, Inputs, Proposal, encode, open_approval, open_proposal};
use muster_wire::bundle::{Authority, Bundle, BundleError, Content, Mode, SIGN_TAG, pack};
use muster_wire::enrol::{Answer, Outcome, Wait, open_answer, open_hello, seal_hello};
use muster_wire::progress::Progress;
use muster_wire::sign::{Kind, Signer, open_progress, open_reply, open_request, seal};
use muster_wire::token::{Role, TokenCache};
use serde_json::Value;

use crate::enrolment::{Place, WEB, hello, machine};
use crate::world::{self, NOW, broadcast, expected, name, request};

/// All kinds. The match has no wildcard: a new kind does not compile until it is listed here.
pub(crate) fn kinds() -> Vec<Kind> {
    let next = |kind: &Kind| match kind {
        Kind::Request => Some(Kind::Reply),
        Kind::Reply => Some(Kind::Progress),
        Kind::Progress => Some(Kind::Proposal),
        Kind::Proposal => Some(Kind::Approval),
        Kind::Approval => Some(Kind::Bundle),
        Kind::Bundle => Some(Kind::Hello),
        Kind::Hello => Some(Kind::Welcome),
        Kind::Welcome => None,
    };
    successors(Some(Kind::Request), next).collect()
}

/// An organisation and its receivers.
pub(crate) struct Samples {
    pub(crate) place: Place,
    bootstrap: Signer,
    bundle: Vec<u8>,
}

impl Samples {
    pub(crate) fn new() -> Self {
        let place = Place::new();
        let bootstrap = place.bootstrap(&WEB);
        let ddl = Content {
            mode: Mode::Data,
            bytes: b"{}",
        };
        let program = Content {
            mode: Mode::Program,
            bytes: b"#!/bin/sh\n",
        };
        let files = [("disk.json", ddl), ("disk", program)]
            .map(|(path, content)| (path.to_owned(), content));
        let signer = packer(&place);
        let account = place.fleet.trust.token();
        let version = semver::Version::new(1, 2, 3);
        let bundle = pack(name("disk"), version, &files.into(), &signer, account, NOW);
        Self {
            place,
            bootstrap,
            bundle: bundle.unwrap(),
        }
    }

    /// Who may sign a message of this kind.
    pub(crate) fn signer(&self, kind: Kind) -> Signer {
        let fleet = &self.place.fleet;
        match kind {
            Kind::Request | Kind::Proposal => fleet.caller(),
            Kind::Reply | Kind::Progress => fleet.node(),
            Kind::Approval => fleet.signer(Role::Caller, "anna", 61),
            Kind::Bundle => packer(&self.place),
            Kind::Hello => self.place.bootstrap(&WEB),
            Kind::Welcome => self.place.enrolling(),
        }
    }

    /// An authentic message of this kind.
    pub(crate) fn sealed(&self, kind: Kind) -> Vec<u8> {
        let signer = self.signer(kind);
        let wish = hello("web-1.example.com", &machine(80), &self.bootstrap);
        let sealed = match kind {
            Kind::Request => seal(kind, &request(&["db1.acme.net"]), &signer),
            Kind::Reply => seal(kind, &world::reply(), &signer),
            Kind::Progress => seal(kind, &progress(), &signer),
            Kind::Proposal => seal(kind, &proposal(), &signer),
            Kind::Approval => {
                let approval = Approval {
                    proposal: encode(&self.sealed(Kind::Proposal)),
                    approver: signer.identity().clone(),
                    approved_at: NOW,
                };
                seal(kind, &approval, &signer)
            }
            Kind::Bundle => Ok(Bundle::decode(&self.bundle).unwrap().sealed.to_vec()),
            Kind::Hello => seal_hello(&wish, &signer, &machine(80)),
            Kind::Welcome => {
                let wait = Wait {
                    message: "not yet".to_owned(),
                    retry_after_ms: 1000,
                };
                let answer = Answer {
                    nonce: wish.nonce,
                    key: wish.key,
                    time: NOW,
                    outcome: Outcome::Wait(wait),
                };
                seal(kind, &answer, &signer)
            }
        };
        sealed.unwrap()
    }

    /// The body of that message.
    pub(crate) fn body(&self, kind: Kind) -> Value {
        let message: Value = serde_json::from_slice(&self.sealed(kind)).unwrap();
        message["body"].clone()
    }

    /// What the receiver of this kind makes of these bytes: nothing, or why it refuses them.
    pub(crate) fn open(&self, kind: Kind, bytes: &[u8]) -> Result<(), String> {
        let fleet = &self.place.fleet;
        let (trust, cache) = (&fleet.trust, TokenCache::default());
        let asked = request(&["db1.acme.net"]);
        let expected = expected(&asked);
        let wish = hello("web-1.example.com", &machine(80), &self.bootstrap);
        let newcomers = &self.place.newcomers;
        match kind {
            Kind::Request => open_request(bytes, &broadcast(), trust, &cache, NOW)
                .map(drop)
                .map_err(|refusal| refusal.to_string()),
            Kind::Reply => open_reply(bytes, &expected, trust, &cache, NOW)
                .map(drop)
                .map_err(|refusal| refusal.to_string()),
            Kind::Progress => open_progress(&[bytes], &expected, trust, &cache, NOW)
                .pop()
                .unwrap()
                .map(drop)
                .map_err(|refusal| refusal.to_string()),
            Kind::Proposal => open_proposal(bytes, trust, &cache, NOW)
                .map(drop)
                .map_err(|error| error.to_string()),
            Kind::Approval => open_approval(&encode(bytes), trust, &cache, NOW)
                .map(drop)
                .map_err(|error| error.to_string()),
            Kind::Bundle => self.open_bundle(bytes).map_err(|error| error.to_string()),
            Kind::Hello => open_hello(bytes, newcomers, &cache, NOW)
                .map(drop)
                .map_err(|error| error.to_string()),
            Kind::Welcome => open_answer(bytes, &wish, newcomers, &cache, NOW)
                .map(drop)
                .map_err(|error| error.to_string()),
        }
    }

    fn open_bundle(&self, sealed: &[u8]) -> Result<(), BundleError> {
        let bundle = Bundle {
            sealed,
            ..Bundle::decode(&self.bundle)?
        };
        let authority = Authority::Operator {
            operator: self.place.fleet.operator.public(),
            account: None,
        };
        bundle.open(&authority, NOW).map(drop)
    }
}

fn packer(place: &Place) -> Signer {
    place
        .fleet
        .signer_tagged(Role::Caller, "alice", 100, &[SIGN_TAG])
}

fn progress() -> Progress {
    let answer = world::reply();
    Progress {
        request: answer.request,
        sender: answer.sender,
        agent: answer.agent,
        action: answer.action,
        seq: 1,
        events: vec![Value::from("a")],
        dropped: 0,
        time: NOW,
    }
}

fn proposal() -> Proposal {
    let request = request(&["db1.acme.net"]);
    Proposal {
        id: request.id,
        caller: request.caller,
        collective: request.collective,
        agent: request.agent,
        action: request.action,
        nodes: [world::identity("db1.acme.net")].into(),
        inputs: Inputs::new(request.id, &request.data, |_| false),
        issued_at: NOW - 1000,
        expires_at: NOW + 60_000,
    }
}
