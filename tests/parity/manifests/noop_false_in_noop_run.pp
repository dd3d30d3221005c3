# What says noop => false is changed even so.
#: run --noop
$w = '/parity-root'
file { "${w}/insists": ensure => file, content => 'x', noop => false }
file { "${w}/agrees": ensure => file, content => 'x' }
