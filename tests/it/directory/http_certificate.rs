//! The certificate of the HTTP API is replaced while the instance runs.

use std::path::PathBuf;
use std::time::Duration;

use muster_tests::poll_until_ok;

use super::http::{HttpFleet, new_certificate};

/// Waits for a line of the log with this message.
async fn await_logged(fleet: &HttpFleet, level: &str, message: &str) -> String {
    poll_until_ok(message, Duration::from_secs(20), async || {
        let lines = fleet.directory.log_lines();
        let line = lines.iter().find(|line| {
            let text = line["fields"]["message"].as_str().unwrap_or_default();
            line["level"] == level && text.contains(message)
        });
        line.map(|line| line["fields"]["error"].as_str().unwrap_or_default().to_owned()).ok_or(())
    })
    .await
}

fn count_logged(fleet: &HttpFleet, message: &str) -> usize {
    let lines = fleet.directory.log_lines();
    let texts = lines.iter().filter_map(|line| line["fields"]["message"].as_str());
    texts.filter(|text| text.contains(message)).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_certificate_is_used_without_a_restart_and_a_broken_one_is_not() {
    let fleet = HttpFleet::start().await;
    let home = fleet.directory.home().clone();
    let trusted = |name: &str, certificate: &str| -> PathBuf {
        home.write(name, certificate, 0o644);
        home.path(name)
    };
    let old = trusted("old.pem", &std::fs::read_to_string(fleet.certificate()).unwrap());
    let (certificate, key) = new_certificate();
    let new = trusted("new.pem", &certificate);
    fleet.get_trusting(&old).await.unwrap();
    assert!(fleet.get_trusting(&new).await.is_err());

    // Between the two files, the old certificate is served.
    home.write("http.pem", &certificate, 0o644);
    fleet.get_trusting(&old).await.unwrap();
    let error = await_logged(&fleet, "WARN", "keeps its last certificate").await;
    assert!(error.contains("http.pem"), "{error}");
    home.write("http.key", &key, 0o600);
    fleet.get_trusting(&new).await.unwrap();
    assert!(fleet.get_trusting(&old).await.is_err());
    await_logged(&fleet, "INFO", "uses a new certificate").await;

    // Broken files change nothing, and each version is reported once.
    for (name, text, mode) in
        [("http.pem", "no certificate\n", 0o644), ("http.key", key.as_str(), 0o644)]
    {
        let before = count_logged(&fleet, "keeps its last certificate");
        std::fs::remove_file(home.path(name)).unwrap();
        home.write(name, text, mode);
        for _ in 0..3 {
            fleet.get_trusting(&new).await.unwrap();
        }
        assert_eq!(count_logged(&fleet, "keeps its last certificate"), before + 1, "{name}");
    }
    std::fs::remove_file(home.path("http.pem")).unwrap();
    fleet.get_trusting(&new).await.unwrap();

    // Whole again.
    let (certificate, key) = new_certificate();
    let newest = trusted("newest.pem", &certificate);
    std::fs::remove_file(home.path("http.key")).unwrap();
    home.write("http.key", &key, 0o600);
    home.write("http.pem", &certificate, 0o644);
    fleet.get_trusting(&newest).await.unwrap();
}
