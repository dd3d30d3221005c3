//! Random sequences with a stolen node key: the broker permits exactly what the role's template permits, regardless of
//! earlier messages and reply subjects. Response permissions would fail this test.

use muster_tests::raw_nats::RawNats;
use rand::rngs::StdRng;

use super::fixture::AttackFixture;
use super::matrix::{all_subjects, assert_nothing_created};

const SEQUENCES: u64 = 40;
const STEPS: usize = 60;

/// Run by `make test-all`.
mod long {
    use super::{
        AttackFixture, RawNats, SEQUENCES, STEPS, StdRng, all_subjects, assert_nothing_created,
    };
    use rand::Rng as _;
    use rand::SeedableRng as _;
    use rand::seq::IndexedRandom as _;

    #[tokio::test]
    async fn no_sequence_extends_the_permissions_of_a_node() {
        let fixture = AttackFixture::new().await;
        let all_subjects = all_subjects(&fixture);
        let literal: Vec<&String> =
            all_subjects.iter().filter(|subject| !subject.contains(['*', '>'])).collect();
        let mut caller = RawNats::connect(&fixture.server, &fixture.caller).await;
        let attacker = fixture.attacker("node");
        let mut seen = [0_usize; 2];
        for seed in 0..SEQUENCES {
            let mut rng = StdRng::seed_from_u64(seed);
            let mut client = RawNats::connect(&fixture.server, &attacker.signer).await;
            // The subscriptions of a real node, so that messages with reply subjects arrive.
            for subject in &attacker.subscribe {
                client.subscribe(subject, "").await;
            }
            client.sync().await;
            let mut history = Vec::new();
            for _ in 0..STEPS {
                let subject = *literal.choose(&mut rng).unwrap();
                let reply = if rng.random_ratio(2, 3) {
                    literal.choose(&mut rng).map(|reply| reply.as_str())
                } else {
                    None
                };
                let reply = reply.unwrap_or_default();
                let is_allowed = match rng.random_range(0..5) {
                    0 => {
                        // A caller sends a request to this node with an arbitrary reply subject.
                        let own =
                            format!("muster.rpcutil.ping.node.{}", attacker.signer.identity());
                        caller.publish(&own, reply, "", "x").await;
                        caller.sync().await;
                        history.push(format!("request with reply {reply}"));
                        continue;
                    }
                    1 => {
                        let subject = all_subjects.choose(&mut rng).unwrap();
                        client.subscribe(subject, "").await;
                        history.push(format!("subscribe {subject}"));
                        attacker.may_subscribe(subject)
                    }
                    2 => {
                        // Publishes to a permitted subject with an arbitrary reply subject.
                        let own = attacker.publish.choose(&mut rng).unwrap().replace('*', "x");
                        client.publish(&own, reply, "", "{}").await;
                        history.push(format!("publish {own} reply {reply}"));
                        attacker.may_publish(&own)
                    }
                    _ => {
                        client.publish(subject, reply, "", "{}").await;
                        history.push(format!("publish {subject} reply {reply}"));
                        attacker.may_publish(subject)
                    }
                };
                let output = client.sync().await;
                let is_refused =
                    output.refusals.iter().any(|refusal| refusal.contains("Permissions Violation"));
                assert_eq!(
                    is_refused, !is_allowed,
                    "seed {seed}: {history:#?}, {:?}",
                    output.refusals
                );
                seen[usize::from(is_allowed)] += 1;
            }
        }
        assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
        assert_nothing_created(&fixture).await;
    }
}
