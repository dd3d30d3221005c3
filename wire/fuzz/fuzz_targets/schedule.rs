//! Schedules: what the decoder accepts is compiled, its times are asked for, and it is written and read back. Envelopes and bodies of grants.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_schedule::ScheduleSpec;
use muster_wire::schedule_grant::ScheduleGrant;
use muster_wire::sign::{Envelope, EnvelopeKind};

/// An instant at which the times of a schedule are asked for.
const NOW: u64 = 1_795_737_600_000;

fuzz_target!(|bytes: &[u8]| {
    let _ = Envelope::decode(EnvelopeKind::Schedule, bytes);
    if let Ok(grant) = serde_json::from_slice::<ScheduleGrant>(bytes) {
        let again = serde_json::to_vec(&grant).expect("a grant is written");
        let read: ScheduleGrant = serde_json::from_slice(&again).expect("and read back");
        assert_eq!(read, grant);
    }
    let Ok(spec) = ScheduleSpec::from_json(bytes) else { return };
    let again = spec.to_json().expect("a schedule is written");
    assert_eq!(ScheduleSpec::from_json(again.as_bytes()).expect("and read back"), spec);
    let Ok(schedule) = spec.compile() else { return };
    let _ = (schedule.next_turn_after(NOW), schedule.turns_until(NOW, 3), schedule.admits(NOW, NOW));
});
