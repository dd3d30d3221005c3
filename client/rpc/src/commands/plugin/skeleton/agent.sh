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
    # The daemon sets MUSTER_ACTION to the authorised action, and MUSTER_REQUEST_ID to the request id. Never search the
    # request file for the action with text tools: a caller writes its inputs. Read inputs with a JSON parser: jq -r .data.NAME "$request"
    case ${MUSTER_ACTION:?run by the daemon only: it sets MUSTER_ACTION} in
@CASES@
        *) reply '{"statuscode": 2, "statusmsg": "unknown action", "data": {}}' ;;
    esac
    ;;
*)
    echo "unknown protocol $protocol" >&2
    exit 1
    ;;
esac
