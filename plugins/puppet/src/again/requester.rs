//! Finds the run of Puppet that a command of a manifest belongs to: the nearest ancestor that applies a catalog.

use std::fs;

use muster_api::system::process::{ProcessId, ProcessStat};

/// How many ancestors are looked at: the command, a shell or two, Puppet.
const MAX_ANCESTORS: usize = 8;

/// A run of which this process is a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestingRun {
    /// The process that applies the catalog.
    pub process: ProcessId,
    /// Whether its command line has the option that changes nothing.
    pub is_noop: bool,
}

/// The run that the process with this id belongs to; `None` outside of a run.
pub fn find_requesting_run(pid: u32) -> Option<RequestingRun> {
    let mut pid = pid;
    for _ in 0..MAX_ANCESTORS {
        let stat = ProcessStat::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
        pid = stat.parent;
        if pid <= 1 {
            return None;
        }
        let words = read_words(pid);
        if applies_catalog(&words) {
            let process = ProcessId::from_pid(pid)?;
            return Some(RequestingRun { process, is_noop: has_noop(&words) });
        }
    }
    None
}

/// The command line of a process, one word an element. A process that changed its title has one word.
fn read_words(pid: u32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    text.split(['\0', ' ']).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Whether this is the command line of Puppet, or of the resource engine.
fn applies_catalog(words: &[String]) -> bool {
    let mut names = words.iter().take(2).map(|word| {
        let name = word.rsplit('/').next().unwrap_or(word);
        name.trim_end_matches(':')
    });
    match (names.next(), names.next()) {
        (Some("puppet"), _) | (Some("rpcd"), Some("apply")) => true,
        (Some(program), Some("puppet")) => program.starts_with("ruby") || program == "sh",
        _ => false,
    }
}

/// The last of the words that say whether the run changes anything counts.
fn has_noop(words: &[String]) -> bool {
    let switches = words.iter().rev().find_map(|word| match word.as_str() {
        "--noop" | "--noop=true" => Some(true),
        "--no-noop" | "--noop=false" => Some(false),
        _ => None,
    });
    switches == Some(true)
}

#[cfg(test)]
mod tests {
    use super::{applies_catalog, has_noop};

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn command_lines_of_runs_are_recognised() {
        for (line, expected) in [
            ("/usr/bin/ruby /usr/bin/puppet agent --test", true),
            ("/opt/puppetlabs/puppet/bin/ruby /opt/puppetlabs/puppet/bin/puppet apply x.pp", true),
            ("puppet agent: applying configuration", true),
            ("rpcd apply site.toml", true),
            ("/usr/sbin/rpcd", false),
            ("/bin/sh -c puppet", false),
            ("vim puppet", false),
        ] {
            assert_eq!(applies_catalog(&words(line)), expected, "{line}");
        }
    }

    #[test]
    fn the_last_switch_decides_whether_a_run_changes_anything() {
        for (line, expected) in [
            ("puppet agent -t", false),
            ("puppet agent -t --noop", true),
            ("puppet agent --noop --no-noop", false),
            ("puppet apply --noop=true x", true),
        ] {
            assert_eq!(has_noop(&words(line)), expected, "{line}");
        }
    }
}
