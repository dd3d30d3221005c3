# frozen_string_literal: true

# Records which files a compile reads: code by what is evaluated, templates, sources with each of their candidates, and data by key.

require_relative 'inputs'

module Muster
  # Classes and defined types, by the file that defines them.
  module TypeHooks
    def evaluate_code(*)
      Muster.note_code(file) if file
      super
    end
  end

  # Functions and data types, by the file that they were loaded from. A function in Ruby can load other files of its module.
  module LoaderHooks
    def load_typed(typed_name)
      entry = super
      Array(entry&.origin).each { |origin| Muster.note_code(origin.to_s.delete_prefix('file:').sub(/[?#].*/, '')) } if INPUTS.recording?
      entry
    end
  end

  # Files of modules by their name in functions and sources; a name without a file is a candidate that could appear.
  module ModuleHooks
    %i[file template].each do |name|
      define_method(name) do |*arguments|
        found = super(*arguments)
        directory = name == :file ? 'files' : 'templates'
        note_candidate(directory, arguments.first, found) if INPUTS.recording?
        found
      end
    end

    private

    def note_candidate(directory, name, found)
      Muster.note_file(found || File.join(*[path, directory, name].compact), found ? :file : :exists)
    end
  end

  # Modules that do not exist. Those outside of the environment are as constant as Puppet.
  module EnvironmentHooks
    def module(name)
      found = super
      inside = modulepath.select { |path| path.start_with?(Muster.root) }
      inside.each { |path| Muster.note_file(path, :names) } if found.nil? && INPUTS.recording?
      found
    end
  end

  # Directories that are copied with everything below them.
  module FilesetHooks
    def initialize(path, *)
      Muster.note_file(path, :tree)
      super
    end
  end

  # The hierarchy of a data provider.
  module HierarchyHooks
    def create(invocation, path, owner)
      Muster.note_file(path.to_s, :file) if Muster.module_code?(path.to_s)
      INPUTS.pause { super }
    end
  end

  # Files of data, by key.
  module DataHashHooks
    private

    def invoke_with_location(invocation, location, root_key)
      Muster.note_location(location)
      super
    end

    def data_value(invocation, location, root_key)
      path = location&.location
      INPUTS.data(Muster.relative(path.to_s), root_key) if path.is_a?(Pathname)
      super
    end

    # Built-in functions read the file of the location and nothing else.
    def call_data_hash_function(context, invocation, location)
      return super unless %w[yaml_data json_data hocon_data].include?(function_name)
      INPUTS.pause { super }
    end
  end

  # Data of other functions, by the file.
  module LookupKeyHooks
    def invoke_with_location(invocation, location, *rest)
      Muster.note_location(location)
      Muster.note_file(location.location.to_s, :file) if location&.exist? && location.location.is_a?(Pathname)
      super
    end
  end

  # Files that a data function reads.
  module DataFileHooks
    def cached_file_data(path)
      Muster.note_file(path.to_s, :file)
      super
    end
  end

  # Files that match a pattern of the hierarchy.
  module GlobHooks
    def expand_globs(datadir, globs, invocation)
      globs.each do |glob|
        pattern = (datadir + interpolate(glob, invocation, false)).to_s
        directory = pattern[/\A[^*?\[{]*\//]
        below = pattern.delete_prefix(directory)
        Muster.note_file(directory.chomp('/'), below.include?('/') ? :tree_names : :names)
      end
      super
    end
  end

  # Files that Ruby code of the module set opens.
  module RubyFiles
    def self.hook(owner, how, *names)
      overrides = Module.new do
        names.each do |name|
          define_method(name) do |*arguments, &block|
            if INPUTS.recording? && Muster.module_code?(caller_locations(1, 1)&.first&.absolute_path)
              Muster.note_file(File.expand_path(arguments.first.to_s), how)
            end
            super(*arguments, &block)
          end
          ruby2_keywords(name)
        end
      end
      owner.prepend(overrides)
    end
  end

  class << self
    # A file that is not part of the environment cannot be checked again.
    def note_file(path, how)
      return unless INPUTS.recording?
      path = path.to_s
      inside = module_code?(path) || "#{path}/" == root
      inside ? INPUTS.file(relative(path), how) : INPUTS.external("the file #{path}")
    end

    # Code of Puppet itself is the same for all compiles of this process.
    def note_code(path)
      return unless module_code?(path)
      inside = relative(path)
      library = inside[%r{\A(?:.*?/)?lib(?=/)}]
      library ? INPUTS.file(library, :tree) : INPUTS.file(inside, :file)
      INPUTS.read(['facts'], :value, relative(path)) if INPUTS.recording? && library && unpacks?(path)
    end

    # Ruby calls no method of a hash that `**` unpacks. A power looks the same, and costs nothing but a compile.
    def unpacks?(path)
      @unpacking ||= {}
      @unpacking.fetch(path) { @unpacking[path] = File.file?(path) && File.read(path).match?(/\*\*\s*[@$(\w]/) }
    end

    # The main manifest, whose code at top scope belongs to no class, and the settings of the environment.
    def note_environment(environment)
      note_file(File.join(root, 'environment.conf'), :file)
      manifest = environment.manifest
      note_file(manifest, File.directory?(manifest) ? :tree : :file) unless manifest == Puppet::Node::Environment::NO_MANIFEST
      # The caller compares the names below `modules` for every compile.
      others = environment.modulepath.select { |path| path.start_with?(root) && path != "#{root}modules" }
      others.each { |path| note_file(path, :tree_names) }
    end

    # Resource types in Ruby, which check the parameters of their resources.
    def note_types(catalog, environment)
      used = catalog.resources.to_h { |resource| [resource.type.downcase, true] }
      INPUTS.pause { environment.modules }.each do |mod|
        library = File.join(mod.path, 'lib')
        note_file(library, :tree) if type_names(library).any? { |name| used.key?(name) }
      end
    end

    def type_names(library)
      @type_names ||= {}
      @type_names[library] ||= Dir.glob('puppet/type/*.rb', base: library).map { |path| File.basename(path, '.rb') }
    end

    # A file of the hierarchy that does not exist could appear.
    def note_location(location)
      return if location.nil? || location.exist? || !location.location.is_a?(Pathname)
      note_file(location.location.to_s, :exists)
    end
  end
end
