//! A real nats-server with an organisation's configuration.

#![expect(clippy::disallowed_types, reason = "runs the broker")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use muster_bus::{BrokerAddress, BrokerCredentials, Bus, BusError, BusOptions};
use muster_wire::subject;
use muster_wire::token::UserCredentials;
use serde_json::Value;

use super::world::{World, files, talk};

/// A running broker, stopped on drop.
pub(crate) struct Broker {
    child: Child,
    pub(crate) url: String,
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `$NATS_SERVER`, the program that `make tools` fetched, or the one in `$PATH`. Panics without any of them.
pub(crate) fn nats_server() -> PathBuf {
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/nats-server");
    let named = std::env::var_os("NATS_SERVER").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    named
        .or_else(|| fetched.is_file().then_some(fetched))
        .or_else(|| {
            std::env::split_paths(&path)
                .map(|directory| directory.join("nats-server"))
                .find(|path| path.is_file())
        })
        .expect("there is no nats-server: run `make tools`, or set NATS_SERVER")
}

impl Broker {
    /// Starts the organisation's broker on a free port and stores its URL in the organisation.
    pub(crate) async fn start(program: &Path, world: &World, jetstream: bool) -> Self {
        Self::start_with(program, world, jetstream, |text| text).await
    }

    /// The same with an edited configuration.
    pub(crate) async fn start_with(
        program: &Path,
        world: &World,
        jetstream: bool,
        edit: impl FnOnce(String) -> String,
    ) -> Self {
        let ports = world.scratch.path().join("ports");
        let store = world.scratch.path().join("store");
        fs::create_dir(&ports).unwrap();
        let mut args = vec!["broker", "config", "--write"];
        if jetstream {
            args.extend(["--jetstream-dir", store.to_str().unwrap()]);
        }
        world.ok(&args);
        let config = world.org().join("broker/nats.conf");
        let text = edit(fs::read_to_string(&config).unwrap());
        let checked = Command::new(program).args(["-t", "-c"]).arg(&config).output().unwrap();
        assert!(checked.status.success(), "{}", talk(&checked));
        let mut lines: Vec<&str> =
            text.lines().filter(|line| !line.starts_with("port: ")).collect();
        let port = format!("port: -1\nports_file_dir: \"{}\"", ports.display());
        lines.push(&port);
        fs::write(&config, lines.join("\n").replace("0.0.0.0", "127.0.0.1")).unwrap();
        let log = fs::File::create(world.scratch.path().join("broker.log")).unwrap();
        let child = Command::new(program).arg("-c").arg(&config).stderr(log).spawn().unwrap();
        let mut broker = Self { child, url: String::new() };
        broker.url = broker.wait_for_url(&ports).await;
        let profile = world.org().join("organisation.toml");
        let text = fs::read_to_string(&profile).unwrap();
        let (before, after) = text.split_once("urls = [").unwrap();
        let after = after.split_once(']').unwrap().1;
        fs::write(&profile, format!("{before}urls = [{:?}]{after}", broker.url)).unwrap();
        broker
    }

    async fn wait_for_url(&mut self, ports: &Path) -> String {
        let mut ticks = tokio::time::interval(Duration::from_millis(10));
        for _ in 0..1000 {
            ticks.tick().await;
            assert!(self.child.try_wait().unwrap().is_none(), "nats-server ended");
            let Some(file) = files(ports).pop() else {
                continue;
            };
            if let Ok(known) = serde_json::from_str::<Value>(&fs::read_to_string(file).unwrap()) {
                return known["nats"][0].as_str().unwrap().to_owned();
            }
        }
        panic!("nats-server did not report its address");
    }

    pub(crate) async fn connect(&self, world: &World, creds: &str) -> Result<Bus, BusError> {
        let text = fs::read_to_string(world.org().join(creds)).unwrap();
        self.connect_as(world, &UserCredentials::parse(&text).unwrap()).await
    }

    pub(crate) async fn connect_as(
        &self,
        world: &World,
        creds: &UserCredentials,
    ) -> Result<Bus, BusError> {
        let mut options =
            BusOptions::for_command("test", vec![BrokerAddress::parse(&self.url, true).unwrap()]);
        let (token, key) = (creds.jwt().to_owned(), creds.key_pair().clone());
        let sign = move |nonce: &[u8]| key.sign(nonce).to_bytes().to_vec();
        options.credentials = Some(BrokerCredentials::new(move || token.clone(), sign));
        options.inbox_prefix =
            Some(subject::inbox_prefix(&creds.key_pair().public_key().to_string()));
        options.authority = Some(world.org().join("ca.pem")).filter(|path| path.exists());
        options.connect().await
    }
}
