//! `rpc org ssh-ca`, and `rpc org rotate ssh-ca`: the authority of SSH user certificates.

use muster_base::unix_millis_now;
use muster_display::printer::{GOOD, OutputPrinter};
use muster_files::files::{FileAccessError, read_text};
use muster_organisation::{OfflineCertificate, Organisation, OrganisationError, RotationStart};
use muster_sshcert::{GrantedFeatures, MAX_PUBLIC_KEY_BYTES, SubjectKey, SubjectKeyError};

use crate::commands::org::args::{OrgSshCaCommand, OrgSshCaSignArgs};
use crate::commands::org::push;
use crate::flags::org_directory::OrgDirectoryArgs;
use crate::session::context::{CommandContext, CommandError, CommandExitCode, CommandResult};

#[derive(Debug, thiserror::Error)]
enum SshAuthorityError {
    #[error("cannot read the public key")]
    KeyFile(#[source] FileAccessError),
    #[error("{} cannot be signed", .0.display())]
    PublicKey(std::path::PathBuf, #[source] SubjectKeyError),
    /// A key of the account token cannot be written as one of OpenSSH.
    #[error("cannot write the public key in OpenSSH's form")]
    Line(#[source] muster_sshcert::AuthorityLineError),
}

impl CommandError for SshAuthorityError {}

pub async fn run(command: OrgSshCaCommand, cx: CommandContext<'_>) -> CommandResult {
    match command {
        OrgSshCaCommand::Create(args) => create_authority(&args, cx).await,
        OrgSshCaCommand::Show(args) => show_authorities(&args, cx),
        OrgSshCaCommand::Sign(args) => sign_certificate(args, cx),
    }
}

/// Creates the key, and pushes the account token that lists it.
async fn create_authority(args: &OrgDirectoryArgs, cx: CommandContext<'_>) -> CommandResult {
    let (organisation, printer) = (&cx.open_organisation(args)?, cx.printer);
    let lock = organisation.lock()?;
    let is_new = organisation.create_ssh_authority(&lock, unix_millis_now())?;
    drop(lock);
    printer.print_message(if is_new {
        format!("{GOOD}created{GOOD:#} the authority of SSH user certificates")
    } else {
        "the authority of SSH user certificates exists already".to_owned()
    });
    push::push_account_tokens(organisation, printer).await
}

fn show_authorities(args: &OrgDirectoryArgs, cx: CommandContext<'_>) -> CommandResult {
    let keys = cx.open_organisation(args)?.ssh_authorities()?;
    if keys.is_empty() {
        return Err(OrganisationError::NoSshAuthority.into());
    }
    for key in keys {
        cx.printer
            .print_line(muster_sshcert::authority_line(&key).map_err(SshAuthorityError::Line)?)?;
    }
    Ok(CommandExitCode::Passed)
}

fn sign_certificate(args: OrgSshCaSignArgs, cx: CommandContext<'_>) -> CommandResult {
    let organisation = cx.open_organisation(&args.organisation)?;
    let limit = u64::try_from(MAX_PUBLIC_KEY_BYTES).unwrap_or(u64::MAX);
    let text = read_text(&args.key, limit).map_err(SshAuthorityError::KeyFile)?;
    let subject = SubjectKey::parse(&text)
        .map_err(|error| SshAuthorityError::PublicKey(args.key.clone(), error))?;
    let features = GrantedFeatures {
        pty: true,
        port_forwarding: args.port_forwarding,
        agent_forwarding: args.agent_forwarding,
    };
    let certificate =
        OfflineCertificate { caller: args.name, subject, lifetime: args.lifetime, features };
    let issued = organisation.sign_ssh_certificate(certificate, unix_millis_now())?;
    cx.printer.print_line(issued.text)?;
    Ok(CommandExitCode::Passed)
}

/// Adds a new key, and pushes the account token that lists both.
pub(super) async fn start_rotation(
    organisation: &Organisation,
    printer: &OutputPrinter,
) -> CommandResult {
    let lock = organisation.lock()?;
    let start = organisation.start_ssh_authority_rotation(&lock, unix_millis_now())?;
    drop(lock);
    printer.print_message(match start {
        RotationStart::Started => {
            format!("{GOOD}created{GOOD:#} a new key that signs SSH user certificates")
        }
        RotationStart::Continued => {
            "the new key that signs SSH user certificates exists already".to_owned()
        }
    });
    printer.print_hint("copy keys/ssh-ca.nk to the hosts with the agent ssh_ca; when the certificates of the old key have expired, run `rpc org rotate ssh-ca --finish`");
    push::push_account_tokens(organisation, printer).await
}

/// Removes the old key, and pushes the account token.
pub(super) async fn finish_rotation(
    organisation: &Organisation,
    printer: &OutputPrinter,
) -> CommandResult {
    let lock = organisation.lock()?;
    let removed = organisation.finish_ssh_authority_rotation(&lock, unix_millis_now())?;
    drop(lock);
    printer.print_message(match removed {
        0 => "only one key signs SSH user certificates".to_owned(),
        _ => format!("{GOOD}removed{GOOD:#} the old key; its certificates are invalid now"),
    });
    push::push_account_tokens(organisation, printer).await
}
