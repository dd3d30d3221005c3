//! `rpcd ssh-principals`: sshd's `AuthorizedPrincipalsCommand`. Asks the running daemon whether the holder of a certificate may log in as a user.
//!
//! It prints a principal only if the daemon accepts the login. Whatever else happens, it prints none and fails, so sshd refuses the certificate.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Shutdown};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use muster_contract::ssh::LOGIN_SOCKET_PATH;
use muster_sshcert::{LoginAnswer, LoginQuery, MAX_CERTIFICATE_BYTES, MAX_LOGIN_MESSAGE_BYTES};

/// Time limit of writing the query, and of the answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// What `rpcd ssh-principals` takes.
#[derive(Debug, Args)]
#[command(after_help = "\
In sshd_config:
  AuthorizedPrincipalsCommand /usr/sbin/rpcd ssh-principals %u %k
  AuthorizedPrincipalsCommandUser root

Exit codes: 0 accepted, the principal is printed; 1 refused, or the daemon does
not answer; 2 wrong arguments.")]
pub struct SshPrincipalsArgs {
    /// The user of the machine (%u)
    user: String,
    /// The certificate in base64 (%k)
    certificate: String,
    /// The connection (%C, where the manual of sshd lists it); its first word, the client's address, is recorded
    #[arg(long, value_name = "CONNECTION")]
    connection: Option<String>,
    /// The socket of the daemon
    #[arg(long, value_name = "FILE", default_value = LOGIN_SOCKET_PATH)]
    socket: PathBuf,
}

#[expect(clippy::print_stdout, reason = "the principal is this command's output")]
pub fn ask_daemon(args: &SshPrincipalsArgs) -> anyhow::Result<ExitCode> {
    if args.certificate.len() > MAX_CERTIFICATE_BYTES {
        bail!("the certificate has more than {MAX_CERTIFICATE_BYTES} bytes");
    }
    let query = LoginQuery {
        user: args.user.clone(),
        certificate: args.certificate.clone(),
        source: args.connection.as_deref().and_then(client_address),
    };
    match ask(args, &query)? {
        LoginAnswer::Principal(principal) => println!("{principal}"),
        LoginAnswer::Refused(reason) => bail!("refused: {reason}"),
    }
    Ok(ExitCode::SUCCESS)
}

fn ask(args: &SshPrincipalsArgs, query: &LoginQuery) -> anyhow::Result<LoginAnswer> {
    let socket = args.socket.display();
    let mut stream = UnixStream::connect(&args.socket).with_context(|| {
        format!(
            "cannot ask the daemon at {socket}; is rpcd running, with [plugins.ssh] logins = true?"
        )
    })?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    let failed = || format!("the daemon at {socket} did not answer");
    stream.write_all(&serde_json::to_vec(query)?).with_context(failed)?;
    stream.shutdown(Shutdown::Write).with_context(failed)?;
    let mut answer = Vec::new();
    let limit = u64::try_from(MAX_LOGIN_MESSAGE_BYTES).unwrap_or(u64::MAX);
    stream.take(limit).read_to_end(&mut answer).with_context(failed)?;
    serde_json::from_slice(&answer).with_context(failed)
}

/// The client's address: the first of the four words of `%C`.
fn client_address(connection: &str) -> Option<IpAddr> {
    connection.split_whitespace().next()?.parse().ok()
}
