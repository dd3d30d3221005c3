//! Organisations of older versions get the permissions of this version, with a real nats-server.

use std::fs;

use muster_bus::Bytes;
use muster_wire::token::claims::{AccountClaims, SigningKeyEntry};
use muster_wire::token::decode::decode_token;
use muster_wire::token::encode::{self, TokenValidity};
use muster_wire::token::scope::{self, ADMINISTRATOR_ROLE};
use muster_wire::token::{AccountTrust, KeyPair, UserRole};

use super::broker::{Broker, nats_server};
use super::world::World;

/// The fleet's account token in force.
fn account(world: &World) -> AccountTrust {
    let text = fs::read_to_string(world.org().join("account.jwt")).unwrap();
    let operator = decode_token::<AccountClaims>(text.trim()).unwrap().unverified_claims().iss;
    AccountTrust::new(operator, text.trim()).unwrap()
}

/// The role of a signing key.
fn role(entry: &SigningKeyEntry) -> String {
    match entry {
        SigningKeyEntry::Scoped(scope) => scope.role.clone(),
        SigningKeyEntry::Plain(_) => String::new(),
    }
}

/// Signs the fleet's account token with permissions that allow no publications, and without a key for administrators.
fn make_older(world: &World) {
    let trust = account(world);
    let mut older = trust.claims().nats.clone();
    older.signing_keys.retain(|entry| role(entry) != ADMINISTRATOR_ROLE);
    fs::remove_file(world.org().join("keys/role-admin.nk")).unwrap();
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
        let expected = match scope.role.as_str() {
            ADMINISTRATOR_ROLE => scope::administrator_template(),
            role => {
                role.parse::<UserRole>().unwrap().permission_template(&["muster".parse().unwrap()])
            }
        };
        assert_eq!(scope.template, expected, "{}", scope.role);
    }
    // Administrators have a key of their own now, so the account's own key is not needed.
    let roles: Vec<_> = account(&world).claims().nats.signing_keys.iter().map(role).collect();
    assert_eq!(roles, ["node", "caller", "service", ADMINISTRATOR_ROLE]);
    fs::remove_file(world.org().join("keys/account.nk")).unwrap();
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
