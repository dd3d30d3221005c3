# Checks run in noop too; the command does not.
#: run --noop
#: run
$w = '/parity-root'
exec { 'yes': command => "/bin/sh -c 'echo yes >> ${w}/log'", onlyif => "/bin/sh -c 'echo asked >> ${w}/asked'" }
exec { 'no': command => "/bin/sh -c 'echo no >> ${w}/log'", unless => "/bin/sh -c 'echo asked >> ${w}/asked'" }
