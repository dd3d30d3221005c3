# A word of the prompt: `muster::prompt::register { 'web': }`.
#
# @param content
#   The word, a template of Muster; by default the title.
# @param order
#   Words are sorted by this number, then by title.
define muster::prompt::register (
  String $content = '',
  Integer[0, 999999] $order = 10,
) {
  include muster::motd
  file { sprintf('/etc/muster/prompt.d/%02d_%s', $order, $title):
    ensure  => file,
    owner   => 'root',
    group   => 'root',
    mode    => '0644',
    content => $content,
  }
}
