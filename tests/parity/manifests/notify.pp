# Messages of texts, lists and secrets.
notify { 'title': }
notify { 'text': message => 'a text' }
notify { 'path': message => 'a text', withpath => true }
notify { 'secret': message => Sensitive('hidden') }
notify { 'number': message => 42 }
