#!/bin/sh
# Runs @AGENT@ as the daemon does, through files, and looks at its replies.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
files=$(mktemp -d)
trap 'rm -r "$files"' EXIT
protocol=io.choria.mcorpc.external.v1

expect() { # KIND REQUEST WHAT-THE-REPLY-CONTAINS
    printf '%s\n' "$2" > "$files/request"
    : > "$files/reply"
    "$here/@AGENT@" "$files/request" "$files/reply" "$protocol.$1"
    grep -q "$3" "$files/reply" || { echo "$2: no $3 in $(cat "$files/reply")" >&2; exit 1; }
}

expect activation_request '{"agent":"@AGENT@"}' '"activate": true'
for action in @ACTIONS@; do
    expect rpc_request '{"agent":"@AGENT@","action":"'"$action"'","data":{}}' '"statuscode": 0'
done
expect rpc_request '{"agent":"@AGENT@","action":"nosuchaction","data":{}}' '"statuscode": 2'
echo "@AGENT@ passes"
