//! Findings without a fleet: missing or invalid files, and an unreachable broker.

#![expect(clippy::unwrap_used, reason = "tests end by panic")]

use std::path::Path;

use muster_client::RpcSettings;
use muster_operations::doctor::{
    DiagnosisFinding, DiagnosisLevel, DiagnosisSection, check_broker, check_local_files,
};
use muster_wire::token::{KeyKind, KeyPair};

fn settings(directory: &Path, more: &str) -> RpcSettings {
    let operator = KeyPair::from_raw(KeyKind::Operator, &[7; 32]).public_key();
    let text = format!(
        "{more}\n[broker]\nurls = [\"tls://b:4222\"]\nplaintext_on_loopback = true\n[trust]\noperator = \"{operator}\"\n"
    );
    RpcSettings::parse(&directory.join("rpc.toml"), &text).unwrap()
}

fn find<'a>(section: &'a DiagnosisSection, check: &str) -> &'a DiagnosisFinding {
    section.findings.iter().find(|finding| finding.check == check).unwrap()
}

#[test]
fn missing_files_are_reported_with_advice() {
    use DiagnosisLevel::{Error, Ok, Warning};
    let directory = tempfile::tempdir().unwrap();
    let section = check_local_files(&settings(directory.path(), "kolor = 1"), 0);
    assert!(section.is_local && section.has_errors());
    let told: Vec<(&str, DiagnosisLevel)> =
        section.findings.iter().map(|finding| (finding.check.as_str(), finding.level)).collect();
    assert_eq!(
        told,
        [
            ("configuration", Ok),
            ("configuration", Warning),
            ("credentials", Error),
            ("trust", Error)
        ]
    );
    assert!(find(&section, "credentials").advice.as_deref().unwrap().contains("rpc org add user"));
    assert!(find(&section, "trust").message.contains("account.jwt"));
}

#[test]
fn credentials_readable_by_others_are_an_error() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(directory.path(), "");
    std::fs::write(&settings.credentials, "secret").unwrap();
    std::fs::set_permissions(&settings.credentials, std::fs::Permissions::from_mode(0o644))
        .unwrap();
    std::fs::write(&settings.account, "x".repeat(2 * 1024 * 1024)).unwrap();
    let section = check_local_files(&settings, 0);
    assert_eq!(find(&section, "credentials").level, DiagnosisLevel::Error);
    assert!(find(&section, "credentials").advice.is_none());
    assert!(find(&section, "trust").message.contains("has more than 1048576 bytes"));
}

#[tokio::test]
async fn unreachable_broker_is_an_error_with_advice() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(directory.path(), "");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("nats://127.0.0.1:{port}");
    let section = check_broker(&url, &settings).await;
    assert_eq!(section.about, format!("Broker {url}"));
    let failure = section.findings.last().unwrap();
    assert_eq!((failure.check.as_str(), failure.level), ("connection", DiagnosisLevel::Error));
    assert!(failure.advice.is_some());
    let section = check_broker("gopher://b", &settings).await;
    assert_eq!(section.findings[0].check, "address");
}
