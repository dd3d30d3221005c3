# The target is noop: it says that it would have been refreshed, and so does what comes after it.
$w = '/parity-root'
file { "${w}/conf": ensure => file, content => 'c' }
~> exec { 'target': command => "/bin/sh -c 'echo ran >> ${w}/log'", refreshonly => true, noop => true }
~> exec { 'next': command => "/bin/sh -c 'echo next >> ${w}/log'", refreshonly => true }
