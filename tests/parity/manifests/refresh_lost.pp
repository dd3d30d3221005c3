# The refresh that everybody else forgets: the target's other dependency fails in the first run.
#: file broken 0644 x
#: run
#: remove broken
#: run
#: run
$w = '/parity-root'
file { "${w}/pkg-x": ensure => file, content => "x-1.0\n" }
~> exec { 'Y': command => "/bin/sh -c 'echo Y >> ${w}/log'", refreshonly => true }
~> exec { 'Z': command => "/bin/sh -c 'echo Z >> ${w}/log'", refreshonly => true }
-> file { "${w}/service-x": ensure => file, content => "running\n" }
exec { 'site-definitions': command => "/usr/bin/test ! -e ${w}/broken", unless => "/usr/bin/test ! -e ${w}/broken", before => Exec['Y'] }
