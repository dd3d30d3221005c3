# What a resource brings with it carries its tags.
#: file d/a 0600 a
#: run --tags deep
$w = '/parity-root'
file { "${w}/d": ensure => directory, recurse => true, mode => '0644', tag => 'deep' }
