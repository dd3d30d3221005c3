class limits(Array[String] $entries) {
  file { '/etc/security/limits.d': ensure => directory }
  file { '/etc/security/limits.d/site.conf': content => "${join($entries, "\n")}\n" }
}
