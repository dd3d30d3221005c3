//! Envelopes of proposals and approvals, and their bodies without signatures, so that the fuzzer reaches the bodies.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_wire::approval::{ProposalApproval, RequestProposal};
use muster_wire::sign::{Envelope, EnvelopeKind};

fuzz_target!(|bytes: &[u8]| {
    for kind in [EnvelopeKind::Proposal, EnvelopeKind::Approval] {
        let _ = Envelope::decode(kind, bytes);
    }
    if let Ok(proposal) = serde_json::from_slice::<RequestProposal>(bytes) {
        let again = serde_json::to_vec(&proposal).expect("a proposal is written");
        let read: RequestProposal = serde_json::from_slice(&again).expect("and read back");
        assert_eq!(read, proposal);
        let data = &proposal.inputs.clear;
        let made = muster_wire::approval::ProposalInputs::new(proposal.id, data, |name| {
            name.starts_with('s')
        });
        assert!(made.matches_request_data(proposal.id, data, |name| name.starts_with('s')));
    }
    if let Ok(approval) = serde_json::from_slice::<ProposalApproval>(bytes) {
        let again = serde_json::to_vec(&approval).expect("an approval is written");
        let read: ProposalApproval = serde_json::from_slice(&again).expect("and read back");
        assert_eq!(read, approval);
    }
});
