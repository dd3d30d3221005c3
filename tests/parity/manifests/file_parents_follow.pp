# A file waits for its parent directory even if it is named first; and for a grandparent if that is all there is.
$w = '/parity-root'
file { "${w}/p/f": ensure => file, content => 'f' }
file { "${w}/p": ensure => directory }
file { "${w}/q/r/f": ensure => file, content => 'f' }
file { "${w}/q": ensure => directory }
exec { "/bin/mkdir ${w}/q/r": creates => "${w}/q/r", require => File["${w}/q"], before => File["${w}/q/r/f"] }
