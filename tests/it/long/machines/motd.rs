//! Message of the day and prompt on booted machines: real PAM, getty's files, real Puppet, and the prompts of real shells in a terminal of 80 columns.

#![expect(clippy::disallowed_types, reason = "runs ssh and ssh-keygen")]

use std::process::Stdio;
use std::time::Duration;

use muster_tests::command::find_program;
use muster_tests::poll_until_ok;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::time::timeout;

use crate::machines::RECOVERY_TIMEOUT;
use crate::machines::nodes::{MachineNodes, NodeOptions};

const CONFIGURATION: &str = "[plugins.motd]\noutputs = [{ path = \"/run/motd.d/muster\" }, { path = \"/run/muster/motd\" }, \
    { path = \"/etc/issue.d/muster.issue\", target = \"issue\" }]\n";
const FACTS: &str = r#"{"customer": "acme", "environment": "production"}"#;
/// Longer than what the prompt leaves of a line of 80 columns.
const LONG_WORD: &str = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz0123456789";
const SHELL_TIMEOUT: Duration = Duration::from_secs(30);

struct MotdMachine {
    nodes: MachineNodes,
    address: String,
}

/// A login by ssh with a terminal, and what it has shown.
struct SshSession {
    _child: Child,
    input: ChildStdin,
    output: ChildStdout,
    bytes: Vec<u8>,
}

impl MotdMachine {
    async fn start(options: NodeOptions<'_>) -> Option<Self> {
        let nodes = MachineNodes::start(1, options).await?;
        nodes.permit_ssh_logins().await;
        let script = format!(
            ": > /etc/motd && rm -f /etc/update-motd.d/* && mkdir -p /etc/muster/facts.d && echo '{FACTS}' > /etc/muster/facts.d/test.json && systemctl restart rpcd"
        );
        nodes.machines.sh("m1", &script).await;
        nodes.machines.copy("m1", &find_program("rpc"), "/usr/bin/rpc").await;
        let address = nodes.machines.machines.get("m1").unwrap().clone();
        Some(Self { nodes, address })
    }

    async fn sh(&self, script: &str) -> String {
        self.nodes.machines.sh("m1", script).await
    }

    async fn await_file(&self, path: &str, expected: &str) {
        poll_until_ok(&format!("{path} is written"), RECOVERY_TIMEOUT, async || {
            let text = self.sh(&format!("cat {path} || true")).await;
            if text == expected.trim_end() { Ok(()) } else { Err(format!("{text:?}")) }
        })
        .await;
    }

    /// Adds the word `web` to the prompt, or removes it.
    async fn set_role(&self, is_present: bool) {
        let (script, expected) = if is_present {
            (": > /etc/muster/prompt.d/10_web", "[acme production web]")
        } else {
            ("rm /etc/muster/prompt.d/10_web", "[acme production]")
        };
        self.sh(script).await;
        poll_until_ok("the daemon updates the prompt", RECOVERY_TIMEOUT, async || {
            let text = self.sh("rpc prompt --shell sh").await;
            if text == expected { Ok(()) } else { Err(text) }
        })
        .await;
    }

    fn ssh(&self, arguments: &[&str]) -> SshSession {
        let mut child = tokio::process::Command::new("ssh")
            .args([
                "-F",
                "/dev/null",
                "-tt",
                "-o",
                "StrictHostKeyChecking=no",
                "-o",
                "UserKnownHostsFile=/dev/null",
                "-o",
                "LogLevel=ERROR",
                "-i",
            ])
            .arg(self.nodes.operator.path("login_key"))
            .arg(format!("root@{}", self.address))
            .args(arguments)
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        SshSession { _child: child, input, output, bytes: Vec::new() }
    }
}

impl SshSession {
    async fn type_text(&mut self, text: &str) {
        self.input.write_all(text.as_bytes()).await.unwrap();
        self.input.flush().await.unwrap();
    }

    /// The rows of a terminal with 80 columns that has received everything so far.
    fn screen(&self) -> Vec<String> {
        let mut terminal = vt100::Parser::new(24, 80, 0);
        terminal.process(&self.bytes);
        terminal.screen().rows(0, 80).map(|row| row.trim_end().to_owned()).collect()
    }

    /// Waits until the screen satisfies a condition.
    async fn await_screen(&mut self, what: &str, is_reached: impl Fn(&[String]) -> bool) {
        let mut buffer = [0; 4096];
        while !is_reached(&self.screen()) {
            let Ok(read) = timeout(SHELL_TIMEOUT, self.output.read(&mut buffer)).await else {
                panic!("{what}: {:#?}", self.screen());
            };
            let count = read.unwrap();
            assert!(count > 0, "{what}: the session ended: {:#?}", self.screen());
            self.bytes.extend(buffer.iter().take(count));
        }
    }
}

fn last_line(screen: &[String]) -> &str {
    screen.iter().rev().find(|row| !row.is_empty()).map_or("", String::as_str)
}

#[tokio::test(flavor = "multi_thread")]
async fn a5_5_prompts_of_real_shells_wrap_at_the_right_column() {
    let options =
        NodeOptions { programs: true, configuration: CONFIGURATION, ..NodeOptions::default() };
    let Some(machine) = MotdMachine::start(options).await else { return };
    machine.set_role(true).await;
    // Bash reads the line from a login shell's profile, as a user would install it.
    machine.sh("printf '%s\\n' 'PS1=\"$ \"' 'eval \"$(rpc prompt --init bash)\"' 'eval \"$(rpc prompt --init bash)\"' > /root/.bash_profile").await;
    machine
        .sh("printf '%s\\n' 'PROMPT=\"$ \"' 'eval \"$(rpc prompt --init zsh)\"' > /root/.zshrc")
        .await;
    machine.sh("mkdir -p /root/.config/fish && printf '%s\\n' 'set -g fish_greeting' 'set -g fish_autosuggestion_enabled 0' 'function fish_prompt; echo -n \"\\$ \"; end' 'rpc prompt --init fish | source' > /root/.config/fish/config.fish").await;
    machine
        .sh("printf '%s\\n' 'PS1=\"$ \"' 'eval \"$(rpc prompt --init sh)\"' > /root/.shinit")
        .await;
    for (shell, command) in [
        ("bash", "stty cols 80 rows 24; exec bash -l"),
        ("zsh", "stty cols 80 rows 24; exec zsh -i"),
        ("fish", "stty cols 80 rows 24; exec fish -i"),
        ("sh", "stty cols 80 rows 24; ENV=/root/.shinit exec sh -i"),
    ] {
        let mut session = machine.ssh(&[command]);
        let prompt = "[acme production web] $";
        session
            .await_screen(&format!("{shell}: prompt"), |screen| last_line(screen) == prompt)
            .await;
        let has_red = String::from_utf8_lossy(&session.bytes).contains("\u{1b}[31mproduction");
        assert_eq!(
            has_red,
            shell != "sh",
            "{shell}: {:?}",
            String::from_utf8_lossy(&session.bytes)
        );
        // A long line wraps at column 80, and stays whole after moves to both ends.
        session.type_text(LONG_WORD).await;
        let whole = format!("{prompt} {LONG_WORD}");
        let is_whole = |screen: &[String], whole: &str| {
            let rows: Vec<String> = whole
                .as_bytes()
                .chunks(80)
                .map(|row| String::from_utf8(row.to_vec()).unwrap())
                .collect();
            screen.windows(rows.len()).any(|found| *found == *rows)
        };
        session
            .await_screen(&format!("{shell}: long line"), |screen| is_whole(screen, &whole))
            .await;
        if shell != "sh" {
            session.type_text("\u{1}X\u{5}Y").await;
            let whole = format!("{prompt} X{LONG_WORD}Y");
            session
                .await_screen(&format!("{shell}: edited line"), |screen| is_whole(screen, &whole))
                .await;
        }
        // fish loses a Ctrl-C that comes while it draws; Ctrl-U empties its line.
        session.type_text(if shell == "fish" { "\u{15}" } else { "\u{3}" }).await;
        session
            .await_screen(&format!("{shell}: empty line"), |screen| last_line(screen) == prompt)
            .await;
        // A change appears at the next prompt.
        machine.set_role(false).await;
        session.type_text("false\r").await;
        session
            .await_screen(&format!("{shell}: next prompt"), |screen| {
                last_line(screen) == "[acme production] $"
            })
            .await;
        // The exit code of the last command is still there after the hook.
        let status = if shell == "fish" { "echo code=$status\r" } else { "echo code=$?\r" };
        session.type_text(status).await;
        session
            .await_screen(&format!("{shell}: exit code"), |screen| {
                screen.iter().any(|row| row == "code=1")
            })
            .await;
        session.type_text("exit\r").await;
        machine.set_role(true).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn logins_show_what_puppet_registers() {
    let options =
        NodeOptions { puppet: true, configuration: CONFIGURATION, ..NodeOptions::default() };
    let Some(machine) = MotdMachine::start(options).await else { return };
    let module =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/puppet/muster");
    machine.sh("mkdir -p /etc/puppet/code/modules").await;
    machine.nodes.machines.copy("m1", &module, "/etc/puppet/code/modules/muster").await;
    let apply = async |manifest: &str| {
        machine.sh(&format!("cat > /tmp/site.pp <<'END'\n{manifest}\nEND\npuppet apply --color=false --modulepath /etc/puppet/code/modules /tmp/site.pp")).await
    };
    let header = "muster::motd::register { 'header': order => 1, content => \"{{ facts.customer }}\\n\" }\n\
        muster::motd::register { 'before login': target => 'issue', content => \"{{ identity }}\\n\" }\n";
    apply(&format!("{header}muster::motd::register {{ 'Apache Web Server': }}\nmuster::prompt::register {{ 'web': }}")).await;
    let text = "acme\n    -- Apache Web Server\n";
    machine.await_file("/run/motd.d/muster", text).await;
    machine.await_file("/etc/issue.d/muster.issue", "m1.example.net\n").await;
    assert_eq!(
        machine.sh("stat -c %a /run/motd.d/muster /etc/issue.d/muster.issue").await,
        "644\n644"
    );
    let login = async |lines: &[&str]| {
        let mut session = machine.ssh(&[]);
        session
            .await_screen("login", |screen| {
                let found = screen.windows(lines.len()).filter(|rows| *rows == lines).count();
                found == 1 && last_line(screen).ends_with('#')
            })
            .await;
        session.screen()
    };
    let screen = login(&["acme", "    -- Apache Web Server"]).await;
    assert_eq!(screen.iter().filter(|row| row.contains("Apache")).count(), 1, "{screen:#?}");
    // Without its resource the line goes, and the word of the prompt with it.
    apply(header).await;
    machine.await_file("/run/motd.d/muster", "acme\n").await;
    let screen = login(&["acme"]).await;
    assert!(!screen.iter().any(|row| row.contains("Apache")), "{screen:#?}");
    // The directory update-motd.d, instead of pam_motd's own one.
    machine.sh("mv /run/motd.d /run/motd.off && printf '#!/bin/sh\\nexec cat /run/muster/motd\\n' > /etc/update-motd.d/50-muster && chmod 755 /etc/update-motd.d/50-muster && \
        systemctl stop rpcd && rm -rf /run/motd.d").await;
    login(&["acme"]).await;
}
