# The target is never on schedule.
$w = '/parity-root'
schedule { 'shut': period => never }
file { "${w}/conf": ensure => file, content => 'c' }
~> exec { 'reload': command => "/bin/sh -c 'echo ran >> ${w}/log'", refreshonly => true, schedule => 'shut' }
