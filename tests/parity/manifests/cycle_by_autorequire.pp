# An automatic relation gives way to one that is asked for.
$w = '/parity-root'
file { "${w}/d": ensure => directory, require => File["${w}/d2"] }
file { "${w}/d2": ensure => file, content => 'x' }
file { "${w}/p": ensure => directory }
file { "${w}/p/f": ensure => file, before => Notify['x'] }
notify { 'x': before => Notify['y'] }
notify { 'y': }
