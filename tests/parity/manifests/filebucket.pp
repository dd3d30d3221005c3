# A bucket of our own keeps what was replaced.
#: file a 0644 old
$w = '/parity-root'
filebucket { 'mine': path => "${w}/bucket", server => false }
file { "${w}/a": ensure => file, content => 'new', backup => 'mine' }
