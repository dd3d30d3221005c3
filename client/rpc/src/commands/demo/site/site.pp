# The code of the demonstration. `rpc compile --environment production` compiles a change of it at once.
node default {
  include motd
  include hosts
  if $facts['role'] == 'web' { include web }
}
