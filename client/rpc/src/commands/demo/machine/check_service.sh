#!/bin/sh
# check_service SERVICE: a Nagios plugin. CRITICAL unless the service runs.
if "/etc/init.d/$1" status > /dev/null 2>&1; then
  echo "OK - $1 runs|running=1;;1:"
else
  echo "CRITICAL - $1 is stopped|running=0;;1:"
  exit 2
fi
