# Modes in all their spellings.
#: file a 0600 x
#: file b 0666 x
#: file c 0644 x
#: file d 0755 x
#: dir e 0755
$w = '/parity-root'
file { "${w}/a": mode => '644' }
file { "${w}/b": mode => 'go-w' }
file { "${w}/c": mode => 'u+x,g=rx,o=' }
file { "${w}/d": mode => '4755' }
file { "${w}/e": mode => '1777' }
