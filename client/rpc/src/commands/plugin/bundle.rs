//! `rpc plugin pack`, `install` and `remove`: manages external agents as signed bundles. Sends no requests.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use muster_base::unix_millis_now;
use muster_calls::load_signer;
use muster_client::FleetRequestError;
use muster_display::count_text;
use muster_display::printer::GOOD;
use muster_operations::bundle::{
    self as bundle_files, BundleArchive, BundleError, BundleFileError, BundleSignerTrust,
    PLUGIN_SIGN_TAG, check_agent_files, collect_bundle_files,
};
use muster_wire::identity::SubjectName;
use muster_wire::limits;
use muster_wire::token::{AccountTrust, PublicKey};

use muster_files::files::{self, FileAccessError};

use crate::commands::plugin::args::{PluginInstallArgs, PluginPackArgs, PluginRemoveArgs};
use crate::session::context::{
    CommandContext, CommandError, CommandExitCode, CommandResult, Result,
};
use crate::session::form::confirm_on_terminal;

/// The newest account token known to the daemon, in its state directory.
const ACCOUNT_TOKEN_FILE: &str = "account.jwt";

/// Why a bundle is neither installed nor removed.
#[derive(Debug, thiserror::Error)]
pub enum BundleCommandError {
    /// Without an account token revocations cannot be checked.
    #[error("no account token of the operator was found, so revoked signers are unknown: none was given, none is configured, and {} contains none", .0.display())]
    NoAccount(PathBuf),
    #[error(
        "cannot ask for confirmation to remove {0}: standard input is not a terminal, and `--yes` was not given"
    )]
    NoTerminal(String),
}

impl CommandError for BundleCommandError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::NoAccount(_) => vec![
                "specify the newest account token with `--account`, or the node's state directory with `--state`".to_owned(),
            ],
            Self::NoTerminal(_) => Vec::new(),
        }
    }

    fn exit_code(&self) -> CommandExitCode {
        match self {
            Self::NoAccount(_) => CommandExitCode::Local,
            Self::NoTerminal(_) => CommandExitCode::Usage,
        }
    }
}

/// Prints the path of the bundle as data.
pub fn pack_bundle(args: &PluginPackArgs, cx: CommandContext<'_>) -> CommandResult {
    let (creds, account) = match (&args.creds, &args.account) {
        (Some(creds), Some(account)) => (creds.clone(), account.clone()),
        (creds, account) => {
            let settings = cx.load_settings()?;
            let creds = creds.as_ref().unwrap_or(&settings.credentials);
            (creds.clone(), account.as_ref().unwrap_or(&settings.account).clone())
        }
    };
    let signer = load_signer(&creds).map_err(FleetRequestError::from)?;
    let account = account_token(&account).map_err(BundleFileError::from)?;
    let collected = collect_bundle_files(&args.directory)?;
    for path in &collected.left_out {
        cx.printer.print_detail(format_args!("left out: {}", path.display()));
    }
    let name = collected.agent_name(&args.directory)?;
    let files = collected.contents();
    let (_, version) = check_agent_files(&name, &files)?;
    let name = SubjectName::parse(&name).map_err(BundleFileError::from)?;
    let output =
        args.output.clone().unwrap_or_else(|| PathBuf::from(format!("{name}-{version}.bundle")));
    let bytes = bundle_files::pack_bundle(
        name.clone(),
        version.clone(),
        &files,
        &signer,
        &account,
        unix_millis_now(),
    )
    .map_err(|source| refused_error(&args.directory, source))?;
    write_bundle(&output, &bytes)?;
    if !signer.claims().nats.tags.iter().any(|tag| tag == PLUGIN_SIGN_TAG) {
        cx.printer.print_warning(format_args!(
            "the token of {} lacks the tag {PLUGIN_SIGN_TAG}: the bundle can be installed only with `--key {}`",
            signer.identity(),
            signer.public_key()
        ));
    }
    let (files, identity) = (count_text(files.len(), "file", "files"), signer.identity());
    cx.printer.print_message(format_args!(
        "{GOOD}packed{GOOD:#} {name} {version}, {files}, signed by {identity}"
    ));
    cx.printer.print_line(output.display())?;
    Ok(CommandExitCode::Passed)
}

/// Writes nothing before the whole bundle is verified.
pub fn install_bundle(args: &PluginInstallArgs, cx: CommandContext<'_>) -> CommandResult {
    let bytes =
        files::read_bytes(&args.file, limits::MAX_BUNDLE_BYTES).map_err(BundleFileError::from)?;
    let to_error = |source| refused_error(&args.file, source);
    let bundle = BundleArchive::decode(&bytes).map_err(to_error)?;
    let account_trust;
    let authority = if let Some(key) = args.key {
        BundleSignerTrust::Key(key)
    } else {
        let configured = || cx.load_settings().map(|settings| settings.operator);
        let operator = args.operator.map_or_else(configured, Ok)?;
        account_trust = newest_account(args, operator, cx)?;
        let account = Some(account_trust.account_token());
        BundleSignerTrust::Operator { operator, account }
    };
    let now = unix_millis_now();
    let verified = bundle.verify_contents(&authority, now).map_err(to_error)?;
    let manifest = &verified.manifest;
    let (_, version) = check_agent_files(manifest.name.as_str(), &bundle.files)?;
    if version != manifest.version {
        let declared = &manifest.version;
        return Err(BundleFileError::Agent(format!(
            "the version of its DDL is {version}, but that of its manifest is {declared}"
        ))
        .into());
    }
    let previous = bundle_files::install_bundle(&args.into, &verified, now, args.downgrade)?;
    let (name, signer) = (&manifest.name, &verified.signer);
    let replaced =
        previous.map_or_else(String::new, |previous| format!(" instead of {}", previous.version));
    cx.printer.print_message(format_args!(
        "{GOOD}installed{GOOD:#} {name} {version}{replaced}, signed by {} ({})",
        signer.identity, signer.key
    ));
    let directory = bundle_files::bundle_directory(&args.into, name);
    cx.printer.print_line(directory.display())?;
    let policy = format!("{name}.policy");
    if manifest.files.contains_key(&policy) {
        cx.printer.print_hint(format_args!(
            "the bundle contains the suggested policy {}; it has no effect until you copy it to `paths.policies`",
            directory.join(policy).display()
        ));
    }
    Ok(CommandExitCode::Passed)
}

pub fn remove_bundle(args: &PluginRemoveArgs, cx: CommandContext<'_>) -> CommandResult {
    let installed = bundle_files::find_installed(&args.from, &args.agent)?
        .ok_or_else(|| BundleFileError::NotInstalled(args.agent.clone(), args.from.clone()))?;
    let record = &installed.record;
    for file in bundle_files::changed_files(&installed)? {
        cx.printer.print_warning(format_args!("{file} since it was installed"));
    }
    let (files, directory) = (record.files.len(), installed.directory.display());
    let files = count_text(files, "file", "files");
    let description = format!("{} {} ({files} in {directory})", record.name, record.version);
    let no_terminal = || BundleCommandError::NoTerminal(description.clone());
    let question = format_args!("Remove {description}? [y/N]");
    if !args.yes && !confirm_on_terminal(question, cx.printer).ok_or_else(no_terminal)? {
        cx.printer.print_message("nothing was removed");
        return Ok(CommandExitCode::Local);
    }
    let remaining = bundle_files::remove_bundle(&installed)?;
    cx.printer.print_message(format_args!("{GOOD}removed{GOOD:#} {description}"));
    if !remaining.is_empty() {
        cx.printer.print_warning(format_args!(
            "not removed, because not installed from the bundle: {}",
            remaining.join(", ")
        ));
    }
    Ok(CommandExitCode::Passed)
}

fn refused_error(path: &Path, source: BundleError) -> BundleFileError {
    BundleFileError::Refused(path.to_owned(), source)
}

/// The newest account token known on this machine: the given one, the configured one, or the one that the daemon keeps up to date. An older
/// token could lack the signer's revocation. A given token must be valid; the others are used only if they are valid.
fn newest_account(
    args: &PluginInstallArgs,
    operator: PublicKey,
    cx: CommandContext<'_>,
) -> Result<AccountTrust> {
    let read_trust = |path: &Path| -> Result<AccountTrust, BundleFileError> {
        let token = account_token(path)?;
        AccountTrust::new(operator, &token)
            .map_err(|source| refused_error(path, BundleError::Account(source)))
    };
    let configured = cx.load_settings().ok().map(|settings| settings.account.clone());
    let given = args.account.as_deref().map(read_trust).transpose()?;
    let paths = configured.into_iter().chain([args.state.join(ACCOUNT_TOKEN_FILE)]);
    let found = paths.filter_map(|path| read_trust(&path).ok());
    let account = given.as_ref().map(AccountTrust::account_key);
    let found = found.filter(|trust| account.is_none_or(|account| account == trust.account_key()));
    let all = given.iter().cloned().chain(found);
    let newest = all.reduce(|newest, other| newest.newest(&other));
    newest.ok_or_else(|| BundleCommandError::NoAccount(args.state.clone()).into())
}

fn account_token(path: &Path) -> Result<String, FileAccessError> {
    let bytes = files::read_bytes(path, limits::MAX_TOKEN_BYTES)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// Writes a bundle with default permissions, because it is not secret. Fails if the file exists.
fn write_bundle(path: &Path, bytes: &[u8]) -> Result<(), BundleFileError> {
    let written = OpenOptions::new().write(true).create_new(true).open(path);
    let written = written.and_then(|mut file| file.write_all(bytes));
    Ok(written.map_err(files::file_error("write", path))?)
}
