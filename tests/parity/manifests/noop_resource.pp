# Single resources that only say so, and one that does not although its defaults do.
$w = '/parity-root'
file { "${w}/quiet": ensure => file, content => 'q', noop => true }
notify { 'quiet': noop => true }
class calm { File { noop => true } file { '/parity-root/calm': ensure => file } file { '/parity-root/loud': ensure => file, noop => false } }
include calm
