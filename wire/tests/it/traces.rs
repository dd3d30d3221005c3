//! Trace contexts of W3C Trace Context, and stages of newer nodes.

use muster_wire::trace::{StageName, StageTiming, TraceContext};
use proptest::prelude::*;
use uuid::Uuid;

const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[test]
fn trace_context_round_trips() {
    let parsed = TraceContext::parse(GIVEN).unwrap();
    assert_eq!(parsed.to_string(), GIVEN);
    assert_eq!(parsed.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(serde_json::to_string(&parsed).unwrap(), format!("\"{GIVEN}\""));
}

#[test]
fn later_version_is_read_as_version_00() {
    let later = GIVEN.replacen("00", "cc", 1);
    for text in [later.clone(), format!("{later}-what-comes-then")] {
        assert_eq!(TraceContext::parse(&text).unwrap().to_string(), GIVEN);
    }
    assert!(TraceContext::parse(&format!("{later}x")).is_err());
}

#[test]
fn invalid_trace_contexts_are_refused() {
    for text in [
        "",
        "00",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        "00-4bf92f3577b34da6a3ce929d0e0e47360-0f067aa0ba902b7-01",
        "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    ] {
        assert!(TraceContext::parse(text).is_err(), "{text}");
    }
}

#[test]
fn unknown_stages_are_read_as_other() {
    let stage: StageTiming =
        serde_json::from_str(r#"{"stage":"teleport","us":7,"colour":"red"}"#).unwrap();
    assert_eq!((stage.stage, stage.us), (StageName::Other, 7));
    let refused = StageTiming { stage: StageName::Authorise, us: 12, refused: true };
    assert_eq!(
        serde_json::to_string(&refused).unwrap(),
        r#"{"stage":"authorise","us":12,"refused":true}"#
    );
    assert_eq!(StageName::Authorise.as_str(), "authorise");
}

proptest! {
    #[test]
    fn arbitrary_text_does_not_panic(text in any::<String>()) {
        let _ = TraceContext::parse(&text);
    }

    #[test]
    fn new_trace_context_parses(trace in 1_u128.., span in 1_u64..) {
        let new_trace = TraceContext::new_trace(Uuid::from_u128(trace), Uuid::from_u64_pair(0, span));
        prop_assert_eq!(TraceContext::parse(&new_trace.to_string()), Ok(new_trace));
    }
}
