//! A broker whose streams were lost gets no empty ones unless asked: afterwards, a backup could not be restored.

use std::fs;

use super::broker::{Broker, nats_server};
use super::world::{World, talk};

#[tokio::test]
async fn push_creates_lost_stores_only_if_asked() {
    let world = World::new(&["--no-tls", "--port", "1"]);
    world.ok(&["org", "add", "user", "rip"]);
    let program = nats_server();
    let broker = Broker::start(&program, &world, true).await;
    world.ok(&["org", "push"]);
    drop(broker);
    for directory in ["store", "ports"] {
        fs::remove_dir_all(world.scratch.path().join(directory)).unwrap();
    }
    let _broker = Broker::start(&program, &world, true).await;
    // Neither a push nor a revocation, which publishes the account token.
    for command in [&["org", "push"][..], &["org", "revoke", "rip", "--yes"]] {
        let refused = world.rpc(command);
        let text = talk(&refused);
        assert_eq!(refused.status.code(), Some(1), "{command:?}: {text}");
        assert!(
            text.contains("the broker has lost the store ") && text.contains("--create-missing")
        );
        assert!(!text.contains("created the store"), "{command:?}: {text}");
    }
    let created = talk(&world.rpc(&["org", "push", "--create-missing"]));
    assert!(created.contains("created the store TRUST"), "{created}");
    let pushed = talk(&world.rpc(&["org", "push"]));
    assert!(pushed.contains("the stores are up to date"), "{pushed}");
}
