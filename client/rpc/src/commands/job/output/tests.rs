//! Output of jobs, and the differences between two jobs.

use muster_client::jobs::{RequestOutcome, SavedJob};
use serde_json::{Value, json};

use crate::commands::job::output::{
    JobDifference, JobDocument, JobListDocument, render_job, render_job_list,
};
use crate::report::testing::WIDTH;
use crate::report::testing::plain;

const OPERATOR: &str = "ODLVVGABQKYQVN6VJP7NHSLEA45A5YLS6PNKMIZFV4BBU2HXA5IRVH7S";
const ACCOUNT: &str = "AA6UAF6D5BBYSWUSW4FKOTI3P26JZGBMZ4XMJFUMYDGVL4JK6RTAZQQS";

fn job(lines: &[Value]) -> SavedJob {
    let header = json!({
        "kind": "job", "schema": "muster.job.lines.v1", "id": "20260101-000000-00000a", "name": "patch",
        "started": 1_767_225_600_000_u64, "fleet": {"name": "acme", "operator": OPERATOR, "account": ACCOUNT}, "collective": "muster", "agent": "service", "action": "restart",
        "read_only": false, "inputs": {"service": "httpd", "force": true}, "target": "nodes that have class apache",
        "nodes": ["a", "b", "c", "d"], "shaping": {"ttl_ms": 60000},
    });
    let lines = std::iter::once(&header).chain(lines);
    let lines: Vec<String> = lines.map(Value::to_string).collect();
    SavedJob::from_bytes((lines.join("\n") + "\n").as_bytes()).unwrap()
}

fn result(node: &str, code: u8, message: &str, data: &Value) -> Value {
    json!({"kind": "result", "sender": node, "statuscode": code, "statusmsg": message, "took_ms": 3, "data": data})
}

fn interrupted() -> SavedJob {
    job(&[
        json!({"kind": "wave", "number": 1, "nodes": ["a", "b", "c"]}),
        json!({"kind": "sent", "request": "01890a5d-ac96-774b-bcce-b302099a8057"}),
        result("a", 0, "OK", &json!({"status": "running"})),
        result("b", 1, "no\u{1b}[2J", &json!({})),
        json!({"kind": "what a later version adds"}),
    ])
}

#[test]
fn interrupted_job_lists_failed_missing_and_unasked_nodes() {
    let job = interrupted();
    assert_eq!((job.outcome(), job.damaged), (RequestOutcome::SomeFailed, 0));
    insta::assert_snapshot!(plain(&render_job(&job, WIDTH)), @r"
             Job: 20260101-000000-00000a
            Name: patch
           State: interrupted
          Action: service restart
          Inputs: force=true service=httpd
          Target: nodes that have class apache
           Fleet: acme
         Account: AA6UAF6D5BBYSWUSW4FKOTI3P26JZGBMZ4XMJFUMYDGVL4JK6RTAZQQS
      Collective: muster
         Started: 2026-01-01 00:00:00Z
        Requests: 01890a5d-ac96-774b-bcce-b302099a8057
           Nodes: 4 (1 succeeded)

    Failed:

       b: Failed: no\x1b[2J

    No response from:

       c

    No request sent to:

       d
    ");
    insta::assert_snapshot!(plain(&render_job_list(&[job], 120)), @"
    JOB                     STARTED               FLEET  STATE        RESULT                  REQUEST
    20260101-000000-00000a  2026-01-01 00:00:00Z  acme   interrupted  1/4 ok, 1 failed, 1 no  patch: service restart
                                                                      response, 1 not called  force=true service=httpd
    ");
}

#[test]
fn name_of_a_job_is_not_cut_in_a_narrow_list() {
    let list = plain(&render_job_list(&[interrupted()], 80));
    assert!(list.contains("patch:"), "{list}");
}

#[test]
fn json_documents_of_jobs() {
    let job = interrupted();
    let later = serde_json::to_value(JobDocument::new(&job)).unwrap();
    assert_eq!(later["schema"], "muster.job.v1");
    assert_eq!(later["job"]["state"], "interrupted");
    assert_eq!(later["never_asked"], json!(["d"]));
    assert_eq!(later["no_responses"], json!(["c"]));
    assert_eq!(later["replies"][0]["data"], json!({"status": "running"}));
    let jobs = serde_json::to_value(JobListDocument::new(&[job])).unwrap();
    assert_eq!(jobs["jobs"][0]["never_asked"], 1);
}

#[test]
fn diff_lists_nodes_with_different_replies() {
    let before = job(&[
        result("a", 0, "OK", &json!({"version": "1.0"})),
        result("b", 0, "OK", &json!({"version": "1.0"})),
        result("c", 0, "OK", &json!({})),
        result("d", 0, "OK", &json!({})),
    ]);
    let after = job(&[
        result("a", 0, "OK", &json!({"version": "2.0", "new": [1]})),
        result("b", 0, "OK", &json!({"version": "1.0"})),
        result("c", 1, "no", &json!({})),
    ]);
    let difference = JobDifference::between_jobs(&before, &after);
    assert!(!difference.is_empty() && JobDifference::between_jobs(&before, &before).is_empty());
    insta::assert_snapshot!(plain(&difference.render_text(WIDTH)), @r#"
    a
       new: null -> [1]
       version: 1.0 -> 2.0
    c
       status: OK -> Failed: no

    Replied only in the earlier job:

       d

    1 node with the same reply, 2 with different replies
    "#);
    let document = serde_json::to_value(&difference).unwrap();
    assert_eq!(document["changed"]["c"][0]["what"], "status");
}
