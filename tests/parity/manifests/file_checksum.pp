# Other ways to tell contents apart.
#: file md5 0644 old
#: file lite 0644 old
$w = '/parity-root'
file { "${w}/md5": ensure => file, content => "new\n", checksum => md5 }
file { "${w}/lite": ensure => file, content => "new\n", checksum => sha256lite }
file { "${w}/sha512": ensure => file, content => "new\n", checksum => sha512 }
