# A change travels through two refreshes.
$w = '/parity-root'
file { "${w}/a": ensure => file, content => 'a' }
~> exec { 'B': command => "/bin/sh -c 'echo B >> ${w}/log'", refreshonly => true }
~> exec { 'C': command => "/bin/sh -c 'echo C >> ${w}/log'", refreshonly => true }
-> file { "${w}/d": ensure => file, content => 'd' }
