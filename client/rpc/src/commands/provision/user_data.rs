//! `rpc provision user-data`: prints cloud user data that turns a new machine into a node at first boot.

use std::path::Path;

use muster_base::unix_millis_now;
use muster_display::printer::OutputPrinter;
use muster_display::time::format_time;
use muster_files::files;
use muster_organisation::cloud_init::{CONFIG_DIRECTORY, DaemonInstallMethod, PackageDownload};
use muster_organisation::enrol_script::render_enrol_script;
use muster_organisation::machines::MachineFile;
use muster_organisation::{AccountRealm, Organisation, OrganisationError, bundle, cloud_init};
use muster_wire::enrol::{NamePattern, TokenGrant};
use muster_wire::token::UserCredentials;
use muster_wire::token::claims::UserClaims;
use muster_wire::token::decode::{DecodedToken, decode_token};
use toml::{Table, Value};

use crate::commands::org::site::read_site;
use crate::commands::provision::args::{ConfigSetting, UserDataArgs};
use crate::session::context::{CommandContext, CommandExitCode, CommandResult, Result};

const MAX_CREDS_BYTES: u64 = 64 * 1024;
/// Limit of the strictest cloud for user data, in bytes.
const MAX_USER_DATA_BYTES: usize = 16 * 1024;
/// Name of the credentials file on the machine.
const BOOTSTRAP_FILE: &str = "bootstrap.creds";

pub fn run(args: &UserDataArgs, cx: CommandContext<'_>) -> CommandResult {
    let (organisation, printer) = (&cx.open_organisation(&args.organisation)?, cx.printer);
    let text = files::read_secret(&args.token, MAX_CREDS_BYTES).map_err(OrganisationError::from)?;
    check_token(&text, &args.token, organisation, printer)?;
    let install = match (&args.package_url, &args.sha256, &args.apt) {
        (Some(url), Some(sha256), _) => DaemonInstallMethod::Fetch(
            PackageDownload::new(url, sha256).map_err(OrganisationError::from)?,
        ),
        (_, _, Some(package)) => DaemonInstallMethod::Package(package.clone()),
        _ => DaemonInstallMethod::Image,
    };
    if args.shell {
        let script = render_enrol_script(&machine_files(args, &text, organisation)?, &install);
        printer.print_text(script)?;
        printer.print_hint("it contains the bootstrap token: pipe it to `sh` on the machine");
        return Ok(CommandExitCode::Passed);
    }
    let document =
        cloud_init::render_user_data(&machine_files(args, &text, organisation)?, &install)
            .map_err(OrganisationError::from)?;
    if document.len() > MAX_USER_DATA_BYTES {
        printer.print_warning(format_args!(
            "the user data has {} bytes, and some clouds accept at most {MAX_USER_DATA_BYTES}; compress it with gzip, which cloud-init supports",
            document.len()
        ));
    }
    printer.print_text(document)?;
    printer.print_hint("it contains the bootstrap token: give it to the cloud only");
    Ok(CommandExitCode::Passed)
}

/// Fails unless the token is a valid bootstrap token of this organisation at this time.
fn check_token(
    text: &str,
    path: &Path,
    organisation: &Organisation,
    printer: &OutputPrinter,
) -> Result<(), OrganisationError> {
    let creds = UserCredentials::parse(text)
        .map_err(|source| OrganisationError::Creds(path.to_owned(), source))?;
    let trust = organisation.realm_trust(AccountRealm::Newcomers)?;
    trust
        .verify_user(creds.jwt(), unix_millis_now())
        .map_err(|source| OrganisationError::Token(path.to_owned(), source))?;
    let claims = decode_token::<UserClaims>(creds.jwt()).and_then(DecodedToken::verify_signature);
    let tags = claims.map(|claims| claims.nats.tags).unwrap_or_default();
    let grant = TokenGrant::from_tags(&tags)?;
    let names: Vec<&str> = grant.names.iter().map(NamePattern::as_str).collect();
    let expiry = match creds.claims().exp {
        0 => "never expires".to_owned(),
        at => format!("expires {}", format_time(at)),
    };
    printer.print_message(format_args!("admits machines named {} ({expiry})", names.join(", ")));
    Ok(())
}

/// The files of the machine: its configuration, what it needs to enrol, and the site's files.
fn machine_files(
    args: &UserDataArgs,
    token: &str,
    organisation: &Organisation,
) -> Result<Vec<MachineFile>> {
    let newcomers = organisation.token_text(AccountRealm::Newcomers)?;
    let policy = format!(
        "# Allows only the service that provisions this machine.\n\
         policy default deny\nallow\tservice={}\t*\t*\t*\n",
        args.provisioner
    );
    let mut files = read_site(organisation)?;
    files.extend([
        MachineFile::public(bundle::name::NODE_CONFIG, node_config(args, organisation)?),
        MachineFile::secret(BOOTSTRAP_FILE, token),
        MachineFile::public(bundle::name::NEWCOMERS, newcomers),
        MachineFile::public("policies/provision.policy", policy),
    ]);
    let authority = organisation.authority_text()?;
    files.extend(authority.map(|text| MachineFile::public(bundle::name::AUTHORITY, text)));
    Ok(files.into_iter().map(|file| file.below(CONFIG_DIRECTORY)).collect())
}

/// `rpcd.toml`, with the values from the command line applied last.
fn node_config(
    args: &UserDataArgs,
    organisation: &Organisation,
) -> Result<String, OrganisationError> {
    let profile = organisation.profile();
    let mut table = Table::new();
    let urls = profile.broker.urls.iter().cloned().map(Value::String);
    let mut set = |key: &str, value: Value| set_dotted_key(&mut table, key, value);
    set("broker.urls", Value::Array(urls.collect()));
    if profile.broker.tls {
        set("broker.ca", Value::from(bundle::name::AUTHORITY));
    } else {
        set("broker.plaintext_on_loopback", Value::Boolean(true));
    }
    set("trust.operator", Value::String(profile.operator.to_string()));
    set("provisioning.credentials", Value::from(BOOTSTRAP_FILE));
    set("facts.cloud", Value::from("auto"));
    for ConfigSetting { key, value } in &args.settings {
        set(key, value.clone());
    }
    let body = toml::to_string(&table)
        .map_err(|error| OrganisationError::Format("the configuration", error.into()))?;
    Ok(format!(
        "# Configuration of rpcd on this machine. Paths are relative to this file.\n\n{body}"
    ))
}

/// Replaces values on the path that are not tables.
fn set_dotted_key(table: &mut Table, key: &str, value: Value) {
    let Some((first, rest)) = key.split_once('.') else {
        table.insert(key.to_owned(), value);
        return;
    };
    let subtable = table.entry(first.to_owned()).or_insert_with(|| Value::Table(Table::new()));
    if !subtable.is_table() {
        *subtable = Value::Table(Table::new());
    }
    if let Value::Table(subtable) = subtable {
        set_dotted_key(subtable, rest, value);
    }
}
