//! Files of an organisation on disk, and the output of `rpc org`.

#![expect(clippy::disallowed_types, reason = "runs the command that is tested")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use super::world::{World, files, mode, pair, talk};

#[test]
fn secrets_are_readable_by_the_owner_only() {
    let world = World::new(&[]);
    let user = world.ok(&["org", "add", "user", "rip"]);
    assert_eq!(user.trim(), world.org().join("creds/users/rip.creds").to_str().unwrap());
    for directory in [".", "keys", "creds", "creds/users", "broker"] {
        assert_eq!(mode(&world.org().join(directory)), 0o700, "{directory}");
    }
    let all = files(&world.org());
    assert!(all.len() >= 18, "{all:?}");
    for path in all {
        let text = fs::read_to_string(&path).unwrap();
        let seed = text.split_whitespace().any(|word| word.len() == 58 && word.starts_with('S'));
        let secret = seed || text.contains("PRIVATE KEY");
        let expected = if secret { 0o600 } else { 0o644 };
        assert_eq!(mode(&path), expected, "{}", path.display());
    }
}

#[test]
fn existing_files_are_not_overwritten() {
    let world = World::new(&[]);
    let before = fs::read(world.org().join("keys/operator.nk")).unwrap();
    let again = world.rpc(&["org", "init", world.org().to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(1));
    assert!(talk(&again).contains("is not empty"), "{}", talk(&again));
    assert_eq!(fs::read(world.org().join("keys/operator.nk")).unwrap(), before);

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
    assert_eq!(world.states(), [pair("web1.acme.net", "valid"), pair("web1.acme.net", "valid")]);
}

#[test]
fn revocation_is_saved_without_a_broker_and_the_command_fails() {
    // Port 1 of the loopback interface refuses connections at once.
    let world = World::new(&["--port", "1"]);
    world.ok(&["org", "add", "user", "rip"]);
    world.ok(&["org", "add", "user", "anna"]);
    let before = fs::read_to_string(world.org().join("account.jwt")).unwrap();
    let revoked = world.rpc(&["org", "revoke", "rip"]);
    assert_eq!(revoked.status.code(), Some(1), "{}", talk(&revoked));
    assert!(talk(&revoked).contains("rpc org push"), "{}", talk(&revoked));
    assert_eq!(world.states(), [pair("anna", "valid"), pair("rip", "revoked")]);
    let after = fs::read_to_string(world.org().join("account.jwt")).unwrap();
    assert_ne!(after, before);
    let preload = fs::read_to_string(world.org().join("broker/accounts.conf")).unwrap();
    assert!(preload.contains(after.trim()), "the preloaded account token lacks the revocation");
    let again = world.rpc(&["org", "revoke", "rip"]);
    assert_eq!(again.status.code(), Some(0));
    assert!(talk(&again).contains("already"));
    world.ok(&["org", "add", "user", "rip"]);
    let states = world.states();
    assert_eq!(states, [pair("anna", "valid"), pair("rip", "revoked"), pair("rip", "valid")]);
}

#[test]
fn ambiguous_name_requires_the_kind_option() {
    let world = World::new(&["--port", "1"]);
    world.ok(&["org", "add", "user", "ops"]);
    world.ok(&["provision", "token", "--names", "*", "--name", "ops"]);
    let unclear = world.rpc(&["org", "revoke", "ops"]);
    assert!(talk(&unclear).contains("--kind"), "{}", talk(&unclear));
    world.rpc(&["org", "revoke", "ops", "--kind", "newcomer"]);
    assert_eq!(world.states(), [pair("ops", "valid"), pair("ops", "revoked")]);
    let unknown = world.rpc(&["org", "revoke", "nobody"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(talk(&unknown).contains("`nobody`"));
}

/// As the broker expands them, so that an administrator sees what a service may do.
#[test]
fn subjects_of_the_rights_of_a_service_are_shown() {
    let world = World::new(&["--port", "1"]);
    world.ok(&["org", "add", "service", "d1", "--serve", "directory"]);
    let shown = world.ok(&["org", "show", "d1"]);
    for subject in ["muster.again.>", "muster.directory.*.any", "$KV.FORGOTTEN.>", "_W.NODES.>"] {
        assert!(shown.contains(subject), "{subject}: {shown}");
    }
    for other in ["{{", "SCHEDULES", "PROVISION", "muster.schedule"] {
        assert!(!shown.contains(other), "{other}: {shown}");
    }
}

/// What `rpc org add` needs for this kind besides the name.
pub(super) fn more_options(kind: &str) -> &'static [&'static str] {
    match kind {
        "service" => &["--serve", "directory"],
        _ => &[],
    }
}

/// Policies identify callers by name: a service with the name of a user would have that user's permissions.
#[test]
fn name_is_reserved_for_its_kind_until_revoked() {
    let world = World::new(&["--port", "1"]);
    let kinds = ["user", "node", "service"];
    for owner in kinds {
        let name = format!("{owner}-1");
        let add = ["org", "add", owner, &name, "--expires", "1s"];
        world.ok(&[&add, more_options(owner)].concat());
        for other in kinds.into_iter().filter(|kind| *kind != owner) {
            for more in [&[][..], &["--renew"]] {
                let add = [&["org", "add", other, &name], more_options(other), more].concat();
                let refused = world.rpc(&add);
                let told = talk(&refused);
                assert_eq!(refused.status.code(), Some(1), "{add:?}: {told}");
                assert!(
                    told.contains(&format!(
                        "is already the name of another principal of kind {owner}"
                    )),
                    "{told}"
                );
            }
        }
    }
    assert_eq!(world.states().len(), kinds.len(), "a refused command issued credentials");
    world.rpc(&["org", "revoke", "user-1", "--yes"]);
    world.ok(&["org", "add", "service", "user-1", "--serve", "directory"]);
}

/// Runs one command under a umask.
fn under_umask(world: &World, umask: &str, args: &[&str]) {
    let script = format!("umask {umask}; exec \"$0\" \"$@\"");
    let ran = Command::new("/bin/sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_rpc")])
        .args(args)
        .env("MUSTER_ORG", world.org())
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(0), "{args:?}: {}", talk(&ran));
}

#[test]
fn file_modes_are_independent_of_the_umask() {
    for umask in ["000", "077", "027"] {
        let world = World { scratch: tempfile::tempdir().unwrap() };
        let out = |name: &str| world.scratch.path().join(name).display().to_string();
        let (org, node, user) = (out("org"), out("node"), out("user"));
        let (host, creds) = (out("host"), out("out/one.creds"));
        for args in [
            &["org", "init", &org, "--port", "1"][..],
            &["org", "add", "user", "rip", "--bundle", &user],
            &["org", "add", "node", "web1.acme.net", "--bundle", &node],
            &["org", "add", "user", "anna", "--agent", "rpcutil", "--out", &creds],
            &["org", "grant", "anna", "service", "--for", "1h"],
            &["provision", "token", "--names", "*"],
            &["provision", "host", "provisioner", "--out", &host],
            &["broker", "config", "--write"],
            &["broker", "rename", "--host", "broker.acme.net"],
        ] {
            under_umask(&world, umask, args);
        }
        for path in files(world.scratch.path()) {
            let text = fs::read_to_string(&path).unwrap();
            let expected = if is_secret(&text) { 0o600 } else { 0o644 };
            assert_eq!(mode(&path), expected, "umask {umask}: {}", path.display());
            let above = path.parent().unwrap();
            if above != world.scratch.path() {
                assert_eq!(mode(above), 0o700, "umask {umask}: {}", above.display());
            }
        }
    }
}

fn is_secret(text: &str) -> bool {
    let is_seed = |word: &str| word.len() == 58 && word.starts_with('S');
    text.split_whitespace().any(is_seed) || text.contains("PRIVATE KEY")
}

#[test]
fn creation_refuses_a_directory_that_others_can_write() {
    let world = World::new(&["--port", "1"]);
    let chmod = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    for (mode, target) in
        [(0o777, "open"), (0o1777, "open"), (0o777, "open/new"), (0o775, "open/a/b")]
    {
        let open = world.scratch.path().join("open");
        fs::create_dir(&open).unwrap();
        chmod(&open, mode).unwrap();
        let target = world.scratch.path().join(target);
        let link = world.scratch.path().join("link");
        symlink(&target, &link).unwrap();
        for path in [&target, &link] {
            // A dangling link cannot become a directory, whatever the modes of its parents.
            if path == &link && !target.exists() {
                continue;
            }
            let refused = world.rpc(&["org", "init", path.to_str().unwrap()]);
            let told = talk(&refused);
            assert_eq!(refused.status.code(), Some(1), "{mode:o} {}: {told}", path.display());
            assert!(told.contains("can be changed by other users"), "{told}");
            assert_eq!(files(&open), [] as [std::path::PathBuf; 0]);
        }
        fs::remove_file(link).unwrap();
        fs::remove_dir_all(open).unwrap();
    }
    // The sticky bit prevents other users from renaming the owner's files.
    let shared = world.scratch.path().join("shared");
    fs::create_dir(&shared).unwrap();
    chmod(&shared, 0o1777).unwrap();
    world.ok(&["org", "init", shared.join("new").to_str().unwrap(), "--port", "1"]);
}

#[test]
fn shown_permissions_equal_those_at_the_broker() {
    let world = World::new(&["--collective", "muster", "--collective", "emea"]);
    world.ok(&["org", "add", "user", "rip", "--agent", "puppetral", "--agent", "service.status"]);
    let shown = world.json(&["org", "show", "rip", "-j"]);
    let publish = &shown[0]["permissions"]["publish"]["allow"];
    let own_tunnels = format!("_T.{}.>", shown[0]["key"].as_str().unwrap());
    let expected = [
        "muster.puppetral.>",
        "muster.rpcutil.>",
        "muster.service.status.>",
        "emea.puppetral.>",
        "emea.rpcutil.>",
        "emea.service.status.>",
        "_CONFIRM",
        "$JS.API.DIRECT.GET.KV_TRUST.$KV.TRUST.account",
        "$KV.REQUESTS.*",
        "$JS.API.DIRECT.GET.KV_TRUST.$KV.TRUST.head",
        &own_tunnels,
    ];
    let mut found: Vec<&str> =
        publish.as_array().unwrap().iter().map(|s| s.as_str().unwrap()).collect();
    let mut expected = expected.to_vec();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    let organisation = world.json(&["org", "show", "-j"]);
    assert_eq!(organisation["name"], "acme");
    let roles = organisation["roles"].as_array().unwrap().iter();
    let roles: Vec<_> = roles.map(|role| role["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["node", "caller", "service", "admin"]);
}

#[test]
fn bundle_contains_all_files_of_a_node() {
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
        ["account.jwt", "ca.pem", "node.creds", "rpc.toml", "rpcd.toml", "user.creds"]
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
fn bundle_refuses_to_replace_a_configuration() {
    let world = World::new(&[]);
    let directory = world.scratch.path().join("config");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("rpc.toml"), "another fleet's").unwrap();
    let args = ["org", "add", "user", "rip", "--bundle", directory.to_str().unwrap()];
    let refused = world.rpc(&args);
    assert_eq!(refused.status.code(), Some(1));
    assert!(talk(&refused).contains("rpc.toml already exists"), "{}", talk(&refused));
    assert!(world.states().is_empty(), "the refused command issued credentials");
    world.ok(&[&args[..], &["--renew"]].concat());
    assert!(fs::read_to_string(directory.join("rpc.toml")).unwrap().contains("[trust]"));
}

#[test]
fn usage_errors_exit_with_4_and_help_with_0() {
    let world = World::new(&["--no-tls"]);
    for wrong in [&["nonsense"][..], &["org", "add"], &["org", "list", "--bogus"], &[]] {
        assert_eq!(world.rpc(wrong).status.code(), Some(4), "{wrong:?}");
    }
    let help = world.rpc(&["org", "init", "--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&help.stdout).contains("Examples:"));
    let nowhere = world.rpc(&["org", "list", "--org", "/nonexistent"]);
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(talk(&nowhere).contains("rpc org init"));
}
