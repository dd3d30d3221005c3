# What is not in the catalog would be purged.
#: needs root etc
#: etc-file hosts 127.0.0.1\tlocalhost\n10.0.0.9\tstray\n
#: run --noop
#: run
host { 'localhost': ip => '127.0.0.1' }
host { 'fresh': ip => '10.0.0.1' }
resources { 'host': purge => true }
