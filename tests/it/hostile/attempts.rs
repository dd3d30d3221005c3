//! The broker refuses each attempt of the list in `attempts.txt`, one per line.

use muster_tests::raw_nats::RawNats;

use muster_wire::token::ServiceRight;

use super::fixture::AttackFixture;

const ATTEMPTS: &str = include_str!("attempts.txt");

/// Lower bound of the number of attempts.
const MIN_ATTEMPTS: usize = 300;

#[tokio::test]
async fn every_listed_attempt_is_refused() {
    let fixture = AttackFixture::new().await;
    let lines: Vec<&str> =
        ATTEMPTS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    assert!(lines.len() >= MIN_ATTEMPTS, "{}", lines.len());
    let mut passed = Vec::new();
    for attacker in &fixture.stolen_credentials {
        let mut client = RawNats::connect(&fixture.server, &attacker.signer).await;
        for line in &lines {
            let columns: Vec<&str> = line.split('|').map(str::trim).collect();
            if !attacker.has_role(columns[0]) {
                continue;
            }
            let subject = fixture.fill_placeholders(columns[2], attacker);
            let reply = fixture.fill_placeholders(columns.get(3).unwrap_or(&""), attacker);
            let expected_refusals = match columns[1].split_once(':') {
                Some((queue, _)) => {
                    client.subscribe(&subject, queue).await;
                    1
                }
                None if columns[1] == "subscribe" => {
                    client.subscribe(&subject, "").await;
                    1
                }
                None => {
                    client.publish(&subject, "", "", "{}").await;
                    client.publish(&subject, &reply, "", "{}").await;
                    client.publish(&subject, &reply, "Nats-Rollup: all", "{}").await;
                    3
                }
            };
            let output = client.sync().await;
            let violations = output.refusals.iter();
            let count =
                violations.filter(|refusal| refusal.contains("Permissions Violation")).count();
            if count != expected_refusals || !output.messages.is_empty() {
                passed.push(format!("{}: {line}: {output:?}", attacker.role));
            }
        }
    }
    assert!(passed.is_empty(), "{passed:#?}");
}

#[test]
fn attempts_have_known_roles_and_are_unique() {
    let mut seen = std::collections::BTreeSet::new();
    for line in ATTEMPTS.lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let role = line.split('|').next().unwrap().trim();
        let rights = ServiceRight::ALL.map(ServiceRight::as_str);
        let roles = ["node", "caller", "service", "newcomer", "enroller"];
        assert!(roles.contains(&role) || rights.contains(&role), "{line}");
        assert!(seen.insert(line), "{line}");
    }
}
