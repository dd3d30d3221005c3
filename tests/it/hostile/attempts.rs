//! A list of attempts, one a line in `attempts.txt`: the broker refuses each.

use muster_tests::raw_nats::RawNats;

use super::actors::Scene;

const ATTEMPTS: &str = include_str!("attempts.txt");

/// The list never gets shorter than this.
const LEAST_ATTEMPTS: usize = 300;

#[tokio::test]
async fn every_attempt_of_the_list_is_refused() {
    let scene = Scene::new().await;
    let lines: Vec<&str> =
        ATTEMPTS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    assert!(lines.len() >= LEAST_ATTEMPTS, "{}", lines.len());
    let mut passed = Vec::new();
    for thief in &scene.thieves {
        let mut client = RawNats::connect(&scene.server, &thief.signer).await;
        for line in &lines {
            let columns: Vec<&str> = line.split('|').map(str::trim).collect();
            if columns[0] != thief.role {
                continue;
            }
            let subject = scene.filled(columns[2], thief);
            let reply = scene.filled(columns.get(3).unwrap_or(&""), thief);
            let tries = match columns[1].split_once(':') {
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
            let said = client.sync().await;
            let violations = said.refusals.iter();
            let count =
                violations.filter(|refusal| refusal.contains("Permissions Violation")).count();
            if count != tries || !said.messages.is_empty() {
                passed.push(format!("{line}: {said:?}"));
            }
        }
    }
    assert!(passed.is_empty(), "{passed:#?}");
}

#[test]
fn the_list_names_known_roles_and_no_attempt_twice() {
    let mut seen = std::collections::BTreeSet::new();
    for line in ATTEMPTS.lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let role = line.split('|').next().unwrap().trim();
        let known = ["node", "caller", "service", "newcomer", "enroller"];
        assert!(known.contains(&role), "{line}");
        assert!(seen.insert(line), "{line}");
    }
}
