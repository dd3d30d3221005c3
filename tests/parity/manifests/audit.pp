# Watched, not managed: what changed since the last run is told.
#: file a 0644 first
#: run
#: file a 0644 second
#: run
#: run
$w = '/parity-root'
file { "${w}/a": audit => content }
file { "${w}/b": ensure => file, content => 'b', audit => [mode] }
