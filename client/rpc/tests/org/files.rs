//! What an organisation is on disk, and what the command says of it.

use std::fs;

use crate::world::{World, files, mode, pair, talk};

#[test]
fn secrets_are_the_owners_alone() {
    let world = World::new(&[]);
    let user = world.ok(&["org", "add", "user", "rip"]);
    assert_eq!(
        user.trim(),
        world.org().join("creds/users/rip.creds").to_str().unwrap()
    );
    for directory in [".", "keys", "creds", "creds/users", "broker"] {
        assert_eq!(mode(&world.org().join(directory)), 0o700, "{directory}");
    }
    let all = files(&world.org());
    assert!(all.len() >= 18, "{all:?}");
    for path in all {
        let text = fs::read_to_string(&path).unwrap();
        let seed = text
            .split_whitespace()
            .any(|word| word.len() == 58 && word.starts_with('S'));
        let secret = seed || text.contains("PRIVATE KEY");
        let expected = if secret { 0o600 } else { 0o644 };
        assert_eq!(mode(&path), expected, "{}", path.display());
    }
}

#[test]
fn nothing_is_overwritten() {
    let world = World::new(&[]);
    let before = fs::read(world.org().join("keys/operator.nk")).unwrap();
    let again = world.rpc(&["org", "init", world.org().to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(1));
    assert!(talk(&again).contains("is not empty"), "{}", talk(&again));
    assert_eq!(
        fs::read(world.org().join("keys/operator.nk")).unwrap(),
        before
    );

    world.ok(&["org", "add", "node", "web1.acme.net"]);
    let creds = world.org().join("creds/nodes/web1.acme.net.creds");
    let before = fs::read(&creds).unwrap();
    let again = world.rpc(&["org", "add", "node", "WEB1.acme.net"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(talk(&again).contains("--renew"), "{}", talk(&again));
    assert_eq!(fs::read(&creds).unwrap(), before);
    world.ok(&["org", "add", "node", "web1.acme.net", "--renew"]);
    assert_ne!(fs::read(&creds).unwrap(), before);
    assert_eq!(mode(&creds), 0o600);
    assert_eq!(
        world.states(),
        [
            pair("web1.acme.net", "valid"),
            pair("web1.acme.net", "valid")
        ]
    );
}

#[test]
fn a_revocation_is_saved_even_if_the_broker_is_away_and_the_exit_code_says_so() {
    // Port 1 of loopback refuses at once.
    let world = World::new(&["--port", "1"]);
    world.ok(&["org", "add", "user", "rip"]);
    world.ok(&["org", "add", "user", "anna"]);
    let before = fs::read_to_string(world.org().join("account.jwt")).unwrap();
    let revoked = world.rpc(&["org", "revoke", "rip"]);
    assert_eq!(revoked.status.code(), Some(1), "{}", talk(&revoked));
    assert!(
        talk(&revoked).contains("rpc org push"),
        "{}",
        talk(&revoked)
    );
    assert_eq!(
        world.states(),
        [pair("anna", "valid"), pair("rip", "revoked")]
    );
    let after = fs::read_to_string(world.org().join("account.jwt")).unwrap();
    assert_ne!(after, before);
    let preload = fs::read_to_string(world.org().join("broker/accounts.conf")).unwrap();
    assert!(
        preload.contains(after.trim()),
        "a broker that starts now must know"
    );
    let again = world.rpc(&["org", "revoke", "rip"]);
    assert_eq!(again.status.code(), Some(0));
    assert!(talk(&again).contains("before"));
    world.ok(&["org", "add", "user", "rip"]);
    let states = world.states();
    assert_eq!(
        states,
        [
            pair("anna", "valid"),
            pair("rip", "revoked"),
            pair("rip", "valid")
        ]
    );
}

#[test]
fn one_name_of_two_kinds_must_be_told_apart() {
    let world = World::new(&["--port", "1"]);
    world.ok(&["org", "add", "user", "ops"]);
    world.ok(&["org", "add", "service", "ops", "--expires", "30d"]);
    let unclear = world.rpc(&["org", "revoke", "ops"]);
    assert!(talk(&unclear).contains("--kind"), "{}", talk(&unclear));
    world.rpc(&["org", "revoke", "ops", "--kind", "service"]);
    assert_eq!(
        world.states(),
        [pair("ops", "valid"), pair("ops", "revoked")]
    );
    let unknown = world.rpc(&["org", "revoke", "nobody"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(talk(&unknown).contains("`nobody`"));
}

#[test]
fn permissions_are_shown_as_the_broker_will_have_them() {
    let world = World::new(&["--collective", "muster", "--collective", "emea"]);
    world.ok(&[
        "org",
        "add",
        "user",
        "rip",
        "--agent",
        "puppetral",
        "--agent",
        "service.status",
    ]);
    let shown = world.json(&["org", "show", "rip", "-j"]);
    let publish = &shown[0]["permissions"]["publish"]["allow"];
    let inbox = shown[0]["permissions"]["subscribe"]["allow"][0].as_str();
    let echo = inbox.unwrap().replace('>', "echo.*");
    let expected = [
        "muster.puppetral.>",
        "muster.rpcutil.>",
        "muster.service.status.>",
        "emea.puppetral.>",
        "emea.rpcutil.>",
        "emea.service.status.>",
        &echo,
    ];
    let mut found: Vec<&str> = publish
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s.as_str().unwrap())
        .collect();
    let mut expected = expected.to_vec();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    let organisation = world.json(&["org", "show", "-j"]);
    assert_eq!(organisation["name"], "acme");
    assert_eq!(organisation["roles"].as_array().unwrap().len(), 3);
}

#[test]
fn bundles_hold_all_that_a_machine_needs() {
    let world = World::new(&["--host", "broker.acme.net"]);
    let directory = world.scratch.path().join("bundle");
    let bundle = directory.to_str().unwrap();
    world.ok(&["org", "add", "node", "web1.acme.net", "--bundle", bundle]);
    world.ok(&["org", "add", "user", "rip", "--bundle", bundle]);
    let mut names: Vec<_> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "account.jwt",
            "ca.pem",
            "node.creds",
            "rpc.toml",
            "rpcd.toml",
            "user.creds"
        ]
    );
    assert_eq!(mode(&directory.join("node.creds")), 0o600);
    let config = fs::read_to_string(directory.join("rpcd.toml")).unwrap();
    for line in [
        "identity = \"web1.acme.net\"",
        "urls = [\"tls://broker.acme.net:4222\"]",
        "ca = \"ca.pem\"",
    ] {
        assert!(config.contains(line), "{line}\n{config}");
    }
}

#[test]
fn a_bundle_replaces_no_configuration() {
    let world = World::new(&[]);
    let directory = world.scratch.path().join("config");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("rpc.toml"), "another fleet's").unwrap();
    let args = [
        "org",
        "add",
        "user",
        "rip",
        "--bundle",
        directory.to_str().unwrap(),
    ];
    let refused = world.rpc(&args);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        talk(&refused).contains("rpc.toml exists already"),
        "{}",
        talk(&refused)
    );
    assert!(world.states().is_empty(), "nothing may be issued");
    world.ok(&[&args[..], &["--renew"]].concat());
    assert!(
        fs::read_to_string(directory.join("rpc.toml"))
            .unwrap()
            .contains("[trust]")
    );
}

#[test]
fn a_wrong_command_line_is_4_and_help_is_0() {
    let world = World::new(&["--no-tls"]);
    for wrong in [
        &["nonsense"][..],
        &["org", "add"],
        &["org", "list", "--bogus"],
        &[],
    ] {
        assert_eq!(world.rpc(wrong).status.code(), Some(4), "{wrong:?}");
    }
    let help = world.rpc(&["org", "init", "--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&help.stdout).contains("Examples:"));
    let nowhere = world.rpc(&["org", "list", "--org", "/nonexistent"]);
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(talk(&nowhere).contains("rpc org init"));
}
