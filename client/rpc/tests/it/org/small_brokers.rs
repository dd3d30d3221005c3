//! `rpc org push` for a fleet with a compiler, whose stores need more space than a broker of an earlier version offers.

use std::fs;

use super::broker::{Broker, nats_server};
use super::world::{World, talk};

#[tokio::test]
async fn push_refuses_stores_that_a_server_has_no_space_for_before_it_changes_anything() {
    let program = nats_server();
    let world = World::new(&["--no-tls", "--port", "1"]);
    world.ok(&["org", "add", "service", "compiler1", "--serve", "compiler"]);
    let account = fs::read_to_string(world.org().join("storage.jwt")).unwrap();
    let shrink = |text: String| {
        assert!(text.contains("max_file: 6GB"));
        text.replace("max_file: 6GB", "max_file: 2GB")
    };
    let _broker = Broker::start_with(&program, &world, true, shrink).await;
    let output = world.rpc(&["org", "push"]);
    assert_ne!(output.status.code(), Some(0));
    assert!(talk(&output).contains("need 5448 MiB; these servers offer less"), "{output:?}");
    assert_eq!(fs::read_to_string(world.org().join("storage.jwt")).unwrap(), account);
}
