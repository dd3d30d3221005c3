# Unrelated resources keep the order of the catalog.
$w = '/parity-root'
notify { 'z': }
exec { 'a': command => '/bin/true' }
notify { 'm': }
file { "${w}/b": ensure => file }
notify { 'y': require => Notify['last'] }
notify { 'c': before => Notify['first'] }
notify { 'first': }
notify { 'last': }
