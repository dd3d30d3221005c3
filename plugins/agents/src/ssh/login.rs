//! The agent `ssh`: its action `login` replies when the node's policy permits the caller to log in as a user.

use std::path::PathBuf;

use muster_api::ddl::AgentContract as _;
use muster_api::{
    Agent, AgentError, CallContext, DaemonContext, NoState, NodePlugin, PluginResult,
};
use muster_contract::ssh::{LOGIN_SOCKET_PATH, SshAgent, SshLogin, SshLoginInput, SshLoginOutput};
use serde::Deserialize;

/// The table `plugins.ssh` of the daemon's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoginOptions {
    /// Whether the daemon decides logins with certificates, and writes the file of authorities.
    pub logins: bool,
    /// The socket on which `rpcd ssh-principals` asks.
    pub socket: PathBuf,
    /// The file of trusted authorities, for `TrustedUserCAKeys`; empty: `ssh/user-ca.pub` in the state directory.
    pub authorities: PathBuf,
}

impl Default for LoginOptions {
    fn default() -> Self {
        Self { logins: false, socket: LOGIN_SOCKET_PATH.into(), authorities: PathBuf::new() }
    }
}

/// The agent `ssh`.
#[derive(Debug, Clone)]
pub struct SshPlugin {
    options: LoginOptions,
}

impl SshPlugin {
    /// The options, if logins are enabled.
    pub fn login_options(&self) -> Option<LoginOptions> {
        self.options.logins.then(|| self.options.clone())
    }
}

impl NodePlugin for SshPlugin {
    const NAME: &'static str = SshAgent::NAME;
    type Options = LoginOptions;
    type Shared = ();

    fn configure(mut options: LoginOptions, daemon: &DaemonContext, (): ()) -> PluginResult<Self> {
        if options.authorities.as_os_str().is_empty() {
            options.authorities = daemon.state.join("ssh/user-ca.pub");
        }
        Ok(Self { options })
    }

    fn is_enabled(&self) -> bool {
        self.options.logins
    }

    fn build_agent(&self) -> Result<Agent, AgentError> {
        Agent::builder_for::<SshAgent>()?.immediate_action(SshLogin, &NoState, check_login).build()
    }
}

/// The policy has permitted the request, so the caller may log in as this user.
fn check_login(_: &NoState, cx: &CallContext, input: SshLoginInput) -> SshLoginOutput {
    SshLoginOutput { user: input.user, principal: cx.caller.to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    #[test]
    fn agent_is_disabled_by_default() {
        let daemon = DaemonContext { state: "/s".into(), ..DaemonContext::default() };
        let options = SshPlugin::parse_options(Map::new()).unwrap();
        let plugin = SshPlugin::configure(options, &daemon, ()).unwrap();
        assert!(plugin.agents().unwrap().is_empty() && plugin.login_options().is_none());
        let section = json!({"logins": true}).as_object().unwrap().clone();
        let options = SshPlugin::parse_options(section).unwrap();
        let plugin = SshPlugin::configure(options, &daemon, ()).unwrap();
        let options = plugin.login_options().unwrap();
        assert_eq!(options.authorities, PathBuf::from("/s/ssh/user-ca.pub"));
        assert_eq!(options.socket, PathBuf::from("/run/muster/logins.sock"));
        assert_eq!(plugin.build_agent().unwrap().name(), "ssh");
    }
}
