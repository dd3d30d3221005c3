//! Tests with summaries and reports recorded from Puppet 7.23 (`puppet agent` without a server).

use serde_json::json;

use super::machine::{Machine, ask};

fn with(name: &str) -> Machine {
    let machine = Machine::new("exit 1");
    let fixture = |kind: &str| {
        let path = format!("{}/tests/fixtures/{name}.{kind}.yaml", env!("CARGO_MANIFEST_DIR"));
        std::fs::read(path).unwrap()
    };
    std::fs::create_dir_all(machine.path("var/public")).unwrap();
    std::fs::write(machine.path("var/public/last_run_summary.yaml"), fixture("summary")).unwrap();
    std::fs::write(machine.state("last_run_report.yaml"), fixture("report")).unwrap();
    machine
}

#[tokio::test]
async fn m23_run_without_a_catalog_has_failed_although_all_counters_are_zero() {
    let machine = with("m23");
    let puppet = machine.puppet();
    let summary = ask(&puppet, "last_run_summary", json!({})).await.unwrap();
    assert_eq!(
        (&summary["failed_run"], &summary["class"], &summary["failed_resources"]),
        (&json!(true), &json!("compile_failed"), &json!(0))
    );
    let report = ask(&puppet, "last_run_report", json!({"logs": true})).await.unwrap();
    assert_eq!(
        (&report["status"], &report["transaction_completed"], &report["class"]),
        (&json!("failed"), &json!(false), &json!("compile_failed"))
    );
    let lines = report["logs"].as_array().unwrap();
    assert!(
        lines.iter().any(|line| { line.as_str().unwrap().contains("Could not retrieve catalog") })
    );
}

#[tokio::test]
async fn m24_run_from_the_cached_catalog_is_reported_as_stale() {
    let machine = with("m24");
    let puppet = machine.puppet();
    let summary = ask(&puppet, "last_run_summary", json!({"logs": true})).await.unwrap();
    assert_eq!(
        (&summary["failed_run"], &summary["class"], &summary["cached_catalog_status"]),
        (&json!(false), &json!("stale_catalog"), &json!("on_failure"))
    );
    assert_eq!(
        (&summary["config_version"], &summary["total_resources"]),
        (&json!("v1"), &json!(9))
    );
    assert!(!summary["logs"].as_array().unwrap().is_empty());
    let report = ask(&puppet, "last_run_report", json!({})).await.unwrap();
    assert_eq!(
        (&report["status"], &report["puppet_version"]),
        (&json!("unchanged"), &json!("7.23.0"))
    );
    assert_eq!(report["metrics"]["resources"]["total"], 9);
    assert_eq!(report["logs"], json!([]));
}
