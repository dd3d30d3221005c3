//! Runs the real `rpc` command as a caller of a test's organisation, with its own configuration, credentials and state.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use muster_wire::sign::Signer;
use muster_wire::token::UserCredentials;
use serde_json::Value;
use tempfile::TempDir;

use crate::organisation::{Broker, Organisation};
use crate::program_version::ProgramVersion;
use crate::published_schemas::{SchemaMode, check_schema};

/// The home directory of a caller: configuration, credentials, the account's token, jobs.
#[derive(Debug)]
pub struct RpcCommand {
    home: TempDir,
}

impl RpcCommand {
    /// Creates the home of this caller. `more` is placed at the beginning of its configuration.
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

    /// The path of the home directory.
    pub fn home(&self) -> PathBuf {
        self.home.path().to_owned()
    }

    /// The path of a file in the home directory; the file need not exist.
    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Writes a file with mode 0600.
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

    /// Adds a schema that only this caller has.
    pub fn add_schema(&self, name: &str, ddl: &Value) {
        std::fs::create_dir_all(self.path("ddl")).unwrap();
        self.write(&format!("ddl/{name}.json"), &ddl.to_string());
    }

    /// The command with these arguments, with an empty standard input and without a terminal.
    #[expect(clippy::disallowed_types, reason = "runs the real program")]
    pub fn prepare_command(&self, arguments: &[&str]) -> tokio::process::Command {
        self.prepare_version(ProgramVersion::Present, arguments)
    }

    /// Like [`Self::prepare_command`], with `rpc` of this version.
    #[expect(clippy::disallowed_types, reason = "runs the real program")]
    pub fn prepare_version(
        &self,
        version: ProgramVersion,
        arguments: &[&str],
    ) -> tokio::process::Command {
        let home = self.home.path();
        let mut command = prepare_rpc_of(version, home, &self.path("rpc.toml"), arguments);
        command.env("XDG_STATE_HOME", self.path("state"));
        command
    }

    /// Runs `rpc` until it exits.
    pub async fn run(&self, arguments: &[&str]) -> Output {
        self.prepare_command(arguments).output().await.unwrap()
    }

    /// Runs a command that prints a document with this schema, and validates it.
    pub async fn read_document(&self, schema: &str, words: &[&str]) -> Value {
        let (document, exit) = self.run_json(words).await;
        assert_eq!(exit, 0, "{words:?}: {document:#}");
        assert_eq!(document.get("schema"), Some(&schema.into()));
        check_schema(schema, &document, SchemaMode::Strict).unwrap();
        document
    }

    /// Runs `rpc` with `-j`; returns its JSON document and exit code.
    pub async fn run_json(&self, arguments: &[&str]) -> (Value, i32) {
        let output = self.run(&[arguments, &["-j"]].concat()).await;
        let document = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", describe_output(&output)));
        (document, output.status.code().unwrap())
    }
}

/// Exit status and all output of a program, for assert messages.
pub fn describe_output(output: &Output) -> String {
    format!(
        "{:?}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// The path of a program that was built next to the tests; `make test` builds `rpc` and `rpcd` first.
pub fn find_program(name: &str) -> PathBuf {
    find_in_target(name)
        .expect("rpc and rpcd must be next to the tests: run `cargo build --bin rpc --bin rpcd`")
}

/// The file of this name next to the tests, or in a directory above.
pub(crate) fn find_in_target(name: &str) -> Option<PathBuf> {
    let tests = std::env::current_exe().unwrap();
    tests.ancestors().map(|directory| directory.join(name)).find(|path| path.is_file())
}

/// `rpc` with these arguments, for the user with this home directory and configuration: an empty standard input, captured output, nothing of the
/// environment of the tests.
#[expect(clippy::disallowed_types, reason = "runs the real program")]
pub fn prepare_rpc(home: &Path, config: &Path, arguments: &[&str]) -> tokio::process::Command {
    prepare_rpc_of(ProgramVersion::Present, home, config, arguments)
}

/// Like [`prepare_rpc`], of this version.
#[expect(clippy::disallowed_types, reason = "runs the real program")]
pub fn prepare_rpc_of(
    version: ProgramVersion,
    home: &Path,
    config: &Path,
    arguments: &[&str],
) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(version.find_program("rpc"));
    command
        .args(arguments)
        .env("HOME", home)
        .env("RPC_CONFIG", config)
        .env_remove("XDG_STATE_HOME")
        .env_remove("XDG_CACHE_HOME")
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("TRACEPARENT")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Kills a program that a test started, and waits for its end.
pub(crate) fn end_program(child: &mut std::process::Child) {
    // It may have ended.
    let _ = child.kill();
    let _ = child.wait();
}

/// Prints the log of a program if the test has failed.
#[expect(clippy::print_stderr, reason = "shown by the test runner beside the failure")]
pub(crate) fn print_log_of_failure(program: &str, log: impl FnOnce() -> String) {
    if std::thread::panicking() {
        eprintln!("---- {program} ----\n{}", log());
    }
}
