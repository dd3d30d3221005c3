//! Links to `rpc` with the names of `MCollective`'s commands: `mc-puppetd -W /dev_server/ runall 2` means `rpc puppet runall 2 -W /dev_server/`.

use std::ffi::OsString;
use std::path::Path;

/// The actions of `mc-puppetd`, which may follow options.
const PUPPET_ACTIONS: [&str; 8] =
    ["count", "disable", "enable", "runall", "runonce", "status", "summary", "last_run_report"];

/// The arguments of `rpc` for those of the program with this name; unchanged for `rpc` itself.
pub(super) fn resolve_link(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let program = arguments.first().and_then(|path| Path::new(path).file_name());
    match program.and_then(|name| name.to_str()) {
        Some("check-mc-nrpe") => arguments.insert(1, "check".into()),
        Some("mc-ssh") => arguments.insert(1, "ssh".into()),
        Some("mc-ping") => arguments.insert(1, "ping".into()),
        Some("mc-puppetd") => {
            let is_action = |word: &OsString| PUPPET_ACTIONS.iter().any(|action| word == action);
            if let Some(index) = arguments.iter().skip(1).position(is_action) {
                let action = arguments.remove(index + 1);
                arguments.insert(1, action);
            }
            arguments.insert(1, "puppet".into());
        }
        // `mco rpc AGENT ACTION` is `rpc AGENT ACTION`; the other applications are commands or agents.
        Some("mco") if arguments.get(1).is_some_and(|word| word == "rpc") => {
            arguments.remove(1);
        }
        Some("mco") => {}
        _ => return arguments,
    }
    // The help and errors name the commands of `rpc`.
    if let Some(program) = arguments.first_mut() {
        *program = "rpc".into();
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::resolve_link;

    #[test]
    fn command_lines_of_mcollective_are_those_of_rpc() {
        for (line, expected) in [
            ("/usr/bin/check-mc-nrpe -W a=b check_load", "check -W a=b check_load"),
            ("mc-ssh -W a=b", "ssh -W a=b"),
            ("mc-ping -C apache", "ping -C apache"),
            ("mc-puppetd -W /dev_server/ runall 2", "puppet runall -W /dev_server/ 2"),
            ("mc-puppetd status", "puppet status"),
            ("mco rpc rpcutil ping -I web1", "rpcutil ping -I web1"),
            ("mco find -C apache", "find -C apache"),
            ("rpc rpc ping", "rpc ping"),
            ("rpc", ""),
        ] {
            let resolved = resolve_link(line.split(' ').map(Into::into).collect());
            let words: Vec<&str> = resolved[1..].iter().filter_map(|word| word.to_str()).collect();
            assert_eq!(words.join(" "), expected, "{line}");
            let parsed = crate::cli::Cli::parse_arguments(line.split(' ').map(Into::into));
            assert_eq!(parsed.is_ok(), line != "rpc", "{line}");
        }
    }
}
