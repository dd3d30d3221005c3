//! The command with which OpenSSH reaches a node through the bus. Pure.
//!
//! OpenSSH expands `%` in it and gives it to the user's shell, so each word has only characters that neither of them interprets.

use std::path::Path;

use muster_wire::identity::Identity;

use super::SshArgumentError;

/// How OpenSSH reaches a node through the bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshProxy(String);

/// What selects the configuration of the command, as options of `rpc`.
#[derive(Debug, Clone, Copy, Default)]
pub struct SshProxyOptions<'a> {
    /// `--config`.
    pub config: Option<&'a Path>,
    /// `--context`.
    pub context: Option<&'a str>,
}

impl SshProxy {
    /// The command that carries standard input and output to this port of the node. `program` is the path of `rpc`.
    pub fn for_node(
        program: &Path,
        options: SshProxyOptions<'_>,
        node: &Identity,
        port: u16,
    ) -> Result<Self, SshArgumentError> {
        let mut words = vec![path_word(program)?];
        if let Some(config) = options.config {
            words.extend(["--config".to_owned(), path_word(config)?]);
        }
        if let Some(context) = options.context {
            words.extend(["--context".to_owned(), plain_word(context)?]);
        }
        words.extend(["--quiet", "tunnel"].map(str::to_owned));
        words.extend([plain_word(node.as_str())?, port.to_string(), "--stdio".to_owned()]);
        Ok(Self(words.join(" ")))
    }

    /// The setting of OpenSSH.
    pub(super) fn setting(&self) -> String {
        format!("ProxyCommand={}", self.0)
    }
}

fn path_word(path: &Path) -> Result<String, SshArgumentError> {
    let text = path.to_str().map(str::to_owned);
    text.map_or_else(
        || Err(SshArgumentError::ProxyWord(path.display().to_string())),
        |text| plain_word(&text),
    )
}

fn plain_word(word: &str) -> Result<String, SshArgumentError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._+@-".contains(&byte);
    let is_word = !word.is_empty() && !word.starts_with('-') && word.bytes().all(is_plain);
    if is_word { Ok(word.to_owned()) } else { Err(SshArgumentError::ProxyWord(word.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_has_only_plain_words() {
        let node = Identity::parse("db1.acme.net").unwrap();
        let options = SshProxyOptions { config: Some(Path::new("/etc/rpc.toml")), context: None };
        let proxy = SshProxy::for_node(Path::new("/usr/bin/rpc"), options, &node, 22).unwrap();
        let expected = "ProxyCommand=/usr/bin/rpc --config /etc/rpc.toml --quiet tunnel db1.acme.net 22 --stdio";
        assert_eq!(proxy.setting(), expected);
        let options = SshProxyOptions { config: None, context: Some("acme-eu") };
        let proxy = SshProxy::for_node(Path::new("rpc"), options, &node, 2222).unwrap();
        let expected =
            "ProxyCommand=rpc --context acme-eu --quiet tunnel db1.acme.net 2222 --stdio";
        assert_eq!(proxy.setting(), expected);
    }

    #[test]
    fn words_that_a_shell_or_openssh_would_interpret_are_refused() {
        let node = Identity::parse("db1").unwrap();
        for word in [
            "", "-x", "a b", "a;b", "$HOME", "`id`", "a%h", "a\nb", "a'b", "a\"b", "a|b", "a&b",
            "(a)", "a>b", "~/rpc", "a*", "a?", "[a]", "{a}", "a\\b", "!a", "#a", "a=b", "\u{e9}",
        ] {
            let program =
                SshProxy::for_node(Path::new(word), SshProxyOptions::default(), &node, 22);
            assert!(program.is_err(), "{word:?}");
            let options = SshProxyOptions { config: Some(Path::new(word)), context: None };
            assert!(SshProxy::for_node(Path::new("rpc"), options, &node, 22).is_err(), "{word:?}");
            let options = SshProxyOptions { config: None, context: Some(word) };
            assert!(SshProxy::for_node(Path::new("rpc"), options, &node, 22).is_err(), "{word:?}");
        }
    }
}
