# The refresh itself fails; what depends on it is skipped in that run.
#: file broken 0644 x
#: run
#: remove broken
#: run
$w = '/parity-root'
file { "${w}/conf": ensure => file, content => 'c' }
~> exec { 'reload': command => "/bin/sh -c 'test ! -e ${w}/broken && echo reloaded >> ${w}/log'", refreshonly => true }
-> notify { 'reloaded': }
~> exec { 'after': command => "/bin/sh -c 'echo after >> ${w}/log'", refreshonly => true }
