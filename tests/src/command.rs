//! The real `rpc` command as a caller of a test's organisation, with a configuration, credentials and state of its own.

use std::path::PathBuf;
use std::process::{Output, Stdio};

use muster_wire::sign::Signer;
use muster_wire::token::UserCredentials;
use serde_json::Value;
use tempfile::TempDir;

use crate::organisation::{Broker, Organisation};

/// A caller's home: configuration, credentials, the account's token, jobs.
#[derive(Debug)]
pub struct Command {
    home: TempDir,
}

impl Command {
    /// A home for this caller. `more` goes to the beginning of its configuration.
    pub fn new(
        server: &impl Broker,
        organisation: &Organisation,
        caller: &Signer,
        more: &str,
    ) -> Self {
        let command = Self { home: TempDir::new().unwrap() };
        let creds = UserCredentials::new(&caller.token(), caller.key_pair().clone()).unwrap();
        command.write("caller.creds", &creds.to_text());
        command.write("account.jwt", &organisation.account_token());
        let (urls, operator, collective) =
            (server.urls(), organisation.trust().operator_key(), organisation.collective());
        let text = format!(
            "{more}\ncollective = \"{collective}\"\n\
             [broker]\nurls = {urls:?}\ncredentials = \"caller.creds\"\nplaintext_on_loopback = true\n\
             [trust]\noperator = \"{operator}\"\naccount = \"account.jwt\"\n"
        );
        command.write("rpc.toml", &text);
        command
    }

    /// The home.
    pub fn home(&self) -> PathBuf {
        self.home.path().to_owned()
    }

    /// A file of this name in it, whether it is there or not.
    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Writes a file that nobody else can read.
    pub fn write(&self, name: &str, text: &str) {
        use std::io::Write as _;
        use std::os::unix::fs::OpenOptionsExt as _;
        let file = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(self.path(name));
        file.unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// A schema that only this caller knows.
    pub fn add_schema(&self, name: &str, ddl: &Value) {
        std::fs::create_dir_all(self.path("ddl")).unwrap();
        self.write(&format!("ddl/{name}.json"), &ddl.to_string());
    }

    /// The program with these arguments, with nothing on its standard input and without a terminal.
    #[expect(clippy::disallowed_types, reason = "runs the real program")]
    pub fn prepared(&self, arguments: &[&str]) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(program("rpc"));
        command
            .args(arguments)
            .env("RPC_CONFIG", self.path("rpc.toml"))
            .env("HOME", self.home.path())
            .env("XDG_STATE_HOME", self.path("state"))
            .env_remove("XDG_CACHE_HOME")
            .env_remove("TRACEPARENT")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Runs `rpc` to its end.
    pub async fn run(&self, arguments: &[&str]) -> Output {
        self.prepared(arguments).output().await.unwrap()
    }

    /// Runs it with `-j`: its document and exit code.
    pub async fn document(&self, arguments: &[&str]) -> (Value, i32) {
        let output = self.run(&[arguments, &["-j"]].concat()).await;
        let document =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", told(&output)));
        (document, output.status.code().unwrap())
    }
}

/// Everything that a program said.
pub fn told(output: &Output) -> String {
    format!(
        "{:?}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// One of the programs that were built beside the tests; `make test` builds them before.
pub fn program(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let mut beside = tests.ancestors().map(|directory| directory.join(name));
    beside
        .find(|path| path.is_file())
        .expect("rpc and rpcd are beside the tests: run `cargo build --bin rpc --bin rpcd`")
}
