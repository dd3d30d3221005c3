//! Message of the day and prompt through real daemons and real commands: fragments, classes, hostile facts, no broker.

#![expect(clippy::disallowed_types, reason = "runs rpcd and rpc")]

use std::time::Duration;

use muster_tests::command::{RpcCommand, describe_output, find_program};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_tests::poll_until_ok;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use serde_json::Value;

const HEADER: &str = "{{ facts.customer }} at {{ facts.hoster }}\n";
const WEB: &str = "{% if \"apache\" in classes %}\n    -- Apache Web Server\n{% endif %}\n";
const LOAD_TIMEOUT: Duration = Duration::from_secs(40);

/// A node whose machine is a directory, and a caller.
struct MotdFleet {
    _organisation: Organisation,
    _server: NatsServer,
    rpc: RpcCommand,
    daemon: Rpcd,
}

impl MotdFleet {
    /// Starts a node with these facts and classes.
    async fn start(facts: &str, classes: &str) -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker().await;
        let caller = organisation.caller("rip");
        let rpc = RpcCommand::new(&server, &organisation, &caller, "");
        let home = motd_home(&organisation, &server.url(), facts, classes);
        let fleet =
            Self { _organisation: organisation, _server: server, rpc, daemon: home.start() };
        poll_until_ok("the node is ready", LOAD_TIMEOUT, async || {
            let output = fleet.rpc.run(&["find", "-A", "motd"]).await;
            if output.status.success() { Ok(()) } else { Err(describe_output(&output)) }
        })
        .await;
        fleet
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.daemon.home().path(path)).unwrap_or_default()
    }

    /// The data of the only reply.
    async fn call(&self, arguments: &[&str]) -> Value {
        let words = [&["do", "motd"], arguments].concat();
        let (document, output) = self.rpc.run_json(&words).await;
        let replied = document.pointer("/replies/0/statuscode");
        assert_eq!(replied, Some(&Value::from(0)), "{document:#}\n{output:?}");
        document.pointer("/replies/0/data").unwrap().clone()
    }

    async fn await_text(&self, path: &str, expected: &str) {
        poll_until_ok(&format!("{path} is written"), LOAD_TIMEOUT, async || {
            let text = self.read(path);
            if text == expected { Ok(()) } else { Err(format!("{text:?}\n{}", self.daemon.log())) }
        })
        .await;
    }
}

/// The files of a daemon whose machine is the directory `root` below them.
fn motd_home(organisation: &Organisation, url: &str, facts: &str, classes: &str) -> DaemonHome {
    let node = organisation.node("web1.example.net");
    let options = "[registration]\nheartbeat_seconds = 1\n[plugins.motd]\n\
        outputs = [{ path = \"/etc/motd\" }, { path = \"/etc/issue\", target = \"issue\" }]\nprompt_cache = \"/run/prompt.json\"\n";
    let home = DaemonHome::new(organisation, &node, url, options);
    let root = home.path("root");
    home.write("conf.d/root.toml", &format!("[paths]\nroot = \"{}\"\n", root.display()), 0o644);
    for directory in [
        "root/etc/muster/motd.d",
        "root/etc/muster/issue.d",
        "root/etc/muster/prompt.d",
        "root/run",
    ] {
        std::fs::create_dir_all(home.path(directory)).unwrap();
    }
    home.write("facts.d/test.json", facts, 0o644);
    home.write("classes.txt", classes, 0o644);
    home
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a5_1_and_a5_6_lines_come_and_go_with_fragments_and_classes() {
    let facts = r#"{"customer": "acme", "hoster": "hetzner", "environment": "production"}"#;
    let fleet = MotdFleet::start(facts, "apache\n").await;
    fleet.daemon.home().write("root/etc/muster/motd.d/01_header", HEADER, 0o644);
    fleet.daemon.home().write("root/etc/muster/motd.d/20_web", WEB, 0o644);
    // The daemon notices files without a request.
    fleet.await_text("root/etc/motd", "acme at hetzner\n    -- Apache Web Server\n").await;

    let registered =
        fleet.call(&["register", "name=MySQL master", "order=30", "class=mysql::master"]).await;
    assert_eq!(registered["changed"], true);
    assert_eq!(fleet.read("root/etc/motd"), "acme at hetzner\n    -- Apache Web Server\n");
    let again =
        fleet.call(&["register", "name=MySQL master", "order=30", "class=mysql::master"]).await;
    assert_eq!(again["changed"], false);
    // The same classes that discovery uses: what `rpc find -C` finds has the line, before and after the change (A5.6).
    for (classes, has_line) in [("apache\nmysql::master\n", true), ("apache\n", false)] {
        fleet.daemon.home().write("classes.txt", classes, 0o644);
        let pid = nix::unistd::Pid::from_raw(fleet.daemon.pid());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGHUP).unwrap();
        let line = if has_line { "    -- MySQL master\n" } else { "" };
        let text = format!("acme at hetzner\n    -- Apache Web Server\n{line}");
        fleet.await_text("root/etc/motd", &text).await;
        let found = fleet.rpc.run(&["find", "-C", "mysql::master"]).await;
        assert_eq!(found.status.success(), has_line, "{}", describe_output(&found));
    }
    let removed = fleet.call(&["unregister", "name=MySQL master"]).await;
    assert_eq!(removed["changed"], true);
    assert_eq!(fleet.call(&["unregister", "name=MySQL master"]).await["changed"], false);
    // Another order replaces the file; the text of the reply is what was written.
    fleet.call(&["register", "name=web", "order=5", "content=web of {{ facts.customer }}"]).await;
    let text = "acme at hetzner\nweb of acme\n";
    assert_eq!(fleet.call(&["render"]).await["text"], text);
    assert_eq!(fleet.read("root/etc/motd"), text);
    // The same type in a resource, as a manifest would have it.
    let words = ["do", "puppetral", "type=motd_fragment", "name=web", "ensure=absent"];
    let output = fleet.rpc.run(&words).await;
    assert!(output.status.success(), "{}", describe_output(&output));
    fleet.await_text("root/etc/motd", "acme at hetzner\n").await;
    for (inputs, problem) in [
        (["name=a/b", "content=x"], "name"),
        (["name=web", "content={% if %}"], "content"),
        (["name=web", "content={{ facts.customer"], "content"),
        (["name=web", "content={{ facts.customer | nonsense }}"], "content"),
        (
            ["name=web", "content={% if facts.rack %}{{ facts.rack | colour('red') }}{% endif %}"],
            "unknown filter `colour`",
        ),
        (["name={{x}}", "content=x"], "name"),
    ] {
        let output = fleet.rpc.run(&[&["do", "motd", "register"], &inputs[..]].concat()).await;
        let text = describe_output(&output);
        assert!(!output.status.success() && text.contains(problem), "{text}");
    }
    fleet.daemon.home().write("root/etc/muster/motd.d/10_x", "{% if %}", 0o644);
    // A fragment with an error is left out, named, and in the findings.
    let problems = fleet.call(&["render"]).await["problems"].to_string();
    assert!(problems.contains("fragment `10_x` is left out"), "{problems}");
    poll_until_ok("doctor names the fragment", LOAD_TIMEOUT, async || {
        let doctor = describe_output(&fleet.rpc.run(&["doctor"]).await);
        if doctor.contains("`10_x`") { Ok(()) } else { Err(doctor) }
    })
    .await;
}

/// A template of 732 bytes that doubles a text 36 times.
const BOMB: &str = "{% set a = 'xxxxxxxxxxxxxxxx' %}{% for i in range(36) %}{% set a = a ~ a %}{% endfor %}\
    {% set n = namespace(a='x') %}{% for i in range(36) %}{% set n.a = n.a ~ n.a %}{% endfor %}{{ n.a }}";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fragment_that_needs_all_memory_stops_neither_the_daemon_nor_other_fragments() {
    let mut fleet = MotdFleet::start(r#"{"customer": "acme", "hoster": "hetzner"}"#, "").await;
    let pid = fleet.daemon.pid();
    fleet.call(&["register", "name=good", "content=good"]).await;
    let content = format!("content={BOMB}");
    let refused = fleet.rpc.run(&["do", "motd", "register", "name=good", &content]).await;
    let text = describe_output(&refused);
    assert!(!refused.status.success() && text.contains("64 MiB of memory"), "{text}");
    assert_eq!(fleet.read("root/etc/motd"), "good\n");
    // An earlier version has stored it.
    for name in ["05_bomb", "20_bomb"] {
        fleet.daemon.home().write(&format!("root/etc/muster/motd.d/{name}"), BOMB, 0o644);
    }
    fleet.daemon.home().write("root/etc/muster/motd.d/30_last", "last\n", 0o644);
    fleet.await_text("root/etc/motd", "good\nlast\n").await;
    poll_until_ok("the log names the fragment", LOAD_TIMEOUT, async || {
        let log = fleet.daemon.log();
        if log.contains("fragment `05_bomb` is left out") { Ok(()) } else { Err(log) }
    })
    .await;
    let problems = fleet.call(&["render"]).await["problems"].to_string();
    assert!(problems.contains("`05_bomb`") && problems.contains("`20_bomb`"), "{problems}");
    assert_eq!(fleet.daemon.pid(), pid);
    // Nor do they stop its next start.
    fleet.daemon.kill_and_wait();
    std::fs::remove_file(fleet.daemon.home().path("root/etc/motd")).unwrap();
    fleet.daemon = fleet.daemon.home().clone().start();
    fleet.await_text("root/etc/motd", "good\nlast\n").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a5_4_hostile_facts_reach_no_terminal() {
    let facts = r#"{"customer": "ac\u001b]0;pwned\u0007me\u001b[2J", "environment": "$(touch pwned)`id`\\n", "hoster": "line\nbreak\u009b31m"}"#;
    let fleet = MotdFleet::start(facts, "").await;
    let home = fleet.daemon.home();
    home.write("root/etc/muster/motd.d/01_header", HEADER, 0o644);
    home.write("root/etc/muster/issue.d/01_header", "{{ facts.environment }}\n", 0o644);
    home.write("root/etc/muster/prompt.d/01_role", "{{ facts.customer }}\n", 0o644);
    fleet.await_text("root/etc/motd", "ac]0;pwnedme[2J at line break31m\n").await;
    fleet.await_text("root/etc/issue", "$(touch pwned)`id`\\\\n\n").await;
    let cache = home.path("root/run/prompt.json");
    poll_until_ok("the prompt has the role", LOAD_TIMEOUT, async || {
        let output = fleet
            .rpc
            .run(&["prompt", "--shell", "bash", "--file", cache.to_str().unwrap(), "--width", "80"])
            .await;
        let text = String::from_utf8(output.stdout).unwrap();
        let expected = "[ac__0_pwned_me__2J __touch_pwned__id__n ac_0_pwnedme_2J] ";
        if text == expected { Ok(()) } else { Err(text) }
    })
    .await;
    // A registered text is shown with colours only.
    fleet.call(&["register", "name=esc", "content=a\u{1b}[31mred\u{1b}[0m\u{1b}[2Jb"]).await;
    assert!(
        fleet.read("root/etc/motd").ends_with("a\u{1b}[31mred\u{1b}[0m[2Jb\n"),
        "{:?}",
        fleet.read("root/etc/motd")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_are_written_without_a_broker_and_without_the_daemon() {
    let organisation = Organisation::new(&["muster"]);
    let facts = r#"{"customer": "acme", "hoster": "hetzner", "environment": "production"}"#;
    // A port on which nothing listens.
    let home = motd_home(&organisation, "nats://127.0.0.1:9", facts, "apache\n");
    home.write("root/etc/muster/motd.d/01_header", HEADER, 0o644);
    home.write("root/etc/muster/motd.d/20_web", WEB, 0o644);
    home.write("root/etc/muster/prompt.d/10_web", "", 0o644);
    let rpcd = async |arguments: &[&str]| {
        let mut command = tokio::process::Command::new(find_program("rpcd"));
        command.arg("--config").arg(home.path("rpcd.toml")).arg("motd").args(arguments);
        let output = command.output().await.unwrap();
        (
            String::from_utf8(output.stdout).unwrap(),
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let text = "acme at hetzner\n    -- Apache Web Server\n";
    assert_eq!(rpcd(&["--print"]).await, (text.to_owned(), Some(0), String::new()));
    assert!(!home.path("root/etc/motd").exists());
    assert_eq!(rpcd(&[]).await, (String::new(), Some(0), String::new()));
    let written = std::fs::read_to_string(home.path("root/etc/motd")).unwrap();
    assert_eq!(written, text);
    home.write("root/etc/muster/motd.d/30_bad", "{% if %}", 0o644);
    let (printed, code, errors) = rpcd(&["--print"]).await;
    assert_eq!((printed.as_str(), code), (text, Some(1)));
    assert!(errors.contains("fragment `30_bad` is left out"), "{errors}");

    // The daemon itself, with a broker that is away: it renders the same bytes, and removes the line with the class.
    std::fs::remove_file(home.path("root/etc/muster/motd.d/30_bad")).unwrap();
    std::fs::remove_file(home.path("root/etc/motd")).unwrap();
    let daemon = home.clone().start();
    poll_until_ok("the daemon writes the text", LOAD_TIMEOUT, async || {
        let found = std::fs::read_to_string(home.path("root/etc/motd")).unwrap_or_default();
        if found == text { Ok(()) } else { Err(daemon.log()) }
    })
    .await;
    let prompt = async |arguments: &[&str]| {
        let mut command = tokio::process::Command::new(find_program("rpc"));
        command.arg("prompt").args(arguments).env("TERM", "xterm");
        let output = command.output().await.unwrap();
        assert!(output.status.success(), "{}", describe_output(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let cache = home.path("root/run/prompt.json");
    let cache = cache.to_str().unwrap();
    let shown = prompt(&["--shell", "zsh", "--file", cache]).await;
    assert_eq!(shown, "[acme %F{red}production%f web] ");
    assert_eq!(
        prompt(&["--shell", "zsh", "--file", cache, "--color", "never"]).await,
        "[acme production web] "
    );
    // A daemon that stopped long ago is visible; a missing, broken or blocking file is no error.
    let file = std::fs::File::options().append(true).open(cache).unwrap();
    drop(daemon);
    file.set_modified(std::time::SystemTime::now() - Duration::from_secs(1300)).unwrap();
    assert_eq!(prompt(&["--file", cache]).await, "[acme production web rpcd-down] ");
    std::fs::write(cache, "{").unwrap();
    assert_eq!(prompt(&["--file", cache]).await, "");
    assert_eq!(prompt(&["--file", "/nonexistent/prompt.json"]).await, "");
    let pipe = home.path("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).unwrap();
    assert_eq!(prompt(&["--file", pipe.to_str().unwrap()]).await, "");
}
