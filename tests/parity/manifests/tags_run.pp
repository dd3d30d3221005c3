# Only what carries one of the tags, by its own tag, its type, its title, its class.
#: run --tags web
#: run --tags notify,db
#: run --tags notag
$w = '/parity-root'
class web { file { '/parity-root/web': ensure => file, content => 'w' } }
class db { file { '/parity-root/db': ensure => file, content => 'd' } }
include web
include db
file { "${w}/tagged": ensure => file, content => 't', tag => ['web', 'other'] }
notify { 'said': }
