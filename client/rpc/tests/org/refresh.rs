//! Organisations of older versions get the permissions of this version, with a real nats-server.

use std::fs;

use muster_bus::Bytes;
use muster_wire::token::claims::{AccountClaims, SigningKeyEntry};
use muster_wire::token::decode::decode_token;
use muster_wire::token::encode::{self, TokenValidity};
use muster_wire::token::{AccountTrust, KeyPair, UserRole};

use crate::broker::{Broker, nats_server};
use crate::world::World;

/// The fleet's account token in force.
fn account(world: &World) -> AccountTrust {
    let text = fs::read_to_string(world.org().join("account.jwt")).unwrap();
    let operator = decode_token::<AccountClaims>(text.trim()).unwrap().unverified_claims().iss;
    AccountTrust::new(operator, text.trim()).unwrap()
}

/// Signs the fleet's account token with permissions that allow no publications.
fn make_older(world: &World) {
    let trust = account(world);
    let mut older = trust.claims().nats.clone();
    for entry in &mut older.signing_keys {
        if let SigningKeyEntry::Scoped(scope) = entry {
            scope.template.publish.allow = vec!["older.subject".to_owned()];
        }
    }
    let seed = fs::read_to_string(world.org().join("keys/operator.nk")).unwrap();
    let operator = KeyPair::from_seed(seed.trim()).unwrap();
    let validity = TokenValidity::without_end(trust.issued_at() + 1);
    let name = &trust.claims().name;
    let token =
        encode::issue_account_token(name, trust.account_key(), older, validity, &operator).unwrap();
    fs::write(world.org().join("account.jwt"), format!("{token}\n")).unwrap();
}

#[tokio::test]
async fn push_updates_the_permissions_of_an_older_organisation() {
    let program = nats_server();
    let world = World::new(&[]);
    world.ok(&["org", "add", "user", "rip"]);
    make_older(&world);
    let broker = Broker::start(&program, &world, true).await;
    world.ok(&["org", "push"]);
    for entry in &account(&world).claims().nats.signing_keys {
        let SigningKeyEntry::Scoped(scope) = entry else {
            panic!("the role has no scope");
        };
        let role: UserRole = scope.role.parse().unwrap();
        assert_eq!(
            scope.template,
            role.permission_template(&["muster".parse().unwrap()]),
            "{role}"
        );
    }
    // The broker applies the token: the publication is allowed now, and has no subscriber.
    let rip = broker.connect(&world, "creds/users/rip.creds").await.unwrap();
    let answer =
        rip.request("muster.rpcutil.ping.all", Bytes::new()).await.unwrap_err().to_string();
    assert!(answer.contains("no responders"), "{answer}");
    let pushed = account(&world);
    world.ok(&["org", "push"]);
    assert_eq!(
        account(&world).account_token(),
        pushed.account_token(),
        "a second push changed the token"
    );
}
