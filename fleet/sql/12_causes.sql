-- Where the excess of slow ranks is: each part of their time.
-- One row a slow rank and part, the largest first; ns a step, and the share of the rank's excess. Parts below 0 are shorter than
-- those of the ranks that are alike.
WITH slow AS (SELECT * FROM ranks WHERE is_slow = 1),
parts AS (
  SELECT job, attempt, rank, host, excess_ns, 'data' AS part, data_ns AS ns FROM slow
  UNION ALL SELECT job, attempt, rank, host, excess_ns, 'io' AS part, io_ns AS ns FROM slow
  UNION ALL SELECT job, attempt, rank, host, excess_ns, 'lock' AS part, lock_ns AS ns FROM slow
  UNION ALL SELECT job, attempt, rank, host, excess_ns, 'run queue' AS part, run_queue_ns AS ns FROM slow
  UNION ALL SELECT job, attempt, rank, host, excess_ns, 'faults' AS part, faults_ns AS ns FROM slow
  UNION ALL SELECT job, attempt, rank, host, excess_ns, 'garbage collection' AS part, collection_ns AS ns FROM slow
  UNION ALL SELECT job, attempt, rank, host, excess_ns, 'operators' AS part, operators_ns AS ns FROM slow
  UNION ALL SELECT job, attempt, rank, host, excess_ns, 'python' AS part, python_ns AS ns FROM slow
  UNION ALL SELECT job, attempt, rank, host, excess_ns, 'waiting' AS part, waiting_ns AS ns FROM slow
  UNION ALL SELECT job, attempt, rank, host, excess_ns, 'gpu' AS part, gpu_compute_ns AS ns FROM slow)
SELECT job, attempt, rank, host, part, ns, ns / excess_ns AS share
FROM parts
WHERE ns IS NOT NULL
ORDER BY job, attempt, rank, ns DESC, part
