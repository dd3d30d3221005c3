//! Files that a daemon executes or applies, which a local user could change: each setting that names one, with a file, a directory or a link that others
//! can change. Each is refused with the path and the command that fixes it.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_tests::poll_until_ok;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

const LOAD_TIMEOUT: Duration = Duration::from_secs(40);
const NODE: &str = "web1.example.net";
/// A user who is neither root nor the daemon's.
const THIRD_USER: u32 = 65_534;

/// A setting, a file that it leads to, and where the refusal is read.
struct ProtectedSetting {
    setting: &'static str,
    file: &'static str,
    shown_by: ShownBy,
}

/// Where a refusal is read.
enum ShownBy {
    /// The output of a command.
    Command(&'static [&'static str]),
    /// The log of the daemon, after it has read its files again.
    Log,
}

const RUN_CHECK: ShownBy =
    ShownBy::Command(&["do", "nrpe", "runcommand", "command=check_ok", "-j"]);

/// Every setting that names a file or a directory whose content is executed, applied, or selects what runs.
const CHECKED: [ProtectedSetting; 10] = [
    ProtectedSetting {
        setting: "plugins.nrpe.config",
        file: "nagios/nrpe.cfg",
        shown_by: RUN_CHECK,
    },
    // `include` and `include_dir` of that file, and the program of a command.
    ProtectedSetting {
        setting: "plugins.nrpe.config",
        file: "nagios/local.cfg",
        shown_by: RUN_CHECK,
    },
    ProtectedSetting {
        setting: "plugins.nrpe.config",
        file: "nagios/nrpe.d/a.cfg",
        shown_by: RUN_CHECK,
    },
    ProtectedSetting {
        setting: "plugins.nrpe.config",
        file: "nagios/plugins/check_ok",
        shown_by: RUN_CHECK,
    },
    ProtectedSetting {
        setting: "plugins.nrpe.schedules",
        file: "checks.d/a.toml",
        shown_by: ShownBy::Log,
    },
    ProtectedSetting {
        setting: "plugins.puppetral.types_dir",
        file: "types.d/lamp.sh",
        shown_by: ShownBy::Command(&["do", "puppetral", "find", "type=lamp", "name=desk", "-j"]),
    },
    ProtectedSetting {
        setting: "plugins.motd.local",
        file: "motd.local",
        shown_by: ShownBy::Command(&["do", "motd", "render", "-j"]),
    },
    ProtectedSetting { setting: "paths.facts_d", file: "facts.d/program", shown_by: ShownBy::Log },
    ProtectedSetting { setting: "facts.facter", file: "facter/facter", shown_by: ShownBy::Log },
    ProtectedSetting { setting: "paths.ddls", file: "ddl/greet", shown_by: ShownBy::Log },
];

/// Settings that are checked elsewhere, with the test.
const CHECKED_ELSEWHERE: [(&str, &str); 9] = [
    ("paths.policies", "fail_closed"),
    ("paths.state", "muster-system, state_dir: directories of state that others can change"),
    ("plugins.catalog.state_dir", "the same"),
    ("plugins.puppet.state_dir", "the same"),
    ("plugins.puppet.engine_dir", "the same"),
    ("plugins.puppetral.state_dir", "the same"),
    ("plugins.puppet.catalog", "muster-puppet: catalogs_that_others_can_change_are_not_applied"),
    ("plugins.puppet.manifest confdir codedir", "the same"),
    ("plugins.external.paths", "paths.ddls above"),
];

/// Settings of paths whose content is neither executed nor applied, with the reason.
const NOT_EXECUTED: [(&str, &str); 30] = [
    ("broker.ca", "public"),
    ("broker.credentials", "a secret, which others cannot even read"),
    ("trust.account", "signed"),
    ("paths.classes", "data; the directory is Puppet's and may belong to Puppet's user"),
    ("paths.audit", "written"),
    ("paths.root", "a machine"),
    ("provisioning.credentials", "a secret"),
    ("provisioning.account", "signed"),
    ("plugins.compiler.credentials", "a secret"),
    ("plugins.compiler.secret_key", "a secret"),
    ("plugins.history.credentials", "a secret"),
    ("plugins.gateway.credentials", "a secret"),
    ("plugins.gateway.ca certificate crl", "public"),
    ("plugins.gateway.key", "a secret"),
    ("plugins.puppetdb.ca certificate", "public"),
    ("plugins.puppetdb.key", "a secret"),
    ("plugins.schedule.credentials", "a secret"),
    ("plugins.directory.credentials", "a secret"),
    ("plugins.directory.http.socket", "created"),
    ("plugins.directory.http.certificate", "public"),
    ("plugins.directory.http.key", "a secret"),
    ("plugins.directory.http.tokens", "a secret"),
    ("plugins.provision.hosts", "written"),
    ("plugins.puppet.vardir", "Puppet's state may belong to Puppet's user"),
    ("plugins.puppet.rundir", "the same"),
    ("plugins.puppet.logdir", "written by Puppet"),
    ("plugins.puppet.publicdir", "the same"),
    ("plugins.puppet.ssldir", "the same"),
    ("plugins.puppetca.ca cert key cadir", "read, compared"),
    ("plugins.puppetral.resources_file lock", "data"),
];

struct LocalUserFleet {
    _organisation: Organisation,
    _server: NatsServer,
    rpc: RpcCommand,
    daemon: Rpcd,
}

impl LocalUserFleet {
    async fn start() -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker().await;
        let rpc = RpcCommand::new(&server, &organisation, &organisation.caller("rip"), "");
        let home = DaemonHome::new(&organisation, &organisation.node(NODE), &server.url(), "");
        write_files(&home);
        let fleet =
            Self { _organisation: organisation, _server: server, rpc, daemon: home.start() };
        poll_until_ok("the node is ready", LOAD_TIMEOUT, async || {
            let output = fleet.rpc.run(&["do", "nrpe", "runcommand", "command=check_ok"]).await;
            if output.status.success() { Ok(()) } else { Err(describe_output(&output)) }
        })
        .await;
        fleet
    }

    fn path(&self, name: &str) -> PathBuf {
        self.daemon.home().path(name)
    }

    /// What is shown of a setting now.
    async fn shown(&self, setting: &ProtectedSetting) -> String {
        match setting.shown_by {
            ShownBy::Command(words) => describe_output(&self.rpc.run(words).await),
            ShownBy::Log => {
                kill(Pid::from_raw(self.daemon.pid()), Signal::SIGHUP).unwrap();
                self.daemon.log()
            }
        }
    }

    /// Waits until the refusal names this path and this command.
    async fn await_refusal(&self, setting: &ProtectedSetting, path: &Path, remedy: &str) {
        let expected = format!("run `{remedy} {}`", path.display());
        let what = format!("{} ({}) is refused: {expected}", setting.setting, setting.file);
        poll_until_ok(&what, LOAD_TIMEOUT, async || {
            let shown = self.shown(setting).await;
            if shown.contains(&expected) { Ok(()) } else { Err(shown) }
        })
        .await;
    }
}

fn write_files(home: &DaemonHome) {
    let path = |name: &str| home.path(name).display().to_string();
    home.write("nagios/plugins/check_ok", "#!/bin/sh\necho fine\n", 0o755);
    let commands = format!(
        "command[check_ok]={}\ninclude=local.cfg\ninclude_dir=nrpe.d\n",
        path("nagios/plugins/check_ok")
    );
    home.write("nagios/nrpe.cfg", &commands, 0o644);
    home.write("nagios/local.cfg", "command[a]=/bin/true\n", 0o644);
    home.write("nagios/nrpe.d/a.cfg", "command[b]=/bin/true\n", 0o644);
    let schedule = "[[checks]]\nname = \"ok\"\ncommand = \"check_ok\"\ninterval = 3600\n";
    home.write("checks.d/a.toml", schedule, 0o644);
    let description = json!({"description": "A lamp.", "program": "lamp.sh", "attributes": {
        "ensure": {"description": "Whether it is there.", "property": true, "values": ["present", "absent"]}}});
    home.write("types.d/lamp.json", &description.to_string(), 0o644);
    let lamp = "#!/bin/sh\necho '{\"state\": {\"ensure\": \"present\"}}'\n";
    home.write("types.d/lamp.sh", lamp, 0o755);
    home.write("motd.local", "hello\n", 0o644);
    home.write("facts.d/program", "#!/bin/sh\necho tier=test\n", 0o755);
    home.write("facter/facter", "#!/bin/sh\necho '{}'\n", 0o755);
    let ddl = json!({
        "metadata": {"name": "greet", "description": "Greets", "author": "a", "license": "a", "version": "1.0.0", "timeout": 5, "provider": "external"},
        "actions": [{"action": "hello", "description": "Greets", "display": "always", "input": {}, "output": {}}],
    });
    home.write("ddl/greet.json", &ddl.to_string(), 0o644);
    home.write("ddl/greet", "#!/bin/sh\necho '{\"activate\": true}' > \"$2\"\n", 0o755);
    let options = format!(
        "[facts]\nfacter = \"{}\"\n[plugins.external]\npoll_seconds = 1\n[plugins.motd]\noutputs = []\nlocal = \"{}\"\n\
         [plugins.nrpe]\nconfig = \"{}\"\nschedules = \"{}\"\n\
         [plugins.puppetral]\ntypes_dir = \"{}\"\nallow_types = [\"lamp\"]\n",
        path("facter/facter"),
        path("motd.local"),
        path("nagios/nrpe.cfg"),
        path("checks.d"),
        path("types.d"),
    );
    home.write("conf.d/protected.toml", &options, 0o644);
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_a_local_user_can_change_is_executed_or_applied() {
    assert!(nix::unistd::geteuid().is_root(), "only root can give files away");
    let fleet = LocalUserFleet::start().await;
    for (number, setting) in CHECKED.iter().enumerate() {
        let file = fleet.path(setting.file);
        let directory = file.parent().unwrap();
        let (file_mode, directory_mode) = (mode_of(&file), mode_of(directory));
        set_mode(&file, file_mode | 0o020);
        fleet.await_refusal(setting, &file, "chmod go-w").await;
        set_mode(&file, file_mode);
        // The file of a service belongs to its user, such as nagios.
        chown(&file, Some(THIRD_USER), None).unwrap();
        fleet.await_refusal(setting, &file, "chown -h root").await;
        chown(&file, Some(0), None).unwrap();
        if setting.file.contains('/') {
            set_mode(directory, 0o777);
            fleet.await_refusal(setting, directory, "chmod go-w").await;
            set_mode(directory, directory_mode);
        }
        // The file is a link, whose target is reached through a directory that others can change.
        let open = fleet.path(&format!("open{number}"));
        fs::create_dir(&open).unwrap();
        set_mode(&open, 0o777);
        let moved = fleet.path("moved");
        fs::rename(&file, &moved).unwrap();
        symlink(&moved, open.join("hop")).unwrap();
        symlink(open.join("hop"), &file).unwrap();
        fleet.await_refusal(setting, &open, "chmod go-w").await;
        fs::remove_file(&file).unwrap();
        fs::rename(&moved, &file).unwrap();
        fs::remove_dir_all(&open).unwrap();
    }
    // With the former owners and modes the files are used again.
    let output = fleet.rpc.run(&["do", "nrpe", "runcommand", "command=check_ok"]).await;
    assert!(output.status.success(), "{}", describe_output(&output));
}

#[test]
fn every_setting_of_a_path_is_in_a_table() {
    let keys = include_str!("../../../agent/node/src/config/keys.rs");
    let (settings, plugins) = keys.split_once("const PLUGIN_PATHS").unwrap();
    let quoted = |text: &str| -> Vec<String> {
        text.split('"').skip(1).step_by(2).map(str::to_owned).collect()
    };
    let mut paths: Vec<String> = settings
        .lines()
        .filter(|line| line.contains("ConfigValueKind::Path)") || line.contains("::OptionalPath)"))
        .filter_map(|line| quoted(line).into_iter().next())
        .collect();
    let plugins = plugins.split_once("];\n\n").unwrap().0;
    for entry in plugins.split("]),\n").flat_map(|part| part.split("],\n    ),")) {
        let names = quoted(entry);
        let Some((plugin, options)) = names.split_first() else { continue };
        paths.extend(options.iter().map(|option| format!("plugins.{plugin}.{option}")));
    }
    assert!(paths.len() > 30, "{paths:?}");
    let checked = CHECKED.iter().map(|setting| setting.setting);
    let elsewhere = CHECKED_ELSEWHERE.iter().chain(&NOT_EXECUTED).map(|(setting, _)| *setting);
    let known: Vec<&str> = checked.chain(elsewhere).collect();
    let is_known = |path: &String| {
        known.iter().any(|entry| {
            let mut words = entry.split(' ');
            let first = words.next().unwrap_or_default();
            let (table, _) = first.rsplit_once('.').unwrap_or_default();
            first == path || words.any(|word| format!("{table}.{word}") == *path)
        })
    };
    let missing: Vec<&String> = paths.iter().filter(|path| !is_known(path)).collect();
    assert!(missing.is_empty(), "is their content executed or applied? {missing:?}");
}
