# Failed changes notify nobody; a file of which one change fails is failed.
#: file good 0644 old
$w = '/parity-root'
exec { 'fails': command => '/bin/false', notify => Exec['never'] }
exec { 'never': command => "/bin/sh -c 'echo never >> ${w}/log'", refreshonly => true }
file { "${w}/good": ensure => file, content => 'new', owner => 'nobody-of-that-name', notify => Exec['half'] }
exec { 'half': command => "/bin/sh -c 'echo half >> ${w}/log'", refreshonly => true }
