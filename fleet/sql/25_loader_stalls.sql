-- Which ranks wait for their DataLoaders, and for which file.
-- One row a rank, the worst twenty; ns. share: of its steps. io_share: of the waits, the time that the worker that ended them spent
-- in I/O. worst_path: the file of the calls that took the workers longest.
WITH waits_of AS (
  SELECT job, attempt, rank, host, SUM(waits) AS waits, SUM(blocked_ns) AS blocked_ns, MAX(longest_ns) AS longest_ns,
         SUM(worker_io_ns) * 1e0 / NULLIF(SUM(blocked_ns), 0) AS io_share
  FROM loader_waits GROUP BY job, attempt, rank, host),
files AS (
  SELECT job, attempt, rank, path, SUM(call_ns) AS call_ns,
         ROW_NUMBER() OVER (PARTITION BY job, attempt, rank ORDER BY SUM(call_ns) DESC, path) AS place
  FROM loader_waits GROUP BY job, attempt, rank, path),
totals AS (
  SELECT job, attempt, rank, SUM(duration_ns) AS total_ns FROM own_time GROUP BY job, attempt, rank)
SELECT w.job, w.attempt, w.rank, w.host, w.waits, w.blocked_ns, w.blocked_ns * 1e0 / NULLIF(t.total_ns, 0) AS share, w.longest_ns,
       w.io_share, f.path AS worst_path, f.call_ns AS worst_path_ns
FROM waits_of w
LEFT JOIN totals t ON w.job = t.job AND w.attempt = t.attempt AND w.rank = t.rank
LEFT JOIN files f ON w.job = f.job AND w.attempt = f.attempt AND w.rank = f.rank AND f.place = 1
ORDER BY w.blocked_ns DESC, w.job, w.attempt, w.rank
LIMIT 20
