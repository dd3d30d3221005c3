# Services with commands of their own: one is started, one is stopped, one is as desired.
#: file running2 0644 x
#: file running3 0644 x
$w = '/parity-root'
define parity::daemon($ensure, $n = $title) {
  service { $title:
    ensure => $ensure, provider => base, hasstatus => true,
    start => "/bin/touch /parity-root/running${n}", stop => "/bin/rm /parity-root/running${n}",
    status => "/usr/bin/test -e /parity-root/running${n}",
  }
}
parity::daemon { '1': ensure => running }
parity::daemon { '2': ensure => stopped }
parity::daemon { '3': ensure => running }
parity::daemon { '4': ensure => stopped }
