#!/bin/sh
# @AGENT@: an external agent. The daemon runs it once for each request: AGENT REQUEST-FILE REPLY-FILE PROTOCOL.
set -eu
request=$1 reply_file=$2 protocol=$3

reply() { printf '%s\n' "$1" > "$reply_file"; }

case $protocol in
*.activation_request)
    # Whether this node should offer the agent.
    reply '{"activate": true}'
    ;;
*.rpc_request)
    # An action's name has only letters, digits and _; inputs (.data) are better read with jq.
    action=$(sed -n 's/.*"action": *"\([a-z0-9_]*\)".*/\1/p' "$request")
    case $action in
@CASES@
        *) reply '{"statuscode": 2, "statusmsg": "no such action", "data": {}}' ;;
    esac
    ;;
*)
    echo "unknown protocol $protocol" >&2
    exit 1
    ;;
esac
