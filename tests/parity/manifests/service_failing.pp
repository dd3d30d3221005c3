# A service that does not start, and one that does not restart.
$w = '/parity-root'
service { 'no-start': ensure => running, provider => base, start => '/bin/false', stop => '/bin/true', status => '/bin/false' }
-> notify { 'after no-start': }
file { "${w}/conf": ensure => file, content => 'c' }
~> service { 'no-restart': ensure => running, provider => base, start => '/bin/true', stop => '/bin/true', restart => '/bin/false', status => '/bin/true' }
-> notify { 'after no-restart': }
