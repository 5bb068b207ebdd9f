-- What each rank waited for its DataLoader, by the file that its workers read meanwhile.
-- A view: other questions build on it. One row a rank and file, '' where none is known; sums in ns. blocked_ns: of the rank's waits;
-- worker_io_ns: of these, what the worker that ended them spent in I/O; call_ns: in calls for that file.
SELECT d.job, d.attempt, d.rank, d.host, COALESCE(d.path, '') AS path, COUNT(*) AS waits, SUM(d.blocked_ns) AS blocked_ns,
       MAX(d.blocked_ns) AS longest_ns, SUM(d.worker_io_ns) AS worker_io_ns, SUM(d.call_ns) AS call_ns
FROM data_waits d JOIN captures k ON k.input = d.input AND k.is_main = 1
GROUP BY d.job, d.attempt, d.rank, d.host, COALESCE(d.path, '')
