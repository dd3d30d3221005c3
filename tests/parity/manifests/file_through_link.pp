# What a file resource does when a link is where the file should be.
#: file target 0644 t
#: link followed target
#: link managed target
#: link kept target
$w = '/parity-root'
file { "${w}/followed": ensure => file, links => follow, content => 'through' }
file { "${w}/managed": ensure => file, content => 'instead', backup => false }
file { "${w}/kept": ensure => present, mode => '0600' }
