# How loud a change is makes no difference to the report's events.
$w = '/parity-root'
file { "${w}/a": ensure => file, content => 'a', loglevel => debug }
notify { 'loud': loglevel => crit }
