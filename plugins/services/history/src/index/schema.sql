-- How far the bucket was read.
CREATE TABLE progress (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    revision INTEGER NOT NULL,
    -- When the message with this revision was stored; 0: unknown.
    time INTEGER NOT NULL DEFAULT 0,
    -- Revisions of buckets before this one: added to its own, so that the order of rows goes on.
    base INTEGER NOT NULL DEFAULT 0
);

-- The newest record of each node.
CREATE TABLE node (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    segment TEXT,
    seq INTEGER NOT NULL DEFAULT 0
);

-- One row for each thing that happened. Absent values are NULL, so that indexes leave them out.
CREATE TABLE happened (
    id INTEGER PRIMARY KEY,
    -- The message of the bucket that it came with, after those of earlier buckets: the same in each instance that has read the same buckets.
    revision INTEGER NOT NULL,
    time INTEGER NOT NULL,
    node INTEGER NOT NULL REFERENCES node (id),
    kind INTEGER NOT NULL,
    status TEXT NOT NULL,
    changed INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    who TEXT,
    request TEXT,
    approver TEXT,
    schedule TEXT,
    agent TEXT,
    action TEXT,
    run TEXT,
    release TEXT,
    resource TEXT,
    property TEXT,
    before TEXT,
    after TEXT,
    message TEXT,
    -- How long the action of a request ran, in milliseconds.
    took INTEGER,
    -- The trace context of a request.
    trace TEXT
);

CREATE INDEX happened_revision ON happened (revision, id);
CREATE INDEX happened_time ON happened (time);
CREATE INDEX happened_node ON happened (node, time);
CREATE INDEX happened_who ON happened (who, time) WHERE who IS NOT NULL;
CREATE INDEX happened_request ON happened (request, time) WHERE request IS NOT NULL;
CREATE INDEX happened_run ON happened (run, resource) WHERE run IS NOT NULL;
CREATE INDEX happened_resource ON happened (resource, time) WHERE resource IS NOT NULL;
CREATE INDEX happened_node_resource ON happened (node, resource, time) WHERE resource IS NOT NULL;

-- The words of the row with the same id.
CREATE VIRTUAL TABLE words USING fts5 (text, content = '', contentless_delete = 1);

CREATE TABLE run (
    id TEXT PRIMARY KEY,
    node INTEGER NOT NULL REFERENCES node (id),
    started INTEGER NOT NULL,
    ended INTEGER,
    status TEXT NOT NULL,
    noop INTEGER NOT NULL DEFAULT 0,
    engine TEXT NOT NULL,
    who TEXT,
    request TEXT,
    release TEXT,
    environment TEXT,
    resources INTEGER NOT NULL DEFAULT 0,
    changed INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    problem TEXT,
    -- Of the report of an ended run: what others show in lists of reports.
    version TEXT,
    puppet_version TEXT,
    cached_catalog TEXT,
    noop_pending INTEGER,
    corrective INTEGER,
    -- Whether a resource had an event, or was skipped.
    eventful INTEGER NOT NULL DEFAULT 0,
    -- The number of the next event.
    next INTEGER NOT NULL DEFAULT 0,
    -- JSON of its events, also of those that were left out.
    bytes INTEGER NOT NULL DEFAULT 0,
    -- The order in which ends of runs were taken.
    taken INTEGER,
    -- All events of an ended run, compressed. Those of runs without changes are not kept for long.
    events TEXT
) WITHOUT ROWID;

CREATE INDEX run_node ON run (node, started);
CREATE INDEX run_started ON run (started);
CREATE INDEX run_taken ON run (taken) WHERE taken IS NOT NULL;
CREATE INDEX run_going_on ON run (node) WHERE ended IS NULL;
CREATE INDEX run_unchanged ON run (ended) WHERE status = 'unchanged' AND events IS NOT NULL;

-- The events of runs that have not ended.
CREATE TABLE event (
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL,
    event TEXT NOT NULL
);

CREATE INDEX event_run ON event (run);
