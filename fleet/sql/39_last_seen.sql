-- When each rank was seen last: which ones have gone silent.
-- One row a rank, the one that has been silent longest first. last_ns: the end of its last recording or summary, on the common
-- clock; behind_ns: how long before the last one of its job that was.
WITH ends AS (
  SELECT job, attempt, rank, MIN(host) AS host, MAX(end_ns) AS last_ns
  FROM captures
  WHERE rank IS NOT NULL AND end_ns IS NOT NULL
  GROUP BY job, attempt, rank),
newest AS (
  SELECT job, attempt, MAX(last_ns) AS last_ns FROM ends GROUP BY job, attempt)
SELECT e.job, e.attempt, e.rank, e.host, e.last_ns, n.last_ns - e.last_ns AS behind_ns
FROM ends e JOIN newest n ON e.job = n.job AND e.attempt = n.attempt
ORDER BY behind_ns DESC, e.job, e.attempt, e.rank
