# Content that is not text.
$w = '/parity-root'
file { "${w}/b": ensure => file, content => Binary('AAEC/w==') }
