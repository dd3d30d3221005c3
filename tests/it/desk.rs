//! A caller's desk: the real `rpc` program with a configuration, credentials and state of its own, asking nodes in this process.

use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_wire::sign::Signer;
use muster_wire::token::{Creds, KeyPair};
use serde_json::Value;
use tempfile::TempDir;

/// Where `rpc` is run.
pub(crate) struct Desk {
    directory: TempDir,
}

impl Desk {
    /// A desk for this caller. `more` goes to the beginning of its configuration.
    pub(crate) fn new(
        organisation: &Organisation,
        server: &NatsServer,
        caller: &Signer,
        more: &str,
    ) -> Self {
        let desk = Self {
            directory: TempDir::new().unwrap(),
        };
        let key = KeyPair::from_seed(&caller.key().seed()).unwrap();
        let creds = Creds::new(caller.token(), key).unwrap();
        desk.write("user.creds", &creds.format());
        desk.write("account.jwt", &organisation.account_token());
        let operator = organisation.trust().operator();
        let (url, collective) = (server.url(), organisation.collective());
        let text = format!(
            "{more}\ncollective = \"{collective}\"\n[broker]\nurls = [\"{url}\"]\nplaintext_on_loopback = true\n\
             [trust]\noperator = \"{operator}\"\n"
        );
        desk.write("rpc.toml", &text);
        desk
    }

    /// A schema that only this desk knows.
    pub(crate) fn add_schema(&self, name: &str, ddl: &Value) {
        std::fs::create_dir_all(self.path("ddl")).unwrap();
        self.write(&format!("ddl/{name}.json"), &ddl.to_string());
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file that nobody else can read.
    pub(crate) fn write(&self, name: &str, text: &str) {
        use std::io::Write as _;
        let file = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(self.path(name));
        file.unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// The program with these arguments, without a terminal.
    #[expect(clippy::disallowed_types, reason = "runs the program that is tested")]
    pub(crate) fn command(&self, arguments: &[&str]) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(program("rpc"));
        command
            .args(arguments)
            .env("RPC_CONFIG", self.path("rpc.toml"))
            .env("XDG_STATE_HOME", self.path("state"))
            .env_remove("TRACEPARENT")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Runs it to its end.
    pub(crate) async fn rpc(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().await.unwrap()
    }

    /// Runs it with `-j`: its document and exit code.
    pub(crate) async fn document(&self, arguments: &[&str]) -> (Value, i32) {
        let output = self.rpc(&[arguments, &["-j"]].concat()).await;
        let document =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", told(&output)));
        (document, output.status.code().unwrap())
    }
}

/// Everything that a program said.
pub(crate) fn told(output: &Output) -> String {
    format!(
        "{:?}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Beside the test's own binary; `make test` builds them before.
fn program(name: &str) -> PathBuf {
    let this = std::env::current_exe().unwrap();
    let path = this.ancestors().nth(2).unwrap_or(Path::new("")).join(name);
    assert!(
        path.exists(),
        "{} is missing: run `cargo build --bin rpc --bin rpcd`",
        path.display()
    );
    path
}
