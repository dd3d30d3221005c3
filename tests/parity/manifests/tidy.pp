# Old, large and matching files go, by resources that the tidy brings with it.
#: file d/a.tmp 0644 a
#: file d/b.txt 0644 b
#: file d/sub/c.tmp 0644 c
#: file d/sub/deep/d.tmp 0644 d
#: file big/one 0644 0123456789
#: file big/two 0644 01
#: dir dirs/empty
#: file dirs/old 0644 x
$w = '/parity-root'
tidy { "${w}/d": recurse => 1, matches => '*.tmp', age => '0', backup => false }
tidy { "${w}/big": recurse => true, size => '8b', backup => false }
tidy { "${w}/dirs": recurse => true, rmdirs => true, age => '0', matches => ['old', 'empty'], backup => false }
