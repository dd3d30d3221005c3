//! Renders replies of the `puppet` agent: tables and documents about Puppet's state and last runs.

pub mod count;
pub mod runs;
pub mod status;
pub mod summary;

#[cfg(test)]
pub(crate) mod fixtures {
    //! Sample replies for the tests of renderers.

    use serde_json::{Value, json};

    use crate::report::testing::{reply, report};
    use muster_client::RequestReport;

    fn state(status: &str, more: Value) -> Value {
        let mut data = json!({
            "applying": status == "applying a catalog", "idling": status == "idling", "enabled": status != "disabled",
            "daemon_present": status == "idling", "status": status, "disable_message": null, "lastrun": 1_767_225_000,
            "since_lastrun": 600, "message": format!("Currently {status}"), "holder": "none", "holder_pid": null,
            "run": null, "run_state": null, "pending": 0, "engine": "puppet",
        });
        let more: serde_json::Map<String, Value> = serde_json::from_value(more).unwrap();
        data.as_object_mut().unwrap().extend(more);
        data
    }

    /// Nodes in every state.
    pub(crate) fn states() -> RequestReport {
        let run = "019a9f2e-7c1b-7d44-9a57-0e6f5c1d2b3a";
        let replies = vec![
            reply(
                "web1.example.net",
                0,
                "OK",
                state("idling", json!({"last_class": "compile_failed", "last_failed": 0})),
            ),
            reply(
                "web2.example.net",
                0,
                "OK",
                state("stopped", json!({"pending": 1, "lastrun": 0, "since_lastrun": 0})),
            ),
            reply(
                "web3.example.net",
                0,
                "OK",
                state(
                    "disabled",
                    json!({"disable_message": "moving to new racks, \u{1b}[2Jann", "since_lastrun": 360_000}),
                ),
            ),
            reply(
                "db1.example.net",
                0,
                "OK",
                state(
                    "applying a catalog",
                    json!({"holder": "ours", "holder_pid": 4711, "run": run, "run_state": "applying", "since_lastrun": 7400}),
                ),
            ),
            reply(
                "db2.example.net",
                0,
                "OK",
                state(
                    "applying a catalog",
                    json!({"holder": "puppet", "holder_pid": 99, "since_lastrun": 42}),
                ),
            ),
            reply(
                "db3.example.net",
                0,
                "OK",
                state(
                    "stopped",
                    json!({"holder": "stale", "run": run, "run_state": "waiting_permit", "last_class": "failed+changed", "last_failed": 2}),
                ),
            ),
            reply("mail.example.net", 5, "denied by default.policy:1", json!({})),
        ];
        report("puppet", "status", replies)
    }
}
