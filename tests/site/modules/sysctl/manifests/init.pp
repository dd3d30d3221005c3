class sysctl(Hash[String, Integer] $values) {
  file { '/etc/sysctl.d/60-site.conf':
    content => $values.map |$key, $value| { "${key} = ${value}\n" }.join,
  }
}
