//! The resources that are compared with Puppet, each as an operator writes it and in Puppet's language.

use std::fmt::Write as _;

/// A resource as an operator writes it.
#[derive(Clone, Copy)]
pub(super) struct ResourceCase {
    pub(super) kind: &'static str,
    pub(super) name: &'static str,
    pub(super) attributes: &'static [&'static str],
    /// What `puppet resource` prints of it after the change.
    pub(super) shown: &'static [(&'static str, &'static str)],
    /// A command whose output is its state, of a type whose state `puppet resource` does not show.
    pub(super) probe: &'static str,
    /// Why its change cannot be undone, if it cannot.
    pub(super) undo_refusal: &'static str,
}

impl ResourceCase {
    /// `Type[name]`, as in reports.
    pub(super) fn reference(&self) -> String {
        let mut kind = self.kind.to_owned();
        kind[..1].make_ascii_uppercase();
        format!("{kind}[{}]", self.name)
    }

    /// The call of the agent `puppetral`.
    pub(super) fn words(&self) -> Vec<String> {
        let own = ["puppetral".to_owned(), "do".to_owned()];
        let subject = [format!("type={}", self.kind), format!("name={}", self.name)];
        let attributes = self.attributes.iter().map(|text| (*text).to_owned());
        own.into_iter().chain(subject).chain(attributes).collect()
    }

    /// The same resource in Puppet's language.
    pub(super) fn manifest(&self) -> String {
        let mut text = format!("{} {{ '{}':", self.kind, self.name);
        for attribute in self.attributes {
            let (name, value) = attribute.split_once('=').unwrap();
            let value = match (name, value) {
                (_, "true" | "false") => value.to_owned(),
                ("groups" | "recipient" | "host_aliases", _) => format!("split('{value}', ',')"),
                _ => format!("\"{}\"", value.escape_default()),
            };
            write!(text, " {} => {value},", name.trim_start_matches("params.")).unwrap();
        }
        text + " }\n"
    }
}

/// A resource that `puppet resource` shows.
const SHOWN: ResourceCase =
    ResourceCase { kind: "", name: "", attributes: &[], shown: &[], probe: "", undo_refusal: "" };

pub(super) const CASES: &[ResourceCase] = &[
    ResourceCase {
        kind: "group",
        name: "crew",
        attributes: &["gid=3001"],
        shown: &[("ensure", "'present'"), ("gid", "3001")],
        ..SHOWN
    },
    ResourceCase {
        kind: "user",
        name: "anna",
        attributes: &["uid=2001", "shell=/bin/sh", "home=/home/anna", "comment=Anna A"],
        shown: &[
            ("uid", "2001"),
            ("shell", "'/bin/sh'"),
            ("home", "'/home/anna'"),
            ("comment", "'Anna A'"),
        ],
        ..SHOWN
    },
    ResourceCase {
        kind: "file",
        name: "/etc/demo.conf",
        attributes: &["content=a = 1\n", "mode=0640", "owner=games", "group=adm"],
        shown: &[("ensure", "'file'"), ("mode", "'0640'"), ("owner", "5"), ("group", "4")],
        ..SHOWN
    },
    // With `force`, because an undo does not remove a directory otherwise.
    ResourceCase {
        kind: "file",
        name: "/srv/data",
        attributes: &["ensure=directory", "mode=2750", "force=true"],
        shown: &[("ensure", "'directory'"), ("mode", "'2750'")],
        ..SHOWN
    },
    ResourceCase {
        kind: "host",
        name: "db1.example.net",
        attributes: &["ip=10.0.0.5"],
        shown: &[("ensure", "'present'"), ("ip", "'10.0.0.5'")],
        ..SHOWN
    },
    ResourceCase {
        kind: "cron",
        name: "backup",
        attributes: &["command=/bin/true", "user=root", "minute=5", "hour=3"],
        shown: &[("command", "'/bin/true'"), ("minute", "['5']"), ("hour", "['3']")],
        ..SHOWN
    },
    ResourceCase {
        kind: "service",
        name: "stub",
        attributes: &["ensure=running", "enable=true"],
        shown: &[("ensure", "'running'"), ("enable", "'true'")],
        ..SHOWN
    },
    ResourceCase {
        kind: "service",
        name: "unwanted",
        attributes: &["enable=mask"],
        // `puppet resource` shows a masked unit as disabled.
        shown: &[("enable", "'false'")],
        ..SHOWN
    },
    ResourceCase {
        kind: "package",
        name: "demo-tool",
        attributes: &["ensure=1.0"],
        shown: &[("ensure", "'1.0'")],
        ..SHOWN
    },
    // The packages that follow are installed in version 1.0; `demo-released` is on hold.
    ResourceCase {
        kind: "package",
        name: "demo-upgraded",
        attributes: &["ensure=2.0"],
        shown: &[("ensure", "'2.0'")],
        ..SHOWN
    },
    ResourceCase {
        kind: "package",
        name: "demo-latest",
        attributes: &["ensure=latest"],
        shown: &[("ensure", "'2.0'")],
        ..SHOWN
    },
    ResourceCase {
        kind: "package",
        name: "demo-held",
        attributes: &["ensure=present", "mark=hold"],
        shown: &[("ensure", "'1.0'"), ("mark", "'hold'")],
        ..SHOWN
    },
    ResourceCase {
        kind: "package",
        name: "demo-released",
        attributes: &["ensure=2.0", "mark=none"],
        shown: &[("ensure", "'2.0'"), ("mark", "'none'")],
        ..SHOWN
    },
    ResourceCase {
        kind: "package",
        name: "demo-removed",
        attributes: &["ensure=absent"],
        shown: &[("ensure", "'purged'")],
        ..SHOWN
    },
    ResourceCase {
        kind: "mount",
        name: "/mnt",
        attributes: &["ensure=mounted", "device=tmpfs", "fstype=tmpfs"],
        shown: &[("ensure", "'mounted'"), ("device", "'tmpfs'"), ("fstype", "'tmpfs'")],
        ..SHOWN
    },
    ResourceCase {
        kind: "user",
        name: "ben",
        attributes: &["groups=adm,games", "managehome=true"],
        shown: &[("ensure", "'present'"), ("groups", "['adm', 'games']")],
        undo_refusal: "the home directory /home/ben was created with the user and is kept",
        ..SHOWN
    },
    ResourceCase {
        kind: "file",
        name: "/srv/link",
        attributes: &["ensure=link", "target=/etc/hostname"],
        shown: &[("ensure", "'link'"), ("target", "'/etc/hostname'")],
        ..SHOWN
    },
    ResourceCase {
        kind: "file",
        name: "/srv/tree",
        attributes: &["ensure=directory", "recurse=true", "owner=games", "mode=0640"],
        probe: "cd /srv/tree && find . -printf '%p %u %m\n' | sort",
        ..SHOWN
    },
    ResourceCase {
        kind: "host",
        name: "db2.example.net",
        attributes: &["ip=10.0.0.6", "host_aliases=db2,replica", "comment=second"],
        shown: &[("host_aliases", "['db2', 'replica']"), ("comment", "'second'")],
        ..SHOWN
    },
    ResourceCase {
        kind: "mailalias",
        name: "ops",
        attributes: &["recipient=anna,ben"],
        shown: &[("ensure", "'present'"), ("recipient", "['anna', 'ben']")],
        ..SHOWN
    },
    ResourceCase {
        kind: "sshkey",
        name: "db1.example.net",
        attributes: &["params.type=ssh-ed25519", "key=AAAAC3NzaC1lZDI1NTE5AAAAIHQ"],
        // A file without entries may remain, as with Puppet.
        probe: "! test -s /etc/ssh/ssh_known_hosts || cat /etc/ssh/ssh_known_hosts",
        ..SHOWN
    },
    ResourceCase {
        kind: "ssh_authorized_key",
        name: "anna@example.net",
        attributes: &[
            "ensure=present",
            "params.type=ssh-ed25519",
            "key=AAAAC3NzaC1lZDI1NTE5AAAAIHQ",
            "user=root",
        ],
        probe: "cd /root/.ssh && test -s authorized_keys || exit 0; cat authorized_keys; stat -c '%U %a' authorized_keys",
        ..SHOWN
    },
    ResourceCase {
        kind: "service",
        name: "second",
        attributes: &["ensure=stopped", "enable=false"],
        shown: &[("ensure", "'stopped'"), ("enable", "'false'")],
        ..SHOWN
    },
    ResourceCase {
        kind: "tidy",
        name: "/srv/spool",
        attributes: &["recurse=true", "matches=*.log", "age=0"],
        probe: "ls /srv/spool",
        ..SHOWN
    },
    ResourceCase {
        kind: "exec",
        name: "/usr/bin/touch /srv/made",
        attributes: &["creates=/srv/made"],
        probe: "ls /srv/made",
        undo_refusal: "cannot be undone",
        ..SHOWN
    },
];
