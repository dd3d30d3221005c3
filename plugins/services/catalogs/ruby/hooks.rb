# frozen_string_literal: true

# Installs the recorder's hooks, and says which targets this version of Puppet does not have.

require_relative 'files'
require_relative 'recorder'

module Muster
  module Hooks
    # Hooks that record. If the target of one is missing, every compile records all facts and the whole environment.
    TARGETS = [
      ['Puppet::Parser::Compiler', %i[initialize set_node_parameters], CompilerHooks],
      ['Puppet::Parser::TemplateWrapper', %i[result scope file], TemplateHooks],
      ['Puppet::Module', %i[file template], ModuleHooks],
      ['Puppet::Node::Environment', %i[module], EnvironmentHooks],
      ['Puppet::FileServing::Fileset', %i[initialize], FilesetHooks],
      ['Puppet::Resource::Type', %i[evaluate_code file], TypeHooks],
      ['Puppet::Pops::Loader::BaseLoader', %i[load_typed], LoaderHooks],
      ['Puppet::Pops::Lookup::HieraConfig.singleton_class', %i[create], HierarchyHooks],
      ['Puppet::Pops::Lookup::DataHashFunctionProvider', %i[invoke_with_location data_value call_data_hash_function], DataHashHooks],
      ['Puppet::Pops::Lookup::LookupKeyFunctionProvider', %i[invoke_with_location], LookupKeyHooks],
      ['Puppet::Pops::Lookup::DataDigFunctionProvider', %i[invoke_with_location], LookupKeyHooks],
      ['Puppet::Pops::Lookup::EnvironmentContext', %i[cached_file_data], DataFileHooks],
      ['Puppet::Pops::Lookup::HieraConfig', %i[expand_globs], GlobHooks],
      ['Puppet::Pops::Evaluator::CompareOperator', %i[include_Hash], InHooks],
      ['Puppet::Pops::Types::PHashType', %i[instance? size_type key_type value_type], HashTypeHooks],
      ['Puppet::Pops::Evaluator::Collectors::ExportedCollector', %i[initialize], ExportedCollectorHooks],
      ['Puppet::Pops::Evaluator::Runtime3ResourceSupport.singleton_class', %i[create_resources], ExportHooks],
    ].freeze

    class << self
      # The missing targets, as text.
      attr_reader :missing

      def install
        @missing = []
        TARGETS.each { |name, methods, hook| install_one(name, methods, hook) }
        hook_ruby
      end

      # With a hook missing, everything counts as read.
      def record_missing
        @missing.each do |target|
          %w[facts trusted server_facts].each { |root| INPUTS.read([root], :value, "without a hook in #{target}") }
          INPUTS.file('', :tree)
        end
      end

      private

      def install_one(name, methods, hook)
        path, singleton = name.split('.')
        owner = Object.const_get(path)
        owner = owner.singleton_class if singleton
        absent = methods.reject { |method| owner.method_defined?(method) || owner.private_method_defined?(method) }
        absent.each { |method| @missing << "#{name}##{method}" }
        owner.prepend(hook) if absent.empty?
      rescue NameError
        @missing << name
      end

      def hook_ruby
        ReadArguments.hook(Hash, :==, :eql?, :merge, :merge!, :update, :replace, :<=, :>=, :<, :>)
        ReadArguments.hook(Hash.singleton_class, :[], :new)
        ReadArguments.hook(Marshal.singleton_class, :dump, how: :note_deep)
        ReadArguments.hook(String, :%)
        ReadArguments.hook(Kernel, :format, :sprintf)
        ReadArguments.hook(Kernel.singleton_class, :format, :sprintf)
        RubyFiles.hook(File.singleton_class, :file, :read, :open, :new, :readlines, :foreach, :binread, :stat, :lstat, :size, :readlink)
        RubyFiles.hook(File.singleton_class, :exists, :exist?, :file?, :directory?, :readable?, :symlink?)
        RubyFiles.hook(Dir.singleton_class, :tree, :glob, :entries, :children, :each_child, :[], :exist?)
        Externals.hook(Puppet::Util::Execution.singleton_class, 'a program', :execute, :execpipe, always: true)
        Externals.hook(Kernel, 'a program', :`, :system, :spawn)
        Externals.hook(IO.singleton_class, 'a program', :popen)
        Externals.hook(Puppet::Pops::Time::Timestamp.singleton_class, 'the time', :now, always: true)
        Externals.hook(Time.singleton_class, 'the time', :now)
        Externals.hook(Date.singleton_class, 'the time', :today)
        Externals.hook(Process.singleton_class, 'the time', :clock_gettime)
        Externals.hook(Kernel, 'a random number', :rand)
        Externals.hook(Random.singleton_class, 'a random number', :rand, :bytes, :new_seed)
        Externals.hook(SecureRandom.singleton_class, 'a random number', :hex, :uuid, :random_number, :random_bytes, :bytes, :rand, :alphanumeric, :base64)
        Externals.hook(Array, 'a random number', :shuffle, :shuffle!, :sample, unless_given: :random)
      end
    end
  end
end
