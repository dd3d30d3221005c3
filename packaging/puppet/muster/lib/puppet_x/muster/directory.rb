# Reads the HTTP API of the directory over its Unix socket.
#
# Plain Ruby without gems, so that it runs in Puppet Server as well. Every answer has a limit, and every step a deadline.
require 'json'
require 'socket'
require 'uri'

module PuppetX
  module Muster
    # The directory cannot be read, or refuses the query.
    class DirectoryError < StandardError; end

    # One directory, at its socket.
    class Directory
      DEFAULT_SOCKET = '/run/muster/directory.sock'.freeze
      DEFAULT_TIMEOUT = 10
      MAX_ANSWER_BYTES = 64 * 1024 * 1024
      PART_BYTES = 64 * 1024

      def initialize(options = {})
        unknown = options.keys - %w[socket timeout stale]
        raise DirectoryError, "muster: unknown option #{unknown.first}" unless unknown.empty?
        @socket = options['socket'] || ENV['MUSTER_DIRECTORY_SOCKET'] || DEFAULT_SOCKET
        @timeout = options['timeout'] || DEFAULT_TIMEOUT
        @stale = options['stale'] ? 'true' : 'false'
      end

      # Names of the nodes that match, sorted.
      def search(query)
        rows(query, 'documents' => 'false').map { |row| row['node'] }
      end

      # Hashes of the nodes that match, sorted by name.
      def nodes(query)
        rows(query, 'documents' => 'true').map do |row|
          document = row['document'] || {}
          hash_of(row, document['classes'], document['facts'])
        end
      end

      # The hash of one node; nil if the directory does not know it.
      def load(name)
        status, answer = get("/v1/nodes/#{URI.encode_www_form_component(name)}", {})
        return nil if status == 404
        check(status, answer)
        hash = hash_of(answer['node'], answer['classes'], answer['facts'])
        hash.merge('agentlist' => answer['agents'].keys)
      end

      private

      # `fqdn` and `lastseen` have the names of MCollective's registration.
      def hash_of(row, classes, facts)
        {
          'identity'    => row['node'],
          'fqdn'        => row['node'],
          'state'       => row['state'],
          'lastseen'    => row['last_seen'] && row['last_seen'] / 1000,
          'version'     => row['version'],
          'collectives' => row['collectives'],
          'classes'     => classes || [],
          'facts'       => facts || {},
        }
      end

      def rows(query, parameters)
        query = JSON.generate(query) if query.is_a?(Hash)
        parameters = parameters.merge('q' => query, 'stale' => @stale)
        found = []
        loop do
          status, answer = get('/v1/nodes', parameters)
          check(status, answer)
          found.concat(answer['nodes'])
          return found unless answer['next']
          parameters['after'] = answer['next']
        end
      end

      def check(status, answer)
        return if status == 200
        reason = answer.is_a?(Hash) && answer['error'] ? answer['error'] : "status #{status}"
        raise DirectoryError, "muster: the directory at #{@socket} refused the request: #{reason}"
      end

      # Status and body of a page.
      def get(path, parameters)
        target = parameters.empty? ? path : "#{path}?#{URI.encode_www_form(parameters)}"
        text = exchange("GET #{target} HTTP/1.1\r\nHost: directory\r\nConnection: close\r\n\r\n")
        head, body = text.split("\r\n\r\n", 2)
        status = head.to_s[%r{\AHTTP/1\.1 (\d{3})}, 1]
        raise DirectoryError, "muster: #{@socket} does not answer with HTTP" unless status && body
        [status.to_i, JSON.parse(body.force_encoding(Encoding::UTF_8))]
      rescue JSON::ParserError
        raise DirectoryError, "muster: the answer of the directory at #{@socket} is incomplete"
      end

      def exchange(request)
        deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + @timeout
        UNIXSocket.open(@socket) do |socket|
          socket.write(request)
          read_all(socket, deadline)
        end
      rescue SystemCallError => error
        raise DirectoryError, "muster: cannot read the directory at #{@socket}: #{error.message}"
      end

      def read_all(socket, deadline)
        text = String.new
        loop do
          left = deadline - Process.clock_gettime(Process::CLOCK_MONOTONIC)
          if left <= 0 || IO.select([socket], nil, nil, left).nil?
            raise DirectoryError, "muster: the directory at #{@socket} did not answer within #{@timeout} s"
          end
          part = socket.read_nonblock(PART_BYTES, exception: false)
          return text if part.nil?
          text << part unless part == :wait_readable
          raise DirectoryError, 'muster: the answer is too large; add conditions' if text.bytesize > MAX_ANSWER_BYTES
        end
      end
    end
  end
end
