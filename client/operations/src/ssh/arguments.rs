//! The arguments of `ssh`, `scp` and `sftp`, and a configuration for OpenSSH. Pure.

use std::path::Path;

use super::{SshProxy, SshTarget};

/// Options of ssh that have a value.
const SSH_OPTIONS_WITH_VALUE: &[char] = &[
    'B', 'b', 'c', 'D', 'E', 'e', 'F', 'I', 'i', 'J', 'L', 'l', 'm', 'O', 'o', 'P', 'p', 'Q', 'R',
    'S', 'W', 'w',
];

/// A program of OpenSSH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SshProgram {
    /// A shell or a command.
    Ssh,
    /// Copies files. An argument that begins with `:` is a path on the node.
    Scp,
    /// Transfers files interactively.
    Sftp,
}

/// Why arguments cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SshArgumentError {
    /// `scp` without a path on the node.
    #[error(
        "no path is on the node; write it with a colon, as in `rpc scp -C web -- notes.txt :/tmp/`"
    )]
    NoRemotePath,
    /// The path of a file for OpenSSH has characters that OpenSSH expands.
    #[error(
        "OpenSSH cannot use the file {0:?}: its path has white space, `%`, `$`, quotes or a backslash"
    )]
    KnownHostsPath(String),
    /// A word of the command that reaches a node through the bus has other characters than letters, digits and `/._+@-`.
    #[error(
        "{0:?} cannot be a word of a ProxyCommand: it has other characters than letters, digits and `/._+@-`"
    )]
    ProxyWord(String),
}

impl SshProgram {
    /// The name of the program.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ssh => "ssh",
            Self::Scp => "scp",
            Self::Sftp => "sftp",
        }
    }
}

/// The arguments of a program for one node. `arguments` are the user's own.
///
/// The options that pin the host key are the first ones, and OpenSSH takes the first value of each option, so the user's arguments cannot replace them.
pub fn program_arguments(
    program: SshProgram,
    target: &SshTarget,
    arguments: &[String],
) -> Result<Vec<String>, SshArgumentError> {
    let mut all = pin_options(target)?;
    let address = target.address.to_string();
    match program {
        SshProgram::Ssh => {
            let (options, command) = arguments.split_at(count_options(arguments));
            all.extend_from_slice(options);
            all.extend(["--".to_owned(), address]);
            all.extend_from_slice(command);
        }
        SshProgram::Scp => {
            if !arguments.iter().any(|argument| argument.starts_with(':')) {
                return Err(SshArgumentError::NoRemotePath);
            }
            let host = target.address.before_path();
            all.extend(arguments.iter().map(|argument| match argument.strip_prefix(':') {
                Some(path) => format!("{host}:{path}"),
                None => argument.clone(),
            }));
        }
        SshProgram::Sftp => {
            all.extend_from_slice(arguments);
            all.extend(["--".to_owned(), target.address.before_path()]);
        }
    }
    Ok(all)
}

/// How many of the user's arguments are options of ssh and their values. The others are the command. ssh reads no options behind the `--` before the host.
fn count_options(arguments: &[String]) -> usize {
    let mut at = 0;
    while let Some(flags) = arguments.get(at).and_then(|argument| argument.strip_prefix('-')) {
        match flags.find(SSH_OPTIONS_WITH_VALUE) {
            _ if flags.is_empty() || flags.starts_with('-') => break,
            // The value is the next argument: `-tl root`.
            Some(last) if last + 1 == flags.len() => at += 2,
            _ => at += 1,
        }
    }
    at.min(arguments.len())
}

/// A block of `ssh_config` for each node, under its name.
pub fn config_text(targets: &[SshTarget]) -> Result<String, SshArgumentError> {
    let block = |target: &SshTarget| {
        let host = format!("Host {}\n    HostName {}\n", target.node, target.address);
        let settings = pin_settings(target)?.into_iter();
        let lines = settings.map(|setting| format!("    {}\n", setting.replacen('=', " ", 1)));
        Ok(std::iter::once(host).chain(lines).collect::<String>())
    };
    targets.iter().map(block).collect()
}

fn pin_options(target: &SshTarget) -> Result<Vec<String>, SshArgumentError> {
    let settings = pin_settings(target)?;
    Ok(settings.into_iter().flat_map(|setting| ["-o".to_owned(), setting]).collect())
}

/// The settings that reach the node, and accept its own host keys and no others.
fn pin_settings(target: &SshTarget) -> Result<Vec<String>, SshArgumentError> {
    let mut settings: Vec<String> = target.proxy.iter().map(SshProxy::setting).collect();
    if let Some(identity) = &target.identity {
        // Without the last one, the keys of an ssh-agent come first and use up the attempts that sshd permits.
        settings.extend([
            format!("IdentityFile={}", plain_path(&identity.key)?),
            format!("CertificateFile={}", plain_path(&identity.certificate)?),
            "IdentitiesOnly=yes".to_owned(),
        ]);
    }
    let Some(path) = &target.known_hosts else { return Ok(settings) };
    let path = plain_path(path)?;
    settings.extend([
        format!("HostKeyAlias={}", target.node),
        format!("UserKnownHostsFile={path}"),
        "GlobalKnownHostsFile=/dev/null".to_owned(),
        "StrictHostKeyChecking=yes".to_owned(),
        "CheckHostIP=no".to_owned(),
        "UpdateHostKeys=no".to_owned(),
    ]);
    Ok(settings)
}

/// OpenSSH splits the value at white space, and expands tokens and variables in it.
fn plain_path(path: &Path) -> Result<&str, SshArgumentError> {
    let is_special = |c: char| c.is_whitespace() || c.is_control() || "%$\"'\\~".contains(c);
    let text = path.to_str().filter(|text| !text.contains(is_special));
    text.ok_or_else(|| SshArgumentError::KnownHostsPath(path.display().to_string()))
}

#[cfg(test)]
mod tests {
    use muster_wire::identity::Identity;

    use super::*;
    use crate::ssh::SshAddress;

    fn target(known_hosts: Option<&str>) -> SshTarget {
        let node = Identity::parse("db1.acme.net").unwrap();
        let address = SshAddress::from_fact(Some(&"2001:db8::1".into())).unwrap();
        SshTarget {
            node,
            address,
            known_hosts: known_hosts.map(Into::into),
            proxy: None,
            identity: None,
        }
    }

    fn arguments(program: SshProgram, known_hosts: Option<&str>, own: &[&str]) -> Vec<String> {
        let own: Vec<String> = own.iter().map(|&text| text.to_owned()).collect();
        program_arguments(program, &target(known_hosts), &own).unwrap()
    }

    #[test]
    fn host_follows_a_double_dash_and_pins_come_first() {
        let found = arguments(SshProgram::Ssh, Some("/c/known"), &["-l", "root", "uptime; id"]);
        let pins = [
            "-o",
            "HostKeyAlias=db1.acme.net",
            "-o",
            "UserKnownHostsFile=/c/known",
            "-o",
            "GlobalKnownHostsFile=/dev/null",
            "-o",
            "StrictHostKeyChecking=yes",
            "-o",
            "CheckHostIP=no",
            "-o",
            "UpdateHostKeys=no",
        ];
        let rest = ["-l", "root", "--", "2001:db8::1", "uptime; id"];
        assert_eq!(found, [&pins[..], &rest].concat());
        assert_eq!(arguments(SshProgram::Ssh, None, &[]), ["--", "2001:db8::1"]);
        assert_eq!(
            arguments(SshProgram::Sftp, None, &["-b", "x"]),
            ["-b", "x", "--", "[2001:db8::1]"]
        );
    }

    #[test]
    fn options_come_before_the_host_and_the_command_after_it() {
        for (own, options) in [
            (&["-l", "root", "uptime"][..], 2),
            (&["-tvl", "root", "-oUser=x", "-A", "ls", "-l"], 4),
            (&["-lroot", "ls"], 1),
            (&["ls", "-l", "x"], 0),
            (&["-4", "-o"], 2),
            (&["--", "ls"], 0),
            (&["-", "ls"], 0),
            (&[], 0),
        ] {
            let found = arguments(SshProgram::Ssh, None, own);
            let (before, after) = own.split_at(options);
            assert_eq!(found, [before, &["--", "2001:db8::1"], after].concat(), "{own:?}");
        }
    }

    #[test]
    fn proxy_comes_before_the_options_of_the_user() {
        let node = Identity::parse("db1").unwrap();
        let options = crate::ssh::SshProxyOptions::default();
        let proxy = SshProxy::for_node(Path::new("/rpc"), options, &node, 22).unwrap();
        let mut target = target(None);
        target.proxy = Some(proxy);
        let own = ["-oProxyCommand=other".to_owned()];
        let found = program_arguments(SshProgram::Ssh, &target, &own).unwrap();
        let expected = [
            "-o",
            "ProxyCommand=/rpc --quiet tunnel db1 22 --stdio",
            "-oProxyCommand=other",
            "--",
            "2001:db8::1",
        ];
        assert_eq!(found, expected);
        let text = config_text(&[target]).unwrap();
        assert!(text.ends_with("    ProxyCommand /rpc --quiet tunnel db1 22 --stdio\n"), "{text}");
    }

    #[test]
    fn identity_comes_before_the_options_of_the_user() {
        let mut target = target(None);
        target.identity = Some(crate::ssh::SshIdentity {
            key: "/c/id".into(),
            certificate: "/c/id-cert.pub".into(),
        });
        let found = program_arguments(SshProgram::Ssh, &target, &["-i/x".to_owned()]).unwrap();
        let expected = [
            "-o",
            "IdentityFile=/c/id",
            "-o",
            "CertificateFile=/c/id-cert.pub",
            "-o",
            "IdentitiesOnly=yes",
            "-i/x",
            "--",
            "2001:db8::1",
        ];
        assert_eq!(found, expected);
        let text = config_text(&[target]).unwrap();
        assert!(text.contains("    CertificateFile /c/id-cert.pub\n"), "{text}");
    }

    #[test]
    fn colon_marks_paths_on_the_node() {
        let found = arguments(SshProgram::Scp, None, &["-r", "a", ":/b", "c:d"]);
        assert_eq!(found, ["-r", "a", "[2001:db8::1]:/b", "c:d"]);
        let error = program_arguments(SshProgram::Scp, &target(None), &["a".to_owned()]);
        assert_eq!(error, Err(SshArgumentError::NoRemotePath));
    }

    #[test]
    fn configuration_has_a_block_for_each_node() {
        let text = config_text(&[target(Some("/c/known")), target(None)]).unwrap();
        let expected = "Host db1.acme.net\n    HostName 2001:db8::1\n    HostKeyAlias db1.acme.net\n    UserKnownHostsFile /c/known\n    \
            GlobalKnownHostsFile /dev/null\n    StrictHostKeyChecking yes\n    CheckHostIP no\n    UpdateHostKeys no\n\
            Host db1.acme.net\n    HostName 2001:db8::1\n";
        assert_eq!(text, expected);
        for path in ["/a b", "/%h", "/$HOME", "/a\"b", "/a\n"] {
            assert!(config_text(&[target(Some(path))]).is_err(), "{path}");
        }
    }
}
