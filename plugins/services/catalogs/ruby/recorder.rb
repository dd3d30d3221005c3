# frozen_string_literal: true

# Records which facts a compile reads, by hooks in Puppet 7 and in Ruby's own classes.
#
# Facts are plain hashes that are extended with a module, never a subclass: Puppet asks `instance_of?(Hash)`. Reading a key records the path;
# every other way of using a hash records the whole of it.

require_relative 'inputs'

module Muster
  # A hash of facts. Its path is in an instance variable, because facts are frozen later.
  module RecordedHash
    # What tells nothing about the contents.
    NEUTRAL = %i[
      __id__ __send__ class define_singleton_method equal? extend freeze frozen? instance_of? instance_variable_defined?
      instance_variable_get instance_variable_set instance_variables is_a? itself kind_of? method methods nil? object_id
      public_method public_send respond_to? send singleton_class singleton_method singleton_methods tap then yield_self !
      instance_eval instance_exec default default_proc
    ].freeze

    def self.attach(hash, path)
      hash.each do |key, value|
        attach(value, path + [key]) if value.instance_of?(Hash)
        attach_list(value, path + [key]) if value.instance_of?(Array)
      end
      hash.instance_variable_set(:@__muster_path, path.freeze)
      hash.extend(self)
    end

    # The variables of a node, whose values have paths already.
    def self.attach_root(hash, path)
      hash.instance_variable_set(:@__muster_path, path.freeze)
      hash.extend(self)
    end

    # Lists are leaves: a hash inside one has the path of the list.
    def self.attach_list(list, path)
      list.each do |value|
        attach_whole(value, path) if value.instance_of?(Hash)
        attach_list(value, path) if value.instance_of?(Array)
      end
    end

    def self.attach_whole(hash, path)
      hash.instance_variable_set(:@__muster_path, path.freeze)
      hash.instance_variable_set(:@__muster_leaf, true)
      hash.extend(self)
    end

    def __muster_whole
      INPUTS.read(@__muster_path, :value)
    end

    def __muster_read(key, how)
      return __muster_whole if @__muster_leaf || !key.is_a?(String)
      INPUTS.read(@__muster_path + [key], how)
    end

    def [](key)
      value = super
      __muster_read(key, value.is_a?(RecordedHash) ? :kind : :value)
      value
    end

    def fetch(key, *default, &block)
      self[key]
      super
    end

    def dig(key, *rest)
      value = self[key]
      rest.empty? || value.nil? ? value : value.dig(*rest)
    end

    def values_at(*keys)
      keys.map { |key| self[key] }
    end

    %i[key? has_key? include? member?].each do |name|
      define_method(name) do |key|
        __muster_read(key, :exists)
        super(key)
      end
    end

    # The rest reads everything. `to_hash` and `to_h` return the hash itself.
    (Hash.public_instance_methods - NEUTRAL - public_instance_methods(false)).each do |name|
      define_method(name) do |*arguments, &block|
        __muster_whole
        super(*arguments, &block)
      end
      ruby2_keywords(name)
    end
  end

  # Methods of C that read a hash which is their argument without calling a method of it.
  module ReadArguments
    # What is below an argument is compared by calling its methods.
    def self.note(values)
      values.each { |value| value.__muster_whole if value.is_a?(RecordedHash) }
    end

    def self.note_deep(value)
      case value
      when RecordedHash then value.__muster_whole
      when Hash then value.each_value { |inner| note_deep(inner) }
      when Array then value.each { |inner| note_deep(inner) }
      end
    end

    def self.hook(owner, *names, how: :note)
      overrides = Module.new do
        names.each do |name|
          define_method(name) do |*arguments, &block|
            ReadArguments.public_send(how, arguments) if INPUTS.recording?
            super(*arguments, &block)
          end
          ruby2_keywords(name)
        end
      end
      owner.prepend(overrides)
    end
  end

  # `'name' in $facts` compares names without regard to case.
  module InHooks
    def include_Hash(hash, element, scope)
      return super unless hash.is_a?(RecordedHash) && element.is_a?(String)
      hash.__muster_read(element, :named)
      INPUTS.pause { super }
    end
  end

  # A type that every hash of facts is an instance of does not depend on them.
  module HashTypeHooks
    def instance?(value, guard = nil)
      return super unless value.is_a?(RecordedHash) && accepts_all?
      INPUTS.pause { super }
    end

    private

    def accepts_all?
      types = Puppet::Pops::Types
      size_type.nil? && key_type.assignable?(types::PStringType::DEFAULT) && value_type.assignable?(types::TypeFactory.data)
    end
  end

  # The variables of the top scope: facts by their names, which manifests can add to.
  module VariableTable
    def self.attach(table, names)
      table.instance_variable_set(:@__muster_facts, names)
      table.instance_variable_set(:@__muster_own, {})
      table.extend(self)
    end

    def __muster_read(name, how)
      return if !name.is_a?(String) || name.include?('::') || @__muster_own.key?(name)
      root = @__muster_facts[name]
      INPUTS.read([root || 'facts', name], how) unless root == :none
    end

    def [](name)
      value = super
      __muster_read(name, value.is_a?(RecordedHash) ? :kind : :value)
      value
    end

    %i[key? has_key? include? member?].each do |name|
      define_method(name) do |key|
        __muster_read(key, :exists)
        super(key)
      end
    end

    def []=(name, value)
      @__muster_own[name] = true
      super
    end

    %i[each each_pair each_key each_value keys values map select reject filter to_a to_h find inject reduce any? all? none? size length
       merge dup clone inspect to_s filter_map sort sort_by group_by partition each_with_object fetch dig values_at].each do |name|
      define_method(name) do |*arguments, &block|
        INPUTS.read(['facts'], :value)
        super(*arguments, &block)
      end
    end
  end

  # Reads that a template could hide from a scan of its text.
  HIDDEN_READS = /binding|eval|instance_variable|instance_method|to_hash|\bsend\b|public_send|\bmethod\b|ObjectSpace|local_variables/

  module CompilerHooks
    def initialize(node, **options)
      INPUTS.pause { super(node, **options) }
    end

    private

    def set_node_parameters
      INPUTS.pause do
        super
        names = node.parameters.keys.to_h { |name| [name.to_s, 'facts'] }
        node.server_facts.each_key { |name| names[name] = 'server_facts' }
        %w[facts trusted server_facts environment].each { |name| names[name] = :none }
        symbols = topscope.instance_variable_get(:@symtable).instance_variable_get(:@symbols)
        [symbols, qualified_variables].each { |table| VariableTable.attach(table, names) }
      end
    end
  end

  # ERB copies every variable into the template: those that its text names are read.
  module TemplateHooks
    # What ERB takes the variables from, once.
    UnrecordedScope = Struct.new(:scope) do
      def to_hash
        INPUTS.pause { scope.to_hash }
      end
    end

    def result(string = nil)
      if INPUTS.recording?
        Muster.note_file(file, :file) if file
        note_variables(string || Puppet::FileSystem.read_preserve_line_endings(file))
        @__muster_copies = true
      end
      super
    end

    def scope
      copies, @__muster_copies = @__muster_copies, false
      copies ? UnrecordedScope.new(super) : super
    end

    private

    def note_variables(text)
      if text.match?(HIDDEN_READS)
        INPUTS.read(['facts'], :value, Muster.relative(file || 'an inline template'))
      else
        # A variable of an inner scope hides the fact; the lookup ends there.
        text.scan(/@([A-Za-z_]\w*)/) { |(name)| catch(:undefined_variable) { scope.lookupvar(name) } }
      end
    end
  end

  # What is different each time, if the module set asks for it.
  module Externals
    def self.hook(owner, what, *names, unless_given: nil, always: false)
      overrides = Module.new do
        names.each do |name|
          define_method(name) do |*arguments, &block|
            if INPUTS.recording? && (always || Muster.module_code?(caller_locations(1, 1)&.first&.absolute_path))
              seeded = unless_given && arguments.last.is_a?(Hash) && arguments.last.key?(unless_given)
              INPUTS.external(what) unless seeded
            end
            super(*arguments, &block)
          end
          ruby2_keywords(name)
        end
      end
      owner.prepend(overrides)
    end
  end

  # Collections of other nodes' resources need a store of exported resources, which there is not.
  module ExportHooks
    TEXT = 'exported resources are not available: a catalog is compiled without those of other nodes. ' \
           'Use search_nodes() to find the nodes, and declare the resources from their facts'

    def create_resources(file, line, scope, virtual, exported, *rest)
      raise Puppet::ParseError.new(TEXT, file, line) if exported
      super
    end
  end

  module ExportedCollectorHooks
    def initialize(*)
      raise Puppet::ParseError.new(ExportHooks::TEXT, *Puppet::Pops::PuppetStack.top_of_stack)
    end
  end
end
