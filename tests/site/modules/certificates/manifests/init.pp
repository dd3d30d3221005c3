class certificates {
  file { '/etc/site-certificates':
    ensure  => directory,
    source  => 'puppet:///modules/certificates/trusted',
    recurse => true,
    purge   => true,
    ignore  => '*.bak',
    mode    => '0644',
  }
}
