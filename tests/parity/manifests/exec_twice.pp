# An exec that is not refreshonly, notified in the same run, runs twice.
$w = '/parity-root'
file { "${w}/conf": ensure => file, content => 'c' }
~> exec { 'twice': command => "/bin/sh -c 'echo ran >> ${w}/log'" }
