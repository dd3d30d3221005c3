# frozen_string_literal: true

# What one compile read: facts by path, files by path, queries by text, and what cannot be checked again.
#
# A compile is a process of its own, so there is one record per process. The program reports what was read; the caller computes digests,
# because it can compute them again without Ruby.

module Muster
  class Inputs
    # How much of a value was read. A stronger way of reading replaces a weaker one.
    #   kind:   whether it is a hash; its value if it is not
    #   exists: whether it is there
    #   named:  which names equal the last one of the path if case is ignored
    #   value:  the whole value
    STRENGTH = { exists: 0, named: 1, kind: 2, value: 3 }.freeze

    def initialize
      @paused = 0
      @active = false
      clear
    end

    # Starts a new record, and records from now on.
    def start
      clear
      @active = true
    end

    def recording?
      @active && @paused.zero?
    end

    # Runs Puppet's own handling of facts, which does not depend on a value.
    def pause
      @paused += 1
      yield
    ensure
      @paused -= 1
    end

    # A value below `facts`, `trusted` or `server_facts`; `reason` is what made the whole of it necessary.
    def read(path, how, reason = nil)
      return unless recording?
      known = @values[path]
      return if known && STRENGTH[known] >= STRENGTH[how]
      @values[path] = how
      @wholes[path[0]] ||= reason || location if path.size == 1 && how == :value
    end

    def file(path, how)
      return unless recording?
      known = @files[path]
      @files[path] = how if known.nil? || FILE_STRENGTH[how] > FILE_STRENGTH[known]
    end

    # How much of a file or directory was read.
    FILE_STRENGTH = { exists: 0, names: 1, tree_names: 2, file: 3, tree: 4 }.freeze

    def data(path, key)
      @data[[path, key]] = true if recording?
    end

    def query(text)
      @queries[text] = true if recording?
    end

    # Something that another compile may find different without any change of an input.
    def external(what)
      @externals[what] ||= location if recording?
    end

    def to_h
      {
        'values' => minimal_values.map { |path, how| [path, how.to_s] },
        'files' => @files.map { |path, how| [path, how.to_s] },
        'data' => @data.keys,
        'queries' => @queries.keys,
        'externals' => @externals.map { |what, where| [what, where] },
        'wholes' => @wholes.to_a,
      }
    end

    # The place in the module set that is being evaluated, as `path:line`.
    def location
      file, line = Puppet::Pops::PuppetStack.top_of_stack
      ruby = caller_locations.find { |frame| Muster.module_code?(frame.absolute_path) }
      return "#{Muster.relative(ruby.absolute_path)}:#{ruby.lineno}" if ruby
      file ? "#{Muster.relative(file)}:#{line}" : 'unknown'
    end

    private

    def clear
      @values, @files, @data, @queries, @externals, @wholes = {}, {}, {}, {}, {}, {}
    end

    # A subtree that was read whole covers what is below it.
    def minimal_values
      @values.reject do |path, _|
        (1...path.size).any? { |length| @values[path.first(length)] == :value }
      end
    end
  end

  INPUTS = Inputs.new

  class << self
    # The directory of the environment: what is below it is code of the module set.
    attr_accessor :root

    def module_code?(path)
      !path.nil? && !root.nil? && path.start_with?(root)
    end

    def relative(path)
      module_code?(path) ? path[root.size..] : path
    end
  end
end
