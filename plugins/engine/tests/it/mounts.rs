//! `mount` and `sshkey`: changes of fstab and of the known hosts, and the commands `mount` and `umount`.

use muster_system::fake::FakeSystem;
use serde_json::json;

use crate::support::{
    Others, Scratch, apply, autorequires, check, converges, error, fake, messages, output,
};

const FSTAB: &str = "# static\nUUID=1 / ext4 errors=remount-ro 0 1\n\n/dev/sdb1\t/srv/my\\040data/ xfs defaults\nbroken\n";

/// Scripts `mount` and `umount` so that they change `/proc/self/mounts`.
fn with_mounts(system: &FakeSystem, mounted: &str) {
    system.add_file("/etc/fstab", FSTAB);
    system.add_file("/proc/self/mounts", mounted);
    system.script_handler(&["mount"], |system, command| {
        let place = command.argv.last().cloned().unwrap_or_default();
        let place = place.replace(' ', "\\040");
        let mounted = system.file_text("/proc/self/mounts");
        if !mounted.contains(&place) {
            system.add_file("/proc/self/mounts", format!("{mounted}/dev/x {place} xfs rw 0 0\n"));
        }
        output(0, "")
    });
    system.script_handler(&["umount"], |system, command| {
        let place = command.argv[1].replace(' ', "\\040");
        let mounted = system.file_text("/proc/self/mounts");
        let mut rest = String::new();
        for line in mounted.lines().filter(|line| !line.contains(&format!(" {place} "))) {
            rest.push_str(line);
            rest.push('\n');
        }
        system.add_file("/proc/self/mounts", rest);
        output(0, "")
    });
}

const DATA: &str = "/dev/sdc1 /data ext4 rw 0 0\n";
const LINE: &str = "/dev/sdc1\t/data\text4\tdefaults\t0\t0\n";

#[test]
fn every_initial_state_reaches_the_desired_state() {
    let in_fstab = format!("{FSTAB}{LINE}");
    for (listed, mounted, ensure, message, calls, after) in [
        (false, false, "defined", Some("defined 'ensure' as 'defined'"), vec![], true),
        (false, false, "mounted", Some("defined 'ensure' as 'mounted'"), vec!["mount /data"], true),
        (false, true, "mounted", Some("ensure changed 'ghost' to 'mounted'"), vec![], true),
        (
            false,
            true,
            "unmounted",
            Some("ensure changed 'ghost' to 'unmounted'"),
            vec!["umount /data"],
            true,
        ),
        (
            false,
            true,
            "absent",
            Some("undefined 'ensure' from 'ghost'"),
            vec!["umount /data"],
            false,
        ),
        (true, false, "present", None, vec![], true),
        (true, true, "defined", None, vec![], true),
        (
            true,
            false,
            "mounted",
            Some("ensure changed 'unmounted' to 'mounted'"),
            vec!["mount /data"],
            true,
        ),
        (
            true,
            true,
            "unmounted",
            Some("ensure changed 'mounted' to 'unmounted'"),
            vec!["umount /data"],
            true,
        ),
        (
            true,
            true,
            "absent",
            Some("undefined 'ensure' from 'mounted'"),
            vec!["umount /data"],
            false,
        ),
        (true, false, "absent", Some("undefined 'ensure' from 'unmounted'"), vec![], false),
        (false, false, "absent", None, vec![], false),
    ] {
        let (system, engine) = fake();
        with_mounts(&system, if mounted { DATA } else { "" });
        if listed {
            system.add_file("/etc/fstab", &in_fstab);
        }
        let words = json!({"ensure": ensure, "device": "/dev/sdc1", "fstype": "ext4"});
        let events = converges(&engine, "mount", "/data", words);
        let case = format!("{listed} {mounted} {ensure}");
        assert_eq!(messages(&events), message.into_iter().collect::<Vec<_>>(), "{case}");
        assert_eq!(system.recorded_command_lines(), calls, "{case}");
        let expected = if after { &in_fstab } else { FSTAB };
        assert_eq!(system.file_text("/etc/fstab"), expected, "{case}");
    }
}

#[test]
fn property_changes_affect_one_line_and_escape_spaces() {
    let (system, engine) = fake();
    with_mounts(&system, "/dev/sdb1 /srv/my\\040data xfs rw 0 0\n");
    let words = json!({"ensure": "mounted", "device": "/dev/sdb1", "fstype": "xfs", "options": "ro", "pass": 2});
    let events = converges(&engine, "mount", "/srv/my data/", words);
    assert_eq!(
        messages(&events),
        ["options changed 'defaults' to 'ro'", "defined 'pass' as '2'", "defined 'dump' as '0'"]
    );
    let expected = FSTAB.replace(
        "/dev/sdb1\t/srv/my\\040data/ xfs defaults",
        "/dev/sdb1\t/srv/my\\040data\txfs\tro\t0\t2",
    );
    assert_eq!(system.file_text("/etc/fstab"), expected);
    let found = engine.list_instances("mount").unwrap();
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["/", "/srv/my data"]);
}

#[test]
fn refresh_remounts_only_mounted_file_systems() {
    for (mounted, remounts, calls) in [
        (true, true, vec!["mount -o remount /data"]),
        (true, false, vec!["umount /data", "mount /data"]),
        (false, true, vec![]),
    ] {
        let (system, engine) = fake();
        with_mounts(&system, if mounted { DATA } else { "" });
        let words = json!({"ensure": "mounted", "device": "/dev/sdc1", "fstype": "ext4", "remounts": remounts});
        let resource = check(&engine, "mount", "/data", words).unwrap();
        let types = muster_engine::types::builtin_types();
        let known = types.iter().find(|known| known.schema().type_name == "mount").unwrap();
        let cx = muster_engine::ResourceContext::new(
            &system,
            muster_system::command::CancelFlag::default(),
        );
        assert!(known.supports_refresh());
        known.refresh(&cx.bind(&resource)).unwrap();
        assert_eq!(system.recorded_command_lines(), calls);
    }
}

#[test]
fn scratch_root_edits_fstab_but_refuses_to_mount() {
    let scratch = Scratch::new();
    let words = |ensure: &str| json!({"ensure": ensure, "device": "/dev/sdc1", "fstype": "ext4"});
    converges(&scratch.engine, "mount", "/data", words("unmounted"));
    assert_eq!(scratch.text("/etc/fstab"), LINE);
    let outcome = apply(&scratch.engine, "mount", "/data", words("mounted"));
    assert!(error(&outcome).contains("use `ensure => defined`"), "{}", error(&outcome));
    let outcome =
        apply(&scratch.engine, "mount", "/x", json!({"ensure": "defined", "device": "d"}));
    assert!(error(&outcome).contains("a mount needs `fstype`"), "{}", error(&outcome));
}

#[test]
fn mounts_require_parent_mounts_and_files_require_their_mounts() {
    let (_, engine) = fake();
    let others = Others::of(
        &engine,
        [
            ("mount", "/srv", json!({"device": "a", "fstype": "b"})),
            ("mount", "/srv/data", json!({"device": "a", "fstype": "b"})),
        ],
    );
    let mount = check(&engine, "mount", "/srv/data", json!({})).unwrap();
    let expected = [("mount", "/srv".to_owned()), ("file", "/etc/fstab".to_owned())];
    assert_eq!(autorequires(&mount, &others), expected);
    let file = check(&engine, "file", "/srv/data/x", json!({"content": ""})).unwrap();
    let expected = [("mount", "/srv/data".to_owned()), ("mount", "/srv".to_owned())];
    assert_eq!(autorequires(&file, &others), expected);
}

const KNOWN: &str = "# ours\n|1|abc=|def= ssh-rsa HASHED\n@cert-authority *.x ssh-rsa CA\ndb,10.0.0.1 ssh-rsa OLD comment\ndb ssh-ed25519 ED\n";

#[test]
fn sshkey_is_identified_by_host_and_key_type() {
    let scratch = Scratch::new();
    scratch.write("/etc/ssh/ssh_known_hosts", KNOWN);
    let engine = &scratch.engine;
    let events = converges(
        engine,
        "sshkey",
        "db",
        json!({"type": "rsa", "key": "NEW", "host_aliases": ["10.0.0.2", "store"]}),
    );
    assert_eq!(
        messages(&events),
        [
            "key changed 'OLD' to 'NEW'",
            "host_aliases changed ['10.0.0.1'] to ['10.0.0.2', 'store']"
        ]
    );
    let events = converges(engine, "sshkey", "web@ssh-ed25519", json!({"key": "WEB"}));
    assert_eq!(messages(&events), ["created"]);
    let events = converges(
        engine,
        "sshkey",
        "gone",
        json!({"name": "db", "type": "ed25519", "ensure": "absent"}),
    );
    assert_eq!(messages(&events), ["removed"]);
    assert_eq!(
        scratch.text("/etc/ssh/ssh_known_hosts"),
        "# ours\n|1|abc=|def= ssh-rsa HASHED\n@cert-authority *.x ssh-rsa CA\ndb,10.0.0.2,store ssh-rsa NEW\nweb ssh-ed25519 WEB\n"
    );
    let names: Vec<String> =
        engine.list_instances("sshkey").unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["db@ssh-rsa", "web@ssh-ed25519"]);
    for (title, words, expected) in [
        ("db", json!({}), "needs `type`"),
        ("db@rot13", json!({}), "must be one of ssh-dss"),
        ("a,b@rsa", json!({}), "must be one host name"),
        ("db@rsa", json!({"host_aliases": "a b"}), "must be a list of host names"),
        ("db@rsa", json!({"key": "ssh-rsa AAAA"}), "only the base64 text"),
    ] {
        let error = check(engine, "sshkey", title, words).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}
