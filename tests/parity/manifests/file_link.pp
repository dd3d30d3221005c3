# Links are made, turned to another target, and take the place of a file only by force of backup.
#: file target 0644 t
#: link right target
#: link wrong elsewhere
#: file plain 0644 plain
$w = '/parity-root'
file { "${w}/new": ensure => link, target => "${w}/target" }
file { "${w}/short": ensure => "${w}/target" }
file { "${w}/right": ensure => link, target => 'target' }
file { "${w}/wrong": ensure => link, target => 'target' }
file { "${w}/plain": ensure => link, target => 'target', backup => false }
file { "${w}/dangling": ensure => link, target => 'nowhere' }
