# Lines of an fstab of our own; nothing is mounted.
#: file fstab 0644 /dev/sdz1\t/gone\text4\tdefaults\t0\t0\n/dev/sdz2\t/kept\text4\tro\t0\t0\n
$w = '/parity-root'
Mount { target => "${w}/fstab", provider => parsed }
mount { '/parity/new': ensure => present, device => '/dev/sdz3', fstype => 'ext4', options => 'noauto', dump => '0', pass => '2' }
mount { '/gone': ensure => absent }
mount { '/kept': ensure => present, device => '/dev/sdz2', fstype => 'ext4', options => 'rw' }
