# Resources that wait for each other: nothing is applied.
$w = '/parity-root'
file { "${w}/a": ensure => file, require => File["${w}/b"] }
file { "${w}/b": ensure => file, require => File["${w}/a"] }
file { "${w}/free": ensure => file }
