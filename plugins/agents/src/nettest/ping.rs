//! `ping`: runs the system's `ping` and parses its output. An unreachable host is a successful reply, not a failure.

use std::time::Duration;

use muster_api::system::Command;
use muster_api::{ActionError, BlockingContext, NoState};
use muster_contract::nettest::{NettestPingInput, NettestPingOutput};

use super::effective_timeout;

pub(crate) fn ping_host(
    _: &NoState,
    cx: &BlockingContext,
    input: NettestPingInput,
) -> Result<NettestPingOutput, ActionError> {
    // The host is passed as an argument, so it must not look like an option.
    if input.host.starts_with('-') {
        return Err(ActionError::invalid_input(format!(
            "`{}` is not a host name or address",
            input.host
        )));
    }
    let count = input.count.clamp(1, 10);
    let wait = input.timeout.clamp(1, 10);
    let limit = effective_timeout(cx, u64::from(count).saturating_mul(wait).saturating_add(2));
    let mut command =
        Command::new(["ping", "-n", "-c", &count.to_string(), "-W", &wait.to_string()]);
    command.argv.push(input.host);
    command.timeout = Some(limit.max(Duration::from_secs(1)));
    command.cancel = cx.cancel_flag.clone();
    let output = cx.system.run_command(&command)?;
    let text = output.combined_text();
    parse_ping_output(&text).ok_or_else(|| {
        let first_line = text.lines().find(|line| !line.is_empty()).unwrap_or_default();
        ActionError::failed(format!("`ping` ended with code {}: {first_line}", output.code))
    })
}

/// Parses the summary that the `ping` programs of iputils and busybox print.
fn parse_ping_output(text: &str) -> Option<NettestPingOutput> {
    let summary = text.lines().find(|line| line.contains("packets transmitted"))?;
    let number = |word: &str| -> Option<u32> {
        let part = summary.split(',').find(|part| part.contains(word))?;
        part.split_ascii_whitespace().next()?.parse().ok()
    };
    let (sent, received) = (number("transmitted")?, number("received")?);
    let times = text.lines().find(|line| line.contains("min/avg/max"));
    let rtt = times.and_then(|line| {
        let (_, values) = line.split_once('=')?;
        values.split('/').nth(1)?.trim().parse().ok()
    });
    Some(NettestPingOutput { alive: received > 0, sent, received, rtt })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{NettestPingOutput, parse_ping_output};

    #[test]
    fn parses_iputils_and_busybox() {
        let iputils = "PING ::1 (::1) 56 data bytes\n64 bytes from ::1: icmp_seq=1 ttl=64 time=0.040 ms\n\n\
                       --- ::1 ping statistics ---\n2 packets transmitted, 1 received, 50% packet loss, time 1001ms\n\
                       rtt min/avg/max/mdev = 0.040/0.045/0.051/0.005 ms\n";
        let expected = NettestPingOutput { alive: true, sent: 2, received: 1, rtt: Some(0.045) };
        assert_eq!(parse_ping_output(iputils), Some(expected));
        let busybox = "--- 192.0.2.1 ping statistics ---\n3 packets transmitted, 0 packets received, 100% packet loss\n";
        let expected = NettestPingOutput { alive: false, sent: 3, received: 0, rtt: None };
        assert_eq!(parse_ping_output(busybox), Some(expected));
        assert_eq!(parse_ping_output("ping: nowhere: Name or service not known\n"), None);
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(text in "(\\PC|packets transmitted|,|=|/|min/avg/max){0,40}") {
            let _ = parse_ping_output(&text);
        }
    }
}
