//! Envelopes and bodies of messages from the network.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_wire::reply::Reply;
use muster_wire::request::Request;
use muster_wire::sign::{Envelope, EnvelopeKind};
use muster_wire::subject::RequestAddress;

fuzz_target!(|bytes: &[u8]| {
    for kind in [EnvelopeKind::Request, EnvelopeKind::Reply] {
        let _ = Envelope::decode(kind, bytes);
    }
    let _ = std::str::from_utf8(bytes).map(RequestAddress::parse);
    if let Ok(request) = Request::decode(bytes) {
        let again = serde_json::to_vec(&request).expect("a request is written");
        assert_eq!(Request::decode(&again).expect("and read back"), request);
    }
    if let Ok(reply) = Reply::decode(bytes) {
        let again = serde_json::to_vec(&reply).expect("a reply is written");
        assert_eq!(Reply::decode(&again).expect("and read back"), reply);
    }
});
