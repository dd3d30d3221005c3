# What a command says is for the log; the report says the same with and without.
$w = '/parity-root'
exec { 'loud': command => '/bin/echo loud', logoutput => true }
exec { 'silent': command => '/bin/echo silent', logoutput => false }
exec { 'failing': command => "/bin/sh -c 'echo why; exit 2'", logoutput => on_failure }
