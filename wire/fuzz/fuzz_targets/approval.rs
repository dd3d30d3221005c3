//! Proposals and approvals: their envelopes, and their bodies apart from signatures, so that the fuzzer reaches them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_wire::approval::{Approval, Proposal};
use muster_wire::sign::{Envelope, Kind};

fuzz_target!(|bytes: &[u8]| {
    for kind in [Kind::Proposal, Kind::Approval] {
        let _ = Envelope::decode(kind, bytes);
    }
    if let Ok(proposal) = serde_json::from_slice::<Proposal>(bytes) {
        let again = serde_json::to_vec(&proposal).expect("a proposal is written");
        let read: Proposal = serde_json::from_slice(&again).expect("and read back");
        assert_eq!(read, proposal);
        let data = &proposal.inputs.clear;
        let made =
            muster_wire::approval::Inputs::new(proposal.id, data, |name| name.starts_with('s'));
        assert!(made.are(proposal.id, data, |name| name.starts_with('s')));
    }
    if let Ok(approval) = serde_json::from_slice::<Approval>(bytes) {
        let again = serde_json::to_vec(&approval).expect("an approval is written");
        let read: Approval = serde_json::from_slice(&again).expect("and read back");
        assert_eq!(read, approval);
    }
});
