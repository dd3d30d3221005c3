//! Arguments of `rpc cp`.

use clap::Args;

use crate::flags::filters::FilterArgs;
use crate::flags::json::JsonArgs;
use crate::flags::rollout_flags::PaceArgs;

pub const USAGE: &str = "rpc cp FILE [NODE]:PATH [OPTIONS]
       rpc cp [NODE]:PATH FILE|DIRECTORY [OPTIONS]";

pub const AFTER_HELP: &str = "Examples:
  rpc cp motd :/etc/motd -C web                    to all nodes of the class
  rpc cp app.tar web1.acme.net:/srv/app/           to one node, same name
  rpc cp app.conf :/srv/app/ -C web --mode 0640 --owner app --canary 1
  rpc cp web1.acme.net:/var/log/app.log .          from one node
  rpc cp 'web[1-40].acme.net:/etc/motd' motds/     motds/motd.NODE for each node
  rpc cp :/var/log/app.log logs/ -C web            logs/app.log.NODE for each node

A path on nodes is absolute and follows a colon. Before it is the name of a
node, a short name or a range, or nothing if filters select the nodes. The file
is sent in parts and verified by its SHA-256 before it replaces the target at
once; after a failure the target is as it was. A target with the same content,
and mode, owner and group if they are given, is reported as unchanged. An
existing target keeps its mode and owner; a new one gets the mode of FILE. A
copy that was interrupted is continued by the same command; nodes remove
unfinished copies after a day.

The nodes must allow it: `write = [\"/srv/app\"]` or `read = [\"/var/log\"]` in the
section [plugins.filecopy] of rpcd.toml, and a policy for the agent filecopy.";

const HELP_HEADING: &str = "Copy options";

/// `rpc cp`.
#[derive(Debug, Args)]
pub struct CopyArgs {
    /// File to copy: a file of this machine, or NODE:PATH, or :PATH with filters
    #[arg(value_name = "SOURCE")]
    pub source_operand: String,
    /// Where to copy it: NODE:PATH, or :PATH with filters, or a file or directory of this machine
    #[arg(value_name = "TARGET")]
    pub target_operand: String,
    /// Permissions of the target on nodes, in octal [default: as described below]
    #[arg(long, value_name = "MODE", value_parser = parse_mode, help_heading = HELP_HEADING)]
    pub mode: Option<String>,
    /// Owner of the target on nodes, a name or number
    #[arg(long, value_name = "USER", help_heading = HELP_HEADING)]
    pub owner: Option<String>,
    /// Group of the target on nodes, a name or number
    #[arg(long, value_name = "GROUP", help_heading = HELP_HEADING)]
    pub group: Option<String>,
    /// Do not ask for confirmation before copying to many nodes
    #[arg(short, long, help_heading = HELP_HEADING)]
    pub yes: bool,
    /// Do not show a progress bar
    #[arg(long, alias = "np", help_heading = HELP_HEADING)]
    pub no_progress: bool,
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
    /// Limits and batches.
    #[command(flatten)]
    pub pace: PaceArgs,
    /// The nodes.
    #[command(flatten)]
    pub filters: FilterArgs,
}

/// Checks an octal mode, and returns it with four digits.
fn parse_mode(text: &str) -> Result<String, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.map(|mode| format!("{mode:04o}"))
        .ok_or_else(|| "expected permissions in octal from 0000 to 0777, such as 0644".to_owned())
}

#[cfg(test)]
mod tests {
    use super::parse_mode;

    #[test]
    fn mode_is_octal() {
        assert_eq!(parse_mode("644"), Ok("0644".to_owned()));
        assert_eq!(parse_mode("0600"), Ok("0600".to_owned()));
        for text in ["", "8", "1777", "u+x", "-1"] {
            assert!(parse_mode(text).is_err(), "{text}");
        }
    }
}
