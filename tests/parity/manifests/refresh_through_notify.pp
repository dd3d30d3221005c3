# A notify is always a change, and its refresh is nothing; what it notifies is refreshed in each run.
$w = '/parity-root'
notify { 'said': message => 'hello' }
~> exec { 'told': command => "/bin/sh -c 'echo told >> ${w}/log'", refreshonly => true }
file { "${w}/conf": ensure => file, content => 'c' }
~> notify { 'heard': }
