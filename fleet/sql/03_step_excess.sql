-- By how much each part of a step exceeds the median of the ranks that are alike.
-- A view: other questions build on it. One row a rank, step and part, ns. Parts that add up to the step's own time have is_part 1.
-- 'own time' is the whole of it, for ranks whose parts were not recorded, and 'gpu' what the GPU computed meanwhile. A part is
-- compared with that of at least two others in the same step.
WITH parts AS (
  SELECT o.job, o.attempt, c.cohort, o.rank, o.step, n.part, n.is_part,
         CASE n.part
           WHEN 'data' THEN o.data_ns
           WHEN 'io' THEN o.io_ns
           WHEN 'lock' THEN o.lock_ns
           WHEN 'run queue' THEN o.run_queue_ns
           WHEN 'faults' THEN o.faults_ns
           WHEN 'recording' THEN o.recording_ns
           WHEN 'garbage collection' THEN o.collection_ns
           WHEN 'operators' THEN o.operators_ns
           WHEN 'python' THEN o.python_ns
           WHEN 'system calls' THEN o.system_calls_ns
           WHEN 'waiting' THEN o.waiting_ns
           WHEN 'own time' THEN o.own_ns
           WHEN 'gpu' THEN o.gpu_compute_ns
         END AS ns
  FROM own_time o
  JOIN cohorts c ON o.job = c.job AND o.attempt = c.attempt AND o.rank = c.rank
  CROSS JOIN (VALUES ('data', 1), ('io', 1), ('lock', 1), ('run queue', 1), ('faults', 1), ('recording', 1),
                     ('garbage collection', 1), ('operators', 1), ('python', 1), ('system calls', 1), ('waiting', 1), ('own time', 0),
                     ('gpu', 0))
             AS n(part, is_part)),
medians AS (
  SELECT job, attempt, cohort, step, part, MEDIAN(ns) AS ns
  FROM parts
  WHERE ns IS NOT NULL
  GROUP BY job, attempt, cohort, step, part
  HAVING COUNT(*) > 2)
SELECT p.job, p.attempt, p.cohort, p.rank, p.step, p.part, p.is_part, p.ns - m.ns AS ns
FROM parts p JOIN medians m
  ON p.job = m.job AND p.attempt = m.attempt AND p.cohort = m.cohort AND p.step = m.step AND p.part = m.part
WHERE p.ns IS NOT NULL
