//! The queue of compiles: nothing is lost, and nothing is compiled twice.

use std::time::Duration;

use muster_catalogs::queue::{CompileQueue, WantedCompile};
use muster_tests::organisation::connect;
use muster_tests::tier::repetitions;
use muster_tests::{await_state, poll_until_ok};
use muster_wire::identity::Identity;
use muster_wire::stores::COMPILES_BUCKET;
use muster_wire::token::ServiceRight;
use serde_json::json;

use super::fleet::{CatalogFleet, CompileCounter, CompilerInstance};

const LONG_LEASE: Duration = Duration::from_secs(30);
const SHORT_LEASE: Duration = Duration::from_secs(2);
const TIMEOUT: Duration = Duration::from_mins(3);

fn identity(name: &str) -> Identity {
    Identity::parse(name).unwrap()
}

/// The role with which the node was compiled last.
fn compiled_role(instance: &CompilerInstance, node: &str) -> Option<String> {
    let last = instance.handle.last_compile(&identity(node))?;
    last.record.catalog?;
    let facts = instance.handle.directory().snapshot(&identity(node))?.facts;
    let is_current = instance.handle.cause_of(&identity(node)).unwrap().is_none();
    is_current.then(|| facts.get("role").unwrap().as_str().unwrap().to_owned())
}

async fn await_compiling(instance: &CompilerInstance, node: &str) {
    await_state(&format!("{node} is being compiled"), || {
        let want = instance.handle.queue().get(&identity(node));
        want.is_some_and(|want| want.claim.is_some())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a12_3_ten_changes_of_a_waiting_node_are_one_compile_of_the_latest() {
    let Some(mut fleet) = CatalogFleet::start().await else { return };
    let stub = fleet.environment.write_stub();
    let instance = fleet.start_instance_with("compiler1", stub, LONG_LEASE).await;
    let mut counter = CompileCounter::start(&instance.bus).await;
    // Both workers are busy.
    for node in ["held1.acme.net", "held2.acme.net"] {
        fleet.publish(node, &json!({"role": "held"})).await;
        await_compiling(&instance, node).await;
    }
    let mut revision = 0;
    for role in 1..=10 {
        revision = fleet.publish("web1.acme.net", &json!({"role": format!("r{role}")})).await;
        await_state("the change is known and waits", || {
            let known = instance.handle.directory().snapshot(&identity("web1.acme.net"));
            known.is_some_and(|known| known.revision == revision)
                && instance.handle.queue().get(&identity("web1.acme.net")).is_some()
        })
        .await;
        assert_eq!(instance.handle.queue().list().len(), 3);
    }
    fleet.environment.write("release", "");
    let settled = [("web1.acme.net".to_owned(), revision)];
    fleet.await_settled(&instance, &settled).await;
    let compiled = counter.take(&instance, ["web1.acme.net"]).await;
    assert_eq!(compiled.iter().filter(|node| *node == "web1.acme.net").count(), 1, "{compiled:?}");
    assert_eq!(compiled_role(&instance, "web1.acme.net").as_deref(), Some("r10"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a12_2_compile_of_a_killed_worker_is_done_by_another() {
    let Some(mut fleet) = CatalogFleet::start().await else { return };
    let stub = fleet.environment.write_stub();
    let first = fleet.start_instance_with("compiler1", stub.clone(), SHORT_LEASE).await;
    let revision = fleet.publish("web1.acme.net", &json!({"role": "held"})).await;
    await_compiling(&first, "web1.acme.net").await;
    drop(first);
    fleet.environment.write("release", "");
    let second = fleet.start_instance_with("compiler2", stub, SHORT_LEASE).await;
    let mut counter = CompileCounter::start(&second.bus).await;
    fleet.await_settled(&second, &[("web1.acme.net".to_owned(), revision)]).await;
    // A record that is older than the known one changes nothing.
    let again = fleet.publish_at("web1.acme.net", &json!({"role": "older"}), 1).await;
    let last = fleet.publish("web2.acme.net", &json!({"role": "web"})).await;
    assert!(again > revision);
    fleet.await_settled(&second, &[("web2.acme.net".to_owned(), last)]).await;
    let compiled = counter.take(&second, ["web1.acme.net", "web2.acme.net"]).await;
    let twice = compiled.iter().filter(|node| *node == "web1.acme.net").count();
    assert!(twice <= 1 && compiled_role(&second, "web1.acme.net").as_deref() == Some("held"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a12_2_worker_that_was_taken_for_dead_has_lost_its_claim() {
    let Some(fleet) = CatalogFleet::start().await else { return };
    let signer = fleet.organisation.service(ServiceRight::Compile, "compiler1");
    let bucket = connect(&fleet.server, &signer).await.bucket(COMPILES_BUCKET.name);
    let [slow, other] = [(), ()].map(|()| CompileQueue::new(bucket.clone(), SHORT_LEASE));
    let node = identity("web1.acme.net");
    let want = WantedCompile {
        environment: "production".to_owned(),
        reason: "new".to_owned(),
        urgent: false,
        since: 0,
        claim: None,
    };
    assert!(slow.want(&node, want.clone()).await.unwrap());
    let mut first = slow.claim("production").await.unwrap().unwrap();
    assert!(slow.renew(&mut first).await.unwrap());
    for entry in bucket.list("want.>").await.unwrap() {
        other.apply(&entry);
    }
    assert!(other.claim("production").await.unwrap().is_none());
    assert!(other.claim("staging").await.unwrap().is_none());
    other.wait_for_work("production").await;
    let second = other.claim("production").await.unwrap().unwrap();
    assert_eq!((first.attempt(), second.attempt()), (1, 2));
    assert!(!slow.renew(&mut first).await.unwrap() && !slow.finish(first).await.unwrap());
    assert!(other.finish(second).await.unwrap());
    // The node can wait again at once.
    assert!(other.want(&node, want).await.unwrap());
}

/// A change that comes between the end of a compile and the removal of its entry cannot be added to the queue, and is not lost.
#[tokio::test(flavor = "multi_thread")]
async fn a12_2_change_between_the_end_of_a_compile_and_its_acknowledgement_is_not_lost() {
    let Some(mut fleet) = CatalogFleet::start().await else { return };
    let stub = fleet.environment.write_stub();
    let instance = fleet.start_instance_with("compiler1", stub, LONG_LEASE).await;
    let mut watch = instance.bus.bucket("CATALOGS").watch("newest.>").await.unwrap();
    let node = identity("web1.acme.net");
    fleet.publish("web1.acme.net", &json!({"role": "r0"})).await;
    let changes = repetitions(1000);
    let mut before_removal = 0;
    for change in 1..=changes {
        // The compile of the last change has just been stored.
        watch.next().await.unwrap().unwrap();
        let role = format!("r{change}");
        let revision = fleet.publish("web1.acme.net", &json!({"role": role})).await;
        await_state("the change is known", || {
            let known = instance.handle.directory().snapshot(&node);
            known.is_some_and(|known| known.revision == revision)
        })
        .await;
        before_removal += usize::from(instance.handle.queue().get(&node).is_some());
        poll_until_ok(&format!("{role} is compiled"), TIMEOUT, async || {
            match compiled_role(&instance, "web1.acme.net") {
                Some(compiled) if compiled == role => Ok(()),
                other => Err(other),
            }
        })
        .await;
    }
    println!("{before_removal} of {changes} changes came while the node was in the queue");
}
