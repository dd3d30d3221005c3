//! One authentic message of every kind, and the function that opens it.

use std::iter::successors;

use muster_operations::bundle::{
    BundleArchive, BundleError, BundleFile, BundleFileMode, BundleSignerTrust, PLUGIN_SIGN_TAG,
    pack_bundle,
};
use muster_wire::approval::{
    ProposalApproval, ProposalInputs, RequestProposal, open_approval, open_proposal,
};
use muster_wire::catalog::content::ContentAddress;
use muster_wire::catalog::release::{ApplyTimes, Promotion, Release, ReleasedEntry, open_release};
use muster_wire::catalog::{
    CatalogAddress, CatalogSecrets, CatalogStatement, CompiledCatalog, open_compiled_catalog,
};
use muster_wire::enrol::{
    EnrolmentAnswer, EnrolmentDeferral, EnrolmentOutcome, open_enrolment_answer,
    open_enrolment_request, sign_enrolment_request,
};
use muster_wire::event::FleetEvent;
use muster_wire::history::{HistoryBatch, HistoryEvent, HistoryRecord, compress_records};
use muster_wire::node_record::{NodeContent, NodeHeartbeat, NodeRecord};
use muster_wire::progress::ProgressMessage;
use muster_wire::request::NodeFilter;
use muster_wire::schedule_grant::{ScheduleGrant, open_grant};
use muster_wire::sign::{
    EnvelopeKind, Signer, encode_envelope, open_event, open_heartbeat, open_history, open_progress,
    open_record, open_reply, open_request, sign_envelope,
};
use muster_wire::subject::EventAddress;
use muster_wire::token::{ServiceRight, TokenCache, UserRole};
use serde_json::{Map, Value, json};

use crate::enrolment::{EnrolmentFixture, WEB, enrolment_request, machine};
use crate::world::{self, NOW, broadcast, expected, name, request};

/// All kinds. The match has no wildcard, so a new kind does not compile until it is listed.
pub(crate) fn kinds() -> Vec<EnvelopeKind> {
    let next = |kind: &EnvelopeKind| match kind {
        EnvelopeKind::Request => Some(EnvelopeKind::Reply),
        EnvelopeKind::Reply => Some(EnvelopeKind::Progress),
        EnvelopeKind::Progress => Some(EnvelopeKind::Event),
        EnvelopeKind::Event => Some(EnvelopeKind::Record),
        EnvelopeKind::Record => Some(EnvelopeKind::Heartbeat),
        EnvelopeKind::Heartbeat => Some(EnvelopeKind::History),
        EnvelopeKind::History => Some(EnvelopeKind::Proposal),
        EnvelopeKind::Proposal => Some(EnvelopeKind::Approval),
        EnvelopeKind::Approval => Some(EnvelopeKind::Schedule),
        EnvelopeKind::Schedule => Some(EnvelopeKind::Catalog),
        EnvelopeKind::Catalog => Some(EnvelopeKind::Release),
        EnvelopeKind::Release => Some(EnvelopeKind::Promotion),
        EnvelopeKind::Promotion => Some(EnvelopeKind::Bundle),
        EnvelopeKind::Bundle => Some(EnvelopeKind::Hello),
        EnvelopeKind::Hello => Some(EnvelopeKind::Welcome),
        EnvelopeKind::Welcome => None,
    };
    successors(Some(EnvelopeKind::Request), next).collect()
}

/// An organisation and its recipients.
pub(crate) struct Samples {
    pub(crate) place: EnrolmentFixture,
    bootstrap: Signer,
    bundle: Vec<u8>,
}

impl Samples {
    pub(crate) fn new() -> Self {
        let place = EnrolmentFixture::new();
        let bootstrap = place.bootstrap(&WEB);
        let ddl = BundleFile { mode: BundleFileMode::Data, bytes: b"{}" };
        let program = BundleFile { mode: BundleFileMode::Program, bytes: b"#!/bin/sh\n" };
        let files = [("disk.json", ddl), ("disk", program)];
        let signer = bundle_signer(&place);
        let account = place.fleet.trust.account_token();
        let version = semver::Version::new(1, 2, 3);
        let bundle = pack_bundle(name("disk"), version, &files.into(), &signer, account, NOW);
        Self { place, bootstrap, bundle: bundle.unwrap() }
    }

    /// A signer that may sign messages of this kind.
    pub(crate) fn signer(&self, kind: EnvelopeKind) -> Signer {
        let fleet = &self.place.fleet;
        match kind {
            EnvelopeKind::Request
            | EnvelopeKind::Proposal
            | EnvelopeKind::Schedule
            | EnvelopeKind::Release
            | EnvelopeKind::Promotion => fleet.caller(),
            EnvelopeKind::Reply
            | EnvelopeKind::Progress
            | EnvelopeKind::Event
            | EnvelopeKind::Record
            | EnvelopeKind::Heartbeat
            | EnvelopeKind::History => fleet.node(),
            EnvelopeKind::Approval => fleet.signer(UserRole::Caller, "anna", 61),
            EnvelopeKind::Catalog => {
                let tags = ServiceRight::tags(&[ServiceRight::Compile]);
                let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
                fleet.signer_tagged(UserRole::Service, "compiler1", 62, &tags)
            }
            EnvelopeKind::Bundle => bundle_signer(&self.place),
            EnvelopeKind::Hello => self.place.bootstrap(&WEB),
            EnvelopeKind::Welcome => self.place.enrolment_service(),
        }
    }

    /// An authentic message of this kind.
    pub(crate) fn sealed(&self, kind: EnvelopeKind) -> Vec<u8> {
        let (fleet, signer) = (&self.place.fleet, self.signer(kind));
        let enrolment = enrolment_request("web-1.example.com", &machine(80), &self.bootstrap);
        let sealed = match kind {
            EnvelopeKind::Request => sign_envelope(kind, &request(&["db1.acme.net"]), &signer),
            EnvelopeKind::Reply => sign_envelope(kind, &world::reply(), &signer),
            EnvelopeKind::Progress => sign_envelope(kind, &progress(), &signer),
            EnvelopeKind::Event => sign_envelope(kind, &event(), &signer),
            EnvelopeKind::Record => sign_envelope(kind, &record(), &signer),
            EnvelopeKind::Heartbeat => sign_envelope(kind, &heartbeat(), &signer),
            EnvelopeKind::History => sign_envelope(kind, &history(), &signer),
            EnvelopeKind::Proposal => sign_envelope(kind, &proposal(), &signer),
            EnvelopeKind::Approval => {
                let approval = ProposalApproval {
                    proposal: encode_envelope(&self.sealed(EnvelopeKind::Proposal)),
                    approver: signer.identity().clone(),
                    approved_at: NOW,
                };
                sign_envelope(kind, &approval, &signer)
            }
            EnvelopeKind::Schedule => sign_envelope(kind, &grant(), &signer),
            EnvelopeKind::Catalog => {
                sign_envelope(kind, &compiled_catalog(&fleet.node(), &signer), &signer)
            }
            EnvelopeKind::Release => sign_envelope(kind, &release(), &signer),
            EnvelopeKind::Promotion => sign_envelope(kind, &self.promotion(), &signer),
            EnvelopeKind::Bundle => {
                Ok(BundleArchive::decode(&self.bundle).unwrap().envelope.to_vec())
            }
            EnvelopeKind::Hello => sign_enrolment_request(&enrolment, &signer, &machine(80)),
            EnvelopeKind::Welcome => {
                let wait =
                    EnrolmentDeferral { message: "not yet".to_owned(), retry_after_ms: 1000 };
                let answer = EnrolmentAnswer {
                    nonce: enrolment.nonce,
                    key: enrolment.key,
                    time: NOW,
                    outcome: EnrolmentOutcome::Wait(wait),
                };
                sign_envelope(kind, &answer, &signer)
            }
        };
        sealed.unwrap()
    }

    /// A promotion of the sample of a release.
    pub(crate) fn promotion(&self) -> Promotion {
        let request = request(&["db1.acme.net"]);
        Promotion {
            id: request.id,
            author: request.caller,
            collective: request.collective,
            release: Release::address_of(&encode_envelope(&self.sealed(EnvelopeKind::Release))),
            filter: NodeFilter::default(),
            issued_at: NOW,
            apply: Some(ApplyTimes {
                windows: vec!["sat 02:00-04:00".to_owned()],
                time_zone: Some("Europe/Berlin".to_owned()),
            }),
        }
    }

    /// The body of the sample of this kind.
    pub(crate) fn body(&self, kind: EnvelopeKind) -> Value {
        let message: Value = serde_json::from_slice(&self.sealed(kind)).unwrap();
        message["body"].clone()
    }

    /// Opens these bytes as this kind; returns the refusal as text.
    pub(crate) fn open(&self, kind: EnvelopeKind, bytes: &[u8]) -> Result<(), String> {
        let fleet = &self.place.fleet;
        let (trust, cache) = (&fleet.trust, TokenCache::default());
        let asked = request(&["db1.acme.net"]);
        let expected = expected(&asked);
        let enrolment = enrolment_request("web-1.example.com", &machine(80), &self.bootstrap);
        let newcomers = &self.place.newcomers;
        match kind {
            EnvelopeKind::Request => open_request(bytes, &broadcast(), trust, &cache, NOW)
                .map(drop)
                .map_err(|refusal| refusal.to_string()),
            EnvelopeKind::Reply => open_reply(bytes, &expected, trust, &cache, NOW)
                .map(drop)
                .map_err(|refusal| refusal.to_string()),
            EnvelopeKind::Progress => open_progress(&[bytes], &expected, trust, &cache, NOW)
                .pop()
                .unwrap()
                .map(drop)
                .map_err(|refusal| refusal.to_string()),
            EnvelopeKind::Event => {
                let event = event();
                let address = EventAddress { kind: event.kind, node: event.sender };
                open_event(bytes, &address, trust, &cache, NOW)
                    .map(drop)
                    .map_err(|refusal| refusal.to_string())
            }
            EnvelopeKind::Record => open_record(bytes, &event().sender, trust, &cache, NOW)
                .map(drop)
                .map_err(|refusal| refusal.to_string()),
            EnvelopeKind::Heartbeat => open_heartbeat(bytes, &event().sender, trust, &cache, NOW)
                .map(drop)
                .map_err(|refusal| refusal.to_string()),
            EnvelopeKind::History => open_history(bytes, &event().sender, trust, &cache, NOW)
                .map(drop)
                .map_err(|refusal| refusal.to_string()),
            EnvelopeKind::Proposal => open_proposal(bytes, trust, &cache, NOW)
                .map(drop)
                .map_err(|error| error.to_string()),
            EnvelopeKind::Approval => open_approval(&encode_envelope(bytes), trust, &cache, NOW)
                .map(drop)
                .map_err(|error| error.to_string()),
            EnvelopeKind::Schedule => open_grant(&encode_envelope(bytes), trust, &cache, NOW)
                .map(drop)
                .map_err(|error| error.to_string()),
            EnvelopeKind::Catalog => {
                let node = fleet.node();
                let sample = compiled_catalog(&node, &self.signer(kind));
                let (node, address) = (node.identity(), sample.statement.address);
                open_compiled_catalog(bytes, node, address, trust, &cache, NOW)
                    .map(drop)
                    .map_err(|error| error.to_string())
            }
            EnvelopeKind::Release => open_release(&encode_envelope(bytes), trust, &cache)
                .map(drop)
                .map_err(|error| error.to_string()),
            EnvelopeKind::Promotion => {
                let release = encode_envelope(&self.sealed(EnvelopeKind::Release));
                let entry = ReleasedEntry { promotion: encode_envelope(bytes), release };
                entry.open(trust, &cache, NOW).map(drop).map_err(|error| error.to_string())
            }
            EnvelopeKind::Bundle => self.open_bundle(bytes).map_err(|error| error.to_string()),
            EnvelopeKind::Hello => open_enrolment_request(bytes, newcomers, &cache, NOW)
                .map(drop)
                .map_err(|error| error.to_string()),
            EnvelopeKind::Welcome => {
                open_enrolment_answer(bytes, &enrolment, newcomers, &cache, NOW)
                    .map(drop)
                    .map_err(|error| error.to_string())
            }
        }
    }

    fn open_bundle(&self, sealed: &[u8]) -> Result<(), BundleError> {
        let bundle = BundleArchive { envelope: sealed, ..BundleArchive::decode(&self.bundle)? };
        let authority = BundleSignerTrust::Operator {
            operator: self.place.fleet.operator.public_key(),
            account: None,
        };
        bundle.verify_contents(&authority, NOW).map(drop)
    }
}

fn bundle_signer(place: &EnrolmentFixture) -> Signer {
    place.fleet.signer_tagged(UserRole::Caller, "alice", 100, &[PLUGIN_SIGN_TAG])
}

fn progress() -> ProgressMessage {
    let answer = world::reply();
    ProgressMessage {
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

fn release() -> Release {
    Release {
        name: name("r42"),
        author: request(&["db1.acme.net"]).caller,
        environment: "production".to_owned(),
        code: "4f2c1e".to_owned(),
        created_at: NOW,
        nodes: 2,
        list: ContentAddress::of(b"list"),
        plugins: Some(ContentAddress::of(b"plugins")),
    }
}

fn grant() -> ScheduleGrant {
    let request = request(&["db1.acme.net"]);
    ScheduleGrant {
        id: request.id,
        author: request.caller,
        collective: request.collective,
        name: name("nightly"),
        issued_at: NOW,
        expires_at: NOW + 60_000,
        schedule: Map::from_iter([("agent".to_owned(), "puppet".into())]),
    }
}

/// A catalog without secrets, so that its bytes are the same each time.
fn compiled_catalog(node: &Signer, compiler: &Signer) -> CompiledCatalog {
    let catalog = json!({"name": node.identity(), "resources": []});
    let mut catalog = catalog.as_object().unwrap().clone();
    let address = CatalogAddress::of_catalog(&mut catalog);
    let statement = CatalogStatement {
        compiler: compiler.identity().clone(),
        node: node.identity().clone(),
        environment: "production".to_owned(),
        code: "4f2c1e".to_owned(),
        address,
        compiled_at: NOW,
    };
    let (secrets, key) = (CatalogSecrets::default(), node.public_key());
    CompiledCatalog::new(statement, &catalog, &secrets, &key).unwrap()
}

fn record() -> NodeRecord {
    let content = NodeContent { version: "0.1.0".to_owned(), ..NodeContent::default() };
    NodeRecord::new(event().sender, NOW, &content, &content).unwrap()
}

fn history() -> HistoryBatch {
    let killed = HistoryEvent::Aborted { run: uuid::Uuid::nil(), reason: "killed".to_owned() };
    let (records, _) =
        compress_records(&[HistoryRecord { seq: 1, time: NOW, number: None, event: killed }])
            .unwrap();
    let segment = uuid::Uuid::nil();
    HistoryBatch { sender: event().sender, segment, previous: None, records }
}

fn heartbeat() -> NodeHeartbeat {
    let digest = NodeContent::default().digest().unwrap();
    NodeHeartbeat { sender: event().sender, time: NOW, digest, boot: uuid::Uuid::nil() }
}

fn event() -> FleetEvent {
    let answer = world::reply();
    FleetEvent {
        id: answer.request,
        sender: answer.sender,
        kind: name("restart_ok"),
        text: "httpd: restarted".into(),
        data: Map::from_iter([("pid".to_owned(), 4711.into())]),
        time: NOW,
    }
}

fn proposal() -> RequestProposal {
    let request = request(&["db1.acme.net"]);
    RequestProposal {
        id: request.id,
        caller: request.caller,
        collective: request.collective,
        agent: request.agent,
        action: request.action,
        nodes: [world::identity("db1.acme.net")].into(),
        inputs: ProposalInputs::new(request.id, &request.data, |_| false),
        issued_at: NOW - 1000,
        expires_at: NOW + 60_000,
    }
}
