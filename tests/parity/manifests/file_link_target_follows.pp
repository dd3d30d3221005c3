# A link waits for the target that the catalog manages.
$w = '/parity-root'
file { "${w}/link": ensure => link, target => "${w}/z" }
file { "${w}/z": ensure => file, content => 'z' }
