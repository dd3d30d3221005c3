# An exec waits for its directory and for the files in its command and its checks.
$w = '/parity-root'
exec { 'in directory': command => '/bin/pwd', cwd => "${w}/d" }
exec { "${w}/script": }
exec { 'checked': command => '/bin/true', onlyif => "${w}/check" }
file { "${w}/check": ensure => file, content => "#!/bin/sh\nexit 0\n", mode => '0755' }
file { "${w}/script": ensure => file, content => "#!/bin/sh\nexit 0\n", mode => '0755' }
file { "${w}/d": ensure => directory }
