//! Random sequences with a stolen node key: whatever was published and received before, with whatever reply subjects, the broker lets it
//! publish and subscribe what the role's template says. Response permissions would fail here.

use muster_tests::raw_nats::RawNats;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};

use super::actors::Scene;
use super::matrix::{nothing_was_made, universe};

const SEQUENCES: u64 = 40;
const STEPS: usize = 60;

#[tokio::test]
async fn no_sequence_gives_a_node_more_than_its_template() {
    let scene = Scene::new().await;
    let universe = universe(&scene);
    let literal: Vec<&String> =
        universe.iter().filter(|subject| !subject.contains(['*', '>'])).collect();
    let mut caller = RawNats::connect(&scene.server, &scene.caller).await;
    let thief = scene.thief("node");
    let mut seen = [0_usize; 2];
    for seed in 0..SEQUENCES {
        let mut random = StdRng::seed_from_u64(seed);
        let mut client = RawNats::connect(&scene.server, &thief.signer).await;
        // What a real node subscribes to: messages with reply subjects arrive.
        for subject in &thief.subscribe {
            client.subscribe(subject, "").await;
        }
        client.sync().await;
        let mut history = Vec::new();
        for _ in 0..STEPS {
            let subject = *literal.choose(&mut random).unwrap();
            let reply = if random.random_ratio(2, 3) {
                literal.choose(&mut random).map(|reply| reply.as_str())
            } else {
                None
            };
            let reply = reply.unwrap_or_default();
            let is_allowed = match random.random_range(0..5) {
                0 => {
                    // A caller asks this node, and wants the answer anywhere.
                    let own = format!("muster.rpcutil.ping.node.{}", thief.signer.identity());
                    caller.publish(&own, reply, "", "x").await;
                    caller.sync().await;
                    history.push(format!("asked, reply {reply}"));
                    continue;
                }
                1 => {
                    let subject = universe.choose(&mut random).unwrap();
                    client.subscribe(subject, "").await;
                    history.push(format!("subscribe {subject}"));
                    thief.may_subscribe(subject)
                }
                2 => {
                    // To a subject of its own, with a reply subject of its choice.
                    let own = thief.publish.choose(&mut random).unwrap().replace('*', "x");
                    client.publish(&own, reply, "", "{}").await;
                    history.push(format!("publish {own} reply {reply}"));
                    thief.may_publish(&own)
                }
                _ => {
                    client.publish(subject, reply, "", "{}").await;
                    history.push(format!("publish {subject} reply {reply}"));
                    thief.may_publish(subject)
                }
            };
            let said = client.sync().await;
            let is_refused =
                said.refusals.iter().any(|refusal| refusal.contains("Permissions Violation"));
            assert_eq!(is_refused, !is_allowed, "seed {seed}: {history:#?}, {:?}", said.refusals);
            seen[usize::from(is_allowed)] += 1;
        }
    }
    assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
    nothing_was_made(&scene).await;
}
