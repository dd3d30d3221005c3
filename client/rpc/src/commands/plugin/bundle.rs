//! `rpc plugin pack`, `install` and `remove`: external agents as signed bundles. Speaks to nobody.

use std::fs::OpenOptions;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use muster_client::signer;
use muster_wire::bundle::{Authority, Bundle, BundleError, SIGN_TAG, pack as seal};
use muster_wire::identity::Name;
use muster_wire::limits;
use muster_wire::token::{PublicKey, Trust};

use crate::bundle::{BundleFileError, agent, gather, place, read};
use crate::cli::plugin::{Install, Pack, Remove};
use crate::clock;
use crate::commands::context::Context;
use crate::error::Error;
use crate::exit::Exit;
use crate::printer::GOOD;

/// In the daemon's state directory: the newest account token that it knows.
const KEPT_ACCOUNT: &str = "account.jwt";

/// Packs a directory. The bundle's path is printed as data.
pub fn pack(args: &Pack, cx: Context<'_>) -> Result<Exit, Error> {
    let (creds, account) = match (&args.creds, &args.account) {
        (Some(creds), Some(account)) => (creds.clone(), account.clone()),
        (creds, account) => {
            let settings = cx.settings()?;
            (
                creds.clone().unwrap_or(settings.credentials),
                account.clone().unwrap_or(settings.account),
            )
        }
    };
    let signer = signer(&creds).map_err(BundleFileError::from)?;
    let account = account_token(&account)?;
    let gathered = gather::gather(&args.directory)?;
    for path in &gathered.left_out {
        cx.printer
            .detail(format_args!("left out: {}", path.display()));
    }
    let name = gathered.agent(&args.directory)?;
    let files = gathered.contents();
    let borrowed = files.iter().map(|(path, file)| (path.as_str(), *file));
    let (_, version) = agent::check(&name, &borrowed.collect())?;
    let name = Name::parse(&name).map_err(BundleFileError::from)?;
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("{name}-{version}.bundle")));
    let bytes = seal(
        name.clone(),
        version.clone(),
        &files,
        &signer,
        &account,
        clock::now(),
    )
    .map_err(|source| refused(&args.directory, source))?;
    write(&output, &bytes)?;
    if !signer.claims().nats.tags.iter().any(|tag| tag == SIGN_TAG) {
        cx.printer.warn(format_args!(
            "the token of {} lacks the tag {SIGN_TAG}: only who gives --key {} will install this",
            signer.identity(),
            signer.public()
        ));
    }
    cx.printer.say(format_args!(
        "{GOOD}packed{GOOD:#} {name} {version}, {} files, signed by {}",
        files.len(),
        signer.identity()
    ));
    cx.printer.line(output.display())?;
    Ok(Exit::Passed)
}

/// Verifies a bundle, and puts it in place. Nothing is written before all of it is believed.
pub fn install(args: &Install, cx: Context<'_>) -> Result<Exit, Error> {
    let bytes = read(&args.file, limits::BUNDLE_BYTES)?;
    let void = |source| refused(&args.file, source);
    let bundle = Bundle::decode(&bytes).map_err(void)?;
    let known;
    let authority = if let Some(key) = args.key {
        Authority::Key(key)
    } else {
        let operator = match args.operator {
            Some(operator) => operator,
            None => cx.settings()?.operator,
        };
        known = newest_account(args, operator, cx)?;
        let account = Some(known.token());
        Authority::Operator { operator, account }
    };
    let now = clock::now();
    let open = bundle.open(&authority, now).map_err(void)?;
    let manifest = &open.manifest;
    let (_, version) = agent::check(manifest.name.as_str(), &bundle.files)?;
    if version != manifest.version {
        let what = format!(
            "its DDL is of version {version}, its manifest of {}",
            manifest.version
        );
        return Err(BundleFileError::Agent(what).into());
    }
    let before = place::install(&args.into, &open, now, args.downgrade)?;
    let (name, signer) = (&manifest.name, &open.signer);
    let what = before.map_or_else(String::new, |before| {
        format!(" in the place of {}", before.version)
    });
    cx.printer.say(format_args!(
        "{GOOD}installed{GOOD:#} {name} {version}{what}, signed by {} ({})",
        signer.identity, signer.key
    ));
    let directory = place::directory(&args.into, name);
    cx.printer.line(directory.display())?;
    let policy = format!("{name}.policy");
    if manifest.files.contains_key(&policy) {
        cx.printer.hint(format_args!(
            "its author suggests {} as a policy; it does nothing where it is",
            directory.join(policy).display()
        ));
    }
    Ok(Exit::Passed)
}

/// Removes what an installation put there.
pub fn remove(args: &Remove, cx: Context<'_>) -> Result<Exit, Error> {
    let installed =
        place::find(&args.from, &args.agent)?.ok_or_else(|| BundleFileError::NotInstalled {
            name: args.agent.to_string(),
            path: args.from.clone(),
        })?;
    let record = &installed.record;
    for file in place::changed(&installed)? {
        cx.printer
            .warn(format_args!("{file} since it was installed"));
    }
    let what = format!(
        "{} {} ({} files in {})",
        record.name,
        record.version,
        record.files.len(),
        installed.directory.display()
    );
    if !args.yes && !agreed(&what, cx)? {
        cx.printer.say("nothing was removed");
        return Ok(Exit::Local);
    }
    let left = place::remove(&installed)?;
    cx.printer.say(format_args!("{GOOD}removed{GOOD:#} {what}"));
    if !left.is_empty() {
        cx.printer.warn(format_args!(
            "{} stays, as no bundle put it there",
            left.join(", ")
        ));
    }
    Ok(Exit::Passed)
}

fn refused(path: &Path, source: BundleError) -> BundleFileError {
    let path = path.to_owned();
    BundleFileError::Refused { path, source }
}

/// The newest account token that is known on this machine: the given one, the configuration's, and the one that the daemon keeps up to date.
/// An older one could hide that the signer was revoked. A token that was named must be good; the others count if they are.
fn newest_account(
    args: &Install,
    operator: PublicKey,
    cx: Context<'_>,
) -> Result<Trust, BundleFileError> {
    let read = |path: &Path| {
        let token = account_token(path)?;
        Trust::new(operator, &token).map_err(|source| refused(path, BundleError::Account(source)))
    };
    let configured = cx.settings().ok().map(|settings| settings.account);
    let named = match &args.account {
        Some(path) => Some(read(path)?),
        None => None,
    };
    let places = configured
        .into_iter()
        .chain([args.state.join(KEPT_ACCOUNT)]);
    let found = places.filter_map(|path| read(&path).ok());
    let account = named.as_ref().map(Trust::account);
    let found = found.filter(|trust| account.is_none_or(|account| account == trust.account()));
    named
        .iter()
        .cloned()
        .chain(found)
        .max_by_key(Trust::issued_at)
        .ok_or_else(|| BundleFileError::NoAccount(args.state.clone()))
}

fn account_token(path: &Path) -> Result<String, BundleFileError> {
    let bytes = read(path, limits::TOKEN_BYTES)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// A bundle is no secret, and overwrites nothing.
fn write(path: &Path, bytes: &[u8]) -> Result<(), BundleFileError> {
    let failed = |source| BundleFileError::File {
        verb: "write",
        path: path.to_owned(),
        source,
    };
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(failed)?;
    file.write_all(bytes).map_err(failed)
}

/// Asks, and takes nothing but a clear yes for one.
fn agreed(what: &str, cx: Context<'_>) -> Result<bool, BundleFileError> {
    if !io::stdin().is_terminal() {
        return Err(BundleFileError::NobodyToAsk(what.to_owned()));
    }
    cx.printer.ask(format_args!("Remove {what}? [y/N]"));
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    Ok(read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes"))
}
