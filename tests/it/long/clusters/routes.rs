//! A server that has not the password of the routes, or no certificate for routes of the organisation's authority, does not join the cluster.

use muster_tests::await_state;

use super::fixture::{GeneratedBroker, LEAF_ADDRESS};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn routes_need_the_password_and_a_certificate_of_the_authority() {
    let mut broker = GeneratedBroker::cluster_of_three().await;
    broker.await_no_problem().await;
    let other = GeneratedBroker::new();
    broker.start_leaf().await;
    let member = broker.path("broker1");
    let cluster = std::fs::read_to_string(member.join("cluster.conf")).unwrap();
    let password = cluster.split("password: \"").nth(1).unwrap().split('"').next().unwrap();
    for (name, expected_log) in [
        ("without-password", "Authorization Violation"),
        ("without-authority", "unknown authority"),
        ("with-leaf-certificate", "incompatible key usage"),
    ] {
        let routes = format!("127.0.0.1:{}", broker.ports.route);
        let listen = format!("{LEAF_ADDRESS}:{}", broker.ports.route);
        let arguments = ["--cluster", "acme", "--route", &routes, "--cluster-listen", &listen];
        broker.write_bundle(name, LEAF_ADDRESS, &arguments);
        let directory = broker.path(name);
        let file = |name: &str| directory.join(name);
        // A free port for clients: the leaf node has this address.
        std::fs::write(file("local.conf"), "port: -1\n").unwrap();
        match name {
            "without-password" => {
                let own = std::fs::read_to_string(file("cluster.conf")).unwrap();
                assert!(own.contains(password), "the servers of a cluster share a password");
                std::fs::write(file("cluster.conf"), own.replace(password, "guessed")).unwrap();
            }
            "without-authority" => {
                for stolen in ["broker.pem", "broker.key"] {
                    std::fs::copy(other.path("acme/broker").join(stolen), file(stolen)).unwrap();
                }
            }
            _ => {
                for stolen in ["broker.pem", "broker.key"] {
                    std::fs::copy(broker.path("berlin").join(stolen), file(stolen)).unwrap();
                }
            }
        }
        let process = broker.spawn_server(name);
        await_state(&format!("{name} is refused"), || {
            let logs = [broker.log("broker1"), broker.log(name)];
            logs.iter().any(|log| log.contains(expected_log))
        })
        .await;
        drop(process);
        let (status, _) = broker.status();
        let servers = status.get("servers").unwrap().as_array().unwrap();
        assert_eq!(servers.len(), 3, "{name}: {status}");
    }
}
