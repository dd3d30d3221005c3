//! Variables of hosts that have the value of a fact, as `--var NAME=FACT` names them. Pure.
//!
//! A node sets its own facts, so what Ansible gives to ssh, to a shell or to an interpreter is no fact of a node, except for the address, the port and the user, which have a
//! strict grammar.

use muster_filter::state::{FactPath, NodeFacts};
use muster_sshcert::is_user_name;
use serde_json::{Value, json};

use super::{HOST_VARIABLE, group_name};
use crate::ssh::{SshAddress, SshAddressError};

/// Names that Ansible or this inventory sets.
const TAKEN_NAMES: [&str; 18] = [
    HOST_VARIABLE,
    "delegated_vars",
    "environment",
    "group_names",
    "groups",
    "hostvars",
    "inventory_dir",
    "inventory_file",
    "inventory_hostname",
    "inventory_hostname_short",
    "omit",
    "play_hosts",
    "playbook_dir",
    "role_name",
    "role_names",
    "role_path",
    "role_uuid",
    "vars",
];
/// Most characters of a value in a message.
const MAX_SHOWN_CHARS: usize = 80;

/// A variable of each host that has the value of a fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnsibleVariable {
    pub(super) name: String,
    path: FactPath,
    form: VariableForm,
}

/// Which values the variable may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VariableForm {
    /// An IP address or a host name.
    Address,
    /// A number of a port.
    Port,
    /// The name of a user.
    User,
    /// Any value: Ansible itself does nothing with it.
    Any,
}

/// Why the text is not `NAME=FACT`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnsibleVariableError {
    /// There is no `=`.
    #[error("expected NAME=FACT, such as ansible_host=networking.ip")]
    NoFact,
    /// Ansible does not accept the name.
    #[error(
        "`{0}` is not a valid name of an Ansible variable: use letters, digits and _, and no digit first"
    )]
    Name(String),
    /// Ansible connects by the variable, or runs it.
    #[error(
        "`{0}` cannot have the value of a fact, because nodes would decide what Ansible runs; set it in group_vars. Only ansible_host, ansible_port and ansible_user can"
    )]
    Connection(String),
    /// Ansible or this inventory sets the variable.
    #[error("`{0}` is a variable of Ansible or of this inventory; use another name")]
    Taken(String),
    /// The fact's name.
    #[error(transparent)]
    Fact(#[from] muster_filter::state::FactPathError),
}

/// A node's fact is no value that a connection variable may have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("its fact {fact} is no value of {name}: {reason}")]
pub struct AnsibleValueError {
    name: String,
    fact: String,
    reason: AnsibleValueReason,
}

/// What is wrong with the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum AnsibleValueReason {
    #[error(transparent)]
    Address(#[from] SshAddressError),
    #[error("{0} is not a number from 1 to 65535")]
    Port(String),
    #[error("{0} is not the name of a user")]
    User(String),
}

impl AnsibleVariable {
    /// Parses `NAME=FACT`.
    pub fn parse(text: &str) -> Result<Self, AnsibleVariableError> {
        let (name, path) = text.split_once('=').ok_or(AnsibleVariableError::NoFact)?;
        let is_number = name.starts_with(|c: char| c.is_ascii_digit());
        if name.is_empty() || is_number || group_name(name) != name {
            return Err(AnsibleVariableError::Name(name.to_owned()));
        }
        let form = match name {
            "ansible_host" | "ansible_ssh_host" => VariableForm::Address,
            "ansible_port" | "ansible_ssh_port" => VariableForm::Port,
            "ansible_user" | "ansible_ssh_user" => VariableForm::User,
            _ if name.starts_with("ansible_") || name.starts_with('_') => {
                return Err(AnsibleVariableError::Connection(name.to_owned()));
            }
            _ if TAKEN_NAMES.contains(&name) => {
                return Err(AnsibleVariableError::Taken(name.to_owned()));
            }
            _ => VariableForm::Any,
        };
        Ok(Self { name: name.to_owned(), path: FactPath::parse(path)?, form })
    }

    /// The value for a node; `None` if it does not have the fact.
    pub(super) fn value_of(&self, facts: &NodeFacts) -> Result<Option<Value>, AnsibleValueError> {
        let Some(value) = facts.get_path(&self.path) else { return Ok(None) };
        let checked = match self.form {
            VariableForm::Any => Ok(value.clone()),
            VariableForm::Address => SshAddress::from_fact(Some(value))
                .map(|address| json!(address.to_string()))
                .map_err(AnsibleValueReason::from),
            VariableForm::Port => parse_port(value)
                .map(|port| json!(port))
                .ok_or_else(|| AnsibleValueReason::Port(shown(value))),
            VariableForm::User => match value.as_str() {
                Some(user) if is_user_name(user) => Ok(value.clone()),
                _ => Err(AnsibleValueReason::User(shown(value))),
            },
        };
        checked.map(Some).map_err(|reason| AnsibleValueError {
            name: self.name.clone(),
            fact: self.path.as_str().to_owned(),
            reason,
        })
    }
}

/// A number of a port, also as a text: facts from files are often texts.
fn parse_port(value: &Value) -> Option<u16> {
    let port = match value {
        Value::Number(number) => u16::try_from(number.as_u64()?).ok()?,
        Value::String(text) if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok()?,
        _ => return None,
    };
    (port > 0).then_some(port)
}

/// The start of the value as JSON, which escapes control characters.
fn shown(value: &Value) -> String {
    value.to_string().chars().take(MAX_SHOWN_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(name: &str, fact: &Value) -> Result<Option<Value>, AnsibleValueError> {
        let variable = AnsibleVariable::parse(&format!("{name}=fact")).unwrap();
        variable.value_of(&NodeFacts::from_value(json!({ "fact": fact })).unwrap())
    }

    #[test]
    fn names_of_variables_are_checked() {
        for text in ["ip", "=ip", "1a=ip", "a-b=ip", "a=b..c"] {
            assert!(AnsibleVariable::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn variables_by_which_ansible_connects_or_runs_have_no_value_of_a_fact() {
        for name in [
            "ansible_connection",
            "ansible_ssh_common_args",
            "ansible_ssh_extra_args",
            "ansible_ssh_executable",
            "ansible_ssh_private_key_file",
            "ansible_python_interpreter",
            "ansible_shell_executable",
            "ansible_become_exe",
            "ansible_become_user",
            "ansible_password",
            "ansible_remote_tmp",
            "ansible_facts",
            "_ansible_coverage_remote_output",
        ] {
            let refused = AnsibleVariable::parse(&format!("{name}=ip"));
            assert_eq!(refused, Err(AnsibleVariableError::Connection(name.to_owned())));
        }
        for name in ["muster", "hostvars", "inventory_hostname", "vars", "groups"] {
            let refused = AnsibleVariable::parse(&format!("{name}=ip"));
            assert_eq!(refused, Err(AnsibleVariableError::Taken(name.to_owned())));
        }
    }

    #[test]
    fn connection_variables_have_strict_values() {
        let accepted = [
            ("ansible_host", json!("10.0.0.7"), json!("10.0.0.7")),
            ("ansible_ssh_host", json!("2001:DB8::1"), json!("2001:db8::1")),
            ("ansible_host", json!("db1.acme.net"), json!("db1.acme.net")),
            ("ansible_port", json!(2222), json!(2222)),
            ("ansible_ssh_port", json!("22"), json!(22)),
            ("ansible_user", json!("deploy"), json!("deploy")),
            ("site_rack", json!({"a": [1, "-o"]}), json!({"a": [1, "-o"]})),
        ];
        for (name, fact, expected) in accepted {
            assert_eq!(value(name, &fact), Ok(Some(expected)), "{name}");
        }
        let variable = AnsibleVariable::parse("ansible_host=fact").unwrap();
        assert_eq!(variable.value_of(&NodeFacts::default()), Ok(None));
    }

    #[test]
    fn values_that_ssh_could_take_for_options_are_refused() {
        for (name, fact) in [
            ("ansible_host", json!("-oProxyCommand=touch owned")),
            ("ansible_host", json!("db1 -oProxyCommand=x")),
            ("ansible_host", json!("root@db1")),
            ("ansible_host", json!("ssh://db1:22")),
            ("ansible_host", json!("localhost")),
            ("ansible_host", json!("127.0.0.1")),
            ("ansible_host", json!(null)),
            ("ansible_host", json!({"a": 1})),
            ("ansible_port", json!("22 -oProxyCommand=x")),
            ("ansible_port", json!("+22")),
            ("ansible_port", json!("")),
            ("ansible_port", json!(0)),
            ("ansible_port", json!(-22)),
            ("ansible_port", json!(65536)),
            ("ansible_port", json!(22.5)),
            ("ansible_user", json!("-oProxyCommand=x")),
            ("ansible_user", json!("root\" -oProxyCommand=x")),
            ("ansible_user", json!("root\nx")),
            ("ansible_user", json!("%h")),
            ("ansible_user", json!("")),
            ("ansible_user", json!(0)),
        ] {
            let refused = value(name, &fact).unwrap_err().to_string();
            assert!(
                refused.starts_with(&format!("its fact fact is no value of {name}")),
                "{refused}"
            );
        }
    }
}
