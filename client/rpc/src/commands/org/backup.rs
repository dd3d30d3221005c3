//! `rpc org backup` and `rpc org restore`: the organisation's directory in an encrypted file, and back.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use muster_base::{error_chain, unix_millis_now};
use muster_display::count_text;
use muster_display::printer::{GOOD, OutputPrinter, WARNING};
use muster_display::time::format_time;
use muster_files::Zeroizing;
use muster_files::files::{self, FileAccessError};
use muster_organisation::{
    AccountRealm, AdoptedToken, BrokerTokens, Organisation, OrganisationLock, restore_backup,
};

use crate::commands::org::args::{OrgBackupArgs, OrgRestoreArgs, PassphraseArgs};
use crate::session::context::{CommandContext, CommandExitCode, CommandResult, Error};
use crate::session::terminal::{PromptError, prompt_secret};

/// Largest file of a passphrase, and largest account token, in bytes.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

pub async fn back_up(args: &OrgBackupArgs, cx: CommandContext<'_>) -> CommandResult {
    let (organisation, printer) = (cx.open_organisation(&args.organisation)?, cx.printer);
    let passphrase = read_new_passphrase(&args.passphrase).await?;
    let lock = organisation.lock()?;
    let now = unix_millis_now() / 1000;
    let summary = organisation.write_backup(&lock, &args.file, &passphrase, now)?;
    let (files, path) = (count_text(summary.files, "file", "files"), args.file.display());
    printer.print_message(format_args!("{GOOD}saved{GOOD:#} {files} in {path}"));
    printer.print_hint(
        "store the passphrase in another place: the file cannot be decrypted without it. `rpc broker backup` saves the broker's stores",
    );
    Ok(CommandExitCode::Passed)
}

/// Writes the files of a backup into a new directory, and replaces its account tokens by later ones.
pub async fn restore(args: &OrgRestoreArgs, cx: CommandContext<'_>) -> CommandResult {
    let printer = cx.printer;
    let read_token = |path: &PathBuf| Ok((path.clone(), files::read_text(path, MAX_FILE_BYTES)?));
    let tokens: Result<Vec<_>, FileAccessError> = args.tokens.iter().map(read_token).collect();
    let tokens = tokens?;
    let passphrase = read_passphrase(&args.passphrase, "passphrase").await?;
    let (organisation, summary) = restore_backup(&args.file, &args.directory, &passphrase)?;
    printer.print_message(format_args!(
        "{GOOD}restored{GOOD:#} the organisation {} of {} ({}) in {}",
        organisation.profile().name,
        format_time(summary.time),
        count_text(summary.files, "file", "files"),
        organisation.layout().directory().display(),
    ));
    let lock = organisation.lock()?;
    for (path, token) in &tokens {
        match organisation.adopt_token(&lock, token)? {
            Some(adopted) => print_adopted(&adopted, printer),
            None => printer.print_message(format_args!(
                "{} was not used: it is not later than the backup's account token, or is not signed by this organisation",
                path.display()
            )),
        }
    }
    if !args.offline {
        adopt_from_broker(&organisation, &lock, printer).await;
    }
    printer.print_hint(format_args!(
        "run `rpc org push --org {}`, and then revoke what is not in `rpc org list`",
        args.directory.display()
    ));
    Ok(CommandExitCode::Passed)
}

/// A broker that is not reachable is no error: it may be lost, too.
async fn adopt_from_broker(
    organisation: &Organisation,
    lock: &OrganisationLock,
    printer: &OutputPrinter,
) {
    match organisation.adopt_broker_tokens(lock).await {
        Ok(BrokerTokens { adopted, unknown }) => {
            for token in &adopted {
                print_adopted(token, printer);
            }
            for realm in &unknown {
                let account = account_name(*realm);
                printer.print_message(format_args!(
                    "{WARNING}the broker returned no account token of the {account}{WARNING:#}, so later revocations are unknown; take a newer account.jwt from any node: `--token FILE`"
                ));
            }
            if adopted.is_empty() && unknown.is_empty() {
                printer.print_message("the broker has no later account token than the backup");
            }
        }
        Err(error) => printer.print_message(format_args!(
            "{WARNING}the broker was not asked for later account tokens{WARNING:#}: {}; revocations after the backup are unknown until `rpc org push` reaches it, or a newer account.jwt is taken from any node: `--token FILE`",
            error_chain(&error)
        )),
    }
}

/// Who belongs to the account.
fn account_name(realm: AccountRealm) -> &'static str {
    match realm {
        AccountRealm::Fleet => "fleet",
        AccountRealm::Storage => "stores",
        AccountRealm::Newcomers => "machines that are not enrolled yet",
    }
}

fn print_adopted(token: &AdoptedToken, printer: &OutputPrinter) {
    let account = account_name(token.realm);
    printer.print_message(format_args!(
        "{GOOD}took over{GOOD:#} the account token of the {account}, signed at {}, with {} and {} that the backup lacks",
        format_time(token.issued_at),
        count_text(token.revocations, "revocation", "revocations"),
        count_text(token.signing_keys, "signing key", "signing keys"),
    ));
    if token.signing_keys > 0 {
        printer.print_hint(
            "the secret parts of these signing keys are lost: rotate the same keys again, see `rpc org rotate --help`",
        );
    }
}

/// Asks twice at a terminal: with a mistyped passphrase, the backup could not be decrypted.
async fn read_new_passphrase(args: &PassphraseArgs) -> Result<Zeroizing<String>, Error> {
    let passphrase = read_passphrase(args, "passphrase").await?;
    if args.passphrase_file.is_none() && io::stdin().is_terminal() {
        let again = read_passphrase(args, "the same again").await?;
        if *again != *passphrase {
            return Err(PromptError::PassphrasesDiffer.into());
        }
    }
    Ok(passphrase)
}

async fn read_passphrase(args: &PassphraseArgs, name: &str) -> Result<Zeroizing<String>, Error> {
    let Some(path) = &args.passphrase_file else {
        return Ok(Zeroizing::new(prompt_secret(name).await?));
    };
    let text = files::read_secret(path, MAX_FILE_BYTES)?;
    Ok(Zeroizing::new(text.lines().next().unwrap_or_default().to_owned()))
}
