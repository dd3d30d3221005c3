//! `rpc org push`: gives the account's token to the running broker, makes the fleet's stores, and writes the token into them.

use crate::clock;
use crate::diagnostics::chain;
use crate::error::Error;
use crate::exit::Exit;
use crate::organisation::{Organisation, Realm};
use crate::printer::{GOOD, Printer};

/// Runs it.
pub async fn run(
    organisation: &Organisation,
    replicas: u8,
    printer: &Printer,
) -> Result<Exit, Error> {
    refresh(organisation, printer)?;
    give_tokens(organisation, printer).await?;
    match organisation
        .declare_stores(replicas.into(), clock::now())
        .await
    {
        Ok(()) => {
            printer.say(format_args!(
                "{GOOD}made{GOOD:#} the stores for run permits and provisioning, where they were missing"
            ));
            names(organisation, printer).await?;
            renew(organisation, printer).await?;
        }
        Err(error) => printer.warn(format_args!(
            "no stores for run permits and provisioning: {}",
            chain(&error)
        )),
    }
    publish(organisation, printer).await;
    Ok(Exit::Passed)
}

/// Signs the tokens of accounts again whose permissions are those of another version.
fn refresh(organisation: &Organisation, printer: &Printer) -> Result<(), Error> {
    let lock = organisation.lock()?;
    for realm in organisation.refresh_scopes(&lock, clock::now())? {
        let account = match realm {
            Realm::Fleet => "fleet",
            Realm::Newcomers => "newcomers",
        };
        printer.say(format_args!(
            "{GOOD}signed{GOOD:#} the account token of the {account} again, with the permissions of this version"
        ));
    }
    Ok(())
}

/// Writes the names that were issued here for the enroller. A key that was given a token after it was revoked is revoked again.
async fn names(organisation: &Organisation, printer: &Printer) -> Result<(), Error> {
    let lock = organisation.lock()?;
    let now = clock::now();
    let outdated = organisation.push_names(&organisation.trust()?, now).await?;
    if outdated.is_empty() {
        return Ok(());
    }
    organisation.revoke(&lock, Realm::Fleet, &outdated, now)?;
    drop(lock);
    for (key, _) in &outdated {
        printer.warn(format_args!(
            "{key} was enrolled again before its revocation reached the broker; revoked once more"
        ));
    }
    token(organisation, printer).await.map(drop)
}

/// Renews the tokens of nodes that have used a third of their life.
async fn renew(organisation: &Organisation, printer: &Printer) -> Result<(), Error> {
    let lock = organisation.lock()?;
    let renewed = organisation.renew_tokens(&lock, clock::now()).await?;
    match renewed.as_slice() {
        [] => {}
        [node] => printer.say(format_args!("{GOOD}renewed{GOOD:#} the token of {node}")),
        nodes => printer.say(format_args!(
            "{GOOD}renewed{GOOD:#} the tokens of {} nodes",
            nodes.len()
        )),
    }
    Ok(())
}

/// Gives the tokens to the broker, and the fleet's to its nodes and callers.
pub async fn token(organisation: &Organisation, printer: &Printer) -> Result<Exit, Error> {
    give_tokens(organisation, printer).await?;
    publish(organisation, printer).await;
    Ok(Exit::Passed)
}

/// Writes the fleet's token where nodes and callers read it. A broker without that bucket still refuses revoked parties itself.
async fn publish(organisation: &Organisation, printer: &Printer) {
    if let Err(error) = organisation.publish_account(clock::now()).await {
        printer.warn(format_args!(
            "nodes and callers do not learn the account's token: {}",
            chain(&error)
        ));
        printer.hint("the broker needs JetStream; `rpc org push` makes the stores");
    }
}

async fn give_tokens(organisation: &Organisation, printer: &Printer) -> Result<(), Error> {
    organisation.push(clock::now()).await?;
    let urls = organisation.profile().broker.urls.join(", ");
    printer.say(format_args!(
        "{GOOD}pushed{GOOD:#} the account's token to {urls}"
    ));
    Ok(())
}
