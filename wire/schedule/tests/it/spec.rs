//! Schedules as JSON: what is refused, and with which text.

use muster_schedule::{MAX_SCHEDULE_BYTES, ScheduleSpec};
use serde_json::{Value, json};

use crate::fleet::spec;

fn error(fields: Value) -> String {
    spec(fields).compile().unwrap_err().to_string()
}

#[test]
fn schedule_keeps_its_json() {
    let text = r#"{"agent":"puppet","action":"runonce","inputs":{"noop":true},"filter":{"class":["apache"]},"cron":"0 3 * * *","time_zone":"Europe/Berlin","spread":600,"windows":["mon-fri 22:00-04:00"],"blackouts":[{"from":"2026-12-24T00:00:00+01:00","until":"2026-12-27T00:00:00+01:00","reason":"holidays"}],"limit":10,"pool":"puppet","priority":-10,"catch_up":3600,"skip_if_ran_within":600,"timeout":900}"#;
    let spec = ScheduleSpec::from_json(text.as_bytes()).unwrap();
    assert_eq!(spec.to_json().unwrap(), text);
    spec.compile().unwrap();
}

#[test]
fn smallest_schedule_has_defaults() {
    let spec = spec(json!({"every": 60}));
    assert_eq!(spec.priority, -10);
    assert!(spec.filter.is_empty());
    spec.compile().unwrap();
}

#[test]
fn invalid_schedules_are_refused_with_what_to_do() {
    for (fields, expected) in [
        (
            json!({}),
            "a schedule has either an interval (`every`) or a cron expression (`cron`); this one has none",
        ),
        (
            json!({"every": 60, "cron": "* * * * *"}),
            "a schedule has either an interval (`every`) or a cron expression (`cron`); this one has both",
        ),
        (json!({"every": 4}), "`every` is 4 s; it is 5 s to 31 d 0 h"),
        (json!({"every": 0}), "`every` is 0 s; it is 5 s to 31 d 0 h"),
        (json!({"every": u64::MAX}), "`every` is 213503982334 d 14 h; it is 5 s to 31 d 0 h"),
        (
            json!({"every": 60, "spread": 5}),
            "`spread` has no effect without `cron`; remove it, or give `cron`",
        ),
        (
            json!({"every": 60, "catch_up": 61}),
            "`catch_up` is 1 m 01 s; it is 0 s to 1 m 00 s, as the node's next turn follows then",
        ),
        (
            json!({"every": 60, "skip_if_ran_within": 60}),
            "`skip_if_ran_within` is 1 m 00 s; it is 0 s to 59 s, because an interval as long as that would skip every other turn",
        ),
        (json!({"every": 60, "timeout": 0}), "`timeout` is 0 s; it is 1 s to 1 d 0 h"),
        (
            json!({"cron": "* * * * *", "spread": 86401}),
            "`spread` is 1 d 0 h; it is 0 s to 1 d 0 h",
        ),
        (
            json!({"every": 60, "time_zone": "Europe/Nowhere"}),
            "there is no time zone `Europe/Nowhere`; names are those of IANA, such as Europe/Berlin",
        ),
        (
            json!({"every": 60, "time_zone": "../../etc/passwd"}),
            "there is no time zone `../../etc/passwd`; names are those of IANA, such as Europe/Berlin",
        ),
        (
            json!({"every": 60, "filter": {"select": "service(\"sshd\").running=true"}}),
            "the filter reads the data source `service`, which only nodes can evaluate; the filter of a schedule may use facts, classes, agents and names",
        ),
        (
            json!({"every": 60, "blackouts": [{"from": "2026-12-24", "until": "x"}]}),
            "`2026-12-24` is not a time for a blackout; write it with its offset, such as 2026-12-24T00:00:00+01:00",
        ),
        (
            json!({"every": 60, "blackouts": [{"from": "2026-12-24T00:00:00Z", "until": "2026-12-24T01:00:00+01:00"}]}),
            "the blackout from 2026-12-24T00:00:00Z until 2026-12-24T01:00:00+01:00 ends before it begins",
        ),
        (
            json!({"every": 60, "blackouts": [{"from": "2026-12-24T00:00:00Z", "until": "2026-12-25T00:00:00Z", "reason": "a\u{1b}[2J"}]}),
            "the reason of the blackout from 2026-12-24T00:00:00Z contains control characters",
        ),
        (
            json!({"every": 60, "windows": vec!["mon 22:00-04:00"; 33]}),
            "`windows` has 33 entries; at most 32 are allowed",
        ),
    ] {
        assert_eq!(error(fields.clone()), expected, "{fields}");
    }
}

#[test]
fn decoder_refuses_what_it_does_not_know() {
    let refused = |text: &str| {
        let error = ScheduleSpec::from_json(text.as_bytes()).unwrap_err();
        muster_base::error_chain(&error)
    };
    let unknown = refused(r#"{"agent":"a","action":"b","every":60,"evry":1}"#);
    assert!(unknown.contains("unknown field `evry`"), "{unknown}");
    let double = refused(r#"{"agent":"a","action":"b","every":60,"every":61}"#);
    assert!(double.contains("duplicate key `every`"), "{double}");
    let zero = refused(r#"{"agent":"a","action":"b","every":60,"limit":0}"#);
    assert!(zero.contains("nonzero"), "{zero}");
    let large = refused(&" ".repeat(MAX_SCHEDULE_BYTES + 1));
    assert_eq!(large, "the schedule has 32769 bytes; at most 32768 are allowed");

    let mut inputs = spec(json!({"every": 60}));
    inputs.inputs.insert("text".into(), "x".repeat(MAX_SCHEDULE_BYTES).into());
    assert!(inputs.compile().unwrap_err().to_string().contains("at most 32768"));
}
