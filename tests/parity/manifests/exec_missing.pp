# A command that is not there, with path and without, and one that may not be executed.
#: file plain 0644 x
$w = '/parity-root'
exec { 'absolute': command => '/no/such/command' }
exec { 'searched': command => 'no-such-command', path => '/bin:/usr/bin' }
exec { 'not executable': command => "${w}/plain" }
