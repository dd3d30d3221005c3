//! Golden messages of protocol version 1. The files are never edited: a change of the bytes requires a new version.
//!
//! With `UPDATE_GOLDEN=1` missing files are written; existing files are only compared.

use std::fs;
use std::path::PathBuf;

use muster_filter::NodeFilter;
use muster_wire::catalog::content::{CHUNK_BYTES, ContentAddress, ContentDigest, FileEntry};
use muster_wire::encrypted_inputs::InputEncryptor;
use muster_wire::enrol::{
    EnrolmentAcceptance, EnrolmentAnswer, EnrolmentDeferral, EnrolmentOutcome, EnrolmentRefusal,
    EnrolmentRefusalReason as EnrolReason, open_enrolment_answer, open_enrolment_request,
    sign_enrolment_answer, sign_enrolment_request,
};
use muster_wire::enrolment::issue_node_token;
use muster_wire::progress::{ProgressCounts, ProgressMessage};
use muster_wire::reply::Reply;
use muster_wire::request::{Request, RequestTarget};
use muster_wire::sign::{EnvelopeKind, open_progress, open_reply, open_request};
use muster_wire::status::{ReplyReason, ReplyStatus};
use muster_wire::token::{AccountTrust, TokenCache, UserRole};
use muster_wire::trace::{StageName, StageTiming, TraceContext};
use serde_json::{Map, json};

use crate::enrolment::{EnrolmentFixture, enrolment_request, machine};
use crate::world::{NOW, TestOrganisation, broadcast, data, expected, reply, request, sealed};

/// Compares the golden file of this name with these bytes and a newline, and returns its content.
fn compare_golden(name: &str, bytes: &[u8]) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if !path.exists() && std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, [bytes, b"\n"].concat()).unwrap();
    }
    let stored = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let stored = stored.strip_suffix(b"\n").unwrap().to_vec();
    let texts = [&stored, bytes].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert_eq!(texts[0], texts[1], "{name}");
    stored
}

/// The released account token. Current account tokens may have wider scopes; messages signed under the released token must stay valid.
fn trust(world: &TestOrganisation) -> AccountTrust {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/account.jwt");
    let token = fs::read_to_string(path).unwrap();
    let trust = AccountTrust::new(world.operator.public_key(), token.trim()).unwrap();
    assert_eq!(trust.account_key(), world.trust.account_key());
    trust
}

fn check_request(name: &str, request: &Request) {
    let world = TestOrganisation::new();
    let stored = compare_golden(name, &sealed(EnvelopeKind::Request, request, &world.caller()));
    let cache = TokenCache::default();
    let opened = open_request(&stored, &broadcast(), &trust(&world), &cache, NOW).unwrap();
    assert_eq!(opened.request, *request);
}

fn check_reply(name: &str, reply: &Reply) {
    let world = TestOrganisation::new();
    let stored = compare_golden(name, &sealed(EnvelopeKind::Reply, reply, &world.node()));
    let asked = request(&["db1.acme.net"]);
    let cache = TokenCache::default();
    let opened = open_reply(&stored, &expected(&asked), &trust(&world), &cache, NOW).unwrap();
    assert_eq!(opened.reply, *reply);
}

#[test]
fn request_messages_match_their_goldens() {
    check_request("request_nodes.json", &request(&["db1.acme.net", "web1.acme.net"]));
    let mut filtered = request(&[]);
    let filter = NodeFilter::default()
        .with_fact("environment=development")
        .and_then(|filter| filter.with_fact("customer=acme"))
        .and_then(|filter| filter.with_class("mysql::master"))
        .and_then(|filter| filter.with_agent("puppetral"))
        .and_then(|filter| filter.with_identity("/^db/"));
    filtered.target = RequestTarget::Filter(filter.unwrap());
    check_request("request_filter.json", &filtered);
    let mut full = request(&["db1.acme.net"]);
    full.timeout = Some(5000);
    full.reply = false;
    full.data = Map::new();
    check_request("request_no_reply.json", &full);
    let mut streaming = request(&["db1.acme.net"]);
    streaming.stream = true;
    check_request("request_stream.json", &streaming);
}

#[test]
fn traced_request_and_its_reply() {
    let mut traced = request(&["db1.acme.net"]);
    traced.trace = true;
    let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    traced.traceparent = Some(TraceContext::parse(given).unwrap());
    check_request("request_traced.json", &traced);
    let stage = |stage, us| StageTiming { stage, us, refused: false };
    let traced_reply = Reply {
        stages: vec![stage(StageName::Decode, 1), stage(StageName::Run, 200_000)],
        ..reply()
    };
    check_reply("reply_traced.json", &traced_reply);
}

#[test]
fn request_with_encrypted_inputs() {
    let mut sealed = request(&["db1.acme.net"]);
    let world = TestOrganisation::new();
    let (node, key) = (world.node().identity().clone(), world.node().public_key());
    let secret = data(json!({"password": "$6$salt$hash"}));
    let with_key = InputEncryptor::with_secret(sealed.id, [42; 32]);
    sealed.sealed = Some(with_key.encrypt_inputs([(&node, &key)], &secret).unwrap());
    check_request("request_sealed.json", &sealed);
    let inputs = sealed.sealed.as_ref().unwrap();
    let open = |id| inputs.decrypt_inputs(&node, world.node().key_pair(), id);
    assert_eq!(open(sealed.id).unwrap(), secret);
    assert!(open(uuid::Uuid::now_v7()).is_err());
    assert!(inputs.decrypt_inputs(&node, world.caller().key_pair(), sealed.id).is_err());
}

#[test]
fn successful_reply() {
    check_reply("reply_ok.json", &reply());
}

#[test]
fn reply_for_each_status() {
    for status in [
        ReplyStatus::Failed,
        ReplyStatus::UnknownAction,
        ReplyStatus::MissingData,
        ReplyStatus::InvalidData,
        ReplyStatus::Other,
    ] {
        let mut answer = reply();
        answer.statuscode = status;
        answer.statusmsg = status.display_text().into();
        answer.data = Map::new();
        check_reply(&format!("reply_status_{}.json", status.code()), &answer);
    }
}

#[test]
fn reply_for_each_reason() {
    for reason in [
        ReplyReason::Timeout { after_ms: 5000 },
        ReplyReason::Busy { retry_after_ms: 750 },
        ReplyReason::Denied { rule: "puppetral.policy:3".to_owned() },
        ReplyReason::Expired { age_ms: -31_000 },
        ReplyReason::Cancelled,
        ReplyReason::Oversized { bytes: 2_000_000 },
        ReplyReason::Broken,
        ReplyReason::Stopping,
        ReplyReason::Lost,
    ] {
        let mut answer = reply();
        answer.statuscode = ReplyStatus::Other;
        answer.statusmsg = "not done".into();
        answer.data = Map::new();
        let file = format!("reply_{}.json", reason.as_str());
        answer.reason = Some(reason);
        check_reply(&file, &answer);
    }
}

#[test]
fn progress_and_its_final_reply() {
    let world = TestOrganisation::new();
    let asked = request(&["db1.acme.net"]);
    let cache = TokenCache::default();
    for (name, dropped) in [("progress.json", 0), ("progress_dropped.json", 7)] {
        let answer = reply();
        let progress = ProgressMessage {
            request: answer.request,
            sender: answer.sender,
            agent: answer.agent,
            action: answer.action,
            seq: 3,
            events: vec![json!({"stream": "stdout", "line": "copied 3 of 7"})],
            dropped,
            time: NOW + 100,
        };
        let stored =
            compare_golden(name, &sealed(EnvelopeKind::Progress, &progress, &world.node()));
        let trust = trust(&world);
        let opened = open_progress(&[&stored], &expected(&asked), &trust, &cache, NOW);
        assert_eq!(opened.into_iter().next().unwrap().unwrap(), progress);
    }
    let mut answer = reply();
    answer.progress = Some(ProgressCounts { messages: 3, dropped: 7 });
    check_reply("reply_after_progress.json", &answer);
}

#[test]
fn enrolment_request_and_its_answers() {
    let place = EnrolmentFixture::new();
    let (bootstrap, node) = (place.bootstrap(&["name:web-*.example.com"]), machine(80));
    let enrolment = enrolment_request("web-1.example.com", &node, &bootstrap);
    let stored = compare_golden(
        "hello.json",
        &sign_enrolment_request(&enrolment, &bootstrap, &node).unwrap(),
    );
    let cache = TokenCache::default();
    let opened = open_enrolment_request(&stored, &place.newcomers, &cache, NOW).unwrap();
    assert_eq!(opened.request, enrolment);
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/account.jwt");
    let welcome = EnrolmentAcceptance {
        identity: enrolment.identity.clone(),
        token: issue_node_token(
            &enrolment.identity,
            enrolment.key,
            place.fleet.trust.account_key(),
            None,
            place.fleet.role_key(UserRole::Node),
            NOW,
        )
        .unwrap(),
        account: fs::read_to_string(path).unwrap().trim().to_owned(),
        collectives: vec!["fleet".parse().unwrap()],
        urls: vec!["tls://broker.example.com:4222".to_owned()],
        facts: [("role".to_owned(), "web".to_owned())].into(),
        provisioning: true,
    };
    let wait =
        EnrolmentDeferral { message: "provisioning is paused".to_owned(), retry_after_ms: 15_000 };
    let refused = EnrolmentRefusal {
        reason: EnrolReason::NameTaken,
        message: "another key has the name".to_owned(),
    };
    for (name, outcome) in [
        ("welcome.json", EnrolmentOutcome::Welcome(Box::new(welcome))),
        ("welcome_wait.json", EnrolmentOutcome::Wait(wait)),
        ("welcome_refused.json", EnrolmentOutcome::Refused(refused)),
    ] {
        let answer =
            EnrolmentAnswer { nonce: enrolment.nonce, key: enrolment.key, time: NOW + 20, outcome };
        let stored = compare_golden(
            name,
            &sign_enrolment_answer(&answer, &place.enrolment_service()).unwrap(),
        );
        let opened =
            open_enrolment_answer(&stored, &enrolment, &place.newcomers, &cache, NOW).unwrap();
        assert_eq!(opened, answer.outcome);
    }
}

/// The chunks are those of a file of zeros.
#[test]
fn entries_of_the_content_store() {
    let small = FileEntry::Whole(b"# managed\n").encode().unwrap();
    let stored = compare_golden("content_whole.bin", &small);
    assert_eq!(FileEntry::decode(&stored).unwrap(), FileEntry::Whole(b"# managed\n"));
    let zeros = vec![0; 2 * CHUNK_BYTES + 3];
    let mut digest = ContentDigest::default();
    for chunk in zeros.chunks(CHUNK_BYTES) {
        digest.add_chunk(chunk).unwrap();
    }
    let (file, list) = digest.finish().unwrap();
    assert_eq!(file, ContentAddress::of(&zeros));
    let entry = FileEntry::Chunked(list);
    let stored = compare_golden("content_list.bin", &entry.encode().unwrap());
    assert_eq!(FileEntry::decode(&stored).unwrap(), entry);
}
