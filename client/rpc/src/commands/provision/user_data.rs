//! `rpc provision user-data`: prints what a new machine is started with, so that it becomes a node by itself.

use std::path::Path;

use muster_wire::enrol::{NamePattern, Ticket};
use muster_wire::token::Creds;
use muster_wire::token::claims::User;
use muster_wire::token::decode::{Decoded, decode};
use toml::{Table, Value};

use crate::cli::provision::{Setting, UserData};
use crate::clock;
use crate::cloud_init::{self, DIRECTORY, Fetch, File, Install};
use crate::error::Error;
use crate::exit::Exit;
use crate::files;
use crate::organisation::{Organisation, OrganisationError, Realm, bundle};
use crate::printer::Printer;

/// Largest credentials file that is read.
const CREDS_BYTES: u64 = 64 * 1024;
/// What the strictest of the clouds takes as user data, in bytes.
const USER_DATA_BYTES: usize = 16 * 1024;
/// The file on the machine that holds the token.
const BOOTSTRAP: &str = "bootstrap.creds";

/// Runs it.
pub fn run(args: &UserData, organisation: &Organisation, printer: &Printer) -> Result<Exit, Error> {
    let text = files::read_secret(&args.token, CREDS_BYTES).map_err(OrganisationError::from)?;
    check(&text, &args.token, organisation, printer)?;
    let install = match (&args.package_url, &args.sha256, &args.apt) {
        (Some(url), Some(sha256), _) => {
            Install::Fetch(Fetch::new(url, sha256).map_err(OrganisationError::from)?)
        }
        (_, _, Some(package)) => Install::Package(package.clone()),
        _ => Install::Image,
    };
    let document = cloud_init::document(&machine(args, &text, organisation)?, &install);
    if document.len() > USER_DATA_BYTES {
        printer.warn(format_args!(
            "this is {} bytes long, and some clouds take {USER_DATA_BYTES}; most compress well with gzip, which cloud-init reads",
            document.len()
        ));
    }
    printer.text(document)?;
    printer.hint("it holds the bootstrap token: give it to the cloud, and to nobody else");
    Ok(Exit::Passed)
}

/// Whether the token is one that could let a machine in here, now.
fn check(
    text: &str,
    path: &Path,
    organisation: &Organisation,
    printer: &Printer,
) -> Result<(), OrganisationError> {
    let creds = Creds::parse(text).map_err(|source| OrganisationError::Creds {
        path: path.to_owned(),
        source,
    })?;
    let trust = organisation.trust_of(Realm::Newcomers)?;
    trust
        .verify_user(creds.jwt(), clock::now())
        .map_err(|source| OrganisationError::Token {
            path: path.to_owned(),
            source,
        })?;
    let claims = decode::<User>(creds.jwt()).and_then(Decoded::verify);
    let tags = claims.map(|claims| claims.nats.tags).unwrap_or_default();
    let ticket = Ticket::of(&tags)?;
    let names: Vec<&str> = ticket.names.iter().map(NamePattern::as_str).collect();
    let until = match creds.claims().exp {
        0 => "without end".to_owned(),
        at => format!("until {}", clock::written(at)),
    };
    printer.say(format_args!("lets in {}, {until}", names.join(", ")));
    Ok(())
}

/// The files of the machine.
fn machine(
    args: &UserData,
    token: &str,
    organisation: &Organisation,
) -> Result<Vec<File>, OrganisationError> {
    let file = |name: &str, mode, content| File {
        path: format!("{DIRECTORY}/{name}"),
        mode,
        content,
    };
    let mut made = vec![
        file(
            bundle::name::NODE_CONFIG,
            0o644,
            config(args, organisation)?,
        ),
        file(BOOTSTRAP, 0o600, token.to_owned()),
        file(
            bundle::name::NEWCOMERS,
            0o644,
            organisation.token_text(Realm::Newcomers)?,
        ),
    ];
    if let Some(authority) = organisation.authority_text()? {
        made.push(file(bundle::name::AUTHORITY, 0o644, authority));
    }
    let policy = format!(
        "# The service that provisions this machine, and nobody else.\n\
         policy default deny\nallow\t{}\t*\t*\t*\n",
        args.provisioner
    );
    made.push(file("policies/provision.policy", 0o644, policy));
    Ok(made)
}

/// `rpcd.toml`, with what was said on the command line on top.
fn config(args: &UserData, organisation: &Organisation) -> Result<String, OrganisationError> {
    let profile = organisation.profile();
    let mut table = Table::new();
    let urls = profile.broker.urls.iter().cloned().map(Value::String);
    let mut set = |key: &str, value: Value| put(&mut table, key, value);
    set("broker.urls", Value::Array(urls.collect()));
    if profile.broker.tls {
        set("broker.ca", Value::from(bundle::name::AUTHORITY));
    } else {
        set("broker.plaintext_on_loopback", Value::Boolean(true));
    }
    set(
        "trust.operator",
        Value::String(profile.operator.to_string()),
    );
    set("provisioning.credentials", Value::from(BOOTSTRAP));
    set("facts.cloud", Value::from("auto"));
    for Setting { key, value } in &args.settings {
        set(key, value.clone());
    }
    let body = toml::to_string(&table).map_err(|error| OrganisationError::Format {
        what: "the configuration",
        source: error.into(),
    })?;
    Ok(format!(
        "# Configuration of rpcd on this machine. Paths are relative to this file.\n\n{body}"
    ))
}

/// Sets a dotted key; what stands in its way goes.
fn put(table: &mut Table, key: &str, value: Value) {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
        }
        Some((first, rest)) => {
            let below = table
                .entry(first.to_owned())
                .or_insert_with(|| Value::Table(Table::new()));
            if !below.is_table() {
                *below = Value::Table(Table::new());
            }
            if let Value::Table(below) = below {
                put(below, rest, value);
            }
        }
    }
}
