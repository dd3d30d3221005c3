//! What an operator's trial on booted machines found in the resource engine: undo, generated resources, init scripts, crontabs, errors of
//! apt, mounted files, the main address. Where Puppet has an answer, the machine's own Puppet gives it.

#![expect(clippy::indexing_slicing, reason = "replies are indexed; tests end by panic")]

use muster_tests::command::describe_output;
use serde_json::Value;

use crate::machines::apt_repository::USE_OWN_PACKAGES;
use crate::machines::nodes::{MachineNodes, NodeOptions};

/// An init script, a static unit, files to tidy, and a package that cannot be configured.
const PREPARE: &str = r#"
cat >/etc/init.d/legacy <<'END'
#!/bin/sh
### BEGIN INIT INFO
# Provides: legacy
# Required-Start: $remote_fs
# Required-Stop: $remote_fs
# Default-Start: 2 3 4 5
# Default-Stop: 0 1 6
### END INIT INFO
case "$1" in start) touch /run/legacy;; stop) rm -f /run/legacy;; status) test -e /run/legacy;; esac
END
chmod 755 /etc/init.d/legacy
printf '[Service]\nExecStart=/bin/sleep infinity\n' >/usr/lib/systemd/system/fixed.service
systemctl daemon-reload
systemctl start fixed
mkdir -p /srv/spool/deep; echo a >/srv/spool/a.log; echo b >/srv/spool/deep/b.log; echo c >/srv/spool/c.txt
for name in broken fine; do
  mkdir -p /tmp/$name/DEBIAN /srv/repository
  printf "Package: $name\nVersion: 1.0\nArchitecture: all\nMaintainer: t <t@example.net>\nDescription: test\n" >/tmp/$name/DEBIAN/control
  printf '#!/bin/sh\necho "no such database" >&2\nexit 3\n' >/tmp/$name/DEBIAN/postinst
  chmod 755 /tmp/$name/DEBIAN/postinst
  [ $name = broken ] || rm /tmp/$name/DEBIAN/postinst
  dpkg-deb --build /tmp/$name /srv/repository >/dev/null
done
"#;

/// The reply of a `puppetral do` that succeeds.
async fn change(nodes: &MachineNodes, words: &[&str]) -> Value {
    let reply = nodes.call("m1", &[&["puppetral", "do"], words].concat()).await;
    assert_eq!(reply["statuscode"], 0, "{words:?}: {reply:#}");
    reply
}

/// Undoes the newest job, which must succeed.
async fn undo(nodes: &MachineNodes) {
    let undone = nodes.operator.run(&["job", "undo", &newest_job(nodes).await, "-y"]).await;
    assert!(undone.status.success(), "{}", describe_output(&undone));
}

async fn newest_job(nodes: &MachineNodes) -> String {
    let jobs = nodes.operator.run_json(&["job", "list"]).await.0;
    jobs.pointer("/jobs/0/id").and_then(Value::as_str).unwrap().to_owned()
}

async fn check_undo(nodes: &MachineNodes) {
    let machines = &nodes.machines;
    let shown = "stat -c '%U %G %a' /etc/app.conf; cat /etc/app.conf";
    machines
        .sh("m1", "echo x >/etc/app.conf; chown games:adm /etc/app.conf; chmod 640 /etc/app.conf")
        .await;
    let before = machines.sh("m1", shown).await;
    change(nodes, &["type=file", "name=/etc/app.conf", "ensure=absent"]).await;
    undo(nodes).await;
    assert_eq!(machines.sh("m1", shown).await, before);

    machines.sh("m1", "groupadd crew; useradd -m -s /bin/sh -G crew anna; echo anna:secret | chpasswd; chage -M 90 anna").await;
    let account =
        "getent passwd anna; getent group anna; id anna; getent shadow anna | cut -d: -f1,2,4-";
    let before = machines.sh("m1", account).await;
    change(nodes, &["type=user", "name=anna", "ensure=absent"]).await;
    assert_eq!(machines.sh("m1", "getent group anna || echo gone").await, "gone");
    undo(nodes).await;
    assert_eq!(machines.sh("m1", account).await, before);

    change(nodes, &["type=service", "name=fixed", "ensure=stopped"]).await;
    undo(nodes).await;
    assert_eq!(machines.sh("m1", "systemctl is-active fixed").await, "active");
    change(nodes, &["type=service", "name=fixed", "enable=mask"]).await;
    undo(nodes).await;
    assert_eq!(machines.sh("m1", "systemctl is-enabled fixed").await, "static");

    change(nodes, &["type=file", "name=/etc/motd", "content=new\n"]).await;
    machines.sh("m1", "echo by hand >>/etc/motd").await;
    let job = newest_job(nodes).await;
    let refused = nodes.operator.run(&["job", "undo", &job, "-y"]).await;
    let text = describe_output(&refused);
    assert!(!refused.status.success() && text.contains("+by hand"), "{text}");
    assert!(machines.sh("m1", "cat /etc/motd").await.ends_with("by hand"));
    let forced = nodes.operator.run(&["job", "undo", &job, "-y", "--force"]).await;
    assert!(forced.status.success(), "{}", describe_output(&forced));
}

async fn check_generated(nodes: &MachineNodes) {
    let machines = &nodes.machines;
    let tidy = ["type=tidy", "name=/srv/spool", "recurse=true", "matches=*.log", "age=0"];
    change(nodes, &tidy).await;
    let left = "cd /srv/spool; find . -type f | sort | tr '\\n' ' '";
    assert_eq!(machines.sh("m1", left).await.trim(), "./c.txt");
    undo(nodes).await;
    assert_eq!(machines.sh("m1", left).await.trim(), "./a.log ./c.txt ./deep/b.log");
    change(nodes, &["type=file", "name=/srv/spool", "recurse=true", "owner=games"]).await;
    assert_eq!(machines.sh("m1", "stat -c %U /srv/spool/deep/b.log").await, "games");
    undo(nodes).await;
    assert_eq!(machines.sh("m1", "stat -c %U /srv/spool/deep/b.log").await, "root");
}

async fn check_services(nodes: &MachineNodes) {
    let machines = &nodes.machines;
    for wanted in ["true", "false"] {
        let enable = format!("enable={wanted}");
        change(nodes, &["type=service", "name=legacy", &enable]).await;
        let shown = machines.sh("m1", "puppet resource service legacy --color=false").await;
        assert!(shown.contains(&format!("'{wanted}'")), "{wanted}: {shown}");
        let again = change(nodes, &["type=service", "name=legacy", &enable]).await;
        assert_eq!(again.pointer("/data/changed"), Some(&Value::Bool(false)), "{again:#}");
    }
    // A static unit can be neither enabled nor disabled; Puppet reports no change either.
    let fixed = change(nodes, &["type=service", "name=fixed", "enable=true"]).await;
    assert_eq!(fixed.pointer("/data/changed"), Some(&Value::Bool(false)), "{fixed:#}");
    let puppet = machines.sh("m1", "puppet resource service fixed enable=true --color=false").await;
    assert!(!puppet.contains("Notice"), "{puppet}");
}

/// The same three changes by both, without Puppet's own header, which has the time.
async fn check_crontabs(nodes: &MachineNodes) {
    let machines = &nodes.machines;
    machines.sh("m1", "useradd ours; useradd theirs; for u in ours theirs; do echo '0 1 * * * /bin/own' | crontab -u $u -; done").await;
    for minute in ["5", "6", "7"] {
        let (minute_word, user) = (format!("minute={minute}"), "user=ours");
        change(nodes, &["type=cron", "name=job", "command=/bin/true", user, &minute_word]).await;
        let puppet = format!(
            "puppet resource cron job command=/bin/true user=theirs target=theirs minute={minute} --color=false"
        );
        machines.sh("m1", &puppet).await;
    }
    let file = "/var/spool/cron/crontabs";
    let content = |user: &str| format!("grep -v -e '^# HEADER' -e 'installed on' {file}/{user}");
    let ours = machines.sh("m1", &content("ours")).await;
    assert_eq!(ours, machines.sh("m1", &content("theirs")).await);
    assert_eq!(ours.matches("DO NOT EDIT").count(), 1, "{ours}");
}

async fn check_packages(nodes: &MachineNodes) {
    let reply = nodes.call("m1", &["puppetral", "do", "type=package", "name=broken"]).await;
    let message = reply["statusmsg"].as_str().unwrap_or_default();
    for part in ["dpkg: error processing package broken", "E: Sub-process"] {
        assert!(message.contains(part), "{part}: {reply:#}");
    }
    assert!(!message.contains("because of other packages"), "{reply:#}");
    // `broken` is configured again with every call of apt, and fails again.
    let reply = nodes.call("m1", &["puppetral", "do", "type=package", "name=fine"]).await;
    let message = reply["statusmsg"].as_str().unwrap_or_default();
    assert!(message.contains("because of other packages (broken)"), "{reply:#}");
    nodes.machines.sh("m1", "dpkg --purge --force-all broken fine").await;
}

async fn check_mounted_hosts(nodes: &MachineNodes) {
    let machines = &nodes.machines;
    machines
        .sh(
            "m1",
            "cp -p /etc/hosts /srv/hosts; chmod 640 /srv/hosts; mount --bind /srv/hosts /etc/hosts",
        )
        .await;
    change(nodes, &["type=host", "name=db1.example.net", "ip=10.0.0.5"]).await;
    let shown = machines.sh("m1", "grep db1 /srv/hosts; stat -c '%a %U' /etc/hosts").await;
    assert_eq!(shown, "10.0.0.5\tdb1.example.net\n640 root");
    undo(nodes).await;
    assert_eq!(machines.sh("m1", "grep -c db1 /srv/hosts || true").await, "0");
    machines.sh("m1", "umount /etc/hosts").await;
}

/// A second address does not change the main one, and Facter names the same.
async fn check_address(nodes: &MachineNodes) {
    let machines = &nodes.machines;
    let facter = "facter networking.ip 2>/dev/null";
    let before = machines.sh("m1", facter).await;
    for number in ["7", "3", "9"] {
        machines.sh("m1", &format!("ip address add 10.90.{number}.1/24 dev host0")).await;
        machines.sh("m1", "systemctl restart rpcd").await;
        nodes.await_answers(1).await;
        let reply = nodes.call("m1", &["rpcutil", "get_fact", "fact=networking.ip"]).await;
        let found = reply.pointer("/data/value").and_then(Value::as_str).unwrap_or_default();
        assert_eq!(
            (found, machines.sh("m1", facter).await.as_str()),
            (before.as_str(), before.as_str())
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn findings_of_the_trial_in_the_resource_engine_stay_fixed() {
    let options = NodeOptions { puppet: true, ..NodeOptions::default() };
    let Some(nodes) = MachineNodes::start(1, options).await else { return };
    nodes.machines.sh("m1", &[PREPARE, USE_OWN_PACKAGES].concat()).await;
    check_undo(&nodes).await;
    check_generated(&nodes).await;
    check_services(&nodes).await;
    check_crontabs(&nodes).await;
    check_packages(&nodes).await;
    check_mounted_hosts(&nodes).await;
    check_address(&nodes).await;
}
