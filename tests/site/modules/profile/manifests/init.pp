class profile(Array[String] $shells = []) {
  file { '/etc/profile.d/site.sh': content => "export EDITOR=vi\nexport SITE=${facts['os']['family'].downcase}\n" }
  # A type of this module, which only Puppet can apply.
  $shells.each |$shell| {
    file_line_like { "shell ${shell}": path => '/etc/shells', line => $shell }
  }
}
