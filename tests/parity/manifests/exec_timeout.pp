# A command that takes too long is a failure.
#: run
$w = '/parity-root'
exec { 'slow': command => '/bin/sleep 30', timeout => 1 }
-> notify { 'after': }
