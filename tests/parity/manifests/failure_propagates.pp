# What depends on a failure is skipped, however far; what does not goes on.
$w = '/parity-root'
exec { 'bad': command => '/bin/false' }
-> file { "${w}/one": ensure => file }
-> file { "${w}/two": ensure => file }
~> exec { 'three': command => '/bin/true', refreshonly => true }
file { "${w}/free": ensure => file }
file { "${w}/child": ensure => directory, require => Exec['bad'] }
file { "${w}/child/autorequires": ensure => file }
