# A check that takes too long: Puppet says an error and takes the resource to be as desired.
#: run
$w = '/parity-root'
exec { 'slow check': command => "/bin/sh -c 'echo ran >> ${w}/log'", unless => '/bin/sleep 20', timeout => 1 }
-> notify { 'after': }
