//! `rpc demo up --catalogs`: one node compiles catalogs ahead with the Puppet of this machine, and all follow releases.

use std::path::{Path, PathBuf};

use muster_client::{FleetConnection, RpcSettings, TargetSelection};
use muster_contract::compiler::CompilerEnvironments;
use muster_ddl::EmptyInput;
use muster_files::files::{self, FileAccessError};
use muster_organisation::bundle::name::USER_CONFIG;
use muster_wire::token::ServiceRight;
use nix::unistd::{User, geteuid};
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep};

use crate::commands::demo::central;
use crate::commands::demo::error::DemoError;
use crate::session::environment::ProcessEnvironment;

/// The code, which is compiled as environment `production`.
const CODE_DIRECTORY: &str = "code/production";
const ENVIRONMENT: &str = "production";
/// Time for the first compiles, with the start of Puppet.
const COMPILE_TIMEOUT: Duration = Duration::from_mins(1);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

const CODE: [(&str, &str); 6] = [
    ("manifests/site.pp", include_str!("site/site.pp")),
    ("modules/motd/manifests/init.pp", include_str!("site/motd.pp")),
    ("modules/motd/templates/motd.epp", include_str!("site/motd.epp")),
    ("modules/hosts/manifests/init.pp", include_str!("site/hosts.pp")),
    ("modules/web/manifests/init.pp", include_str!("site/web.pp")),
    ("modules/web/files/web.conf", include_str!("site/web.conf")),
];

/// What the demonstration needs to compile.
#[derive(Debug, Clone)]
pub struct DemoCompiler {
    ruby: PathBuf,
}

impl DemoCompiler {
    /// Finds Puppet, which runs with the first Ruby in the search path.
    pub fn find(environment: &ProcessEnvironment) -> Result<Self, DemoError> {
        let puppet = environment.find_program("puppet");
        let ruby = environment.find_program("ruby").filter(|_| puppet.is_some());
        ruby.map(|ruby| Self { ruby }).ok_or(DemoError::NoPuppet)
    }

    /// Writes the code that is compiled.
    pub fn write_code(directory: &Path) -> Result<(), FileAccessError> {
        let code = code_directory(directory);
        for (name, text) in CODE {
            let path = code.join(name);
            if let Some(above) = path.parent() {
                files::create_private_directory(above)?;
            }
            files::replace_public(&path, text.as_bytes())?;
        }
        Ok(())
    }

    /// The section of the node that compiles, as the user of this command. Other users cannot enter the demonstration's directory.
    pub fn section(&self, directory: &Path) -> Value {
        let user = User::from_uid(geteuid()).ok().flatten();
        let environments = json!({ENVIRONMENT: {"directory": code_directory(directory)}});
        json!({
            "enabled": true,
            "credentials": central::credentials(directory),
            "ruby": self.ruby,
            "user": user.map_or_else(|| "nobody".to_owned(), |user| user.name),
            "directory": directory.join("compiler"),
            "environments": environments,
        })
    }
}

pub fn code_directory(directory: &Path) -> PathBuf {
    directory.join(CODE_DIRECTORY)
}

/// Waits until all nodes are compiled, and returns whether they are.
pub async fn await_compiles(directory: &Path, nodes: u32) -> Result<bool, DemoError> {
    let settings = RpcSettings::load(&directory.join(USER_CONFIG))?;
    let fleet = FleetConnection::connect(&settings, &TargetSelection::default()).await?;
    let deadline = Instant::now() + COMPILE_TIMEOUT;
    while Instant::now() < deadline {
        let input = EmptyInput {};
        let found =
            fleet.client.call_service::<CompilerEnvironments>(ServiceRight::Compile, &input).await;
        let compiled = found.ok().map(|found| {
            found.environments.iter().map(|environment| environment.compiled).sum::<usize>()
        });
        if compiled.and_then(|compiled| u32::try_from(compiled).ok()) == Some(nodes) {
            return Ok(true);
        }
        sleep(POLL_INTERVAL).await;
    }
    Ok(false)
}
