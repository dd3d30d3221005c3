#!/bin/sh
# A service of a demonstration node: a process that runs until it is stopped. It logs the lines that are written to its pipe.
name=${0##*/}
log() { echo "$(date -u +%Y-%m-%dT%H:%M:%SZ) $name[$$]: $*"; }
pipe=/run/$name.pipe
[ -p "$pipe" ] || mkfifo "$pipe" || exit 1
log "started"
while read -r line; do log "$line"; done <>"$pipe"
