//! The real `rpc` command as a caller of a test's organisation, with a configuration of its own.

use std::path::PathBuf;
use std::process::Output;

use muster_wire::sign::Signer;
use muster_wire::token::Creds;
use tempfile::TempDir;

use crate::nats_server::NatsServer;
use crate::organisation::Organisation;

/// A caller's home: configuration, credentials, the account's token.
#[derive(Debug)]
pub struct Command {
    home: TempDir,
}

impl Command {
    /// A home for this caller. `more` is added to the configuration.
    pub fn new(
        server: &NatsServer,
        organisation: &Organisation,
        caller: &Signer,
        more: &str,
    ) -> Self {
        use std::os::unix::fs::PermissionsExt as _;
        let home = TempDir::new().unwrap();
        let write = |name: &str, text: &str| {
            let path = home.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        };
        let creds = Creds::new(caller.token(), caller.key().clone()).unwrap();
        write("caller.creds", &creds.format());
        write("account.jwt", &organisation.account_token());
        let (url, operator, collective) = (
            server.url(),
            organisation.trust().operator(),
            organisation.collective(),
        );
        let text = format!(
            "collective = \"{collective}\"\n\
             [broker]\nurls = [\"{url}\"]\ncredentials = \"caller.creds\"\nplaintext_on_loopback = true\n\
             [trust]\noperator = \"{operator}\"\naccount = \"account.jwt\"\n{more}"
        );
        write("rpc.toml", &text);
        Self { home }
    }

    /// The home.
    pub fn home(&self) -> PathBuf {
        self.home.path().to_owned()
    }

    /// Runs `rpc` to its end, with nothing on its standard input.
    #[expect(clippy::disallowed_types, reason = "runs the real program")]
    pub async fn run(&self, arguments: &[&str]) -> Output {
        tokio::process::Command::new(program("rpc"))
            .args(arguments)
            .env("RPC_CONFIG", self.home.path().join("rpc.toml"))
            .env("HOME", self.home.path())
            .env_remove("XDG_STATE_HOME")
            .env_remove("XDG_CACHE_HOME")
            .stdin(std::process::Stdio::null())
            .output()
            .await
            .unwrap()
    }
}

/// One of the programs that were built beside the tests.
pub fn program(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let mut beside = tests.ancestors().map(|directory| directory.join(name));
    beside
        .find(|path| path.is_file())
        .expect("rpc and rpcd are beside the tests: run `cargo build --bin rpc --bin rpcd`")
}
