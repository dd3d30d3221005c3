//! Evaluation of the replies to a diagnosis.

use std::time::Duration;

use muster_calls::{DdlStore, ReceivedReply};
use muster_client::{AgentSchemas, RollCall};
use serde_json::{Value, json};

use super::fleet_section;
use crate::doctor::finding::{DiagnosisFinding, DiagnosisLevel, DiagnosisSection};

fn answer(node: &str, code: u8, data: &Value) -> ReceivedReply {
    let reply = json!({
        "request": "01890a5d-ac96-774b-bcce-b302099a8057", "sender": node, "agent": "rpcutil", "action": "diagnose",
        "statuscode": code, "statusmsg": "told", "data": data, "time": 1_767_225_600_000_u64, "took": 7,
    });
    ReceivedReply {
        reply: serde_json::from_value(reply).unwrap(),
        after: Duration::from_millis(20),
        arrived: 1_767_225_600_000,
        rights: Vec::new(),
        verifying: Duration::from_micros(100),
    }
}

fn diagnosis(version: &str, rpcutil: &str) -> Value {
    json!({"version": version, "agents": {"rpcutil": rpcutil}, "findings": [], "sandbox": {}})
}

fn evaluate(answers: Vec<(ReceivedReply, i64)>) -> DiagnosisSection {
    let (answers, skews) = answers.into_iter().unzip();
    let call = RollCall { answers, skews, ..RollCall::default() };
    evaluate_call(&call)
}

fn evaluate_call(call: &RollCall) -> DiagnosisSection {
    fleet_section(call, &AgentSchemas::load(None).unwrap())
}

fn find<'a>(section: &'a DiagnosisSection, check: &str) -> &'a DiagnosisFinding {
    section.findings.iter().find(|finding| finding.check == check).unwrap()
}

fn local_version() -> String {
    let store = DdlStore::load(None).unwrap();
    store.get("rpcutil").unwrap().version().to_owned()
}

#[test]
fn identical_nodes_have_no_findings() {
    let data = diagnosis("1.2.3", &local_version());
    let section = evaluate(vec![(answer("a", 0, &data), 0), (answer("b", 0, &data), -999)]);
    assert_eq!(section.about, "Fleet: 2 nodes");
    assert!(!section.is_local && !section.has_errors());
    assert!(section.findings.iter().all(|finding| finding.level == DiagnosisLevel::Ok));
    assert_eq!(find(&section, "versions").message, "all run rpcd 1.2.3");
}

#[test]
fn findings_about_differences_name_the_nodes() {
    let (same, other) = (diagnosis("1.2.3", &local_version()), diagnosis("1.2.4", "0.0.1"));
    let section = evaluate(vec![
        (answer("a", 0, &same), 0),
        (answer("b", 0, &other), 5_000),
        (answer("c", 0, &same), -31_000),
    ]);
    assert!(section.has_errors());
    assert_eq!(find(&section, "versions").message, "different rpcd versions: 1.2.3 (2), 1.2.4 (1)");
    assert_eq!(find(&section, "ddls").nodes, ["b".parse().unwrap()].into());
    let clocks: Vec<_> =
        section.findings.iter().filter(|finding| finding.check == "clocks").collect();
    assert_eq!(
        (clocks[0].level, clocks[1].level),
        (DiagnosisLevel::Warning, DiagnosisLevel::Error)
    );
    assert_eq!(clocks[1].message, "up to 31 s off the local clock");
}

#[test]
fn equal_findings_are_merged_and_sorted_by_severity() {
    let finding = |level: &str| json!({"check": "disk", "level": level, "message": "full"});
    let data = |level: &str| json!({"findings": [finding(level)], "agents": {}, "sandbox": {}});
    let section = evaluate(vec![
        (answer("a", 0, &data("warning")), 0),
        (answer("b", 0, &data("error")), 0),
        (answer("c", 0, &data("error")), 0),
    ]);
    let disks: Vec<_> = section.findings.iter().filter(|finding| finding.check == "disk").collect();
    assert_eq!((disks.len(), disks[0].level), (2, DiagnosisLevel::Error));
    assert_eq!(disks[0].nodes.len(), 2);
}

#[test]
fn reports_failed_and_unreadable_diagnoses() {
    let section =
        evaluate(vec![(answer("a", 1, &json!({})), 0), (answer("b", 0, &json!({"agents": 7})), 0)]);
    let told: Vec<&str> = section
        .findings
        .iter()
        .filter(|finding| finding.check == "answers")
        .map(|finding| finding.message.as_str())
        .collect();
    assert!(told[0].starts_with("diagnosis cannot be read: "), "{told:?}");
    assert_eq!(told[1], "diagnosis failed: told");
}

#[test]
fn reports_duplicates_forgeries_and_lost_replies() {
    let call = RollCall {
        duplicates: [("a".parse().unwrap(), 1)].into(),
        rejected: [("signature", 3)].into(),
        incomplete: true,
        ..RollCall::default()
    };
    let section = evaluate_call(&call);
    assert_eq!(find(&section, "identities").nodes.len(), 1);
    assert_eq!(find(&section, "signatures").message, "3 replies failed verification (signature)");
    assert_eq!(find(&section, "gaps").level, DiagnosisLevel::Warning);
}
