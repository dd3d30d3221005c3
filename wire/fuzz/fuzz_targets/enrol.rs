//! Enrolment requests and answers, name patterns and token grants: decoded values encode to equal values.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_wire::enrol::{
    EnrolmentAnswer, EnrolmentRequest, NamePattern, TokenGrant, TokenGrantFact,
};
use muster_wire::identity::Identity;
use muster_wire::sign::{Envelope, EnvelopeKind};

fuzz_target!(|bytes: &[u8]| {
    for kind in [EnvelopeKind::Hello, EnvelopeKind::Welcome] {
        let _ = Envelope::decode(kind, bytes);
    }
    if let Ok(hello) = serde_json::from_slice::<EnrolmentRequest>(bytes) {
        let again = serde_json::to_vec(&hello).expect("a request is written");
        let read: EnrolmentRequest = serde_json::from_slice(&again).expect("and read back");
        assert_eq!(read, hello);
    }
    if let Ok(answer) = serde_json::from_slice::<EnrolmentAnswer>(bytes) {
        let again = serde_json::to_vec(&answer).expect("an answer is written");
        let read: EnrolmentAnswer = serde_json::from_slice(&again).expect("and read back");
        assert_eq!(read, answer);
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Some((pattern, name)) = text.split_once('\n')
        && let (Ok(pattern), Ok(name)) = (NamePattern::parse(pattern), Identity::parse(name))
    {
        let _ = pattern.matches(&name);
        assert!(NamePattern::parse("**").expect("a pattern").matches(&name));
    }
    let tags: Vec<String> = text.lines().map(str::to_owned).collect();
    if let Ok(grant) = TokenGrant::from_tags(&tags) {
        let again = grant.to_tags().expect("a grant has tags");
        assert_eq!(TokenGrant::from_tags(&again).expect("and is read from them"), grant);
    }
    let _ = text.parse::<TokenGrantFact>();
});
