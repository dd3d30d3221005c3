#!/bin/sh
# Runs @AGENT@ as the daemon does, with request and reply files, and checks its replies.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
files=$(mktemp -d)
trap 'rm -r "$files"' EXIT
protocol=io.choria.mcorpc.external.v1

expect() { # KIND ACTION REQUEST WHAT-THE-REPLY-CONTAINS
    printf '%s\n' "$3" > "$files/request"
    : > "$files/reply"
    MUSTER_ACTION=$2 "$here/@AGENT@" "$files/request" "$files/reply" "$protocol.$1"
    grep -q "$4" "$files/reply" || { echo "$3: no $4 in $(cat "$files/reply")" >&2; exit 1; }
}

expect activation_request '' '{"agent":"@AGENT@"}' '"activate": true'
for action in @ACTIONS@; do
    expect rpc_request "$action" '{"agent":"@AGENT@","action":"'"$action"'","data":{}}' '"statuscode": 0'
done
expect rpc_request nosuchaction '{"agent":"@AGENT@","action":"nosuchaction","data":{}}' '"statuscode": 2'
echo "@AGENT@ passes"
