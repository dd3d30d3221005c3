# The databases of the fleet, by name: a node that comes or goes changes the answer, and the catalogs that asked.
class hosts {
  $databases = search_nodes({ 'facts.role' => 'db' })
  file { '/etc/databases': content => "${join($databases, "\n")}\n" }
}
