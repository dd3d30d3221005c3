//! Arguments of `rpc org rotate`.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use muster_organisation::PrincipalKind;

use crate::commands::org::args::PRINCIPAL_KINDS;
use crate::flags::org_directory::OrgDirectoryArgs;

/// `rpc org rotate`.
#[derive(Debug, Args)]
pub struct OrgRotateArgs {
    /// What to replace: the key that signs credentials of this kind, or another key
    #[arg(value_name = "WHAT", value_parser = rotated_key_parser())]
    pub key: RotatedKey,
    /// The organisation.
    #[command(flatten)]
    pub organisation: OrgDirectoryArgs,
    /// Finish the rotation: credentials that the old key signed end
    #[arg(long)]
    pub finish: bool,
    /// Finish even if valid credentials of the old key have no replacement, or a broker does not accept the new operator
    #[arg(long, requires = "finish")]
    pub force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotatedKey {
    /// The key that signs credentials of this kind.
    Signing(PrincipalKind),
    /// The TLS authority.
    Authority,
    Operator,
    /// The key that signs administrators of the fleet.
    Administrator,
    /// The key that signs users of the system account, and its credentials.
    System,
    /// The key that signs SSH user certificates.
    SshAuthority,
}

/// What is replaced besides the keys of principals: word, value and help.
const OTHER_KEYS: [(&str, RotatedKey, &str); 5] = [
    ("authority", RotatedKey::Authority, "The TLS authority of the broker's certificate"),
    ("operator", RotatedKey::Operator, "The operator's key, which signs account tokens"),
    (
        "admin",
        RotatedKey::Administrator,
        "The key that signs the administrators' credentials of `rpc org`; one step",
    ),
    (
        "system",
        RotatedKey::System,
        "The key and the credentials that push account tokens to the broker; one step",
    ),
    ("ssh-ca", RotatedKey::SshAuthority, "The key that signs SSH user certificates"),
];

/// Parses the name of a kind of principal, or of another key.
fn rotated_key_parser() -> impl TypedValueParser<Value = RotatedKey> {
    let kinds = PRINCIPAL_KINDS.map(|(kind, _)| {
        PossibleValue::new(kind.name())
            .help(format!("The key that signs credentials of each {kind}"))
    });
    let others = OTHER_KEYS.map(|(word, _, help)| PossibleValue::new(word).help(help));
    PossibleValuesParser::new(kinds.into_iter().chain(others)).try_map(|name| {
        let other = OTHER_KEYS.iter().find(|(word, ..)| *word == name);
        if let Some((_, key, _)) = other {
            return Ok(*key);
        }
        let mut kinds = PRINCIPAL_KINDS.into_iter().map(|(kind, _)| kind);
        let kind = kinds.find(|kind| kind.name() == name).ok_or("not a kind of principal")?;
        Ok::<_, &str>(RotatedKey::Signing(kind))
    })
}
