//! Package providers other than apt: the exact commands with scripted tools, and gem, npm and pip for real, with packages that
//! the tests build.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use muster_engine::ResourceEngine;
use muster_system::fake::FakeSystem;
use muster_system::real::RealSystem;
use serde_json::{Value as Json, json};

use crate::support::{apply, check, converges, error, fake, messages, output};

/// A fake system with one package `x`. `/state` contains its version, or is empty if it is not installed; an installing command
/// copies `/next` to `/state`, a removing command empties it.
fn with_tool(system: &FakeSystem, version: &str) {
    system.add_file("/state", version);
    let changing = |system: &FakeSystem, words: &[String]| {
        let removes = ["remove", "erase", "uninstall", "-e", "-r", "--purge"];
        let gone = words.iter().any(|word| removes.contains(&word.as_str()));
        let next = system.file_text("/next");
        system.add_file("/state", if gone { "" } else { &next });
        output(0, "")
    };
    for program in ["dnf", "yum", "zypper", "rpm", "dpkg", "gem", "npm", "pip3"] {
        system.script_handler(&[program], move |system, command| changing(system, &command.argv));
    }
    let there = |system: &FakeSystem, line: &dyn Fn(&str) -> String, nothing: &str| {
        let version = system.file_text("/state");
        output(0, if version.is_empty() { nothing.to_owned() } else { line(&version) }.as_str())
    };
    system.script_handler(&["rpm", "-qa"], move |system, _| {
        let line = |version: &str| {
            let (version, release) = version.split_once('-').unwrap();
            format!("x 0 {version} {release} noarch\ny 3 1 1 noarch\n")
        };
        there(system, &line, "")
    });
    for tool in ["dnf", "yum"] {
        let text = "\nx.noarch    2.0-1   updates\ny.noarch\n    3:2-1 updates\nObsoleting Packages\nz.noarch 9-9 updates\n";
        system.script_output(&[tool, "-q", "check-update"], output(100, text));
    }
    let table = "S | Repository | Name | Current Version | Available Version | Arch\n--+---\nv | main | x | 1.0-1 | 2.0-1 | noarch\n";
    system.script_output(&["zypper", "--quiet", "list-updates"], output(0, table));
    system.script_output(&["pip3", "--version"], output(0, "pip 23"));
    system.script_handler(&["pip3", "list"], move |system, _| {
        let line = |version: &str| format!("[{{\"name\":\"X\",\"version\":\"{version}\"}}]");
        there(system, &line, "[]")
    });
    let report = r#"{"install":[{"metadata":{"name":"x","version":"2.0-1"}}]}"#;
    system.script_output(
        &["pip3", "install", "--disable-pip-version-check", "--quiet", "--dry-run"],
        output(0, report),
    );
    system.script_handler(&["gem", "list", "--local"], move |system, _| {
        there(system, &|version| format!("x ({version}, default: 0.5)\n"), "")
    });
    system.script_output(&["gem", "list", "--remote"], output(0, "x (2.0-1)\n"));
    system.script_handler(&["npm", "list"], move |system, _| {
        let line =
            |version: &str| format!("{{\"dependencies\":{{\"x\":{{\"version\":\"{version}\"}}}}}}");
        there(system, &line, "{}")
    });
    system.script_output(&["npm", "view"], output(0, "2.0-1\n"));
}

/// The recorded commands that change packages, without the queries.
fn changes(system: &FakeSystem) -> Vec<String> {
    let asks = ["-qa", "list", "check-update", "list-updates", "--version", "--dry-run", "view"];
    system
        .recorded_commands()
        .into_iter()
        .filter(|command| !command.argv.iter().any(|word| asks.contains(&word.as_str())))
        .map(|command| command.argv.join(" "))
        .collect()
}

/// Provider, installed version, attributes, version afterwards, event message, command.
type Case<'a> = (&'a str, &'a str, Json, &'a str, &'a str, &'a str);

fn calls<const N: usize>(cases: [Case<'_>; N]) {
    for (provider, found, mut words, next, message, call) in cases {
        let (system, engine) = fake();
        with_tool(&system, found);
        system.add_file("/next", next);
        words["provider"] = provider.into();
        let events = converges(&engine, "package", "x", words.clone());
        assert_eq!(messages(&events), [message], "{provider} {words}");
        assert_eq!(changes(&system), [call], "{provider} {words}");
    }
}

const ONE: &str = "1.0-1";
const TWO: &str = "2.0-1";

#[test]
fn dnf_and_yum_get_the_expected_arguments() {
    calls([
        ("dnf", "", json!({}), ONE, "created", "dnf -q -y install x"),
        (
            "dnf",
            "",
            json!({"ensure": ONE, "install_options": ["--nogpgcheck", {"--enablerepo": "a"}]}),
            ONE,
            "created",
            "dnf -q -y --nogpgcheck --enablerepo=a install x-1.0-1",
        ),
        (
            "dnf",
            ONE,
            json!({"ensure": "latest"}),
            TWO,
            "ensure changed '1.0-1' to '2.0-1'",
            "dnf -q -y upgrade x",
        ),
        (
            "dnf",
            TWO,
            json!({"ensure": ONE}),
            ONE,
            "ensure changed '2.0-1' to '1.0-1'",
            "dnf -q -y downgrade x-1.0-1",
        ),
        ("dnf", ONE, json!({"ensure": "absent"}), "", "removed", "rpm -e x"),
        ("dnf", ONE, json!({"ensure": "purged"}), "", "purged", "dnf -y erase x"),
        (
            "dnf",
            "",
            json!({"source": "/tmp/x.rpm"}),
            ONE,
            "created",
            "dnf -q -y install /tmp/x.rpm",
        ),
        (
            "yum",
            ONE,
            json!({"ensure": TWO}),
            TWO,
            "ensure changed '1.0-1' to '2.0-1'",
            "yum -q -y update x-2.0-1",
        ),
    ]);
}

#[test]
fn zypper_gets_the_expected_arguments() {
    calls([
        (
            "zypper",
            "",
            json!({}),
            ONE,
            "created",
            "zypper --quiet install --auto-agree-with-licenses --no-confirm x",
        ),
        (
            "zypper",
            ONE,
            json!({"ensure": "latest"}),
            TWO,
            "ensure changed '1.0-1' to '2.0-1'",
            "zypper --quiet install --auto-agree-with-licenses --no-confirm x",
        ),
        ("zypper", ONE, json!({"ensure": "absent"}), "", "removed", "zypper remove --no-confirm x"),
    ]);
}

#[test]
fn language_package_managers_get_the_expected_arguments() {
    calls([
        (
            "pip",
            "",
            json!({"ensure": "1.0"}),
            "1.0",
            "created",
            "pip3 install --disable-pip-version-check -q x==1.0",
        ),
        (
            "pip",
            ONE,
            json!({"ensure": "latest"}),
            TWO,
            "ensure changed '1.0-1' to '2.0-1'",
            "pip3 install --disable-pip-version-check -q --upgrade x",
        ),
        ("pip", ONE, json!({"ensure": "absent"}), "", "removed", "pip3 uninstall -y -q x"),
        (
            "gem",
            "",
            json!({"ensure": "1.0"}),
            "1.0",
            "created",
            "gem install -v 1.0 --no-document x",
        ),
        (
            "gem",
            "",
            json!({"source": "https://gems.example.com"}),
            ONE,
            "created",
            "gem install --no-document --source https://gems.example.com x",
        ),
        (
            "gem",
            ONE,
            json!({"ensure": "latest"}),
            TWO,
            "ensure changed '1.0-1' to '2.0-1'",
            "gem install --no-document x",
        ),
        (
            "gem",
            ONE,
            json!({"ensure": "absent", "uninstall_options": "--force"}),
            "",
            "removed",
            "gem uninstall --executables --all x --force",
        ),
        ("npm", "", json!({"ensure": "1.0.0"}), "1.0.0", "created", "npm install --global x@1.0.0"),
        (
            "npm",
            ONE,
            json!({"ensure": "latest"}),
            TWO,
            "ensure changed '1.0-1' to '2.0-1'",
            "npm install --global x@latest",
        ),
        ("npm", ONE, json!({"ensure": "absent"}), "", "removed", "npm uninstall --global x"),
    ]);
}

#[test]
fn any_installed_version_of_a_gem_is_in_sync() {
    let (system, engine) = fake();
    with_tool(&system, "2.0");
    for ensure in ["0.5", "2.0", "present"] {
        let words = json!({"provider": "gem", "ensure": ensure});
        assert!(converges(&engine, "package", "x", words).is_empty());
    }
}

#[test]
fn default_provider_is_the_installed_package_manager() {
    for (path, call) in [
        ("/usr/bin/dnf", "dnf -q -y install x"),
        ("/usr/bin/yum", "yum -q -y install x"),
        ("/usr/bin/zypper", "zypper --quiet install --auto-agree-with-licenses --no-confirm x"),
    ] {
        let (system, engine) = fake();
        with_tool(&system, "");
        system.add_file("/next", "1-1");
        system.add_file(path, "");
        converges(&engine, "package", "x", json!({}));
        assert_eq!(changes(&system), [call]);
    }
}

#[test]
fn dpkg_installs_from_a_file_and_requires_a_source() {
    let (system, engine) = fake();
    system.add_file("/var/lib/dpkg/status", "");
    system.add_file("/state", "");
    system.script_handler(&["dpkg-query"], |system, _| output(0, &system.file_text("/state")));
    system.script_handler(&["dpkg"], |system, command| {
        let gone = command.argv.contains(&"--purge".to_owned());
        let line = "install ok installed x 1.0 amd64\n";
        system.add_file("/state", if gone { "" } else { line });
        output(0, "")
    });
    let words = json!({"provider": "dpkg", "source": "/tmp/x.deb", "configfiles": "replace"});
    converges(&engine, "package", "x", words);
    converges(&engine, "package", "x", json!({"provider": "dpkg", "ensure": "purged"}));
    let calls: Vec<String> = system
        .recorded_command_lines()
        .into_iter()
        .filter(|line| line.starts_with("dpkg "))
        .collect();
    assert_eq!(calls, ["dpkg --force-confnew -i -- /tmp/x.deb", "dpkg --purge -- x"]);
    let outcome = apply(&engine, "package", "y", json!({"provider": "dpkg"}));
    assert!(error(&outcome).contains("without a source"), "{}", error(&outcome));
}

#[test]
fn package_list_is_read_once_until_the_database_changes() {
    let (system, engine) = fake();
    system.add_file("/var/lib/dpkg/status", "");
    let text = "install ok installed a 1 amd64\ninstall ok installed b 2 all\n";
    system.script_output(&["dpkg-query"], output(0, text));
    let cx =
        muster_engine::ResourceContext::new(&system, muster_system::command::CancelFlag::default());
    let types = muster_engine::types::builtin_types();
    let known = types.iter().find(|known| known.schema().type_name == "package").unwrap();
    for name in ["a", "b", "c"] {
        let package = check(&engine, "package", name, json!({"ensure": "absent"})).unwrap();
        known.read_state(&cx.bind(&package)).unwrap();
    }
    assert_eq!(system.recorded_command_lines().len(), 1);
    system.add_file("/var/lib/dpkg/status", "changed by somebody else");
    let package = check(&engine, "package", "a", json!({})).unwrap();
    known.read_state(&cx.bind(&package)).unwrap();
    assert_eq!(system.recorded_command_lines().len(), 2);
}

#[test]
fn unsupported_package_attributes_are_refused() {
    let (system, engine) = fake();
    with_tool(&system, "1.0-1");
    let outcome = apply(&engine, "package", "x", json!({"provider": "gem", "mark": "hold"}));
    assert!(error(&outcome).contains("gem cannot hold packages"), "{}", error(&outcome));
    for (words, expected) in [
        (json!({"provider": "portage"}), "must be one of apt, dpkg"),
        (json!({"mark": "hold", "ensure": "absent"}), "cannot be given while `ensure` is"),
        (json!({"source": "--evil"}), "must be a file or URL"),
        (json!({"uninstall_options": "evil"}), "must be options that begin with `-`"),
    ] {
        let error = check(&engine, "package", "x", words).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert!(check(&engine, "package", "@scope/x", json!({"provider": "npm"})).is_ok());
    assert!(check(&engine, "package", "@scope/x", json!({})).is_err());
}

/// An engine on the real root, for tools that write only to the test directory.
fn here() -> ResourceEngine {
    ResourceEngine::new(Arc::new(RealSystem::new(PathBuf::from("/"))))
}

/// Runs a program to prepare a test. Returns `false` if it failed and `MUSTER_TESTS_WITHOUT` names the tool; panics if it failed
/// otherwise.
#[expect(
    clippy::disallowed_types,
    reason = "a test makes the packages that it installs with the tools' own programs"
)]
fn prepared(directory: &Path, argv: &[&str]) -> bool {
    // Only pip is prepared through its wrapper.
    let tool = match argv[0].rsplit('/').next().unwrap() {
        "tool" => "pip3",
        tool => tool,
    };
    let status = std::process::Command::new(argv[0])
        .args(&argv[1..])
        .current_dir(directory)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let is_ready = status.is_ok_and(|status| status.success());
    let is_left_out = std::env::var("MUSTER_TESTS_WITHOUT")
        .is_ok_and(|tools| tools.split(',').any(|name| name == tool));
    assert!(
        is_ready || is_left_out,
        "`{}` failed: install {tool}, or name it in MUSTER_TESTS_WITHOUT",
        argv.join(" ")
    );
    is_ready
}

/// Writes a script that runs the tool with an installation directory below the test directory.
fn wrapper(directory: &Path, setting: &str, program: &str) -> String {
    let path = directory.join("tool");
    let home = directory.join("home");
    std::fs::create_dir_all(&home).unwrap();
    let home = home.display();
    std::fs::write(&path, format!("#!/bin/sh\nexport {setting}={home}\nexec {program} \"$@\"\n"))
        .unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path.to_string_lossy().into_owned()
}

/// Applies three times only (install, no change, remove) because real tools are slow.
fn installs_and_removes(name: &str, words: &Json, version: &str) {
    let engine = here();
    let told = |words: Json| {
        let outcome = apply(&engine, "package", name, words);
        assert!(outcome.error.is_none(), "{}", error(&outcome));
        let told = outcome.events.into_iter().map(|event| event.message);
        told.collect::<Vec<_>>()
    };
    assert_eq!(told(words.clone()), ["created"]);
    let mut found = words.clone();
    found["ensure"] = version.into();
    assert!(told(found.clone()).is_empty());
    found["ensure"] = "absent".into();
    assert_eq!(told(found), ["removed"]);
}

#[test]
fn installs_and_removes_a_real_gem() {
    let scratch = tempfile::tempdir().unwrap();
    let spec = "Gem::Specification.new do |s|\n s.name='mustertest'\n s.version='1.2.3'\n s.summary='x'\n s.authors=['x']\n s.files=[]\nend\n";
    std::fs::write(scratch.path().join("mustertest.gemspec"), spec).unwrap();
    if !prepared(scratch.path(), &["/usr/bin/gem", "build", "mustertest.gemspec"]) {
        return;
    }
    let command = wrapper(scratch.path(), "GEM_HOME", "/usr/bin/gem");
    let file = scratch.path().join("mustertest-1.2.3.gem");
    let words = json!({"provider": "gem", "command": command, "source": file, "install_options": "--local"});
    installs_and_removes("mustertest", &words, "1.2.3");
}

#[test]
fn installs_and_removes_a_real_npm_package() {
    let scratch = tempfile::tempdir().unwrap();
    let package = scratch.path().join("package");
    std::fs::create_dir(&package).unwrap();
    std::fs::write(package.join("package.json"), r#"{"name":"mustertest","version":"1.2.3"}"#)
        .unwrap();
    if !prepared(scratch.path(), &["/usr/bin/npm", "--version"]) {
        return;
    }
    let command = wrapper(scratch.path(), "npm_config_prefix", "/usr/bin/npm --offline");
    let words = json!({"provider": "npm", "command": command, "source": package});
    installs_and_removes("mustertest", &words, "1.2.3");
}

/// Run by `make test-all`.
mod long {
    use super::{apply, error, here, installs_and_removes, json, messages, prepared, wrapper};

    #[test]
    fn installs_and_removes_a_real_python_package_in_a_virtual_environment() {
        let scratch = tempfile::tempdir().unwrap();
        let wheel = "import zipfile\nz=zipfile.ZipFile('mustertest-1.2.3-py3-none-any.whl','w')\n\
            d='mustertest-1.2.3.dist-info/'\nz.writestr('mustertest.py','x=1')\n\
            z.writestr(d+'METADATA','Metadata-Version: 2.1\\nName: mustertest\\nVersion: 1.2.3\\n')\n\
            z.writestr(d+'WHEEL','Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
            z.writestr(d+'RECORD','mustertest.py,,\\n'+d+'METADATA,,\\n'+d+'WHEEL,,\\n'+d+'RECORD,,\\n')\nz.close()\n";
        let python = "/usr/bin/python3";
        // Creating a venv with pip takes a minute, so the system's pip manages this venv.
        let venv = [python, "-m", "venv", "--without-pip", "venv"];
        let pip = "/usr/bin/pip3 --python venv/bin/python";
        let command = wrapper(
            scratch.path(),
            "HOME",
            &pip.replace("venv", &format!("{}/venv", scratch.path().display())),
        );
        if !prepared(scratch.path(), &venv) || !prepared(scratch.path(), &[&command, "list"]) {
            return;
        }
        assert!(prepared(scratch.path(), &[python, "-c", wheel]));
        let place = format!("--find-links={}", scratch.path().display());
        let words = json!({
            "provider": "pip", "command": command, "install_options": ["--no-index", place],
        });
        installs_and_removes("mustertest", &words, "1.2.3");
        let mut latest = words;
        latest["ensure"] = "latest".into();
        let outcome = apply(&here(), "package", "Mustertest", latest);
        assert_eq!(messages(&outcome.events), ["created"], "{}", error(&outcome));
    }
}
