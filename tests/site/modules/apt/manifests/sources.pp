class apt::sources(String $suite) {
  file { '/etc/apt/preferences.d/site': content => "Package: *\nPin: release n=${suite}\nPin-Priority: 500\n" }
}
