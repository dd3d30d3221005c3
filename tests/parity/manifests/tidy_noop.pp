# A tidy in a noop run.
#: file d/a.tmp 0644 a
#: run --noop
$w = '/parity-root'
tidy { "${w}/d": recurse => true, matches => '*.tmp', age => '0', backup => false }
