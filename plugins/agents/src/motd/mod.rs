//! `motd`: the message of the day, the text before a login and the file of the prompt, from fragments and what the node knows of itself.
//!
//! A fragment is a file in `/etc/muster/motd.d`, `issue.d` or `prompt.d`, a template over facts, classes and state. The daemon renders them when
//! something changed and writes files atomically. It needs no broker. Colours and widths of a prompt are the work of `rpc prompt`.

mod actions;
mod fragments;
mod output_file;
mod prompt;
mod renderer;
mod template;
mod template_names;
#[cfg(test)]
mod tests;
pub mod worker;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use muster_api::{Agent, AgentError, DaemonContext, NodePlugin, PluginError, PluginResult};
use muster_contract::motd::{MotdAgent, MotdRegister, MotdRender, MotdUnregister, TerminalColor};
use muster_engine::types::motd_fragment::FragmentTarget;
use serde::Deserialize;

pub use renderer::{MotdRefresh, MotdRenderer, NodeSnapshot};

/// The section `[plugins.motd]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MotdOptions {
    /// Whether the agent is enabled and files are written.
    pub enabled: bool,
    /// The files to write.
    pub outputs: Vec<OutputOptions>,
    /// A file of the administrator that the message of the day includes, at order 15.
    pub local: PathBuf,
    /// The file from which `rpc prompt` reads; none by default, because it belongs to one daemon of the machine.
    pub prompt_cache: Option<PathBuf>,
    /// The facts whose values the prompt shows, in this order.
    pub prompt_facts: Vec<String>,
    /// Colours of values in the prompt.
    pub prompt_colors: BTreeMap<String, TerminalColor>,
}

/// A file that is written.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputOptions {
    /// The file.
    pub path: PathBuf,
    /// Which text: `motd` or `issue`.
    #[serde(default)]
    pub target: OutputTarget,
}

/// The text in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputTarget {
    /// The message after a login.
    #[default]
    Motd,
    /// The text before a login.
    Issue,
}

impl From<OutputTarget> for FragmentTarget {
    fn from(target: OutputTarget) -> Self {
        match target {
            OutputTarget::Motd => Self::Motd,
            OutputTarget::Issue => Self::Issue,
        }
    }
}

impl Default for MotdOptions {
    fn default() -> Self {
        let colors = [("production", TerminalColor::Red), ("staging", TerminalColor::Yellow)];
        Self {
            enabled: true,
            outputs: vec![OutputOptions {
                // pam_motd shows the files of this directory after the static message.
                path: "/run/motd.d/muster".into(),
                target: OutputTarget::Motd,
            }],
            local: "/etc/motd.local".into(),
            prompt_cache: None,
            prompt_facts: ["customer", "environment"].map(str::to_owned).to_vec(),
            prompt_colors: colors.map(|(value, color)| (value.to_owned(), color)).into(),
        }
    }
}

impl MotdOptions {
    fn check(&self) -> PluginResult<()> {
        let paths = self.outputs.iter().map(|output| ("outputs", &output.path));
        let others = self.prompt_cache.iter().map(|path| ("prompt_cache", path));
        for (option, path) in paths.chain(others).chain([("local", &self.local)]) {
            if !path.is_absolute() {
                let problem = format!("{} is not an absolute path", path.display());
                let plugin = MotdPlugin::NAME;
                return Err(PluginError::Option { plugin, option, source: problem.into() });
            }
        }
        Ok(())
    }
}

/// The agent `motd`, and the renderer that the daemon calls.
#[derive(Debug, Clone)]
pub struct MotdPlugin {
    renderer: Arc<MotdRenderer>,
}

impl MotdPlugin {
    /// The renderer, for the daemon and for `rpcd motd`.
    pub fn renderer(&self) -> Arc<MotdRenderer> {
        Arc::clone(&self.renderer)
    }
}

impl NodePlugin for MotdPlugin {
    const NAME: &'static str = "motd";
    type Options = MotdOptions;
    /// The daemon's program, which renders as `PROGRAM render-fragments`.
    type Shared = PathBuf;

    fn configure(
        options: MotdOptions,
        daemon: &DaemonContext,
        program: PathBuf,
    ) -> PluginResult<Self> {
        options.check()?;
        let place = worker::RenderPlace::Worker(program);
        Ok(Self { renderer: Arc::new(MotdRenderer::new(options, &daemon.state, place)) })
    }

    fn is_enabled(&self) -> bool {
        self.renderer.is_enabled()
    }

    fn build_agent(&self) -> Result<Agent, AgentError> {
        Agent::builder_for::<MotdAgent>()?
            .blocking_action(MotdRegister, &self.renderer, actions::register_fragment)
            .blocking_action(MotdUnregister, &self.renderer, actions::unregister_fragment)
            .blocking_action(MotdRender, &self.renderer, actions::render_text)
            .build()
    }
}
