-- On which hosts ranks are kept from a CPU, or by locks.
-- One row a host, the worst first; ns of the threads that drive the job, and shares of their steps. worst_rank waited longest.
WITH by_rank AS (
  SELECT job, attempt, host, rank, SUM(run_queue_ns) AS run_queue_ns, SUM(lock_ns) AS lock_ns, SUM(duration_ns) AS duration_ns
  FROM own_time WHERE run_queue_ns IS NOT NULL GROUP BY job, attempt, host, rank),
placed AS (
  SELECT b.*, ROW_NUMBER() OVER (PARTITION BY job, attempt, host ORDER BY run_queue_ns DESC, rank) AS place FROM by_rank b)
SELECT job, attempt, host, COUNT(*) AS ranks, SUM(run_queue_ns) AS run_queue_ns,
       SUM(run_queue_ns) * 1e0 / NULLIF(SUM(duration_ns), 0) AS share, SUM(lock_ns) * 1e0 / NULLIF(SUM(duration_ns), 0) AS lock_share,
       MAX(CASE WHEN place = 1 THEN rank END) AS worst_rank, MAX(CASE WHEN place = 1 THEN run_queue_ns END) AS worst_rank_ns
FROM placed
GROUP BY job, attempt, host
ORDER BY share DESC, job, attempt, host
