# For manifests that use prompt::register of another module `prompt`: a word of Muster's prompt.
#
# @param content
#   The word, a template of Muster; by default the title.
# @param order
#   Words are sorted by this number, then by title.
define prompt::register (
  String $content = '',
  Variant[Integer[0, 999999], Pattern[/\A\d{1,6}\z/]] $order = 10,
) {
  muster::prompt::register { $title:
    content => $content,
    order   => Integer($order, 10),
  }
}
