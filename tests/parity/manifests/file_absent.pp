# Files, links and empty directories go; a full directory goes only by force.
#: file f 0644 x
#: link l f
#: dir empty
#: dir full
#: file full/inside 0644 x
#: dir forced
#: file forced/inside 0644 x
$w = '/parity-root'
file { "${w}/f": ensure => absent, backup => false }
file { "${w}/l": ensure => absent, backup => false }
file { "${w}/empty": ensure => absent, force => true, backup => false }
file { "${w}/full": ensure => absent, backup => false }
file { "${w}/forced": ensure => absent, force => true, backup => false }
file { "${w}/never": ensure => absent }
